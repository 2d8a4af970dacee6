"""`soltape bench ingest`: from the chain's gRPC stream to acknowledged Kafka, all of it real.

Broker, chain and ingest run as processes of their own on this machine, as in `soltape up`.
When a phase is over, the settled lanes are read back and compared with what the market says
really happened: nothing may be missing, nothing may be there twice.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
import orjson

from infra.bench import progress, report
from infra.bench.roles import (
    cpu_seconds,
    quantile,
    role,
    scrape,
    value,
    wait_ready,
    wait_until,
)
from infra.kafka import embedded, topics
from infra.local.process import free_port
from infra.settings import Settings
from schemas.proto.tape_pb2 import SlotBatch
from schemas.topics import SETTLED_BY_MINT

HOST: Final = "127.0.0.1"
WARM_UP_S: Final = 5.0
DRAIN_S: Final = 30.0
# Of what the market does, some fails and some touches no venue: neither is subscribed to.
OFFERED: Final = 1.25
LATENCY: Final = "soltape_ingest_live_latency_ms"

Identity = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Phase:
    """A rate of transactions that reach ingest, held for a time."""

    rate: float
    seconds: float


@dataclass(slots=True)
class Outcome:
    """What a phase showed."""

    phase: Phase
    transactions_per_second: float
    events: int
    missing: int
    double: int
    gaps: int
    p50_ms: float
    p99_ms: float
    cpu_seconds: dict[str, float]  # of each process, over the phase


def run_phase(phase: Phase, folder: Path) -> Outcome:
    """Run one phase in an empty folder."""
    ports = {name: free_port() for name in ("kafka", "geyser", "rpc", "chain", "ingest")}
    env = {
        "SOLTAPE_DATA": str(folder),
        "KAFKA_BOOTSTRAP": f"{HOST}:{ports['kafka']}",
        "GEYSER_ENDPOINT": f"http://{HOST}:{ports['geyser']}",
        "RPC_ENDPOINT": f"http://{HOST}:{ports['rpc']}",
        "METRICS_PORT_CHAIN": str(ports["chain"]),
        "METRICS_PORT_INGEST": str(ports["ingest"]),
    }
    settings = Settings(_env_file=None, **{name.lower(): value for name, value in env.items()})  # type: ignore[call-arg, arg-type]
    truth = folder / "truth.jsonl"
    market = [
        "chain",
        "simulated",
        "--seed",
        "1",
        "--rate",
        str(phase.rate * OFFERED),
        "--truth",
        str(truth),
    ]
    with ExitStack() as stack:
        kafka = embedded.process(settings)
        broker = stack.enter_context(role("kafka", folder, kafka.command[3:], **env))
        wait_ready(broker, kafka.ready)
        chain = stack.enter_context(role("chain", folder, market, **env))
        ingest = stack.enter_context(role("ingest", folder, ["ingest"], **env))
        roles = (broker, chain, ingest)
        url = f"http://{HOST}:{ports['ingest']}/metrics"
        wait_until(lambda: value(scrape(url), "soltape_ingest_published_slot") > 0, roles)
        time.sleep(WARM_UP_S)
        before, cpu_before, began = scrape(url), cpu_seconds(roles), time.monotonic()
        while (elapsed := time.monotonic() - began) < phase.seconds:
            for each in roles:
                each.check()
            progress(f"{phase.rate:.0f} tx/s: {elapsed:.0f} of {phase.seconds:.0f} s")
            time.sleep(min(5.0, phase.seconds - elapsed))
        after, cpu_after, took = scrape(url), cpu_seconds(roles), time.monotonic() - began
        progress("draining ...")
        chain.stop()
        _drain(url)
        ingest.stop()
        lane = asyncio.run(read_lane(settings))
        broker.check()
    events, missing, double = compare(truth, lane)
    moved = value(after, "soltape_ingest_transactions_total", novelty="new") - value(
        before, "soltape_ingest_transactions_total", novelty="new"
    )
    p50, p99 = (quantile(before, after, LATENCY, q) for q in (0.5, 0.99))
    return Outcome(
        phase=phase,
        transactions_per_second=moved / took,
        events=events,
        missing=missing,
        double=double,
        gaps=int(value(after, "soltape_ingest_gap_slots_total")),
        p50_ms=p50,
        p99_ms=p99,
        cpu_seconds={name: cpu_after[name] - cpu_before[name] for name in cpu_before},
    )


@dataclass(slots=True)
class Lane:
    """What a settled lane holds: each event's identity and how often, and which slots."""

    events: Counter[Identity]
    first_slot: int
    last_slot: int


def compare(truth: Path, lane: Lane) -> tuple[int, int, int]:
    """Return (events, missing, double) of the canonical swaps, creations and migrations.

    Slots before the lane's first and after its last one are not the bench's: the stream was
    not read yet, or not any more.
    """
    wanted: set[Identity] = set()
    for line in truth.read_bytes().splitlines():
        event = orjson.loads(line)
        if (
            event["kind"] in ("swap", "creation", "migration")
            and event["canonical"]
            and lane.first_slot <= event["slot"] <= lane.last_slot
        ):
            wanted.add((event["signature"], event["event_index"]))
    double = sum(times - 1 for times in lane.events.values())
    return len(wanted), len(wanted - lane.events.keys()), double


async def read_lane(settings: Settings) -> Lane:
    """Read the settled lane back from its beginning."""
    lane = Lane(Counter(), 0, 0)
    async for record in topics.records_so_far(settings, SETTLED_BY_MINT):
        batch = SlotBatch.FromString(record.value)
        lane.first_slot = min(lane.first_slot or batch.slot, batch.slot)
        lane.last_slot = max(lane.last_slot, batch.slot)
        for envelope in batch.events:
            event = getattr(envelope, envelope.WhichOneof("event"))
            lane.events[event.signature, event.event_index] += 1
    return lane


def _drain(url: str) -> None:
    """Wait until nothing moves any more: all that was confirmed is published."""
    deadline = time.monotonic() + DRAIN_S
    before = -1.0
    while time.monotonic() < deadline:
        now = value(scrape(url), "soltape_ingest_published_slot")
        if now == before:
            return
        before = now
        time.sleep(2.0)


@click.command()
@click.option("--quick", is_flag=True, help="One short phase a rate: rougher, within 45 seconds.")
@click.option("--rate", type=float, multiple=True, help="Only this rate, in transactions a second.")
@click.option("--seconds", type=float, help="How long each rate is held.")
def ingest(quick: bool, rate: tuple[float, ...], seconds: float | None) -> None:
    """Measure ingest under load: 1,000 tx/s for 5 minutes, then 3,000 tx/s for 60 s.

    Every part is a real process on this machine. The latency is that of each event of the
    live lane, from the chain's `created_at` to Kafka's acknowledgement.
    """
    phases = [Phase(1000, 8.0 if quick else 300.0), Phase(3000, 6.0 if quick else 60.0)]
    if rate:
        phases = [Phase(each, seconds or 30.0) for each in rate]
    elif seconds:
        phases = [Phase(phase.rate, seconds) for phase in phases]
    outcomes = []
    for phase in phases:
        with tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder:
            outcomes.append(run_phase(phase, Path(folder)))
    first = outcomes[0]
    report(
        "ingest",
        round(max(outcome.transactions_per_second for outcome in outcomes)),
        "tx/s",
        p50_ms=round(first.p50_ms, 1),
        p99_ms=round(first.p99_ms, 1),
        latency_at=f"{first.phase.rate:.0f} tx/s",
        counts={
            "events": sum(outcome.events for outcome in outcomes),
            "missing": sum(outcome.missing for outcome in outcomes),
            "double": sum(outcome.double for outcome in outcomes),
            "gaps": sum(outcome.gaps for outcome in outcomes),
        },
        phases=[
            {
                "rate": outcome.phase.rate,
                "seconds": outcome.phase.seconds,
                "value": round(outcome.transactions_per_second),
                "p50_ms": round(outcome.p50_ms, 1),
                "p99_ms": round(outcome.p99_ms, 1),
                "events": outcome.events,
                "missing": outcome.missing,
                "double": outcome.double,
                "cpu_seconds": {
                    name: round(spent, 1) for name, spent in outcome.cpu_seconds.items()
                },
            }
            for outcome in outcomes
        ],
        runs=1,
    )
