"""Hops of a route through programs that are no venue of ours: what they moved is all there is.

A router calls each hop itself. One whose program no decoder knows is read as an exchange of
what it moved, minted and burnt, so that a route's legs add up to what its trader gave and got.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.decoding.contract import Leg
from pipeline.decoding.flows import exchange
from pipeline.decoding.routers import ROUTERS
from pipeline.solana.transaction import Transaction
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, text
from schemas.solana.addresses import key as address_key

ROUTER_PROGRAMS: Final = frozenset(ROUTERS.by_program)
_PLUMBING: Final = ROUTER_PROGRAMS | {
    SYSTEM_PROGRAM,
    TOKEN_PROGRAM,
    TOKEN_2022_PROGRAM,
    address_key("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL"),  # associated token accounts
    address_key("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr"),
}


def unlisted(tx: Transaction, venues: frozenset[bytes]) -> Iterator[tuple[int, int, int]]:
    """Yield (position, end, position of the router) of what routers call and no venue is.

    Nothing where heights were not recorded: what a router called itself is then not known.
    """
    known = {index for index, program in enumerate(tx.keys) if program in _PLUMBING}
    theirs = {index for index, program in enumerate(tx.keys) if program in venues}
    for router, program in enumerate(tx.programs):
        if program not in known or tx.keys[program] not in ROUTER_PROGRAMS:
            continue
        height = tx.heights[router]
        for at in range(router + 1, tx.subtree_end(router)):
            if tx.heights[at] != height + 1 or not height:
                continue
            called = tx.programs[at]
            if called in known or called in theirs or called >= len(tx.keys):
                continue
            end = tx.subtree_end(at)
            if not theirs.isdisjoint(tx.programs[at:end]):
                continue  # a venue behind a program of its caller's
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
