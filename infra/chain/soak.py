"""`soltape bench market`: simulated markets without a network, as fast as they go, checked."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import orjson

from infra.chain.market import Knobs, Market
from infra.chain.market.believable import Believable
from infra.chain.market.invariants import BrokenMarket, Invariants
from infra.chain.source import SlotCompleted, SlotTransactions
from schemas.times import HOUR_MS

LOOK_EVERY_SLOTS: Final = 25
SUPPLY_EVERY_SLOTS: Final = 4_500  # half an hour
_KNOBS: Final = Knobs()
_PAGE_BYTES: Final = resource.getpagesize()
_MIB: Final = 1 << 20


@click.command()
@click.option("--hours", type=click.FloatRange(0, min_open=True), default=0.25, show_default=True)
@click.option(
    "--rate",
    type=click.FloatRange(0, 20_000),
    default=_KNOBS.rate,
    show_default=True,
    help="transactions a simulated second",
)
@click.option("--seed", "first", type=click.IntRange(0), default=1, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="how many")
@click.option("--tempo", type=click.FloatRange(0, min_open=True), default=_KNOBS.tempo)
@click.option(
    "--bytes-every",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="transactions are serialized in one slot of so many",
)
@click.option(
    "--accounts/--no-accounts",
    default=True,
    show_default=True,
    help="what transactions wrote, where they are serialized",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="append each seed's line; seeds it already has with the same options are left out",
)
@click.option("--quick", is_flag=True, help="a simulated minute, whatever --hours says")
def market(
    hours: float,
    rate: float,
    first: int,
    seeds: int,
    tempo: float,
    bytes_every: int,
    accounts: bool,
    out: Path | None,
    quick: bool,
) -> None:
    """Run simulated markets and check that they stay markets.

    Prints one JSON line a seed: transactions, deviations of prices, what became of coins, memory
    and transactions a second of CPU, that of the checks left out. Ends with 1 if a price was out
    of bounds at a slot's end.
    """
    gc.freeze()
    if quick:
        hours = 1 / 60
    within = True
    for seed in range(first, first + seeds):
        knobs = Knobs(seed=seed, rate=rate, tempo=tempo)
        asked = {
            "seed": seed,
            "hours": hours,
            "rate": rate,
            "tempo": tempo,
            "bytes_every": bytes_every,
            "accounts": accounts,
        }
        found = _finished(out, asked) if out else None
        if found is None:
            try:
                found = {**asked, **run(knobs, hours, bytes_every, accounts=accounts)}
            except BrokenMarket as error:
                click.echo(f"soltape bench market: seed {seed}: {error}", err=True)
                sys.exit(1)
            if out:
                with out.open("ab") as lines:
                    lines.write(orjson.dumps(found) + b"\n")
        within = within and found["within_bounds"]
        click.echo(orjson.dumps(found))
    if not within:
        sys.exit(1)


def _finished(out: Path, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return the line of a run with the same options, if the file has one."""
    if not out.exists():
        return None
    for line in out.read_bytes().splitlines():
        found: dict[str, Any] = orjson.loads(line)
        if asked.items() <= found.items():
            return found
    return None


def run(knobs: Knobs, hours: float, bytes_every: int, *, accounts: bool = True) -> dict[str, Any]:
    """Run one market for so many simulated hours; raises BrokenMarket."""
    chain = Market(knobs, bytes_every=bytes_every, accounts=accounts)
    invariants, believable = Invariants(chain), Believable(chain.habits.curves)
    memory: list[tuple[float, float]] = []
    transactions = failed = 0
    checks_s = 0.0
    began_cpu, began = time.process_time(), time.monotonic()
    last = knobs.start_slot + round(hours * HOUR_MS / knobs.slot_ms)
    shown = began
    for event in _until(chain, last):
        if isinstance(event, SlotTransactions):
            transactions += len(event.transactions)
            failed += sum(each.failed for each in event.transactions)
            continue
        slot = event.header.slot - knobs.start_slot
        began_checks = time.process_time()
        invariants.check_prices()
        if slot % LOOK_EVERY_SLOTS == 0:
            time_ms = float(slot * knobs.slot_ms)
            believable.look(time_ms)
            invariants.check_pools()
            memory.append((time_ms / HOUR_MS, _rss_mib()))
        if slot % SUPPLY_EVERY_SLOTS == 0:
            invariants.check_supply()
        checks_s += time.process_time() - began_checks
        if sys.stderr.isatty() and time.monotonic() - shown > 1:
            shown = time.monotonic()
            done = slot * knobs.slot_ms / HOUR_MS
            click.echo(
                f"\rseed {knobs.seed}: {done:.2f} of {hours} h, {transactions} transactions ",
                err=True,
                nl=False,
            )
    cpu_s = time.process_time() - began_cpu - checks_s
    invariants.check_supply()
    ledger = chain.world.ledger
    return {
        "transactions": transactions,
        "failed": failed,
        "within_bounds": invariants.within_bounds,
        **invariants.figures(),
        **believable.figures(),
        "token_accounts": len(ledger.tokens),
        "mints": len(ledger.mints),
        "lamport_accounts": len(ledger.lamports),
        "rss_mib": round(_rss_mib(), 1),
        "rss_slope_mib_per_hour": _slope(memory[len(memory) // 3 :]),
        "cpu_s": round(cpu_s, 1),
        "checks_cpu_s": round(checks_s, 1),
        "seconds": round(time.monotonic() - began, 1),
        "transactions_per_cpu_s": round(transactions / cpu_s),
    }


def _until(chain: Market, last: int) -> Iterator[SlotTransactions | SlotCompleted]:
    for _, event in chain.stream():
        if isinstance(event, SlotTransactions | SlotCompleted):
            yield event
        if isinstance(event, SlotCompleted) and event.header.slot >= last:
            return


def _rss_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE_BYTES / _MIB


def _slope(points: list[tuple[float, float]]) -> float | None:
    """Return the least-squares slope; null for fewer than three points."""
    if len(points) < 3:
        return None
    hours, sizes = zip(*points, strict=True)
    mean_h, mean = sum(hours) / len(points), sum(sizes) / len(points)
    square: float = sum((hour - mean_h) ** 2 for hour in hours)
    product: float = sum((hour - mean_h) * (size - mean) for hour, size in points)
    return round(product / square, 2)
