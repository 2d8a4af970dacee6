"""`soltape chain` and `soltape record` as a user runs them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from infra.chain.market import Knobs, Market
from infra.chain.recorded import UnreadableFile
from infra.chain.recording import read_recording
from infra.chain.source import SlotTransactions
from infra.local.process import free_port
from schemas.proto.geyser_pb2 import (
    SubscribeRequest,
    SubscribeUpdate,
    SubscribeUpdateTransactionInfo,
)
from schemas.proto.geyser_pb2_grpc import GeyserStub
from schemas.solana.rpc_json import transaction_to_json
from tests.support.systems import bound
from tests.support.waiting import eventually

SOLTAPE = [sys.executable, "-m", "infra.cli"]
ANY_PORT = ("--port", "0", "--rpc-port", "0")


class Running:
    """A command that runs until it is asked to stop."""

    def __init__(self, arguments: tuple[str, ...], folder: Path, env: dict[str, str]) -> None:
        self.log = folder / f"{arguments[0]}-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                bound([*SOLTAPE, *arguments]), cwd=folder, env=env, stdout=log, stderr=log
            )

    def wait_for(self, event: str) -> dict[str, Any]:
        """Return the log line of an event."""

        def found() -> dict[str, Any] | None:
            for line in self.log.read_text().splitlines():
                if line.startswith("{") and (entry := json.loads(line))["event"] == event:
                    return dict(entry)
            assert self.process.poll() is None, self.log.read_text()
            return None

        return eventually(found, lambda: f"no {event} in: {self.log.read_text()}")

    def stop(self, number: int = signal.SIGINT) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(60)


Run = Callable[..., Running]


def environment(**settings: str) -> dict[str, str]:
    return {
        **os.environ,
        "LOG_FORMAT": "json",
        "METRICS_PORT_CHAIN": str(free_port()),
        "PYTHONPATH": str(Path(__file__).parents[3]),
        **settings,
    }


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    running: list[Running] = []

    def start(*arguments: str, **settings: str) -> Running:
        running.append(Running(arguments, tmp_path, environment(**settings)))
        return running[-1]

    yield start
    for item in running:
        if item.process.poll() is None:
            item.process.kill()
            item.process.wait()


def finished(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SOLTAPE, *arguments],
        cwd=folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def signatures(port: int, count: int) -> list[bytes]:
    request = SubscribeRequest()
    request.transactions["all"].SetInParent()
    out = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        for update in GeyserStub(channel).Subscribe(iter([request]), timeout=120):
            if update.HasField("transaction"):
                out.append(update.transaction.transaction.signature)
                if len(out) == count:
                    return out
    raise AssertionError("the stream ended")


def answers(path: Path) -> Path:
    lines = []
    for event in Market(Knobs(seed=3, rate=50, forks=0)).generate(10):
        if isinstance(event, SlotTransactions):
            for item in event.transactions:
                info = SubscribeUpdateTransactionInfo.FromString(item.info)
                lines.append(json.dumps({"slot": event.slot, **transaction_to_json(info)}))
    file = path / "answers.jsonl"
    file.write_text("\n".join([*lines, "{broken", ""]))
    return file


def so_far(recording: Path) -> list[SubscribeUpdate]:
    """Return what a recording holds that is still written."""
    try:
        return [SubscribeUpdate.FromString(data) for _, data in read_recording(recording)]
    except (FileNotFoundError, UnreadableFile):  # its first part is not written yet
        return []


def transactions(recording: Path) -> int:
    """Return how many transactions it holds so far."""
    return sum(update.HasField("transaction") for update in so_far(recording))


def slots(recording: Path) -> int:
    """Return of how many slots it holds the block's meta so far; a node may send one again."""
    found = so_far(recording)
    return len({each.block_meta.slot for each in found if each.HasField("block_meta")})


def test_a_market_is_recorded_and_replayed(run: Run, tmp_path: Path) -> None:
    market = run("chain", "simulated", *ANY_PORT, "--seed", "5", "--truth", "truth.jsonl")
    port = market.wait_for("serving")["geyser_port"]
    recorder = run("record", f"http://127.0.0.1:{port}", "tape.zst")
    tape = tmp_path / "tape.zst"
    eventually(lambda: transactions(tape) > 200, recorder.log.read_text)
    assert recorder.stop() == 0
    assert "updates" in recorder.log.read_text().splitlines()[-1]
    assert market.stop(signal.SIGTERM) == 0
    assert (tmp_path / "truth.jsonl").stat().st_size > 0
    assert "Traceback" not in market.log.read_text() + recorder.log.read_text()

    recorded = [
        SubscribeUpdate.FromString(data) for _, data in read_recording(tmp_path / "tape.zst")
    ]
    expected = [
        update.transaction.transaction.signature
        for update in recorded
        if update.HasField("transaction")
    ]
    assert len(expected) > 200
    replay = run("chain", "recorded", "tape.zst", *ANY_PORT, "--speed", "2")
    seen = signatures(replay.wait_for("serving")["geyser_port"], 100)
    assert expected.index(seen[0]) < len(expected) / 2
    assert set(seen) <= set(expected)
    assert replay.stop() == 0
    looped = finished(tmp_path, "chain", "recorded", "tape.zst", *ANY_PORT, "--loop")
    assert looped.returncode == 2
    assert "played once" in looped.stderr


def test_answers_are_replayed_in_a_loop(run: Run, tmp_path: Path) -> None:
    file = answers(tmp_path)
    total = len(file.read_text().splitlines()) - 1
    chain = run("chain", "recorded", str(file), *ANY_PORT, "--loop", "--rate", "1000")
    port = chain.wait_for("serving")["geyser_port"]
    assert len(set(signatures(port, 2 * total))) == 2 * total
    assert f"left out line {total + 1}: " in chain.log.read_text()
    assert chain.stop() == 0


def test_the_settings_name_ports_and_token(run: Run, tmp_path: Path) -> None:
    grpc_port, rpc_port = free_port(), free_port()
    settings = {
        "GEYSER_ENDPOINT": f"http://127.0.0.1:{grpc_port}",
        "RPC_ENDPOINT": f"http://127.0.0.1:{rpc_port}",
        "GEYSER_X_TOKEN": "hush-hush",
    }
    chain = run("chain", **settings)
    served = chain.wait_for("serving")
    assert (served["geyser_port"], served["rpc_port"]) == (grpc_port, rpc_port)
    with pytest.raises(grpc.RpcError) as caught:
        signatures(grpc_port, 1)
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    url = f"http://127.0.0.1:{grpc_port}"
    refused = finished(tmp_path, "record", url, "a.zst", "--seconds", "3")
    assert refused.returncode == 1
    assert "refused: UNAUTHENTICATED: No valid auth token" in refused.stderr
    allowed = finished(
        tmp_path, "record", url, "b.zst", "--seconds", "2", GEYSER_X_TOKEN="hush-hush"
    )
    assert allowed.returncode == 0
    assert len(list(read_recording(tmp_path / "b.zst"))) > 50
    second = finished(tmp_path, "chain", **settings)
    assert second.returncode == 1
    assert f"port {grpc_port} on 127.0.0.1 is in use" in second.stderr
    assert "hush-hush" not in chain.log.read_text()


def test_a_recording_goes_on_after_the_stream_broke(run: Run, tmp_path: Path) -> None:
    chain = run("chain", *ANY_PORT, "--disconnect-every", "400", "--seed", "8")
    url = f"http://127.0.0.1:{chain.wait_for('serving')['geyser_port']}"
    recorder = run("record", url, "tape.zst")
    tape = tmp_path / "tape.zst"
    eventually(
        lambda: "connection reset (injected)" in recorder.log.read_text() and slots(tape) > 10,
        recorder.log.read_text,
    )
    assert recorder.stop() == 0
    updates = [SubscribeUpdate.FromString(d) for _, d in read_recording(tmp_path / "tape.zst")]
    metas = {u.block_meta.slot: u.block_meta for u in updates if u.HasField("block_meta")}
    per_slot: dict[int, set[bytes]] = {}
    for update in updates:
        if update.HasField("transaction"):
            info = update.transaction.transaction
            per_slot.setdefault(update.transaction.slot, set()).add(info.signature)
    # Votes and failed ones are left out by default: compare with a complete slot's successes.
    complete = sorted(metas)[1:-1]
    assert len(complete) > 8
    counts = {slot: len(per_slot.get(slot, ())) for slot in complete}
    assert all(counts[slot] <= metas[slot].executed_transaction_count for slot in complete)
    gaps = [s for s in complete if counts[s] < metas[s].executed_transaction_count * 0.6]
    # A node replays no slot that it executes just then.
    assert len(gaps) <= recorder.log.read_text().count("stream ended")


def test_an_endpoint_that_sends_nothing_leaves_no_file(tmp_path: Path) -> None:
    done = finished(tmp_path, "record", "http://127.0.0.1:1", "tape.zst", "--seconds", "1")
    assert "http://127.0.0.1:1 sent no update; nothing is kept" in done.stderr
    assert done.returncode == 1
    assert not (tmp_path / "tape.zst").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("chain", "recorded"), 2, "give a FILE with `recorded`"),
        (("chain", "recorded", "nowhere"), 2, "'nowhere' does not exist"),
        (("chain", "recorded", "empty", *ANY_PORT), 1, "empty: no getTransaction answer in it"),
        (("chain", "recorded", "other.zst", *ANY_PORT), 1, "other.zst: not a recording"),
        (("chain", "--duplicates", "2"), 2, "2.0 is not in the range"),
        (("record", "nonsense", "x"), 2, "http:// or https://host:port is expected"),
        (("record", "http://host:port", "x"), 2, "a port from 1 to 65535"),
        (("record", "http://127.0.0.1:1", "empty"), 1, "empty exists: choose another name"),
        (("record", "http://127.0.0.1:1", "no/such/folder"), 1, "no/such/folder: No such file"),
    ],
)
def test_mistakes_are_explained(
    tmp_path: Path, arguments: tuple[str, ...], status: int, message: str
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "other.zst").write_bytes(b"\x28\xb5\x2f\xfdnonsense")
    done = finished(tmp_path, *arguments)
    assert message in done.stderr
    assert done.returncode == status
    assert "Traceback" not in done.stderr
