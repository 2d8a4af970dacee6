"""What a wallet has in all, over 10,000 random moves.

They are between wallet, lenders, pools, shares of pools, stakes and locks.

By token, in raw units: what its accounts hold without the tokens that represent positions, and what
its positions supply without what they owe, as the protocols' readings find them. Interest and
trades are at rest, so a move costs its fee and a unit of rounding; whatever was counted twice, or
not at all, would show.

In dollars, now and then: the net worth that `/analyze` computes of the same accounts. It changes by
fees, by rent, which is in no net worth, and by the one change of prices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import cast

import pytest

from api.accounts.following import FollowState
from api.analysis.figures import net_worth, without
from api.positions.answers import AggregatePositions
from api.positions.prices import Prices
from api.positions.records import record
from api.tokens.facts import facts
from api.tokens.reader import Token, Tokens
from api.wallets.held import HeldAccount, HeldAccounts
from api.wallets.holdings import Wanted, holdings
from infra.chain.market import Knobs, Market
from infra.chain.market.runtime.programs import TOKEN_2022
from infra.chain.market.runtime.stake import Stake
from schemas.amounts import MICROS
from schemas.prices import LastPrice
from schemas.protocols.contract import Role
from schemas.protocols.registry import verified_markets
from schemas.solana.addresses import text
from tests.infra.chain.market.mover import DONE, SOL, Mover

pytestmark = pytest.mark.slow  # ten thousand transactions

MOVES = 10_000
CHECKED = 4  # moves between two looks at what there is: what is lost or doubled stays so
LOOKS = 100  # moves between two looks at the net worth
KNOBS = Knobs(seed=9, rate=20, wallets=40, forks=0)
ROUNDING = 2  # units of a token; NFTs are never rounded
SOL_USD, COIN_USD = (150, 180), (0.03, 0.07)  # at first, and from the middle on
LP_USD = 2.5  # an LP token that was left in the holdings would be worth something
LINES = 100  # of positions and holdings, each cut off to a millionth of a dollar


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


class Worth:
    """What a mover is worth in dollars, as `/analyze` computes it."""

    def __init__(self, mover: Mover) -> None:
        self.mover = mover
        self.usd = self.prices(0)
        self.at_last_look = self.now(), mover.rent_lamports()
        self.fees = 0  # lamports, since then

    def prices(self, number: int) -> dict[bytes, float]:
        """Return dollar prices by mint."""
        world = self.mover.market.world
        coins = {pool.other(world.sol).address: COIN_USD[number] for pool in self.mover.shared}
        lps = {pool.lp_mint: LP_USD for pool in self.mover.shared}
        return {**coins, **lps, world.usdc.address: 1, SOL: SOL_USD[number]}

    def now(self) -> int:
        """Return the net worth in millionths of a dollar."""
        held = self.mover.held()
        by_mint = {text(mint): _token(text(mint), usd) for mint, usd in self.usd.items()}
        tokens = Tokens(by_mint, 1, 1, 1, self.usd[SOL])
        stands_for = Counter[str]()
        prices = Prices(tokens, frozenset(by_mint), {}, markets=verified_markets(""))
        records = []
        for protocol, position in self.mover.positions(held):
            records.append(record(protocol.name, position, prices))
            for mint, raw in position.stands_for.items():
                stands_for[text(mint)] += raw
        own, taken = without(self.accounts(), stands_for)
        assert taken == stands_for
        listed = holdings(own, tokens, frozenset(by_mint), Wanted())
        coverage = {"known_accounts": 1, "read_accounts": 1}
        found = {"positions": records, "unpriced": 0, "coverage": coverage, "errors": []}
        worth = net_worth(listed, cast("AggregatePositions", found), moved=False)
        assert worth["reasons"] == []
        assert worth["value_usd_micros"] is not None
        return int(worth["value_usd_micros"])

    def accounts(self) -> HeldAccounts:
        """Return what its accounts hold, as the lane of accounts has them."""
        tokens = [
            HeldAccount(
                each.address,
                text(each.mint.address),
                each.amount_raw,
                each.mint.decimals,
                each.mint.program is TOKEN_2022,
            )
            for each in self.mover.tokens()
        ]
        count, wallet = len(tokens) + 1, self.mover.address
        lamports = self.mover.ledger.lamports[wallet]
        about = (text(wallet), 1, 1, lamports, 1, tokens, count, count)
        return HeldAccounts(*about, True, 1, None, FollowState.COMPLETE)

    def micros(self, raw: Mapping[bytes, int], usd: Mapping[bytes, float]) -> Fraction:
        """Return what amounts of tokens are worth."""
        mints = self.mover.ledger.mints
        parts = (
            Fraction(usd[mint]) * amount_raw * MICROS / mints[mint].unit
            for mint, amount_raw in raw.items()
            if mint in usd
        )
        return sum(parts, Fraction())

    def look(self) -> None:
        """Have changed by fees and rent since the last look, and by nothing else."""
        (before, rent), now = self.at_last_look, self.now()
        paid = {SOL: self.fees + self.mover.rent_lamports() - rent}
        rounded = self.micros(dict.fromkeys(self.usd, LOOKS * ROUNDING), self.usd)
        assert abs(now - before + self.micros(paid, self.usd)) <= rounded + LINES
        self.at_last_look, self.fees = (now, self.mover.rent_lamports()), 0

    def reprice(self, total: Mapping[bytes, int]) -> None:
        """Change the prices: the worth changes by that of all tokens, and by nothing else."""
        self.look()
        (before, rent), old = self.at_last_look, self.usd
        self.usd, self.mover.sol_usd = self.prices(1), SOL_USD[1]
        counted = Counter(total)
        counted[SOL] -= rent
        grown = self.micros(counted, self.usd) - self.micros(counted, old)
        assert grown > LINES
        assert abs(self.now() - before - grown) <= LINES
        self.at_last_look = self.now(), rent


def _token(mint: str, usd: float) -> Token:
    return Token(mint, facts(mint, None, None), None, LastPrice(0.0, usd, 1, 1, ""), "live", b"")


def test_nothing_is_counted_twice_or_lost() -> None:
    mover = Mover(Market(KNOBS), seed=1)
    before, worth = has(mover), Worth(mover)
    coins = {side.address for pool in mover.shared for side in pool.sides}
    fees = 0
    for number in range(MOVES):
        if number % LOOKS == 0:
            worth.look()
        if number == MOVES // 2:
            worth.reprice(before)
        fee = mover.move()
        fees += fee
        worth.fees += fee
        if number % CHECKED < CHECKED - 1:
            continue
        after = has(mover)
        expected = before.copy()
        expected[SOL] -= fees
        fees = 0
        for mint in before.keys() | after.keys():
            away = abs(after[mint] - expected[mint])
            assert away <= (CHECKED * ROUNDING if mint in coins else 0), (mover.last, text(mint))
        before = after
    worth.look()
    done = {what for what, count in mover.done.items() if count >= MOVES // 200}
    assert done >= DONE
