"""`soltape bench e2e`: from the chain's server to a WebSocket client, through all of `soltape up`.

A swap at `processed` carries the time at which the node sent it (`block_time_ms`), an event's id
the time at which it came into the stream, so a client alone knows the two stages of each swap. All
clocks are this machine's, in whole milliseconds: a stage can be a millisecond off, the sum as well.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import orjson
from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from infra.bench import progress, report
from infra.bench.roles import BenchFailed, Metrics, quantile, scrape, stack, wait_until
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


@click.command("e2e")
@click.option("--quick", is_flag=True, help="8 s instead of 60.")
@click.option("--rate", type=float, default=500.0, show_default=True, help="Swaps a second.")
@click.option("--seconds", type=float, help="How long it is measured.  [default: 60]")
def e2e(quick: bool, rate: float, seconds: float | None) -> None:
    """Measure the way of a swap from the chain's server to a WebSocket client.

    `soltape up` runs with its embedded systems on a simulated chain, every part a process of its
    own; one client listens to all swaps. The stages: to Kafka (the live lane, acknowledged), to the
    entry in the live stream, to the client.
    """
    length = seconds or (8.0 if quick else 60.0)
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as name:
        folder = Path(name)
        with stack(folder, "--rate", str(rate / SWAPS_PER_TRANSACTION), "--seed", "1") as up:
            key_file = folder / running.DEMO_KEY
            wait_until(lambda: _has_moved(folder) and key_file.exists(), (up,))
            addresses = running.addresses(folder)
            url = (
                f"ws://{HOST}:{addresses['GATEWAY_PORT']}/ws?api_key={key_file.read_text().strip()}"
            )
            progress(f"{rate:.0f} swaps/s: {WARM_UP_S:.0f} s to warm up, then {length:.0f} s")
            before = _ingest(folder)
            received = asyncio.run(listen(url, length))
            after = _ingest(folder)
            up.check()
    measured = stages(received)
    report(
        "e2e",
        quantile_of(measured.whole, 0.5),
        "ms",
        p50_ms=quantile_of(measured.whole, 0.5),
        p99_ms=quantile_of(measured.whole, 0.99),
        max_ms=quantile_of(measured.whole, 1.0),
        swaps_per_s=round(len(received) / length),
        rate=rate,
        seconds=length,
        stages={
            "chain_to_kafka": {
                "p50_ms": round(quantile(before, after, TO_KAFKA, 0.5), 1),
                "p99_ms": round(quantile(before, after, TO_KAFKA, 0.99), 1),
            },
            "chain_to_stream": _figures(measured.to_stream),
            "stream_to_client": _figures(measured.to_client),
        },
        runs=1,
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
