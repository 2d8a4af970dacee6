"""What the transactions of a slot did to wallets: one net trade per wallet and token.

- The legs of a transaction are added up per wallet and token: what came in and what it was worth,
  what went out likewise. More in than out: a purchase of the difference, at the value of what
  came in, cut to the same share (floor). More out than in: a sale likewise. As much out as in:
  no trade. So a route A -> B -> C is a sale of A and a purchase of C.
- A leg moves what the wallet gave or received, and is worth the leg's value cut to the wallet's
  part of the quote: floor(value * wallet_quote_amount_raw / quote_amount_raw). A token that serves
  as the quote takes part on the other side of the leg at the same value.
- What passes through, as much in as out and against other tokens, makes no trade, but may have
  cost: fees of a leg that is not the last, or a part of it that somebody else took. What it was
  worth as it came in, above what it was worth as it went out, is added to the cost of the purchase
  that it led to; where it led to none, it is taken off what the sale brought that it came from.
  Where several purchases, or several sales, share it, none bears it. What is bought and sold back
  against the same token is no such route. SOL that is changed into dollars for a purchase counts as
  the dollars, as that leg does.
- SOL and dollar coins are money: they have no lots, and changing one into the other is no trade.
- A leg whose value is not known in SOL or in dollars makes its side of the sum not known; so does
  a value beyond 64 bits. A net quantity beyond 64 bits is more than any token's supply: no trade.
- Fee and tip belong to the fee payer, with its first net trade of the transaction, or alone where
  it traded without a net trade. A wallet whose transaction somebody else pays for (sponsored) has
  paid none: its partition cannot know whether the payer traded too, and a fee counts once.
- What moved beside the swaps comes in the order received, traded, sent, burned.

The messages are read field by field where they lie: this runs for every swap.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from schemas.money import MONEY
from schemas.proto.tape_pb2 import Movement, SlotBatch, Swap

BUY: Final = 1
SELL: Final = 2  # as Side in tape.proto
NO_TOKEN: Final = ""
U64_MAX: Final = 2**64 - 1

_Key = tuple[str, str]  # wallet, mint


@dataclass(slots=True)
class Flow:
    """What one transaction did to a wallet's holding of one token."""

    tx_index: int
    event_index: int  # of the first leg; 0 where there is none
    signature: str
    wallet: str
    mint: str  # NO_TOKEN: only a fee
    side: int = 0  # BUY, SELL, or 0: no trade
    quantity_raw: int = 0
    lamports: int | None = None  # what was paid or taken in; None where it is not known
    usd_micros: int | None = None
    received_raw: int = 0
    sent_raw: int = 0
    burned_raw: int = 0
    fee_lamports: int = 0  # base + priority
    priority_fee_lamports: int = 0
    tip_lamports: int = 0


def flows(batch: SlotBatch) -> list[Flow]:
    """Return the flows of a slot's wallets, ascending by transaction."""
    swaps = [event.swap for event in batch.events if event.HasField("swap")]
    found: list[Flow] = []
    first, count = 0, len(swaps)
    while first < count:
        swap = swaps[first]
        tx_index = swap.tx_index
        end = first + 1
        while end < count and swaps[end].tx_index == tx_index:
            end += 1
        if end - first == 1 and swap.quote_mint in MONEY:
            _single(swap, tx_index, found)
        else:
            _net(swaps[first:end], tx_index, found)
        first = end
    if batch.movements:
        return _with_movements(found, batch)
    return found


def value(swap: Swap) -> tuple[int | None, int | None]:
    """Return what a leg was worth to its wallet, in lamports and in millionths of a dollar."""
    lamports, usd_micros = swap.sol_value_lamports, swap.usd_value_micros
    if not (lamports and usd_micros) and not (
        swap.HasField("sol_value_lamports") and swap.HasField("usd_value_micros")
    ):
        return None, None
    whole, part = swap.quote_amount_raw, swap.wallet_quote_amount_raw
    if part != whole and whole:
        lamports, usd_micros = lamports * part // whole, usd_micros * part // whole
        if lamports > U64_MAX or usd_micros > U64_MAX:
            return None, None
    return lamports, usd_micros


def _single(swap: Swap, tx_index: int, found: list[Flow]) -> None:
    """The common case: one leg, a token for money."""
    wallet, mint, quantity_raw = swap.wallet, swap.mint, swap.wallet_amount_raw
    flow = Flow(tx_index, swap.event_index, swap.signature, wallet, mint)
    if quantity_raw and mint not in MONEY:
        flow.side = swap.side
        flow.quantity_raw = quantity_raw
        flow.lamports, flow.usd_micros = value(swap)
        found.append(flow)
        if wallet != swap.fee_payer:
            return
    elif wallet == swap.fee_payer:
        flow.mint = NO_TOKEN
        found.append(flow)
    else:
        return
    flow.fee_lamports = swap.fee_lamports
    flow.priority_fee_lamports = swap.priority_fee_lamports
    flow.tip_lamports = swap.tip_lamports


class _Sum:
    """What came in and what went out of one token for one wallet; a value of None stays None."""

    __slots__ = ("against", "event_index", "quantities", "values")

    def __init__(self, event_index: int) -> None:
        self.event_index = event_index
        self.quantities = [0, 0]  # in, out
        self.values: list[tuple[int, int] | None] = [(0, 0), (0, 0)]
        self.against: tuple[set[str], set[str]] = (set(), set())

    def add(
        self,
        goes_out: bool,
        quantity_raw: int,
        against: str,
        lamports: int | None,
        usd_micros: int | None,
    ) -> None:
        self.quantities[goes_out] += quantity_raw
        self.against[goes_out].add(against)
        before = self.values[goes_out]
        if lamports is None or usd_micros is None or before is None:
            self.values[goes_out] = None
        else:
            self.values[goes_out] = (before[0] + lamports, before[1] + usd_micros)

    def lost(self) -> tuple[int, int] | None:
        """Return what was lost of a token that passed through; None: it did not, or not known."""
        came, went = self.values
        quantity_raw, out_raw = self.quantities
        if came is None or went is None or not quantity_raw or quantity_raw != out_raw:
            return None
        if not self.against[0].isdisjoint(self.against[1]):
            return None
        return came[0] - went[0], came[1] - went[1]


def _net(legs: list[Swap], tx_index: int, found: list[Flow]) -> None:
    sums: dict[_Key, _Sum] = {}
    for leg in legs:
        lamports, usd_micros = value(leg)
        wallet, event_index, sells = leg.wallet, leg.event_index, leg.side == SELL
        base, quote = leg.mint, leg.quote_mint
        for mint, quantity_raw, against, goes_out in (
            (base, leg.wallet_amount_raw, quote, sells),
            (quote, leg.wallet_quote_amount_raw, base, not sells),
        ):
            total = sums.get((wallet, mint))
            if total is None:
                total = sums[wallet, mint] = _Sum(event_index)
            total.add(goes_out, quantity_raw, against, lamports, usd_micros)
    first = legs[0]
    signature = first.signature
    paying: Flow | None = None
    trades: list[Flow] = []
    for (wallet, mint), total in sums.items():
        came_in, went_out = total.quantities
        if mint in MONEY or came_in == went_out or abs(came_in - went_out) > U64_MAX:
            continue
        goes_out = went_out > came_in
        net, gross = abs(came_in - went_out), max(came_in, went_out)
        flow = Flow(tx_index, total.event_index, signature, wallet, mint)
        flow.side = SELL if goes_out else BUY
        flow.quantity_raw = net
        if (worth := total.values[goes_out]) is not None:
            lamports, usd_micros = worth[0] * net // gross, worth[1] * net // gross
            if lamports <= U64_MAX and usd_micros <= U64_MAX:
                flow.lamports, flow.usd_micros = lamports, usd_micros
        trades.append(flow)
        if paying is None and wallet == first.fee_payer:
            paying = flow
    if trades:
        _bear(trades, sums)
        found += trades
    if paying is None:
        if all(leg.wallet != first.fee_payer for leg in legs):
            return
        paying = Flow(tx_index, first.event_index, signature, first.fee_payer, NO_TOKEN)
        found.append(paying)
    paying.fee_lamports = first.fee_lamports
    paying.priority_fee_lamports = first.priority_fee_lamports
    paying.tip_lamports = first.tip_lamports


def _bear(trades: list[Flow], sums: dict[_Key, _Sum]) -> None:
    """Add what was lost on the way to the purchases it led to, or the sales it came from."""
    lost = {key: each for key, total in sums.items() if (each := total.lost()) is not None}
    for side, goes_out in ((BUY, False), (SELL, True)):
        bearing: dict[_Key, list[Flow]] = {}
        own = [flow for flow in trades if flow.side == side] if lost else []
        for flow in own:
            for key in _along(flow, goes_out, sums, lost):
                bearing.setdefault(key, []).append(flow)
        for flow in own:
            keys = [key for key, flows_ in bearing.items() if flows_ == [flow]]
            if flow.lamports is None or flow.usd_micros is None or not keys:
                continue
            sign = -1 if goes_out else 1
            flow.lamports = max(0, flow.lamports + sign * sum(lost[key][0] for key in keys))
            flow.usd_micros = max(0, flow.usd_micros + sign * sum(lost[key][1] for key in keys))
            if max(flow.lamports, flow.usd_micros) > U64_MAX:
                flow.lamports = flow.usd_micros = None
        for key in bearing:
            del lost[key]


def _along(
    flow: Flow, goes_out: bool, sums: dict[_Key, _Sum], lost: dict[_Key, tuple[int, int]]
) -> set[_Key]:
    """Return what passed through on the way to a purchase, or on the way from a sale."""
    found: set[_Key] = set()
    ahead = [(flow.wallet, flow.mint)]
    while ahead:
        for mint in sums[ahead.pop()].against[goes_out]:
            key = flow.wallet, mint
            if key in lost and key not in found:
                found.add(key)
                ahead.append(key)
    return found


def _with_movements(trades: list[Flow], batch: SlotBatch) -> list[Flow]:
    moved: dict[tuple[int, str, str], Movement] = {
        (movement.tx_index, movement.wallet, movement.mint): movement
        for movement in batch.movements
    }
    for flow in trades:
        if (movement := moved.pop((flow.tx_index, flow.wallet, flow.mint), None)) is not None:
            _move(flow, movement)
    if not moved:
        return trades
    merged = trades
    for (tx_index, wallet, mint), movement in moved.items():
        flow = Flow(tx_index, 0, movement.signature, wallet, mint)
        _move(flow, movement)
        merged.append(flow)
    merged.sort(key=attrgetter("tx_index"))
    return merged


def _move(flow: Flow, movement: Movement) -> None:
    flow.received_raw = movement.received_raw
    flow.sent_raw = movement.sent_raw
    flow.burned_raw = movement.burned_raw
