"""Explaining: do the decoded swaps account for every exchange, to the last unit?

What an owner's balances gained must equal, in every mint, what its swaps say, and what instructions
moved beside them: plain transfers, rent, and cuts, which are transfers that programs made outside
of swaps (a router's fee, a referral). Where cuts take one mint and give another they are an
exchange that nothing decoded. A pool's, maker's or receipt's share in a swap is what its
instructions moved, and a vault must have moved what the swap says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline.decoding.conservation import differences
from pipeline.decoding.contract import Filled, Leg
from pipeline.decoding.exchanges import Net, changes, exchanged, find
from pipeline.decoding.ledger import Entry, ledger
from pipeline.decoding.no_swaps import no_swaps
from pipeline.decoding.parties import Parties, legs, place
from pipeline.decoding.reading import Reading
from pipeline.decoding.registry import BY_PROGRAM
from pipeline.decoding.routers import ROUTERS
from pipeline.decoding.tips import TIP_ACCOUNTS
from pipeline.solana.transaction import Transaction
from schemas.events import Event, Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import key, text

_ASSOCIATED_TOKEN_ACCOUNTS: Final = key("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")

Nets = defaultdict[str, defaultdict[str, int]]  # raw units by owner and mint


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of the exchanges of a transaction.

    `unexplained` are owners with what is left of their changes, `causes` the instructions that
    moved it, `cuts` the programs whose cuts explain a part. `excluded` are instructions, none of
    them a swap, that explain all: then nobody exchanged.
    """

    unexplained: dict[str, dict[str, int]] = field(default_factory=dict)
    causes: frozenset[str] = frozenset()
    cuts: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()


def explain(
    tx: Transaction, readings: Sequence[Reading], events: Iterable[Event]
) -> Explanation | None:
    """Compare exchanges with swaps; None where no owner exchanged anything.

    Raises one of contract.UNREADABLE where bytes cannot be.
    """
    gained, entries = changes(tx), ledger(tx)
    found = find(tx, gained, entries)
    if not found.owners:
        return Explanation(excluded=found.excluded) if found.excluded else None
    swaps = {event.event_index: event for event in events if isinstance(event, Swap)}
    settled = frozenset(_settled(tx, readings))
    account = _Account(tx, gained, swaps, Parties(tx, readings, swaps), settled)
    account.take_moved(entries)
    account.take_paid_by_curves(readings)
    account.take_kept(readings, swaps)
    account.take_returned_rent()
    owners = found.owners.union(swap.wallet for swap in swaps.values())
    unexplained = {owner: left for owner in owners if (left := account.left(owner))}
    for item in differences(tx, readings):
        left = unexplained.setdefault(item.owner, {})
        left[item.mint] = item.actual_raw - item.expected_raw
    return Explanation(
        unexplained,
        frozenset(account.causes(entries, unexplained)),
        frozenset(account.cutters(entries, owners)),
    )


class _Account:
    """What is left of each party's changes once all that is known is taken off."""

    def __init__(
        self,
        tx: Transaction,
        gained: Nets,
        swaps: Mapping[int, Swap],
        parties: Parties,
        settled: frozenset[int],
    ) -> None:
        self._tx = tx
        self._parties = parties
        self._settled = settled
        self._received: set[tuple[str, str]] = set()  # by owners of orders: the mints
        self._no_swap = {at for each in no_swaps(tx) for at in each.positions}
        self._left: Nets = defaultdict(lambda: defaultdict(int))
        self._cuts: Nets = defaultdict(lambda: defaultdict(int))
        self._own: Nets = defaultdict(lambda: defaultdict(int))  # by owner; without cuts
        for owner, net in gained.items():
            for mint, amount_raw in net.items():
                self._take(owner, mint, -amount_raw)
        for swap in swaps.values():
            for mint, amount_raw in _given(swap):
                self._take(swap.wallet, mint, amount_raw)

    def take_moved(self, entries: Sequence[Entry]) -> None:
        """Take off what instructions moved, but for what swaps state."""
        of = self._parties.of
        for at, entry in enumerate(entries):
            for flow in entry.rent:
                self._take(flow.owner, flow.mint, flow.amount_raw)
            traders = self._parties.traders.get(at, set())
            is_cut = self._is_cut(at, entry)
            for flow in entry.moved:
                if flow.owner in traders:
                    continue
                if at in self._settled:
                    self._left[of(flow.owner)][flow.mint] -= flow.amount_raw
                elif is_cut:
                    self._left[of(flow.owner)][flow.mint] -= flow.amount_raw
                    self._cuts[of(flow.owner)][flow.mint] += flow.amount_raw
                else:
                    self._take(flow.owner, flow.mint, flow.amount_raw)

    def take_paid_by_curves(self, readings: Sequence[Reading]) -> None:
        """Take off SOL that curves paid out of their own lamports, which no instruction moves."""
        for leg in (leg for reading in readings for leg in legs(reading)):
            index = leg.vault_out
            if index is None or leg.output_mint != WSOL or self._tx.token_account(index):
                continue
            self._left[self._parties.of(text(self._tx.keys[index]))][WSOL] += leg.output_raw

    def take_kept(self, readings: Sequence[Reading], swaps: Mapping[int, Swap]) -> None:
        """Take off what keepers, and fees, kept of what came out of the swaps of an order."""
        unknown = {filled.owner for _, filled in _fills(readings) if filled.received_raw is None}
        came: Nets = defaultdict(lambda: defaultdict(int))  # by owner of the order
        kept: Nets = defaultdict(lambda: defaultdict(int))  # of that
        keepers: dict[str, str] = {}
        for swap, leg in _swapped(readings, swaps):
            if swap.keeper and swap.wallet not in unknown:
                keepers[swap.wallet] = swap.keeper
                paid_raw = leg.input_raw if leg.paid_raw is None else leg.paid_raw
                received_raw = leg.output_raw if leg.received_raw is None else leg.received_raw
                for mint, amount_raw in (
                    (leg.input_mint, -paid_raw),
                    (leg.output_mint, received_raw),
                ):
                    came[swap.wallet][mint] += amount_raw
                    kept[swap.wallet][mint] += amount_raw
                for mint, amount_raw in _given(swap):
                    kept[swap.wallet][mint] -= amount_raw
        for owner, keeper in keepers.items():
            for mint, amount_raw in came[owner].items():
                if amount_raw > 0:
                    self._received.add((owner, mint))
                    self._take(keeper, mint, max(kept[owner][mint], 0))

    def take_returned_rent(self) -> None:
        """Take off the lamports of accounts that programs closed, one of them or all together."""
        tx = self._tx
        pairs = zip(tx.meta.pre_balances, tx.meta.post_balances, strict=False)
        returned = [
            -self._left[text(tx.keys[index])][WSOL]
            for index, (before, after) in enumerate(pairs)
            if before and not after and tx.token_account(index) is None
        ]
        returned.append(sum(returned))
        for left in (*self._left.values(), *self._own.values()):
            if left[WSOL] > 0 and left[WSOL] in returned:
                left[WSOL] = 0

    def left(self, owner: str) -> dict[str, int]:
        """Return what is not explained of what an owner gained; empty where all is."""
        party = self._parties.of(owner)
        left = _moved(self._left[party])
        if not left and exchanged(self._cuts[party]):
            left = _moved(self._cuts[party])
        own = _moved(self._own[owner])
        if not left and self._parties.has(owner) and exchanged(own):
            left = own  # another of its party was given the swap
        return left or {mint: own[mint] for mint in own if (owner, mint) in self._received}

    def causes(self, entries: Sequence[Entry], unexplained: Mapping[str, Net]) -> Iterator[str]:
        """Yield the instructions that moved what is left."""
        left = {
            (self._parties.of(owner), mint) for owner in unexplained for mint in unexplained[owner]
        }
        for at, entry in enumerate(entries):
            if any((self._parties.of(flow.owner), flow.mint) in left for flow in entry.moved):
                yield from (_instruction(self._tx, above) for above in _caller(self._tx, at))

    def cutters(self, entries: Sequence[Entry], owners: Iterable[str]) -> Iterator[str]:
        """Yield the programs whose cuts an owner's party paid or received."""
        paid = {party for owner in owners if _moved(self._cuts[party := self._parties.of(owner)])}
        for at, entry in enumerate(entries):
            if self._is_cut(at, entry) and any(
                self._parties.of(flow.owner) in paid for flow in entry.moved
            ):
                yield from (_program(self._tx, above) for above in _caller(self._tx, at))

    def _take(self, owner: str, mint: str, amount_raw: int) -> None:
        self._left[self._parties.of(owner)][mint] -= amount_raw
        self._own[owner][mint] -= amount_raw

    def _is_cut(self, at: int, entry: Entry) -> bool:
        """Return whether a program made a transfer outside of swaps, tips aside."""
        return not (
            self._tx.heights[at] == 1
            or at in self._no_swap
            or at in self._settled
            or at in self._parties.traders
            or any(self._tx.keys[flow.account] in TIP_ACCOUNTS for flow in entry.moved)
        )


def _fills(readings: Sequence[Reading]) -> Iterator[tuple[int, Filled]]:
    for reading in readings:
        for fact in reading.facts:
            if isinstance(fact, Filled):
                yield reading.position, fact


def _settled(tx: Transaction, readings: Sequence[Reading]) -> Iterator[int]:
    """Yield what hands the input of orders to their keepers, and the output to the owners."""
    for position, filled in _fills(readings):
        for at in range(filled.begin, tx.subtree_end(position)):
            if tx.programs[at] == tx.programs[position]:
                yield from range(at, tx.subtree_end(at))


def _swapped(readings: Sequence[Reading], swaps: Mapping[int, Swap]) -> Iterator[tuple[Swap, Leg]]:
    for reading in readings:
        for leg in legs(reading):
            yield swaps[place(reading, leg)], leg


def _given(swap: Swap) -> tuple[tuple[str, int], tuple[str, int]]:
    """Return what a swap gave its wallet by mint, or took, where negative."""
    sign = 1 if swap.side is Side.BUY else -1
    return (
        (swap.mint, sign * swap.wallet_amount_raw),
        (swap.quote_mint, -sign * swap.wallet_quote_amount_raw),
    )


def _moved(net: Net) -> dict[str, int]:
    return {mint: amount_raw for mint, amount_raw in net.items() if amount_raw}


def _caller(tx: Transaction, at: int) -> Iterator[int]:
    """Yield which program's instruction made a transfer; nothing where none did."""
    for above in tx.ancestors(at):
        if tx.program(above) != _ASSOCIATED_TOKEN_ACCOUNTS:
            yield above
            return


def _program(tx: Transaction, at: int) -> str:
    program = tx.program(at)
    if (venue := BY_PROGRAM.get(program)) is not None:
        return venue.dex
    router = ROUTERS.by_program.get(program)
    return text(program) if router is None else router.slug


def _instruction(tx: Transaction, at: int) -> str:
    """Return program and instruction, by the name that it logs where it does."""
    venue = BY_PROGRAM.get(tx.program(at))
    tag = tx.data[at][: 8 if venue is None else venue.tag_size].hex()
    names = (line[13:] for line in tx.log_texts(at) if line.startswith("Instruction: "))
    return f"{_program(tx, at)} {next(names, tag)}"
