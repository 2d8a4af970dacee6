"""`soltape bench e2e`: from the chain's server to a WebSocket client, through all of `soltape up`.

A swap at `processed` carries the time at which the node sent it (`block_time_ms`), an event's id
the time at which it came into the stream, so a client alone knows the two stages of each swap. All
clocks are this machine's, in whole milliseconds: a stage can be a millisecond off, the sum as well.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import orjson
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from infra.bench import median, progress, report
from infra.bench.roles import (
    WITHOUT_ACCOUNTS,
    BenchFailed,
    Metrics,
    cores,
    cpu_by_part,
    order_of,
    quantile,
    scrape,
    stack,
    wait_until,
)
from infra.local import running
from stream_gateway.bench.mix import swaps

HOST: Final = "127.0.0.1"
WARM_UP_S: Final = 10.0
# Of what the market does some fails, some touches no venue, and some swaps more than once.
SWAPS_PER_TRANSACTION: Final = 1.02
TO_KAFKA: Final = "soltape_ingest_live_latency_ms"
_SWAP: Final = b'{"type":"swap",'


class Listener(WSListener):
    """Keeps every swap as it came, with the moment."""

    def __init__(self) -> None:
        super().__init__()
        self.received: list[tuple[float, bytes]] = []
        self.others: list[bytes] = []

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Subscribe."""
        transport.send(WSMsgType.TEXT, orjson.dumps(swaps().message))

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Keep a swap; it is read when all is over."""
        now_ms = time.time() * 1000
        payload = frame.get_payload_as_bytes()
        if payload.startswith(_SWAP):
            self.received.append((now_ms, payload))
        else:
            self.others.append(payload)


@dataclass(frozen=True, slots=True)
class Stages:
    """Where the time went, in milliseconds for each swap."""

    to_stream: list[float]
    to_client: list[float]

    @property
    def whole(self) -> list[float]:
        """From the chain to the client."""
        return [sum(both) for both in zip(self.to_stream, self.to_client, strict=True)]


def stages(received: list[tuple[float, bytes]]) -> Stages:
    """Return the stages of swaps, from the times in their own frames."""
    found = Stages([], [])
    for received_ms, payload in received:
        swap = orjson.loads(payload)
        if swap["data"]["commitment"] != "processed":
            continue  # its time is the block's, not the node's
        entered_ms = int(swap["id"].partition("-")[0])
        found.to_stream.append(entered_ms - swap["data"]["block_time_ms"])
        found.to_client.append(received_ms - entered_ms)
    return found


async def listen(url: str, seconds: float) -> list[tuple[float, bytes]]:
    """Return the swaps of some seconds, after a time to warm up; raises BenchFailed."""
    transport, listener = await ws_connect(Listener, url, proxy=None)
    assert isinstance(listener, Listener)
    try:
        await asyncio.sleep(WARM_UP_S)
        listener.received.clear()
        await asyncio.sleep(seconds)
        if transport.is_disconnected or not listener.received:
            raise BenchFailed(f"no swaps came: {listener.others[-3:]}")
        return listener.received
    finally:
        transport.disconnect()


@dataclass(frozen=True, slots=True)
class Run:
    """What one run showed."""

    swaps_per_s: float
    stages: Stages
    to_kafka_ms: dict[str, float]
    cores: dict[str, float]  # by part of the stack

    def figures(self) -> dict[str, Any]:
        """Return it for the JSON line."""
        whole = self.stages.whole
        return {
            **_figures(whole),
            "max_ms": quantile_of(whole, 1.0),
            "swaps_per_s": round(self.swaps_per_s),
            "stages": {
                "chain_to_kafka": self.to_kafka_ms,
                "chain_to_stream": _figures(self.stages.to_stream),
                "stream_to_client": _figures(self.stages.to_client),
            },
            "cores": {part: round(used, 2) for part, used in self.cores.items()},
        }


def run(rate: float, seconds: float, *options: str) -> Run:
    """Run all of `soltape up` at a rate of swaps a second; `options` are further ones of its."""
    transactions = str(rate / SWAPS_PER_TRANSACTION)
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as name:
        folder = Path(name)
        with stack(folder, "--rate", transactions, "--seed", "1", *options) as up:
            key_file = folder / running.DEMO_KEY
            wait_until(lambda: _has_moved(folder) and key_file.exists(), (up,))
            addresses = running.addresses(folder)
            url = (
                f"ws://{HOST}:{addresses['GATEWAY_PORT']}/ws?api_key={key_file.read_text().strip()}"
            )
            progress(f"{rate:.0f} swaps/s: {WARM_UP_S:.0f} s to warm up, then {seconds:.0f} s")
            before, cpu, began = _ingest(folder), cpu_by_part(up), time.monotonic()
            received = asyncio.run(listen(url, seconds))
            after, took_s = _ingest(folder), time.monotonic() - began
            used = cores(cpu, cpu_by_part(up), took_s)
            up.check()
    to_kafka = {
        f"p{share}_ms": round(quantile(before, after, TO_KAFKA, share / 100), 1)
        for share in (50, 99)
    }
    return Run(len(received) / seconds, stages(received), to_kafka, used)


@click.command("e2e")
@click.option("--quick", is_flag=True, help="8 s instead of 60.")
@click.option("--rate", type=float, default=500.0, show_default=True, help="Swaps a second.")
@click.option("--seconds", type=float, help="How long it is measured.  [default: 60]")
@click.option(
    "--pairs", type=click.IntRange(1), help="Alternate runs with and without the lane of accounts."
)
def e2e(quick: bool, rate: float, seconds: float | None, pairs: int | None) -> None:
    """Measure the way of a swap from the chain's server to a WebSocket client.

    `soltape up` runs with its embedded systems on a simulated chain, every part a process of its
    own; one client listens to all swaps. The stages: to Kafka (the live lane, acknowledged), to the
    entry in the live stream, to the client.

    --pairs runs that many times with the lane of accounts and as often without, and reports by how
    much more time p99 takes with it.
    """
    length = seconds or (8.0 if quick else 60.0)
    if pairs is not None:
        _paired(rate, length, pairs)
        return
    measured = run(rate, length)
    p50_ms = quantile_of(measured.stages.whole, 0.5)
    report("e2e", p50_ms, "ms", rate=rate, seconds=length, **measured.figures(), runs=1)


def _paired(rate: float, seconds: float, pairs: int) -> None:
    found: dict[bool, list[Run]] = {True: [], False: []}
    for has_accounts in order_of(pairs):
        options = () if has_accounts else (WITHOUT_ACCOUNTS,)
        found[has_accounts].append(run(rate, seconds, *options))
    p99_ms = {
        has_accounts: median([quantile_of(each.stages.whole, 0.99) for each in runs])
        for has_accounts, runs in found.items()
    }
    report(
        "e2e with and without the lane of accounts",
        round(p99_ms[True] - p99_ms[False], 1),
        "ms",
        p99_ms={"with_accounts": p99_ms[True], "without_accounts": p99_ms[False]},
        ratio=round(p99_ms[True] / p99_ms[False], 3),
        rate=rate,
        seconds=seconds,
        cpus=os.cpu_count(),
        with_accounts=[each.figures() for each in found[True]],
        without_accounts=[each.figures() for each in found[False]],
        runs=pairs,
    )


def _has_moved(folder: Path) -> bool:
    return bool(_ingest(folder)) and quantile({}, _ingest(folder), TO_KAFKA, 0.5) > 0


def _ingest(folder: Path) -> Metrics:
    return scrape(f"http://{HOST}:{running.addresses(folder)['METRICS_PORT_INGEST']}/metrics")


def _figures(values: list[float]) -> dict[str, Any]:
    return {"p50_ms": quantile_of(values, 0.5), "p99_ms": quantile_of(values, 0.99)}


def quantile_of(values: list[float], share: float) -> float:
    """Return a quantile of some values."""
    ordered = sorted(values)
    return round(ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)
