"""Exchanges: who gave one mint for another, by balances alone, and do the swaps account for it?

An owner's balances are all its token accounts and its own SOL, wrapped or not, as the transaction
found and left them; no decoder is asked. An owner whose balances fall in one mint and rise in
another exchanged, or put in liquidity, borrowed, claimed. What is explained is taken off: the
amounts of its own swaps, what swaps moved at their other end (pools, makers, receipts), and plain
transfers, which are transfers that no program made. What is left may fall or rise (fees that a
program took, a gift, rent), but not fall in one mint and rise in another: that is an exchange that
no swap explains. Where it goes away with what liquidity, claims or loans moved, it is excluded,
under those instructions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline.decoding.contract import UNREADABLE, Leg
from pipeline.decoding.decode import Reading
from pipeline.decoding.flows import Flow, flows
from pipeline.decoding.hops import ROUTER_PROGRAMS
from pipeline.decoding.registry import BY_PROGRAM, PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.events import Event, Side, Swap
from schemas.money import WSOL
from schemas.solana.addresses import SYSTEM_PROGRAM, key, text
from schemas.solana.borsh import u64

RENT_LAMPORTS: Final = 3_000_000  # SOL that opening or closing an account moves is no trade
LISTED: Final = PROGRAMS | ROUTER_PROGRAMS
_LENDING: Final = {
    key(program): name
    for program, name in {
        "jup3YeL8QhtSx1e253b2FDvsMNC87fDrgQZivbrndc9": "jupiter-lend-earn",
        "jupr81YtYssSyPt8jbnGuiWon5f6x9TcDEFxYe3Bdzi": "jupiter-lend-borrow",
        "KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD": "kamino-lend",
        "MFv2hWf31Z9kbCa1snEPYctwafyhdvnV7FZnsebVacA": "marginfi",
        "So1endDq2YkqhipRh3WViPa8hdiSpxWy6z3Z6tMCpAo": "save",
    }.items()
}
_CREATES: Final = frozenset({b"\x00\x00\x00\x00", b"\x03\x00\x00\x00"})
_SYSTEM_TRANSFER: Final = b"\x02\x00\x00\x00"

Balances = Mapping[str, Mapping[str, int]]  # by owner and mint


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of the exchanges of a transaction.

    `unexplained` are owners with what is left of their changes; where it is empty and `excluded`
    is not, these instructions ("venue tag") explain them, and they are no swaps.
    """

    unexplained: dict[str, dict[str, int]] = field(default_factory=dict)
    excluded: frozenset[str] = frozenset()


def changes(tx: Transaction) -> dict[str, defaultdict[str, int]]:
    """Return what each owner's balances gained by mint, from the recorded ones alone.

    SOL is that of the owner and of all its token accounts, rent and all; the fee is added back.
    """
    found: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    before, after = tx.meta.pre_balances, tx.meta.post_balances
    lamports: dict[int, list[str]] = {}  # owners before and after
    for balances, sign in ((tx.meta.pre_token_balances, -1), (tx.meta.post_token_balances, 1)):
        for balance in balances:
            if balance.mint != WSOL:
                amount_raw = int(balance.ui_token_amount.amount or 0)
                found[balance.owner][balance.mint] += sign * amount_raw
            if balance.account_index < len(tx.keys):
                owners = lamports.setdefault(balance.account_index, ["", ""])
                owners[sign > 0] = balance.owner
    for index in range(min(len(before), len(after), len(tx.keys))):
        address = text(tx.keys[index])
        former, latter = lamports.get(index, (address, address))
        found[former or address][WSOL] -= before[index]
        found[latter or address][WSOL] += after[index]
    if tx.keys:
        found[tx.fee_payer][WSOL] += tx.fee_lamports
    return found


def exchanged(net: Mapping[str, int]) -> bool:
    """Whether balances fell in one mint and rose in another."""
    amounts = [
        amount_raw
        for mint, amount_raw in net.items()
        if mint != WSOL or abs(amount_raw) > RENT_LAMPORTS
    ]
    return any(amount_raw < 0 for amount_raw in amounts) and any(
        amount_raw > 0 for amount_raw in amounts
    )


def explain(
    tx: Transaction, readings: Sequence[Reading], events: Iterable[Event]
) -> Exchange | None:
    """Compare exchanges with swaps; None where no owner exchanged anything."""
    left = changes(tx)
    if not any(map(exchanged, left.values())):
        return None
    for swap in events:
        if isinstance(swap, Swap):
            sign = 1 if swap.side is Side.BUY else -1
            left[swap.wallet][swap.mint] -= sign * swap.wallet_amount_raw
            left[swap.wallet][swap.quote_mint] += sign * swap.wallet_quote_amount_raw
    for flow in (*_other_ends(tx, readings), *_plain(tx)):
        left[flow.owner][flow.mint] -= flow.amount_raw
    unexplained = _exchanges(left)
    if not unexplained:
        return Exchange()
    excluded = set()
    for name, start, end in _no_swaps(tx):
        moved = [flow for flow in _flows(tx, start, end) if flow.owner in unexplained]
        for flow in moved:
            left[flow.owner][flow.mint] -= flow.amount_raw
        if moved:
            excluded.add(name)
    still = _exchanges(left)
    return Exchange(still) if still else Exchange({}, frozenset(excluded))


def _exchanges(balances: Balances) -> dict[str, dict[str, int]]:
    return {
        owner: {mint: amount_raw for mint, amount_raw in net.items() if amount_raw}
        for owner, net in balances.items()
        if exchanged(net)
    }


def _other_ends(tx: Transaction, readings: Sequence[Reading]) -> Iterator[Flow]:
    """Yield what legs moved of accounts that are not their trader's."""
    done: set[int] = set()
    for reading in readings:
        legs = [fact for fact in reading.facts if isinstance(fact, Leg)]
        if not legs:
            continue
        mine = {event.wallet for event in reading.events if isinstance(event, Swap)}
        for leg in legs:
            mine.add(leg.owner)
            if leg.user is not None:
                mine.add(text(tx.keys[leg.user]))
            for index in (leg.source, leg.destination):
                account = None if index is None else tx.token_account(index)
                if account is not None:
                    mine.add(account.owner)
        for part in (reading.position, *(at for leg in legs for at in leg.parts)):
            for at in range(part + 1, tx.subtree_end(part)):
                if at not in done:
                    done.add(at)
                    yield from (flow for flow in _flows(tx, at, at + 1) if flow.owner not in mine)
        yield from _lamports_of_vaults(tx, legs, mine)


def _lamports_of_vaults(tx: Transaction, legs: Sequence[Leg], mine: set[str]) -> Iterator[Flow]:
    """Yield SOL that a curve paid out of its own lamports, which no instruction moves."""
    for leg in legs:
        index = leg.vault_out
        if index is not None and leg.output_mint == WSOL and tx.token_account(index) is None:
            owner = text(tx.keys[index])
            if owner not in mine:
                yield Flow(index, owner, WSOL, -leg.output_raw)


def _plain(tx: Transaction) -> Iterator[Flow]:
    """Yield transfers that no program made: of tokens, and of SOL, opened accounts' included."""
    for at in range(len(tx.programs)):
        if tx.heights[at] == 1:
            yield from _flows(tx, at, at + 1)
        try:
            data, accounts = tx.data[at], tx.accounts[at]
            if tx.program(at) == SYSTEM_PROGRAM and data[:4] in _CREATES:
                at_lamports = 4 if data[0] == 0 else 44 + u64(data, 36)
                lamports = u64(data, at_lamports)
                payer, opened = (_owner(tx, index) for index in accounts[:2])
                yield Flow(accounts[0], payer, WSOL, -lamports)
                yield Flow(accounts[1], opened, WSOL, lamports)
        except UNREADABLE:
            continue


def _owner(tx: Transaction, index: int) -> str:
    account = tx.token_account(index)
    return text(tx.keys[index]) if account is None else account.owner


def _flows(tx: Transaction, start: int, end: int) -> Iterator[Flow]:
    """Yield what readable instructions moved."""
    for at in range(start, end):
        try:
            yield from list(flows(tx, at, at + 1))
        except UNREADABLE:
            continue


def _no_swaps(tx: Transaction) -> Iterator[tuple[str, int, int]]:
    """Yield (name, start, end) of instructions known to be no swap: liquidity, claims, loans."""
    for at, program in enumerate(tx.programs):
        if program >= len(tx.keys):
            continue
        address, data = tx.keys[program], tx.data[at]
        if (lender := _LENDING.get(address)) is not None:
            yield f"{lender} {data[:8].hex()}", at, tx.subtree_end(at)
        elif (venue := BY_PROGRAM.get(address)) is not None:
            tag = data[: venue.tag_size]
            if tag in venue.ignored:
                yield f"{venue.dex} {tag.hex()}", at, tx.subtree_end(at)
