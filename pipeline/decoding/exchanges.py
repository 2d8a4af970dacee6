"""Exchanges: who gave one mint for another, by balances alone.

An owner's balances are all its token accounts and its own SOL, wrapped or not, as the transaction
found and left them. An owner whose balances fall in one mint and rise in another exchanged, or put
in liquidity, borrowed, claimed: these are excluded, by their instructions. No decoder is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pipeline.decoding.hops import ROUTER_PROGRAMS
from pipeline.decoding.ledger import Entry
from pipeline.decoding.no_swaps import no_swaps
from pipeline.decoding.registry import PROGRAMS
from pipeline.solana.transaction import Transaction
from schemas.money import WSOL
from schemas.solana.addresses import text

RENT_LAMPORTS: Final = 3_000_000  # at most, of what opening and closing accounts moves

_LISTED: Final = PROGRAMS | ROUTER_PROGRAMS

Net = Mapping[str, int]  # raw units by mint


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Owners who exchanged; where there are none, what those did instead who seemed to."""

    owners: frozenset[str]
    excluded: frozenset[str]


def is_listed(tx: Transaction) -> bool:
    """Return whether a transaction invokes a listed venue, router or keeper."""
    return not _LISTED.isdisjoint(
        tx.keys[program] for program in tx.programs if program < len(tx.keys)
    )


def changes(tx: Transaction) -> defaultdict[str, defaultdict[str, int]]:
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


def exchanged(net: Net, rent_lamports: int = 0) -> bool:
    """Return whether balances fell in one mint and rose in another; as much SOL is no trade."""
    amounts = [
        amount_raw
        for mint, amount_raw in net.items()
        if mint != WSOL or abs(amount_raw) > rent_lamports
    ]
    return any(amount_raw < 0 for amount_raw in amounts) and any(
        amount_raw > 0 for amount_raw in amounts
    )


def find(tx: Transaction, gained: Mapping[str, Net], entries: Sequence[Entry]) -> Exchanged:
    """Return who exchanged, from what each owner gained."""
    rent = _rent_lamports(tx)
    owners = {owner for owner, net in gained.items() if exchanged(net, rent)}
    if not owners:
        return Exchanged(frozenset(), frozenset())
    excluded = set()
    traded: dict[str, defaultdict[str, int]] = {
        owner: defaultdict(int, gained[owner]) for owner in owners
    }
    for no_swap in no_swaps(tx):
        for at in no_swap.positions:
            for flow in entries[at].moved:
                if flow.owner in owners:
                    traded[flow.owner][flow.mint] -= flow.amount_raw
                    excluded.add(no_swap.name)
    still = frozenset(owner for owner, net in traded.items() if exchanged(net, rent))
    return Exchanged(still, frozenset() if still else frozenset(excluded))


def _rent_lamports(tx: Transaction) -> int:
    """Return what accounts that were opened or closed held, or RENT_LAMPORTS if that is less."""
    pairs = zip(tx.meta.pre_balances, tx.meta.post_balances, strict=False)
    held = sum(before + after for before, after in pairs if not before or not after)
    return min(held, RENT_LAMPORTS)
