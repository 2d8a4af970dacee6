"""`soltape bench pipeline`: a simulated market through everything, into the stores.

What is measured is `soltape up` itself, in an empty folder, every part a process of its own. Lag
is measured in slots: from the newest slot of the settled lanes to the lowest watermark in Redis of
any partition of any group that writes the stores. First one rate is held for long, then rates
rise until the stores fall behind.
"""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import redis

from infra.bench import median, progress, report
from infra.bench.roles import (
    WITHOUT_ACCOUNTS,
    BenchFailed,
    cores,
    cpu_by_part,
    order_of,
    scrape,
    stack,
    value,
    wait_until,
)
from infra.local import running
from infra.redis.client import RedisError
from schemas.redis_keys import WATERMARK, mint_tags, wallet_tags

LAG_SLOTS: Final = 5
WARM_UP_S: Final = 10.0
LOOK_EVERY_S: Final = 0.5
RATES: Final = (1_250, 1_500, 1_750, 2_000, 2_500, 3_000)
# Of what the market does some fails, some touches no venue, and some swaps more than once.
SWAPS_PER_TRANSACTION: Final = 0.96
# Less of a rate than this share arrives: ingest, or the simulated chain, cannot do it here.
ARRIVES: Final = 0.95


def _watermarks() -> dict[str, str]:
    """Return what each partition of a group is called, by the key of its watermark."""
    tags = {"pnl": wallet_tags(), "market": mint_tags(), "store": mint_tags()}
    return {
        WATERMARK.make(tag=tag, group=group): f"{group}/{partition}"
        for group, of_group in tags.items()
        for partition, tag in enumerate(of_group)
    }


@dataclass(slots=True)
class Outcome:
    """What holding one rate showed."""

    rate: float  # swaps a second, as asked for
    swaps_per_second: float  # as they arrived
    lags_slots: list[int]
    cores: dict[str, float] = field(default_factory=dict)  # of each part, on average
    redis_bytes: int = 0

    @property
    def keeps_up(self) -> bool:
        """Whether the rate arrived, and the lag stayed under the limit but for a look in 100."""
        arrived = self.swaps_per_second >= ARRIVES * self.rate
        return arrived and quantile(self.lags_slots, 0.99) < LAG_SLOTS

    def figures(self) -> dict[str, Any]:
        """Return it for the JSON line."""
        return {
            "rate": self.rate,
            "swaps_per_s": round(self.swaps_per_second),
            "lag_slots_p50": quantile(self.lags_slots, 0.5),
            "lag_slots_p99": quantile(self.lags_slots, 0.99),
            "lag_slots_max": max(self.lags_slots),
            "cores": {name: round(used, 2) for name, used in self.cores.items()},
            "redis_bytes": self.redis_bytes,
        }


def hold(rate: float, seconds: float, folder: Path, *options: str) -> Outcome:
    """Run the whole pipeline at a rate of swaps a second; `options` are those of `soltape up`."""
    transactions = str(rate / SWAPS_PER_TRANSACTION)
    with stack(folder, "--rate", transactions, "--seed", "1", *options) as up:
        addresses = running.addresses(folder)
        url = f"http://127.0.0.1:{addresses['METRICS_PORT_INGEST']}/metrics"
        store = redis.Redis.from_url(addresses["REDIS_URL"])
        wait_until(lambda: lag_slots(store, url) is not None, (up,))
        time.sleep(WARM_UP_S)
        outcome = Outcome(rate, 0.0, [])
        swaps, cpu, began = _swaps(url), cpu_by_part(up), time.monotonic()
        reported = began
        while (now := time.monotonic()) - began < seconds:
            up.check()
            lag, slowest = lag_slots(store, url) or (10**6, "Redis")
            outcome.lags_slots.append(lag)
            if now - reported > 5 or lag >= LAG_SLOTS:
                reported = now
                progress(
                    f"{rate:.0f} swaps/s: {now - began:.0f} of {seconds:.0f} s, "
                    f"lag {lag} slots at {slowest}"
                )
            time.sleep(LOOK_EVERY_S)
        took = time.monotonic() - began
        outcome.swaps_per_second = (_swaps(url) - swaps) / took
        outcome.cores = cores(cpu, cpu_by_part(up), took)
        outcome.redis_bytes = int(store.info("memory")["used_memory"])
    return outcome


def lag_slots(store: redis.Redis, url: str) -> tuple[int, str] | None:
    """Return how far the lowest watermark is behind what ingest has published, and whose it is."""
    try:
        with store.pipeline(transaction=False) as asked:
            for key in _watermarks():
                asked.hget(key, "slot")
            marks = asked.execute()
    except RedisError:
        return None
    published = int(value(scrape(url), "soltape_ingest_published_slot"))
    if not published or None in marks:
        return None
    slot, slowest = min(zip(map(int, marks), _watermarks().values(), strict=True))
    return max(published - slot, 0), slowest


def _swaps(url: str) -> float:
    return value(scrape(url), "soltape_ingest_events_total", kind="swap")


def quantile(values: list[int], share: float) -> int:
    """Return the value that a share of all does not exceed."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@click.command("pipeline")
@click.option("--quick", is_flag=True, help="15 s at the first rate, no other: within a minute.")
@click.option("--rate", type=float, default=1_000.0, show_default=True, help="Swaps a second.")
@click.option(
    "--seconds", type=float, default=600.0, show_default=True, help="How long it is held."
)
@click.option(
    "--step-seconds", type=float, default=40.0, show_default=True, help="Of higher rates."
)
@click.option(
    "--pairs", type=click.IntRange(1), help="Alternate runs with and without the lane of accounts."
)
def pipeline(
    quick: bool, rate: float, seconds: float, step_seconds: float, pairs: int | None
) -> None:
    """Measure the whole pipeline: 1,000 swaps/s for ten minutes, then more until it falls behind.

    It falls behind when lag is five slots or more in one look of a hundred, of two a second, or
    less than 95 % of a rate arrives. Lag is that of the slowest partition of the stores.

    --pairs holds the one rate that many times with the lane of accounts and as often without.
    """
    if pairs is not None:
        _paired(rate, 15.0 if quick else seconds, pairs)
        return
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder:
        held = hold(rate, 15.0 if quick else seconds, Path(folder))
    steps: list[Outcome] = []
    for higher in () if quick else [each for each in RATES if each > rate]:
        with tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder:
            steps.append(hold(higher, step_seconds, Path(folder)))
        if not steps[-1].keeps_up:
            break
    behind = next((step.rate for step in steps if not step.keeps_up), None)
    report(
        "pipeline",
        round(held.swaps_per_second),
        "swaps/s",
        seconds=15.0 if quick else seconds,
        keeps_up=held.keeps_up,
        lag_limit_slots=LAG_SLOTS,
        falls_behind_at=behind,
        held=held.figures(),
        steps=[step.figures() for step in steps],
        runs=1,
    )
    if not held.keeps_up:
        raise BenchFailed(
            f"behind at {rate:.0f} swaps/s: {held.swaps_per_second:.0f} arrived, "
            f"lag p99 {quantile(held.lags_slots, 0.99)} slots"
        )


def _paired(rate: float, seconds: float, pairs: int) -> None:
    """Report the lag of the stores with the lane of accounts and without."""
    found: dict[bool, list[Outcome]] = {True: [], False: []}
    for has_accounts in order_of(pairs):
        with tempfile.TemporaryDirectory(prefix="soltape-bench-") as folder:
            options = () if has_accounts else (WITHOUT_ACCOUNTS,)
            found[has_accounts].append(hold(rate, seconds, Path(folder), *options))
    lags = {
        has_accounts: median([quantile(each.lags_slots, 0.99) for each in outcomes])
        for has_accounts, outcomes in found.items()
    }
    report(
        "pipeline with and without the lane of accounts",
        lags[True] - lags[False],
        "slots",
        seconds=seconds,
        rate=rate,
        cpus=os.cpu_count(),
        with_accounts=[each.figures() for each in found[True]],
        without_accounts=[each.figures() for each in found[False]],
        lag_slots_p99={"with_accounts": lags[True], "without_accounts": lags[False]},
        runs=pairs,
    )
