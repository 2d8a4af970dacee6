"""`soltape tail` as a person runs it: a process, real topics, lines on stdout."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from infra.kafka import client, topics
from infra.local.process import free_port
from schemas import codec
from schemas.events import Commitment, Creation, Side, Swap
from schemas.proto import tape_pb2
from schemas.solana import base58
from schemas.topics import (
    CREATIONS,
    GAPS,
    LIVE,
    SETTLED_ACCOUNTS,
    SETTLED_BY_WALLET,
    SWAPS,
    UNDECODED,
    Topic,
)
from tests.support.messages import to_proto
from tests.support.systems import bound
from tests.support.waiting import WITHIN_S

MINTS = [f"Mint{number}" for number in range(20)]


def swap(number: int) -> Swap:
    mint = MINTS[number % len(MINTS)]
    return Swap(
        f"sig{number}", 1000 + number, 0, 1, 0, "pump-swap", "p", "pool", "w", "w", mint, "SOL",
        Side.BUY, 10, 6, 20, 9, 10, 20, None, "", 5000, 0, 0, "", "", 1, 2, None, None,
        Commitment.PROCESSED,
    )  # fmt: skip


def delivered(error: object, _: object) -> None:
    assert error is None  # raised by the flush that waits for it


@pytest.fixture(scope="module")
def tape(broker) -> dict[str, str]:
    """The environment of a `soltape` whose topics hold 100 swaps, a batch and a broken record."""
    import asyncio

    # Others use the broker, too.
    admin = client.admin(broker.settings)  # it cancels what is under way when it goes
    for deletion in admin.delete_topics([SWAPS.name, LIVE.name, CREATIONS.name]).values():
        try:
            deletion.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise
    asyncio.run(topics.create(broker.settings))
    producer = Producer(client.confluent_producer(broker.settings) | {"on_delivery": delivered})
    for number in range(100):
        value = to_proto(swap(number)).SerializeToString()
        key = swap(number).mint
        producer.produce(SWAPS.name, value, key, partition=SWAPS.partition(key))
    batch = tape_pb2.LiveBatch(sent_ms=5)
    same = [mint for mint in MINTS if LIVE.partition(mint) == LIVE.partition(MINTS[0])]
    assert len(same) > 1, "two of the mints must share a partition"
    for number in (MINTS.index(same[0]), MINTS.index(same[1])):
        codec.add_event(batch.events, swap(number))
    producer.produce(LIVE.name, batch.SerializeToString(), partition=LIVE.partition(MINTS[0]))
    creation = Creation(
        "sig", 1, 0, 0, 0, "Mint0", "Näme", "SYM", "uri", "c", "pump-fun", "pump-fun", "p", "SOL",
        6, 10**15, "T",
    )  # fmt: skip
    producer.produce(CREATIONS.name, b"\xff\xff", partition=0)
    producer.produce(CREATIONS.name, to_proto(creation).SerializeToString(), partition=0)
    assert producer.flush(60) == 0
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP": broker.settings.kafka_bootstrap,
        "SOLTAPE_DATA": str(broker.settings.soltape_data),
    }


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "infra.cli", "tail", *arguments]


def run(tape: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments), env=tape, capture_output=True, text=True, timeout=240
    )


def lines(result: subprocess.CompletedProcess[str]) -> list[dict]:
    assert (result.returncode, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_everything_from_the_beginning(tape):
    found = lines(run(tape, SWAPS.name, "--from", "beginning", "--no-follow"))
    assert sorted(values["signature"] for values in found) == sorted(f"sig{n}" for n in range(100))
    assert found[0]["kind"] == "swap"
    assert found[0]["amount_raw"] == "10"


def test_limit_partition_key_and_position(tape):
    assert len(lines(run(tape, SWAPS.name, "--from", "beginning", "--limit", "7"))) == 7
    of_key = lines(run(tape, SWAPS.name, "--from", "beginning", "--no-follow", "--key", "Mint3"))
    assert [values["signature"] for values in of_key] == [f"sig{n}" for n in range(3, 100, 20)]
    partition = SWAPS.partition("Mint3")
    options = ("--partition", str(partition), "--no-follow", "--position")
    every = lines(run(tape, SWAPS.name, "--from", "0", *options))
    assert {values["partition"] for values in every} == {partition}
    rest = lines(run(tape, SWAPS.name, "--from", "3", *options))
    assert rest == every[3:]
    assert rest[0]["offset"] == 3


def test_times(tape):
    for start in ("10m", "0001-01-01", "999999999d"):
        assert len(lines(run(tape, SWAPS.name, "--from", start, "--no-follow"))) == 100
    assert lines(run(tape, SWAPS.name, "--from", "2999-01-01T00:00:00Z", "--no-follow")) == []
    assert lines(run(tape, SWAPS.name, "--no-follow")) == []


def test_a_batch_shows_the_events_of_a_key(tape):
    whole = lines(run(tape, LIVE.name, "--from", "beginning", "--no-follow"))
    assert [values["kind"] for values in whole] == ["live_batch"]
    assert len(whole[0]["events"]) == 2
    of_key = lines(run(tape, LIVE.name, "--from", "beginning", "--no-follow", "--key", "Mint0"))
    assert [event["mint"] for event in of_key[0]["events"]] == ["Mint0"]


def test_a_key_finds_what_is_of_it_in_every_list_and_in_gaps(tape, broker):
    wallet, other, account = (base58.encode(bytes([number] * 32)) for number in (1, 2, 3))
    slot = tape_pb2.SlotBatch(slot=7)
    for owner in (wallet, other):
        slot.balances.add(owner=owner, amount_raw=5)
        slot.movements.add(wallet=owner)
    accounts = tape_pb2.SlotBatch(slot=7)
    for name in (account, other):
        accounts.accounts.add(address=base58.decode(name))
    gap = tape_pb2.SlotGap(first_slot=70_000_001, last_slot=70_000_003)
    producer = Producer(client.confluent_producer(broker.settings) | {"on_delivery": delivered})
    for topic, key, message in (
        (SETTLED_BY_WALLET, wallet, slot),
        (SETTLED_ACCOUNTS, account, accounts),
        (GAPS, "70000001", gap),
    ):
        partition = topic.partition(key)
        producer.produce(topic.name, message.SerializeToString(), partition=partition)
    assert producer.flush(60) == 0

    def found(topic: Topic, key: str) -> list[dict]:
        return lines(run(tape, topic.name, "--from", "beginning", "--no-follow", "--key", key))

    [of_wallet] = found(SETTLED_BY_WALLET, wallet)
    assert [each["owner"] for each in of_wallet["balances"]] == [wallet]
    assert [each["wallet"] for each in of_wallet["movements"]] == [wallet]
    [of_account] = found(SETTLED_ACCOUNTS, account)
    assert [each["address"] for each in of_account["accounts"]] == [account]
    assert [each["last_slot"] for each in found(GAPS, "70000002")] == [70_000_003]
    assert found(GAPS, "70000004") == []


def test_a_record_that_cannot_be_read_is_reported_and_the_rest_goes_on(tape):
    result = run(tape, CREATIONS.name, "--from", "beginning", "--no-follow")
    assert result.returncode == 1
    assert "partition 0 offset 0" in result.stderr
    assert "Traceback" not in result.stderr
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["Näme"]


def put_aside(broker, partition: int, *sizes: int) -> None:
    """Write records of random bytes to a partition, each a batch of its own."""
    producer = Producer(client.confluent_producer(broker.settings) | {"on_delivery": delivered})
    for number, size in enumerate(sizes):
        message = tape_pb2.Undecoded(slot=number, data=os.urandom(size))
        producer.produce(UNDECODED.name, message.SerializeToString(), partition=partition)
        assert producer.flush(60) == 0


def delete_before(broker, partition: int, offset: int) -> None:
    admin = client.admin(broker.settings)  # it cancels what is under way when it goes
    asked = [TopicPartition(UNDECODED.name, partition, offset)]
    for deletion in admin.delete_records(asked).values():
        deletion.result()


def test_records_that_are_deleted_before_they_are_asked_for_are_reported(tape, broker):
    put_aside(broker, 2, *[10] * 10)
    delete_before(broker, 2, 6)

    def found(start: str) -> subprocess.CompletedProcess[str]:
        return run(tape, UNDECODED.name, "--from", start, "--partition", "2", "--no-follow")

    for start in ("beginning", "6"):
        assert [values["slot"] for values in lines(found(start))] == [6, 7, 8, 9]
    for start, said in (
        ("4", "partition 2 offset 4 to 5: the broker has deleted it\n"),
        ("5", "partition 2 offset 5: the broker has deleted it\n"),
        (
            "1h",
            "partition 2 offset 0 to 5: the broker has deleted it, and some may be from after the "
            "time of --from\n",
        ),
    ):
        result = found(start)
        assert (result.returncode, result.stderr) == (1, said)
        slots = [json.loads(line)["slot"] for line in result.stdout.splitlines()]
        assert slots == [6, 7, 8, 9]


def test_a_reader_that_falls_behind_what_the_broker_keeps_reports_what_it_missed(tape, broker):
    put_aside(broker, 3, *[400_000] * 8)
    options = ("--from", "beginning", "--partition", "3", "--no-follow", "--position")
    reading = subprocess.Popen(
        bound(command(UNDECODED.name, *options)),
        env=tape,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        # The line is longer than a pipe: its writer waits for us, and reads no more.
        begun = os.read(reading.stdout.fileno(), 1)
        delete_before(broker, 3, 7)
        rest, said = reading.communicate(timeout=240)
    finally:
        reading.kill()
        reading.wait()
    *seen, last = [json.loads(line)["offset"] for line in (begun + rest).splitlines()]
    assert last == 7
    assert seen == [*range(len(seen))], "up to where it fell behind"
    assert said.decode() == f"partition 3 offset {len(seen)} to 6: the broker has deleted it\n"
    assert reading.returncode == 1


def test_from_now_until_interrupted(broker, tape):
    reading = subprocess.Popen(
        bound(command(SWAPS.name, "--position")),
        env=tape,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    producer = Producer(client.confluent_producer(broker.settings) | {"on_delivery": delivered})
    value = to_proto(swap(0)).SerializeToString()
    try:
        deadline = time.monotonic() + WITHIN_S
        os.set_blocking(reading.stdout.fileno(), False)
        first = None
        while not first and reading.poll() is None and time.monotonic() < deadline:
            producer.produce(SWAPS.name, value, "Mint0", partition=SWAPS.partition("Mint0"))
            producer.flush(60)
            time.sleep(0.2)
            first = reading.stdout.readline()
        reading.send_signal(signal.SIGINT)
        _, said = reading.communicate(timeout=240)
    finally:
        reading.kill()
        reading.wait()
    assert first, said
    assert json.loads(first)["signature"] == "sig0"
    assert json.loads(first)["offset"] >= 5, "records from before must not be shown"
    assert reading.returncode == 130
    assert said == b""


def test_the_reader_of_our_output_may_leave(tape):
    piped = " ".join(command(SWAPS.name, "--from", "beginning")) + " | head -n 2"
    result = subprocess.run(
        piped, shell=True, env=tape, capture_output=True, text=True, timeout=240
    )
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == ""


def test_a_broker_that_goes_away_is_a_clear_error(fresh_embedded):
    import asyncio

    settings = fresh_embedded.settings
    asyncio.run(topics.create(settings))
    env = {**os.environ, "KAFKA_BOOTSTRAP": settings.kafka_bootstrap}
    producer = Producer(client.confluent_producer(settings) | {"on_delivery": delivered})
    producer.produce(SWAPS.name, to_proto(swap(0)).SerializeToString(), partition=0)
    assert producer.flush(60) == 0
    reading = subprocess.Popen(
        bound(command(SWAPS.name, "--from", "beginning")),
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert json.loads(reading.stdout.readline())["signature"] == "sig0"
        fresh_embedded.kill()
        _, said = reading.communicate(timeout=120)
    finally:
        reading.kill()
        reading.wait()
    assert reading.returncode == 1
    assert said.startswith(f"Error: Kafka at {settings.kafka_bootstrap} does not answer"), said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["solana-swaps"], "solana-token-creations"),
        ([SWAPS.name, "--partition", "8"], "partitions 0 to 7"),
        ([SWAPS.name, "--from", "yesterday"], "'yesterday' is none of: now, beginning"),
        ([SWAPS.name, "--key", "Mint0", "--partition", "1"], "lives in partition"),
    ],
)
def test_a_wrong_argument_says_what_is_accepted(arguments, said):
    result = run(dict(os.environ), *arguments)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_no_broker_is_a_clear_error(tmp_path):
    env = {
        **os.environ,
        "KAFKA_BOOTSTRAP": f"127.0.0.1:{free_port()}",
        "SOLTAPE_DATA": str(tmp_path),
    }
    result = run(env, SWAPS.name)
    assert result.returncode == 1
    assert result.stderr.startswith("Error: Kafka at 127.0.0.1:")
    assert "refused" in result.stderr
    assert "Traceback" not in result.stderr
