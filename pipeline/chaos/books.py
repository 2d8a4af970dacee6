"""The oracle's books of wallets: netting, lots first in first out, positions and days.

Written from the rules as `pipeline.domain.netting`, `pipeline.domain.lots` and
`schemas.positions` state them: fractions, and lists that are walked from their beginning.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from typing import Any, Final, NamedTuple

from pipeline.chaos.movements import Movement, movements
from pipeline.chaos.truth import Slot, Tx
from pipeline.chaos.values import MONEY
from schemas.times import DAY_MS

CHUNK_LOTS: Final = 16
Swap = dict[str, Any]
Money = tuple[int, int]  # lamports, millionths of a dollar


class Trade(NamedTuple):
    """A wallet's net purchase or sale of a token in one transaction."""

    is_buy: bool
    quantity_raw: int
    value: Money | None
    event_index: int


@dataclass(slots=True)
class Lot:
    """What was bought or received at once."""

    number: int
    quantity_raw: int
    cost: Money | None
    slot: int
    tx_index: int
    time_ms: int
    taken_raw: int = 0

    def take(self, quantity_raw: int) -> Money | None:
        """Take a quantity, which it has, and return the cost of it."""
        before, after = self.taken_raw, self.taken_raw + quantity_raw
        self.taken_raw = after
        if self.cost is None:
            return None
        lamports, micros = (piece(c, before, after, self.quantity_raw) for c in self.cost)
        return lamports, micros

    def cost_left(self) -> Money:
        """Return the cost of what has not been taken; 0 where it is not known."""
        if self.cost is None:
            return 0, 0
        whole = self.quantity_raw
        lamports, micros = (piece(cost, self.taken_raw, whole, whole) for cost in self.cost)
        return lamports, micros


class At(NamedTuple):
    """Where something happened, and to what."""

    wallet: str
    mint: str
    signature: str
    slot: int
    tx_index: int
    event_index: int  # of the first leg that the wallet has in this token; 0 where there is none
    time_ms: int

    @property
    def day(self) -> int:
        """Days since the Unix epoch, UTC."""
        return self.time_ms // DAY_MS


class Match(NamedTuple):
    """What a disposal took of one lot; without a lot what was more than they hold."""

    at: At
    kind: str  # sale, transfer, burn
    lot: Lot | None
    quantity_raw: int
    cost: Money | None
    proceeds: Money | None


@dataclass(slots=True)
class Position:
    """A wallet's dealings in one token; `sums` has the fields of schemas.positions.Position."""

    lots: list[Lot] = field(default_factory=list)  # open ones, oldest first
    chunks: dict[int, list[Lot]] = field(default_factory=dict)  # full ones, as they became full
    day: int | None = None  # of its last change
    sums: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))


class Books:
    """All wallets' books, slot after slot."""

    def __init__(self) -> None:
        self.positions: defaultdict[tuple[str, str], Position] = defaultdict(Position)
        self.matches: list[Match] = []
        self.at_days_end: dict[tuple[str, str, int], dict[str, int]] = {}  # positions' sums
        # By wallet and day: sums by the names of schemas.positions.WalletDay.
        self.days: defaultdict[tuple[str, int], defaultdict[str, int]] = defaultdict(
            lambda: defaultdict(int)
        )

    def slot(self, slot: Slot) -> None:
        """Take the next slot; its swaps have been valued."""
        for tx in slot.transactions:
            moved = movements(tx)
            traded = net_trades(tx.swaps)
            for wallet, mint in sorted(moved.keys() | traded.keys()):
                trade = traded.get((wallet, mint))
                first_leg = trade.event_index if trade else 0
                at = At(
                    wallet,
                    mint,
                    tx.signature,
                    slot.slot,
                    tx.tx_index,
                    first_leg,
                    slot.block_time_ms,
                )
                self._apply(at, trade, moved.get((wallet, mint), Movement(0, 0, 0)))
            self._pay(slot, tx, traded)

    def finish(self) -> None:
        """Note all positions as they are now, which is the end of their last day."""
        for (wallet, mint), position in self.positions.items():
            self._end_day(wallet, mint, position)

    def _end_day(self, wallet: str, mint: str, position: Position) -> None:
        if position.day is not None:
            self.at_days_end[wallet, mint, position.day] = {**position.sums, **held(position)}

    def _apply(self, at: At, trade: Trade | None, moved: Movement) -> None:
        position = self.positions[at.wallet, at.mint]
        if position.day != at.day:
            self._end_day(at.wallet, at.mint, position)
            position.day = at.day
        sums, day = position.sums, self.days[at.wallet, at.day]
        sums["changed_slot"] = day["changed_slot"] = at.slot
        for name, raw in moved._asdict().items():
            sums[name] += raw
        if moved.received_raw:
            open_lot(position, at, moved.received_raw, None)
        if trade:
            self._trade(position, at, trade)
        for lot, quantity_raw in dispose(position, moved.sent_raw):
            if lot is not None:
                cost = lot.take(quantity_raw)
                self.matches.append(Match(at, "transfer", lot, quantity_raw, cost, None))
        if moved.burned_raw:
            self._realize(position, at, "burn", moved.burned_raw, (0, 0))

    def _trade(self, position: Position, at: At, trade: Trade) -> None:
        sums = position.sums
        if not sums["buys"] + sums["sells"]:
            sums["first_trade_slot"], sums["first_trade_ms"] = at.slot, at.time_ms
        sums["last_trade_slot"], sums["last_trade_ms"] = at.slot, at.time_ms
        name, count = ("bought", "buys") if trade.is_buy else ("sold", "sells")
        sums[f"{name}_raw"] += trade.quantity_raw
        for total in (sums, self.days[at.wallet, at.day]):
            total[count] += 1
            if trade.value is not None:
                total[f"{name}_lamports"] += trade.value[0]
                total[f"{name}_usd_micros"] += trade.value[1]
        if trade.is_buy:
            open_lot(position, at, trade.quantity_raw, trade.value)
        else:
            self._realize(position, at, "sale", trade.quantity_raw, trade.value)

    def _realize(
        self, position: Position, at: At, kind: str, quantity_raw: int, proceeds: Money | None
    ) -> None:
        done = gain = unmatched_raw = 0
        day = self.days[at.wallet, at.day]
        for lot, taken_raw in dispose(position, quantity_raw):
            cost = lot.take(taken_raw) if lot is not None else None
            part: Money | None = None
            if proceeds is not None:
                lamports, micros = (
                    piece(total, done, done + taken_raw, quantity_raw) for total in proceeds
                )
                part = lamports, micros
            done += taken_raw
            self.matches.append(Match(at, kind, lot, taken_raw, cost, part))
            if cost is None or part is None:
                unmatched_raw += taken_raw
                continue
            gain += part[1] - cost[1]
            for total in (position.sums, day):
                total["matched_proceeds_lamports"] += part[0]
                total["matched_proceeds_usd_micros"] += part[1]
                total["matched_cost_lamports"] += cost[0]
                total["matched_cost_usd_micros"] += cost[1]
        position.sums["unmatched_raw"] += unmatched_raw
        if kind == "sale":
            for total in (position.sums, day):
                total["wins"] += gain > 0
                total["losses"] += gain < 0
            day["unmatched_sales"] += unmatched_raw > 0

    def _pay(self, slot: Slot, tx: Tx, traded: dict[tuple[str, str], Trade]) -> None:
        """Put fee and tip to the fee payer's first net trade, else to the day alone."""
        if not any(swap["wallet"] == swap["fee_payer"] for swap in tx.swaps):
            return
        payer, day = tx.swaps[0]["fee_payer"], slot.block_time_ms // DAY_MS
        targets: list[dict[str, int]] = [self.days[payer, day]]
        targets[0]["changed_slot"] = slot.slot
        first = next((mint for wallet, mint in traded if wallet == payer), None)
        if first is not None:
            targets.append(self.positions[payer, first].sums)
        for target in targets:
            for name in ("fee_lamports", "priority_fee_lamports", "tip_lamports"):
                target[name] += tx.swaps[0][name]


def held(position: Position) -> dict[str, int]:
    """Return the figures that follow from the open lots."""
    known = [lot for lot in position.lots if lot.cost is not None]
    costs = [lot.cost_left() for lot in known]
    return {
        "held_raw": sum(lot.quantity_raw - lot.taken_raw for lot in position.lots),
        "held_known_raw": sum(lot.quantity_raw - lot.taken_raw for lot in known),
        "head_taken_raw": position.lots[0].taken_raw if position.lots else 0,
        "held_cost_lamports": sum(lamports for lamports, _ in costs),
        "held_cost_usd_micros": sum(micros for _, micros in costs),
    }


def open_lot(position: Position, at: At, quantity_raw: int, cost: Money | None) -> None:
    """Append what was bought, or received without a cost."""
    number = position.sums["lots_opened"]
    position.sums["lots_opened"] += 1
    position.lots.append(Lot(number, quantity_raw, cost, at.slot, at.tx_index, at.time_ms))
    chunk = [lot for lot in position.lots if lot.number // CHUNK_LOTS == number // CHUNK_LOTS]
    if (number + 1) % CHUNK_LOTS == 0:
        position.chunks[number // CHUNK_LOTS] = chunk


class Leg(NamedTuple):
    """One side of a swap: a token that comes in or goes out, against another."""

    is_in: bool
    quantity_raw: int
    worth: Money | None
    event_index: int
    other: str


Key = tuple[str, str]  # wallet, mint


def net_trades(swaps: list[Swap]) -> dict[Key, Trade]:
    """Return the net trades of a transaction, in the order in which their tokens come up."""
    legs: defaultdict[Key, list[Leg]] = defaultdict(list)
    for swap in swaps:
        worth, at = value_for_wallet(swap), swap["event_index"]
        base, quote, buys = swap["mint"], swap["quote_mint"], swap["side"] == "buy"
        amounts = swap["wallet_amount_raw"], swap["wallet_quote_amount_raw"]
        legs[swap["wallet"], base].append(Leg(buys, amounts[0], worth, at, quote))
        legs[swap["wallet"], quote].append(Leg(not buys, amounts[1], worth, at, base))
    found: dict[Key, Trade] = {}
    for key, moved in legs.items():
        came_in = sum(leg.quantity_raw for leg in moved if leg.is_in)
        went_out = sum(leg.quantity_raw for leg in moved if not leg.is_in)
        if came_in == went_out or key[1] in MONEY:
            continue
        is_buy = came_in > went_out
        values = [leg.worth for leg in moved if leg.is_in == is_buy]
        net = abs(came_in - went_out)
        value: Money | None = None
        if None not in values:
            share = Fraction(net, max(came_in, went_out))
            value = (
                floor(share * sum(worth[0] for worth in values if worth)),
                floor(share * sum(worth[1] for worth in values if worth)),
            )
        found[key] = Trade(is_buy, net, value, moved[0].event_index)
    losses = {key: lost for key, moved in legs.items() if (lost := lost_on(moved)) is not None}
    by_purchases = {key: reached(key, True, legs, losses) for key in found if found[key].is_buy}
    taken = frozenset[Key]().union(*by_purchases.values())
    left = {key: lost for key, lost in losses.items() if key not in taken}
    by_sales = {key: reached(key, False, legs, left) for key in found if not found[key].is_buy}
    return {
        key: bearing(trade, of[key], [*of.values()], losses)
        for key, trade in found.items()
        for of in (by_purchases if trade.is_buy else by_sales,)
    }


def lost_on(moved: Sequence[Leg]) -> Money | None:
    """Return what was lost on a token that passed through a wallet; None: it did not."""
    ins, outs = ([leg for leg in moved if leg.is_in == way] for way in (True, False))
    quantities = [sum(leg.quantity_raw for leg in way) for way in (ins, outs)]
    if not quantities[0] or quantities[0] != quantities[1]:
        return None
    if {leg.other for leg in ins} & {leg.other for leg in outs}:
        return None
    worths = [[leg.worth for leg in way if leg.worth is not None] for way in (ins, outs)]
    if len(worths[0]) + len(worths[1]) < len(moved):
        return None
    came, went = ((sum(each[0] for each in way), sum(each[1] for each in way)) for way in worths)
    return came[0] - went[0], came[1] - went[1]


def reached(
    key: Key, is_in: bool, legs: Mapping[Key, Sequence[Leg]], passing: Collection[Key]
) -> frozenset[Key]:
    """Return the tokens that led to a purchase, step by step; or that a sale led to."""
    found: set[Key] = set()
    edge = {key}
    while edge:
        others = {(key[0], leg.other) for at in edge for leg in legs[at] if leg.is_in == is_in}
        edge = {other for other in others if other in passing} - found
        found |= edge
    return frozenset(found)


def bearing(
    trade: Trade,
    own: frozenset[Key],
    of_all: Sequence[frozenset[Key]],
    losses: Mapping[Key, Money],
) -> Trade:
    """Return a trade with what was lost on the way that no other trade of its side shares."""
    if trade.value is None:
        return trade
    sign = 1 if trade.is_buy else -1
    alone = [losses[key] for key in own if sum(key in each for each in of_all) == 1]
    lamports, micros = (trade.value[at] + sign * sum(each[at] for each in alone) for at in (0, 1))
    return trade._replace(value=(max(0, lamports), max(0, micros)))


def value_for_wallet(swap: Swap) -> Money | None:
    """Return what a leg was worth to its wallet."""
    lamports, micros = swap["sol_value_lamports"], swap["usd_value_micros"]
    if lamports is None or micros is None:
        return None
    if not swap["quote_amount_raw"]:
        return lamports, micros
    part = Fraction(swap["wallet_quote_amount_raw"], swap["quote_amount_raw"])
    return floor(lamports * part), floor(micros * part)


def dispose(position: Position, quantity_raw: int) -> list[tuple[Lot | None, int]]:
    """Return which lots a quantity is taken from, and how much of each; None: of no lot."""
    found: list[tuple[Lot | None, int]] = []
    left = quantity_raw
    while left and position.lots:
        lot = position.lots[0]
        rest = lot.quantity_raw - lot.taken_raw
        taken = min(left, rest)
        found.append((lot, taken))
        left -= taken
        if taken < rest:
            break
        position.lots.pop(0)
        position.sums["lots_closed"] += 1
        if position.sums["lots_closed"] % CHUNK_LOTS == 0:
            position.chunks.pop(lot.number // CHUNK_LOTS, None)
    if left:
        found.append((None, left))
    return found


def piece(total: int, start: int, end: int, whole: int) -> int:
    """Return what falls to a piece of a total that is spread over a whole: floors, conserved."""
    return total * end // whole - total * start // whole
