"""What a wallet has in all, over 10,000 random moves.

They are between wallet, lenders, pools, shares of pools, stakes and locks.

By token, in raw units: what its accounts hold without the tokens that represent positions, and what
its positions supply without what they owe, as the protocols' readings find them. Interest and
trades are at rest, so a move costs its fee and a unit of rounding; whatever was counted twice, or
not at all, would show.
"""

from __future__ import annotations

from collections import Counter

import pytest

from infra.chain.market import Knobs, Market
from infra.chain.market.runtime.stake import Stake
from schemas.protocols.contract import Role
from schemas.solana.addresses import text
from tests.infra.chain.market.mover import DONE, SOL, Mover

pytestmark = pytest.mark.slow  # ten thousand transactions

MOVES = 10_000
KNOBS = Knobs(seed=9, rate=20, wallets=40, forks=0)
ROUNDING = 2  # units of a token; NFTs are never rounded


def has(mover: Mover) -> Counter[bytes]:
    """Everything it has, by mint; rent of its accounts is its SOL."""
    held, ledger = mover.held(), mover.ledger
    total = Counter(held.tokens)
    stakes = locks = 0
    for _, position in mover.positions(held):
        assert not position.missing
        for mint, raw in position.stands_for.items():
            total[mint] -= raw
        for asset in position.assets:
            assert asset.amount_raw is not None
            sign = -1 if asset.role is Role.BORROW else 1
            total[asset.mint] += sign * asset.amount_raw
        stakes += position.stake is not None
        locks += bool(position.locks)
    assert stakes == sum(isinstance(ledger.natives.get(at), Stake) for at in mover.own)
    assert locks == sum(bool(each.left_raw) for each in mover.escrows().values())
    total[SOL] += ledger.lamports[mover.address] + mover.rent_lamports()
    return total


def test_nothing_is_counted_twice_or_lost() -> None:
    mover = Mover(Market(KNOBS), seed=1)
    before = has(mover)
    coins = {side.address for pool in mover.shared for side in pool.sides}
    for _ in range(MOVES):
        fee = mover.move()
        after = has(mover)
        expected = before.copy()
        expected[SOL] -= fee
        for mint in before.keys() | after.keys():
            away = abs(after[mint] - expected[mint])
            assert away <= (ROUNDING if mint in coins else 0), (mover.last, text(mint))
        before = after
    done = {what for what, count in mover.done.items() if count >= MOVES // 200}
    assert done >= DONE
