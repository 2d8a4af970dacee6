"""From holdings and positions to what a wallet is worth, nothing counted twice."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from api.analysis.answers import Category, NetWorth, WorthReason
from api.positions.answers import AggregatePositions, PositionRecord
from api.positions.records import has_unknown
from api.wallets.answers import Holdings
from api.wallets.held import HeldAccount, HeldAccounts
from schemas.amounts import text, usd
from schemas.protocols.contract import Shape

ShapeOf = Callable[[str, str], Shape | None]
"""From slug and route to the shape of its positions; None where no protocol's file has it."""

_ORDER: Final = tuple(Shape)


def amounts_of(held: HeldAccounts) -> dict[str, int]:
    """Return what accounts hold, by mint: mint -> raw amount, above 0."""
    found: dict[str, int] = {}
    for each in held.tokens:
        found[each.mint] = found.get(each.mint, 0) + each.amount_raw
    return {mint: amount_raw for mint, amount_raw in found.items() if amount_raw}


def without(held: HeldAccounts, amounts: Mapping[str, int]) -> tuple[HeldAccounts, dict[str, int]]:
    """Return what accounts hold without raw amounts of mints, and what was taken out of them.

    No more is taken out than there is. A mint's accounts give in their order.
    """
    left, taken = dict(amounts), Counter[str]()
    tokens: list[HeldAccount] = []
    for each in held.tokens:
        part = min(left.get(each.mint, 0), each.amount_raw)
        if part:
            left[each.mint] -= part
            taken[each.mint] += part
        if not part or part < each.amount_raw:
            tokens.append(replace(each, amount_raw=each.amount_raw - part) if part else each)
    return replace(held, tokens=tokens), dict(taken)


def net_worth(
    holdings: Holdings, found: AggregatePositions, *, moved: bool, outdated: bool = False
) -> NetWorth:
    """Return what a wallet is worth; a part that is not known makes all of it null.

    Beside it is the sum of what is known, unless a deposit may be in it twice. `moved`: tokens did
    while positions were read. `outdated`: SOL may have become what is known better than SOL is.
    """
    positions = found["positions"]
    reasons: list[WorthReason] = []
    native, covered = holdings["native"], holdings["coverage"]
    has_all = covered["known_accounts"] == covered["read_accounts"]
    if not (covered["is_complete"] and has_all) or native is None:
        reasons.append("holdings_incomplete")
    elif native["value_usd_micros"] is None:
        reasons.append("holdings_unpriced")
    coverage = found["coverage"]
    has_read = coverage["known_accounts"] == coverage["read_accounts"]
    if found["errors"] or not has_read:
        reasons.append("positions_incomplete")
    known = [each for each in positions if not has_unknown(each)]
    if len(known) < len(positions):
        reasons.append("positions_unknown")
    if moved:
        reasons.append("moved_while_read")
    if outdated:
        reasons.append("native_outdated")
    held = int(holdings["total_value_usd_micros"] or 0)
    had = held + _sum(known, "supplied_usd_micros") + _sum(known, "rewards_usd_micros")
    owed = _sum(known, "borrowed_usd_micros")
    # Of two readings, which incomplete ones may be, a deposit is in both or in neither.
    is_one = has_read and not (moved or outdated) and "holdings_incomplete" not in reasons
    known_micros = had - owed if is_one else None
    assets, debts, value = (None, None, None) if reasons else (had, owed, known_micros)
    return {
        "value_usd": usd(value),
        "value_usd_micros": text(value),
        "assets_usd": usd(assets),
        "assets_usd_micros": text(assets),
        "debts_usd": usd(debts),
        "debts_usd_micros": text(debts),
        "known_usd": usd(known_micros),
        "known_usd_micros": text(known_micros),
        "unknown_positions": len(positions) - len(known),
        "unpriced": found["unpriced"],
        "reasons": reasons,
    }


def categories(found: AggregatePositions, shape_of: ShapeOf) -> list[Category]:
    """Return the positions by the shape of their routes; a shape without any is left out."""
    by_shape: defaultdict[Shape | None, list[PositionRecord]] = defaultdict(list)
    for position in found["positions"]:
        by_shape[shape_of(position["protocol"], position["route"])].append(position)
    unread = {
        shape_of(each["protocol"], route)
        for each in found["protocols"]
        if not each["is_complete"]
        for route in each["routes"]
    }
    pending = {shape_of(each["protocol"], each["route"]) for each in found["pending"]}
    return [
        _category(shape, own, is_read=shape not in unread, is_pending=shape in pending)
        for shape in _ORDER
        if (own := by_shape[shape])
    ]


def _category(
    shape: Shape, own: Sequence[PositionRecord], *, is_read: bool, is_pending: bool
) -> Category:
    """Return a kind of positions; `is_pending`: a route of it is read by nothing yet."""
    known = [each for each in own if not has_unknown(each)]
    values = [each["value_usd_micros"] for each in known]
    priced = [int(each) for each in values if each is not None]
    known_micros = sum(priced) if priced else None
    value = known_micros if is_read and len(known) == len(own) else None
    return {
        "category": shape.value,
        "position_count": len(own),
        "value_usd": usd(value),
        "value_usd_micros": text(value),
        "known_usd": usd(known_micros),
        "known_usd_micros": text(known_micros),
        "unknown_positions": len(own) - len(known),
        "is_complete": is_read and not is_pending,
    }


def _sum(
    positions: Collection[PositionRecord],
    of: Literal["supplied_usd_micros", "borrowed_usd_micros", "rewards_usd_micros"],
) -> int:
    return sum(int(each[of] or 0) for each in positions)
