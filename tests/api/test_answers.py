"""The shapes of answers: raw integers and the human numbers that stand beside them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any, get_type_hints

import pytest
from typing_extensions import is_typeddict

import api
from api.wallets.position_answers import CompactPosition, PositionOf

PAIRS = (("_lamports", "_sol"), ("_usd_micros", "_usd"))
ALONE = {
    "price_sol", "price_usd", "average_entry_sol", "average_entry_usd", "market_cap_usd",
    "liquidity_usd", *(f"{name}_{unit}" for name in ("open", "high", "low", "close")
    for unit in ("sol", "usd")),
}  # fmt: skip
"""Prices, and what is computed from them."""
BY_THE_PROTOCOL = ("PerpAnswer", "MarginAnswer")
"""Ratios of a protocol's prices and weights; what they come to is in the position's assets."""
OF_THE_STREAMS = {"sol_value_lamports": "sol_value", "usd_value_micros": "usd_value"}


def shapes() -> Iterator[Any]:
    for found in pkgutil.walk_packages(api.__path__, "api."):
        if not found.name.endswith("answers"):
            continue
        module = importlib.import_module(found.name)
        for shape in vars(module).values():
            # A compact position has numbers alone: integers are in the full one.
            if shape is CompactPosition:
                continue
            if is_typeddict(shape) and shape.__module__ == module.__name__:
                yield shape


def test_a_compact_position_has_few_fields_with_the_types_of_the_full_one() -> None:
    full, compact = get_type_hints(PositionOf), get_type_hints(CompactPosition)
    assert len(compact) == 16
    assert compact.items() - full.items() == {("win_rate_pct", float | None)}


@pytest.mark.parametrize("shape", [*shapes()], ids=lambda shape: shape.__qualname__)
def test_money_is_a_raw_integer_and_a_number(shape: Any) -> None:
    hints = get_type_hints(shape)
    for name, hint in hints.items():
        if name.endswith(("lamports", "_micros", "_raw")):
            assert hint in (str, str | None), f"{name}: an integer of the chain is text"
        if name in OF_THE_STREAMS:
            assert OF_THE_STREAMS[name] in hints
            continue
        for raw, human in PAIRS:
            if name.endswith(raw):
                assert name.removesuffix(raw) + human in hints, name
            elif name.endswith(human) and not (name in ALONE or shape.__name__ in BY_THE_PROTOCOL):
                assert name.removesuffix(human) + raw in hints, name
