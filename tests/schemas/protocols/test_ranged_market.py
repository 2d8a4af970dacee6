"""What the readings say of positions between ticks is what the simulated market's ledger says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.chain import demo_wallets
from infra.chain.market import Knobs, Market
from infra.chain.market.runtime import accounts
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.venues import orca_liquidity, raydium_clmm_liquidity
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.positions import Instructions, place
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.raydium_clmm import ClmmPool
from infra.chain.market.venues.venue import Trader
from schemas.protocols import raydium_clmm, whirlpools
from schemas.protocols.contract import Account, Held, Position, Protocol, Role, World
from schemas.protocols.registry import kind_of

pytestmark = pytest.mark.slow  # runs a market

READINGS: dict[type[RangedPool], Protocol] = {
    Whirlpool: whirlpools.PROTOCOL,
    ClmmPool: raydium_clmm.PROTOCOL,
}
PROGRAMS: dict[type[RangedPool], Instructions] = {
    Whirlpool: orca_liquidity,
    ClmmPool: raydium_clmm_liquidity,
}
both = pytest.mark.parametrize("venue", [Whirlpool, ClmmPool])
Venue = type[RangedPool]
Own = tuple[bytes, bytes, RangedPool, RangedPosition]
KNOBS = Knobs(seed=9, rate=150, wallets=200, forks=0.1, failed=0.1)


@lru_cache(maxsize=1)
def provided_market() -> Market:
    market = Market(KNOBS)
    for _ in market.generate(200):
        pass
    return market


def stored(market: Market, address: bytes) -> Account | None:
    found = accounts.account(market.world.ledger, address)
    if found is None or (kind := kind_of(address, found.owner, found.data)) is None:
        return None
    return Account(address, kind, found.lamports, found.data, 1)


def own(market: Market, venue: Venue) -> Iterator[Own]:
    """Yield (holder, address, pool, position) of all positions of a venue."""
    ledger = market.world.ledger
    holders = {
        account.mint.address: account.owner
        for account in ledger.tokens.values()
        if account.mint.decimals == 0 and account.amount_raw == 1
    }
    for at, each in ledger.natives.items():
        if isinstance(each, RangedPosition):
            pool = ledger.natives[each.pool]
            if isinstance(pool, venue):
                yield holders[each.mint], at, pool, each


def positions(market: Market, venue: Venue, wallet: bytes) -> dict[bytes, Position]:
    ledger = market.world.ledger
    tokens = {
        account.mint.address: account.amount_raw
        for account in ledger.tokens.values()
        if account.owner == wallet and account.amount_raw
    }
    held = [
        account
        for at, each in ledger.natives.items()
        if isinstance(each, RangedPosition) and each.mint in tokens
        if (account := stored(market, at)) is not None
    ]
    read = READINGS[venue].read
    assert read is not None
    reading = read(Held(wallet, held, tokens), World(1, 0, 0))
    try:
        wanted = next(reading)
        while True:
            found = {at: account for at in wanted if (account := stored(market, at)) is not None}
            wanted = reading.send(found)
    except StopIteration as end:
        result: list[Position] = end.value
        return {each.account.address: each for each in result}


def raw(position: Position, role: Role) -> dict[bytes, int | None]:
    return {each.mint: each.amount_raw for each in position.assets if each.role is role}


def without_zeros(pool: RangedPool, amounts: tuple[int, int]) -> dict[bytes, int]:
    return {side.address: raw for side, raw in zip(pool.sides, amounts, strict=True) if raw}


def demo(market: Market, venue: Venue) -> Own:
    wallet = demo_wallets.ADDRESSES["lender-1"]
    return next(each for each in own(market, venue) if each[0] == wallet)


def ran(market: Market, wallet: bytes, *steps: Step) -> Execution:
    tx = Execution(market.world.ledger, Intent(1, wallet, steps, bytes(32)), 1, 1)
    tx.run()
    assert tx.err_code is None
    return tx


def sell(market: Market, pool: RangedPool, number: int, amount_raw: int) -> Execution:
    """Let a maker sell so much of one of a pool's sides."""
    maker, ledger = market.world.makers[0].address, market.world.ledger
    mint_in = pool.sides[number]
    source, to = (ledger.associated(maker, each) for each in (mint_in, pool.other(mint_in)))
    trader = Trader(maker, source, to, maker)
    return ran(market, maker, lambda tx: pool.swap(tx, trader, mint_in, amount_raw, 0))


@both
@pytest.mark.parametrize("sold", [None, (0, 4 * 10**12), (1, 6 * 10**11)])
def test_amounts_and_fees_are_the_ledgers(venue: Venue, sold: tuple[int, int] | None) -> None:
    market = provided_market()
    moved = sell(market, demo(market, venue)[2], *sold) if sold else None
    seen = earning = out_of_range = 0
    for wallet, at, pool, each in own(market, venue):
        position = positions(market, venue, wallet)[at]
        assert (position.missing, position.unsupported_fields) == ([], [])
        assert (position.id, position.market) == (each.mint, pool.address)
        assert position.stands_for == {each.mint: 1}
        fees = each.settled(pool.inside(each.lower, each.upper)).owed
        amounts = pool.amounts(each.liquidity, each.lower, each.upper, up=False)
        assert raw(position, Role.SUPPLY) == without_zeros(pool, amounts)
        assert raw(position, Role.REWARD) == without_zeros(pool, fees)
        assert position.range is not None
        assert position.range.is_in_range == (each.lower <= pool.tick < each.upper)
        seen += 1
        earning += any(fees)
        out_of_range += not position.range.is_in_range
    if moved:
        moved.changes.take_back(market.world.ledger)
        assert out_of_range > 0
    assert seen > 20
    assert earning > 15


@both
def test_vaults_have_what_positions_and_the_protocol_are_owed_and_some_units_of_rounding(
    venue: Venue,
) -> None:
    market = provided_market()
    owed: dict[bytes, dict[bytes, int]] = {}
    count: dict[bytes, int] = {}
    for wallet, at, pool, _ in own(market, venue):
        position = positions(market, venue, wallet)[at]
        of_pool = owed.setdefault(pool.address, dict.fromkeys((s.address for s in pool.sides), 0))
        for asset in position.assets:
            of_pool[asset.mint] += asset.amount_raw or 0
        count[pool.address] = count.get(pool.address, 0) + 1
    assert len(owed) > 10
    for address, of_pool in owed.items():
        pool = market.world.directory.pools[address]
        assert isinstance(pool, venue)
        for number, side in enumerate(pool.sides):
            kept = pool.protocol_raw[number] + pool.protocol_raw[number + 2]  # the fund's, too
            spare = pool.vault_balances()[number] - kept - of_pool[side.address]
            assert 0 <= spare < 3_000  # a unit at most a swap, step, or change of a position


def worth(market: Market, venue: Venue, wallet: bytes, pool: RangedPool) -> list[int]:
    """Return what a wallet has of both tokens, in its accounts and in all positions."""
    ledger = market.world.ledger
    found = {side.address: ledger.held(wallet, side) for side in pool.sides}
    for position in positions(market, venue, wallet).values():
        for asset in position.assets:
            if asset.mint in found:
                found[asset.mint] += asset.amount_raw or 0
    return [*found.values()]


@both
@settings(max_examples=40, deadline=None)
@given(liquidity=st.integers(1, 10**11))
def test_adding_liquidity_changes_what_a_wallet_has_by_less_than_a_unit_of_each_token(
    venue: Venue, liquidity: int
) -> None:
    market = provided_market()
    wallet, _, pool, each = demo(market, venue)
    at = place(pool, wallet, each.mint, each.lower, each.upper)
    before = worth(market, venue, wallet, pool)
    most = (1 << 63, 1 << 63)
    tx = ran(market, wallet, *PROGRAMS[venue].increased(at, liquidity, most))
    after = worth(market, venue, wallet, pool)
    tx.changes.take_back(market.world.ledger)
    assert worth(market, venue, wallet, pool) == before
    for first, then in zip(before, after, strict=True):
        assert first - 1 <= then <= first


@both
@settings(max_examples=25, deadline=None)
@given(sold=st.integers(10_000, 4 * 10**12), is_a=st.booleans())
def test_fees_of_a_swap_over_many_ticks_are_what_positions_gain(
    venue: Venue, sold: int, is_a: bool
) -> None:
    market = provided_market()
    _, _, pool, _ = demo(market, venue)
    number = 0 if is_a else 1
    mint_in, sold = pool.sides[number], sold if is_a else sold * 150 // 1_000

    def fees() -> int:
        return sum(
            raw(positions(market, venue, wallet)[at], Role.REWARD).get(mint_in.address) or 0
            for wallet, at, of, _ in own(market, venue)
            if of is pool
        )

    before, count = fees(), sum(of is pool for _, _, of, _ in own(market, venue))
    walk = pool.walk(is_a, sold)
    tx = sell(market, pool, number, sold)
    gained = fees() - before
    tx.changes.take_back(market.world.ledger)
    assert fees() == before
    shared = walk.fee - sum(walk.kept)
    # A step's fee loses a unit where it is shared, and a position a unit of each of both roundings.
    assert shared - len(walk.crossed) - 1 - 2 * count <= gained <= shared + 2 * count


@both
def test_collecting_pays_the_fees_that_the_reading_says(venue: Venue) -> None:
    market = provided_market()
    wallet, address, pool, each = demo(market, venue)
    at = place(pool, wallet, each.mint, each.lower, each.upper)
    said = raw(positions(market, venue, wallet)[address], Role.REWARD)
    assert said
    before = {side.address: market.world.ledger.held(wallet, side) for side in pool.sides}
    tx = ran(market, wallet, *PROGRAMS[venue].collected(at))
    for side in pool.sides:
        paid = market.world.ledger.held(wallet, side) - before[side.address]
        assert paid == said.get(side.address, 0)
    assert raw(positions(market, venue, wallet)[address], Role.REWARD) == {}
    tx.changes.take_back(market.world.ledger)
