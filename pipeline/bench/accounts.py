"""`soltape bench accounts`: account updates in Kafka to Redis and ClickHouse, per CPU-second.

Broker, Valkey, ClickHouse and `soltape agents accounts` run as processes of their own. First the
tape waits in Kafka, and what counts is the CPU time of the agent's process until the watermarks
are at its end. Then slots come at the pace of the chain, and what counts is how many of them the
stores lack.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import click
from confluent_kafka import Producer

from infra.bench import median, progress, report
from infra.bench.roles import BenchFailed, Role, role
from infra.kafka.client import confluent_producer
from infra.settings import Settings
from pipeline.agents.accounts.agent import GROUP
from pipeline.bench.account_tape import KINDS, SLOT_MS, AccountTape, Slot
from pipeline.bench.pnl import GIVE_UP_S, Stores, produce
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import WATERMARK, account_tags
from schemas.topics import SETTLED_ACCOUNTS

ACCOUNTS: Final = 30_000  # of each kind, that change
A_SECOND: Final = 5_000
_A_SLOT: Final = A_SECOND * SLOT_MS // 1000
_LOOK_EVERY_S: Final = 0.05


def _watermark(stores: Stores) -> int:
    """Return the lowest slot that the partitions are at."""
    pipe = stores.redis.pipeline(transaction=False)
    for tag in account_tags():
        pipe.hget(WATERMARK.make(tag=tag, group=GROUP), "slot")
    return min(int(slot or 0) for slot in pipe.execute())


def _settle(stores: Stores, agent: Role, slots: Sequence[Slot]) -> None:
    """Put slots on the lane and wait until they are in the stores."""
    produce(
        stores.settings,
        (
            (SETTLED_ACCOUNTS.name, partition, batch.SerializeToString())
            for slot in slots
            for partition, batch in enumerate(slot)
        ),
    )
    deadline = time.monotonic() + GIVE_UP_S
    while _watermark(stores) < slots[-1][0].slot:
        for each in (agent, *stores.roles):
            each.check()
        if time.monotonic() > deadline:
            raise BenchFailed(f"the agent is not done after {GIVE_UP_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)


def _lags(stores: Stores, settings: Settings, slots: Sequence[Slot]) -> list[int]:
    """Send slots at the chain's pace; return how many the stores lack, at every look."""
    producer = Producer(confluent_producer(settings) | {"linger.ms": 5})
    values = [[batch.SerializeToString() for batch in slot] for slot in slots]
    began = time.monotonic()
    lags = []
    for number, slot in enumerate(values):
        for partition, value in enumerate(slot):
            producer.produce(SETTLED_ACCOUNTS.name, value, partition=partition)
        producer.poll(0)
        due = began + (number + 1) * SLOT_MS / 1000
        while (left := due - time.monotonic()) > 0:
            lags.append(slots[number][0].slot - _watermark(stores))
            time.sleep(min(_LOOK_EVERY_S, left))
    producer.flush(60)
    return lags


def _parse_and_discard(slots: Sequence[Slot]) -> float:
    """Return updates per CPU-second of a reader that only parses the messages."""
    values = [batch.SerializeToString() for slot in slots for batch in slot]
    began = time.process_time()
    updates = sum(
        bool(version.address) and bool(version.data)
        for value in values
        for version in SlotBatch.FromString(value).accounts
    )
    return updates / (time.process_time() - began)


def _measure(updates: int, paced_s: float) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as name, ExitStack() as stack:
        stores = Stores(Path(name), stack)
        agent = stack.enter_context(role("agents", stores.folder, ["agents", GROUP], **stores.env))
        tape = AccountTape(1, ACCOUNTS * len(KINDS))
        accounts = [each for kind in KINDS for each in tape.new(kind, ACCOUNTS)]
        progress(f"{len(accounts):,} accounts")
        _settle(stores, agent, [*tape.slots(accounts, _A_SLOT)])
        slots = [*tape.slots(tape.changing(accounts, updates), _A_SLOT)]
        progress(f"{updates:,} updates")
        before, began = agent.cpu_seconds(), time.monotonic()
        _settle(stores, agent, slots)
        cpu_s, took_s = agent.cpu_seconds() - before, time.monotonic() - began
        progress(f"{paced_s:.0f} s at {A_SECOND:,} updates/s")
        paced = tape.changing(accounts, round(A_SECOND * paced_s))
        lags = _lags(stores, stores.settings, [*tape.slots(paced, _A_SLOT)])
        return {
            "per_cpu_s": updates / cpu_s,
            "per_s": updates / took_s,
            "baseline": _parse_and_discard(slots),
            "lag_slots": int(median(lags)),
            "lag_slots_max": max(lags),
        }


@click.command()
@click.option("--quick", is_flag=True, help="Fewer updates, one run.")
@click.option("--runs", type=click.IntRange(1), help="Runs; the median counts.  [default: 3]")
def accounts(quick: bool, runs: int | None) -> None:
    """Measure the books of accounts: updates per CPU-second of `soltape agents accounts`.

    Stake, token and mint accounts that Redis has change at random; each update is written to Redis,
    those of wallets to ClickHouse as well. Beside it the baseline: the same messages parsed and
    discarded. `lag_slots` is how many slots the stores lack while 5,000 updates a second come.
    """
    updates, paced_s = (30_000, 10.0) if quick else (200_000, 30.0)
    outcomes = [_measure(updates, paced_s) for _ in range(runs or (1 if quick else 3))]
    figures = {name: median([each[name] for each in outcomes]) for name in outcomes[0]}
    report(
        "accounts",
        round(figures["per_cpu_s"]),
        "updates/CPU-s",
        baseline=round(figures["baseline"]),
        ratio=round(figures["per_cpu_s"] / figures["baseline"], 4),
        updates_per_second=round(figures["per_s"]),
        lag_slots=figures["lag_slots"],
        lag_slots_max=figures["lag_slots_max"],
        counts={"updates": updates, "accounts": ACCOUNTS * len(KINDS)},
        runs=len(outcomes),
    )
