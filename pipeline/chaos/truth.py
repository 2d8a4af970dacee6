"""The ground truth of the simulated market, read back: its slots in order, and what is in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson


@dataclass(slots=True)
class Tx:
    """A transaction that succeeded and names a venue's program."""

    signature: str
    tx_index: int
    swaps: list[dict[str, Any]] = field(default_factory=list)  # ascending by event_index
    creations: list[dict[str, Any]] = field(default_factory=list)
    migrations: list[dict[str, Any]] = field(default_factory=list)
    flow: dict[str, Any] = field(default_factory=dict)

    @property
    def pools(self) -> set[str]:
        """All pools and curves that its events name."""
        events = (*self.swaps, *self.creations, *self.migrations)
        return {e["pool"] for e in events} | {e["from_pool"] for e in self.migrations}


@dataclass(slots=True)
class Slot:
    """A slot of the canonical chain."""

    slot: int
    parent: int
    blockhash: str
    block_time_ms: int
    transactions: list[Tx] = field(default_factory=list)  # ascending by tx_index


def read(path: Path) -> list[Slot]:
    """Return the canonical slots, ascending; a last line that is cut short is left out."""
    slots: dict[int, Slot] = {}
    found: defaultdict[int, dict[int, Tx]] = defaultdict(dict)
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            row = orjson.loads(line)
            if not row.get("canonical"):
                continue
            number = row["slot"]
            if row["kind"] == "slot":
                slots[number] = Slot(number, row["parent"], row["blockhash"], row["block_time_ms"])
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
                case "flow":
                    tx.flow = row
    for number, slot in slots.items():
        slot.transactions = [
            tx for _, tx in sorted(found[number].items()) if tx.flow and tx.flow["seen"]
        ]
        for tx in slot.transactions:
            tx.swaps.sort(key=lambda swap: swap["event_index"])
    return sorted(slots.values(), key=lambda slot: slot.slot)


def without(
    slots: Iterable[Slot], gaps: Collection[tuple[int, int]], had: Collection[int]
) -> list[Slot]:
    """Return the slots but for those in gaps (first and last slot), if they were not had."""
    return [
        slot
        for slot in slots
        if slot.slot in had or not any(first <= slot.slot <= last for first, last in gaps)
    ]


def _with_integers(row: dict[str, Any]) -> dict[str, Any]:
    for name, value in row.items():
        if isinstance(value, str) and name.endswith(("_raw", "_lamports", "liquidity", "_x64")):
            row[name] = int(value)
    return row
