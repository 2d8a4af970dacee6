"""What the simulated programs believe of demo wallets, compared with answers of the API.

The ledger of the market writes it down slot by slot from when the market rests.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import orjson

from pipeline.chaos.differences import Differences

KIND: Final = "position in the ledger"
_WITHIN: Final = Fraction(1, 10**8)  # of a ratio, which the API answers as a number

Row = dict[str, Any]
Position = tuple[str, str, str, str]  # wallet, protocol's name, route, id


@dataclass(slots=True)
class Figures:
    """What demo wallets have at the end of a slot, by the ledger."""

    slot: int
    time_s: int
    positions: dict[Position, Row]


def read(file: Path, slot: int) -> Figures | None:
    """Return the figures of a slot, None where there are none."""
    with file.open("rb") as lines:
        for line in lines:
            row = orjson.loads(line) if line.endswith(b"\n") else {}
            if row.get("slot") == slot:
                return of_record(row)
    return None


def of_record(row: Mapping[str, Any]) -> Figures:
    """Return the figures of a line."""
    positions = {
        (each["wallet"], each["protocol"], each["route"], each["id"]): each
        for each in row["positions"]
    }
    return Figures(row["slot"], row["time_s"], positions)


def compare(figures: Figures, answers: Mapping[Position, Row], found: Differences) -> None:
    """Note where answered positions differ from the ledger's; `answers` may have more of them."""
    wanted: dict[Position, Row] = {}
    got: dict[Position, Row] = {}
    for key, position in figures.positions.items():
        wanted[key] = {"assets": sorted(position["assets"]), **position["figures"]}
        answer = answers.get(key)
        if answer is None:
            continue
        roles = position.get("roles")
        got[key] = {"assets": sorted(_lines(answer, roles))} | {
            name: _unless_near(figure, _at(answer, name))
            for name, figure in position["figures"].items()
        }
    found.maps(KIND, wanted, got)


def _lines(answer: Mapping[str, Any], roles: Collection[str] | None) -> list[list[Any]]:
    return [
        [each["role"], each["mint"], each["amount_raw"]]
        for each in answer["assets"]
        if roles is None or each["role"] in roles
    ]


def _at(answer: Mapping[str, Any], name: str) -> Any:
    """Return the field of a block, as `health.ltv`; None where there is no such block."""
    block, _, field = name.partition(".")
    return None if answer[block] is None else answer[block][field]


def _unless_near(figure: Any, answered: Any) -> Any:
    """Return what was answered, or the ledger's ratio where that is as near as a number can be."""
    if isinstance(figure, dict) and isinstance(answered, int | float):
        ratio = Fraction(figure["ratio"])
        if abs(Fraction(answered) - ratio) <= abs(ratio) * _WITHIN:
            return figure
    return answered
