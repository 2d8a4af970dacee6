"""The ground truth of the simulated market, read back: its slots in order, and what is in them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

_NEWEST_BYTES: Final = 1 << 18


@dataclass(slots=True)
class Tx:
    """A transaction that succeeded and names a venue's program."""

    signature: str
    tx_index: int
    swaps: list[dict[str, Any]] = field(default_factory=list)  # ascending by event_index
    creations: list[dict[str, Any]] = field(default_factory=list)
    migrations: list[dict[str, Any]] = field(default_factory=list)
    perps: list[dict[str, Any]] = field(default_factory=list)
    funding: list[dict[str, Any]] = field(default_factory=list)
    flow: dict[str, Any] = field(default_factory=dict)

    @property
    def pools(self) -> set[str]:
        """All pools and curves that its events name."""
        events = (*self.swaps, *self.creations, *self.migrations)
        return {e["pool"] for e in events} | {e["from_pool"] for e in self.migrations}


@dataclass(slots=True)
class Slot:
    """A slot of the canonical chain, or one that was confirmed and then rolled back."""

    slot: int
    parent: int
    blockhash: str
    block_time_ms: int
    transactions: list[Tx] = field(default_factory=list)  # ascending by tx_index
    rolled_back: bool = False


def read(path: Path) -> list[Slot]:
    """Return the slots that were confirmed, ascending; a last line that is cut off is left out."""
    slots: dict[int, Slot] = {}
    found: defaultdict[int, dict[int, Tx]] = defaultdict(dict)
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            row = orjson.loads(line)
            number = row.get("slot")
            if row["kind"] == "slot":
                rolled_back = row.get("rolled_back", False)
                if row["canonical"] or rolled_back:
                    slots[number] = Slot(
                        number,
                        row["parent"],
                        row["blockhash"],
                        row["block_time_ms"],
                        rolled_back=rolled_back,
                    )
                continue
            if "canonical" not in row:
                continue
            transactions = found[number]
            tx = transactions.get(row["tx_index"])
            if tx is None:
                tx = transactions[row["tx_index"]] = Tx(row["signature"], row["tx_index"])
            match row["kind"]:
                case "swap":
                    tx.swaps.append(_with_integers(row))
                case "creation":
                    tx.creations.append(_with_integers(row))
                case "migration":
                    tx.migrations.append(_with_integers(row))
                case "perp":
                    tx.perps.append(row)
                case "funding":
                    tx.funding.append(row)
                case "flow":
                    tx.flow = row
    for number, slot in slots.items():
        slot.transactions = [
            tx for _, tx in sorted(found[number].items()) if tx.flow and tx.flow["seen"]
        ]
        for tx in slot.transactions:
            tx.swaps.sort(key=lambda swap: swap["event_index"])
    return sorted(slots.values(), key=lambda slot: slot.slot)


def newest_swaps(file: Path, most: int) -> list[dict[str, Any]]:
    """Return some of the last swaps of a market that goes on, of whatever fork."""
    with file.open("rb") as source:
        source.seek(max(file.stat().st_size - _NEWEST_BYTES, 0))
        lines = source.read().splitlines()[1:-1]
    rows = (orjson.loads(line) for line in reversed(lines) if b'"swap"' in line)
    swaps = (row for row in rows if row["kind"] == "swap")
    return list(itertools.islice(swaps, most))


def without(
    slots: Iterable[Slot], gaps: Collection[tuple[int, int]], had: Collection[int]
) -> list[Slot]:
    """Return the slots but for those in gaps (first and last slot), if they were not had.

    One that was rolled back had to be seen while it was confirmed.
    """
    return [
        slot
        for slot in slots
        if slot.slot in had
        or not (slot.rolled_back or any(first <= slot.slot <= last for first, last in gaps))
    ]


def named_in(slot: Slot) -> set[str]:
    """Return the addresses that a slot's events and flows name."""
    found: set[str] = set()
    waiting: list[Any] = [
        row
        for tx in slot.transactions
        for row in (*tx.swaps, *tx.creations, *tx.migrations, *tx.perps, *tx.funding, tx.flow)
    ]
    while waiting:
        match waiting.pop():
            case str(value) if 32 <= len(value) <= 44:
                found.add(value)
            case dict(row):
                waiting += [*row.keys(), *row.values()]
            case list(values):
                waiting += values
    return found


def unnamed(slots: Iterable[Slot], gaps: Iterable[tuple[int, int, Collection[str]]]) -> list[str]:
    """Return which rolled-back slots no gap names, or not with all wallets that traded in them.

    A gap without wallets is about all of them.
    """
    found = []
    of_gaps = list(gaps)
    for slot in slots:
        if not slot.rolled_back:
            continue
        traders = {
            event["wallet"]
            for tx in slot.transactions
            for event in (*tx.swaps, *tx.perps, *tx.funding)
            if not event.get("lost")
        }
        if not any(
            first <= slot.slot <= last and (not wallets or traders <= {*wallets})
            for first, last, wallets in of_gaps
        ):
            found.append(f"slot {slot.slot}")
    return found


def _with_integers(row: dict[str, Any]) -> dict[str, Any]:
    for name, value in row.items():
        if isinstance(value, str) and name.endswith(("_raw", "_lamports", "liquidity", "_x64")):
            row[name] = int(value)
    return row
