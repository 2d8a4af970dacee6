"""Hops of a route through unlisted programs, decoded from the tokens that they moved.

A router calls each hop itself. One whose program no decoder knows is read as an exchange of
what it moved, minted and burnt, so that a route's legs add up to what its trader gave and got.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.decoding.contract import Leg
from pipeline.decoding.flows import exchange
from pipeline.decoding.registry import PROGRAMS
from pipeline.decoding.routers import ROUTERS
from pipeline.solana.transaction import Transaction
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.addresses import key as address_key

ROUTER_PROGRAMS: Final = frozenset(ROUTERS.by_program)
_KNOWN: Final = (
    ROUTER_PROGRAMS
    | PROGRAMS
    | {
        SYSTEM_PROGRAM,
        TOKEN_PROGRAM,
        TOKEN_2022_PROGRAM,
        address_key("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"),  # associated token accounts
        address_key("ComputeBudget111111111111111111111111111111"),
        address_key("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
    }
)


def unlisted(tx: Transaction) -> Iterator[tuple[int, int, int]]:
    """Yield (position, end, position of the router) of what routers call and no venue is.

    Nothing where heights were not recorded: what a router called itself is then not known.
    """
    keys, programs, heights = tx.keys, tx.programs, tx.heights
    invoked = {program for program in programs if program < len(keys)}
    strange = {program for program in invoked if keys[program] not in _KNOWN}
    if not strange:
        return
    routers = {program for program in invoked if keys[program] in ROUTER_PROGRAMS}
    venues = {program for program in invoked if keys[program] in PROGRAMS}
    for router, program in enumerate(programs):
        height = heights[router]
        if program not in routers or not height:
            continue
        for at in range(router + 1, tx.subtree_end(router)):
            if programs[at] in strange and heights[at] == height + 1:
                end = tx.subtree_end(at)
                if venues.isdisjoint(programs[at:end]):  # else that venue is decoded
                    yield at, end, router


def hop(tx: Transaction, at: int, end: int, router: int) -> Leg | None:
    """Return the exchange that a hop made, or None; raises one of contract.UNREADABLE."""
    others = set()
    for position in (*range(router + 1, at), *range(end, tx.subtree_end(router))):
        moved = tx.transfer(position)
        if moved is not None:
            for index in (moved.source, moved.destination):
                account = tx.token_account(index)
                if account is not None:
                    others.add(account.owner)
            others.add(text(tx.keys[moved.authority]))
    return exchange(tx, at, end, others=others)
