"""`soltape bench pnl`: settled batches in Kafka to Redis and ClickHouse, per CPU-second.

Broker, Valkey, ClickHouse and `soltape agents pnl` run as processes of their own. The agent works
on a few slots first, so that its start is not counted; then the tape waits in Kafka, and what is
counted is the CPU time of the agent's process until the watermarks are at the end of it.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import orjson
import redis
from confluent_kafka import Producer

import schemas.topics
from infra.bench import median, progress, report
from infra.bench.roles import BenchFailed, Role, role, system, wait_ready
from infra.clickhouse.embedded import server as clickhouse_server
from infra.kafka import embedded, topics
from infra.kafka.client import confluent_producer
from infra.local.process import Process, free_port
from infra.redis.embedded import valkey
from infra.settings import Settings
from pipeline.bench.pnl_baseline import BASELINE
from pipeline.bench.pnl_state import open_lots, open_positions
from pipeline.bench.pnl_tape import Slot, Tape
from schemas.redis_keys import WATERMARK, tag_of_wallets
from schemas.topics import SETTLED_BY_WALLET

HOST: Final = "127.0.0.1"
WARM_UP_SWAPS: Final = 4_000
GIVE_UP_S: Final = 600.0
GROUP: Final = "pnl"
FEW_WALLETS: Final = 32  # that hold many lots


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: how many wallets trade, and how many lots each holds before."""

    wallets: int
    lots: int
    swaps: int


@dataclass(slots=True)
class Outcome:
    """What a run of a case showed."""

    swaps_per_cpu_second: float
    swaps_per_second: float
    redis_bytes_per_position: float | None


class Stores:
    """Valkey, ClickHouse and a broker, empty, and the settings that lead to them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        ports = {name: free_port() for name in ("kafka", "redis", "clickhouse", "metrics")}
        self.env = {
            "SOLTAPE_DATA": str(folder),
            "KAFKA_BOOTSTRAP": f"{HOST}:{ports['kafka']}",
            "REDIS_URL": f"redis://{HOST}:{ports['redis']}/0",
            "CLICKHOUSE_URL": f"http://{HOST}:{ports['clickhouse']}",
            "METRICS_PORT_BOOKS": str(ports["metrics"]),
            "METRICS_PORT_AGENTS": str(ports["metrics"]),
        }
        values = {name.lower(): value for name, value in self.env.items()}
        self.settings = Settings(_env_file=None, **values)  # type: ignore[call-arg, arg-type]
        processes = [
            embedded.process(self.settings),
            valkey(folder / "redis", HOST, ports["redis"]),
            clickhouse_server(folder / "clickhouse", ports["clickhouse"]),
        ]
        self.roles = [stack.enter_context(system(each, folder)) for each in processes]
        for each, process in zip(self.roles, processes, strict=True):
            wait_ready(each, process.ready)
        asyncio.run(topics.create(self.settings, [*schemas.topics.ALL, BASELINE]))
        self.redis = redis.Redis.from_url(self.env["REDIS_URL"])
        self.redis.config_set("maxmemory", "0")

    def used_memory(self) -> int:
        """Return the bytes that Valkey has given out."""
        return int(self.redis.info("memory")["used_memory"])

    def watermark(self) -> int:
        """Return the lowest slot that the partitions are at."""
        pipe = self.redis.pipeline(transaction=False)
        for partition in range(SETTLED_BY_WALLET.partitions):
            pipe.hget(WATERMARK.make(tag=tag_of_wallets(partition), group=GROUP), "slot")
        return min(int(slot or 0) for slot in pipe.execute())


def measure(case: Case) -> Outcome:
    """Run one case in empty stores."""
    with (
        tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder,
        ExitStack() as stack,
    ):
        stores = Stores(Path(folder), stack)
        empty = stores.used_memory()
        tape = Tape(1, case.wallets, mints=1 if case.lots else 5_000)
        if case.lots:
            open_lots(stores.redis, tape, case.lots)
        else:
            open_positions(stores.redis, tape)
        held = (stores.used_memory() - empty) / case.wallets
        agent = stack.enter_context(role("agents", stores.folder, ["agents", GROUP], **stores.env))
        warm_up = [*tape.slots(WARM_UP_SWAPS)]
        _settle(stores, agent, warm_up)
        slots = [*tape.slots(case.swaps)]
        swaps = sum(len(batch.events) for slot in slots for batch in slot)
        before, began = agent.cpu_seconds(), time.monotonic()
        _settle(stores, agent, slots)
        cpu_s, took_s = agent.cpu_seconds() - before, time.monotonic() - began
        return Outcome(swaps / cpu_s, swaps / took_s, None if case.lots else held)


def _settle(stores: Stores, agent: Role, slots: Sequence[Slot]) -> None:
    """Put slots on the lane and wait until they are in the stores."""
    produce(
        stores.settings,
        (
            (SETTLED_BY_WALLET.name, partition, batch.SerializeToString())
            for slot in slots
            for partition, batch in enumerate(slot)
        ),
    )
    last = slots[-1][0].slot
    _wait(lambda: stores.watermark() >= last, (agent, *stores.roles))


def produce(settings: Settings, messages: Iterator[tuple[str, int, bytes]]) -> None:
    """Put messages (topic, partition, value) on Kafka."""
    producer = Producer(confluent_producer(settings) | {"linger.ms": 5})
    for count, (topic, partition, value) in enumerate(messages):
        producer.produce(topic, value, partition=partition)
        if count % 1_000 == 0:
            producer.flush(60)
    if producer.flush(60):
        raise BenchFailed("the broker does not take the tape")


def _wait(done: Any, roles: Sequence[Role]) -> None:
    deadline = time.monotonic() + GIVE_UP_S
    while not done():
        for each in roles:
            each.check()
        if time.monotonic() > deadline:
            said = roles[0].log.read_text(errors="replace")[-600:]
            raise BenchFailed(f"{roles[0].name} is not done after {GIVE_UP_S:.0f} s: {said}")
        time.sleep(0.05)


def measure_baseline(swaps: int) -> float:
    """Return swaps per CPU-second of a plain Faust agent with tables."""
    with (
        tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder,
        ExitStack() as stack,
    ):
        stores = Stores(Path(folder), stack)
        tape = Tape(1, 20_000)
        events = [
            event.swap for slot in tape.slots(swaps) for batch in slot for event in batch.events
        ]
        produce(
            stores.settings,
            (
                (BASELINE.name, BASELINE.partition(swap.wallet), swap.SerializeToString())
                for swap in events
            ),
        )
        command = [
            sys.executable,
            "-m",
            "pipeline.bench.pnl_baseline",
            "worker",
            "-l",
            "error",
            "--without-web",
        ]
        process = Process("baseline", command, "", _nothing, env=stores.env)
        baseline = stack.enter_context(system(process, stores.folder))
        _wait(lambda: _reports(baseline)[-1]["swaps"] >= len(events), (baseline, *stores.roles))
        reports = _reports(baseline)
        first = next(each for each in reports if each["swaps"] > 0)
        last = next(each for each in reports if each["swaps"] >= len(events))
        return float((last["swaps"] - first["swaps"]) / (last["cpu_s"] - first["cpu_s"]))


async def _nothing() -> None:
    """A process that nobody waits for."""


def _reports(baseline: Role) -> list[dict[str, float]]:
    lines = baseline.log.read_bytes().splitlines()
    return [{"swaps": 0}, *(orjson.loads(line) for line in lines if line.startswith(b"{"))]


@click.command()
@click.option("--quick", is_flag=True, help="Fewer swaps and cases, one run of each.")
@click.option("--lots", type=click.IntRange(0), help="Only this case: open lots of each wallet.")
@click.option("--wallets", type=click.IntRange(1), help="Only this case: how many wallets trade.")
@click.option("--runs", type=click.IntRange(1), help="Runs of each case; the median counts.")
def pnl(quick: bool, lots: int | None, wallets: int | None, runs: int | None) -> None:
    """Measure the books of wallets: swaps per CPU-second of `soltape agents pnl`.

    The tape waits in Kafka; Redis and ClickHouse are written as always. Beside it the baseline,
    a plain Faust agent with tables on the same swaps, and how the cost of a swap grows with open
    lots and with wallets.
    """
    swaps = 40_000 if quick else 200_000
    runs = runs or (1 if quick else 3)
    if lots is not None or wallets is not None:
        case = Case(wallets or (FEW_WALLETS if lots else 10_000), lots or 0, swaps)
        outcomes = _runs(case, runs)
        report("pnl", round(_rate(outcomes)), "swaps/CPU-s", **_figures(case, outcomes), runs=runs)
        return
    main = Case(20_000, 0, swaps)
    outcomes = _runs(main, runs)
    value = _rate(outcomes)
    progress("baseline: a plain Faust agent with tables")
    baseline = median([measure_baseline(swaps // 5) for _ in range(runs)])
    growth = [(case, _runs(case, runs)) for case in _growth(quick, swaps)]
    report(
        "pnl",
        round(value),
        "swaps/CPU-s",
        baseline=round(baseline),
        ratio=round(value / baseline, 1),
        **_figures(main, outcomes),
        growth=[{"value": round(_rate(found)), **_figures(case, found)} for case, found in growth],
        runs=runs,
    )


def _growth(quick: bool, swaps: int) -> list[Case]:
    """Return the cases of the growth table."""
    lots = [1, 1_000] if quick else [1, 1_000, 100_000]
    wallets = [] if quick else [10_000, 1_000_000]
    return [
        *(Case(FEW_WALLETS, each, swaps) for each in lots),
        *(Case(each, 0, swaps) for each in wallets),
    ]


def _runs(case: Case, runs: int) -> list[Outcome]:
    outcomes = []
    for _ in range(runs):
        outcomes.append(measure(case))
        progress(
            f"{case.wallets} wallets, {case.lots or 'few'} open lots each: "
            f"{outcomes[-1].swaps_per_cpu_second:.0f} swaps per CPU-second"
        )
    return outcomes


def _rate(outcomes: Sequence[Outcome]) -> float:
    return median([outcome.swaps_per_cpu_second for outcome in outcomes])


def _figures(case: Case, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    figures: dict[str, Any] = {
        "wallets": case.wallets,
        "swaps": case.swaps,
        "swaps_per_s": round(median([outcome.swaps_per_second for outcome in outcomes])),
    }
    if case.lots:
        figures["open_lots"] = case.lots
    held = [outcome.redis_bytes_per_position for outcome in outcomes]
    if held[0] is not None:
        figures["redis_bytes_per_open_position"] = round(held[0])
    return figures
