"""Pools of ticks: their bytes, swaps over ticks, and what providers do in them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache, partial
from math import isqrt
from struct import unpack_from

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.programs import ORCA_WHIRLPOOL, RAYDIUM_CLMM, pda
from infra.chain.market.venues import orca_liquidity, raydium_clmm_liquidity
from infra.chain.market.venues.orca_whirlpool import Whirlpool
from infra.chain.market.venues.positions import Instructions, Place, place
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.raydium_clmm import ClmmPool
from infra.chain.market.venues.ticks import (
    MAX_TICK,
    orca_sqrt_price,
    raydium_sqrt_price,
    tick_at,
)
from infra.chain.market.venues.venue import Trader

pytestmark = pytest.mark.slow  # runs a market

KNOBS = Knobs(seed=4, rate=400, wallets=120, forks=0.1, skipped=0.05, failed=0.2)
MOST = (1 << 63, 1 << 63)
PROGRAMS: dict[type[RangedPool], Instructions] = {
    Whirlpool: orca_liquidity,
    ClmmPool: raydium_clmm_liquidity,
}
both = pytest.mark.parametrize("venue", [Whirlpool, ClmmPool])


@lru_cache(maxsize=1)
def start() -> Market:
    """Return a market before its first slot; a test that changes it takes that back."""
    return Market(replace(KNOBS, forks=0))


def pool_of(market: Market, venue: type[RangedPool]) -> RangedPool:
    return next(each for each in market.world.ranged if isinstance(each, venue))


def ran(market: Market, wallet: bytes, *steps: Step, code: int | None = None) -> Execution:
    tx = Execution(market.world.ledger, Intent(1, wallet, steps, bytes(32)), 1, 1)
    tx.run()
    assert tx.err_code == code, tx.logs
    return tx


def opened(market: Market, pool: RangedPool, lower: int, upper: int) -> tuple[Place, Execution]:
    wallet = market.world.providers[0].address
    at = place(pool, wallet, b"n" * 32, lower, upper)
    return at, ran(market, wallet, *PROGRAMS[type(pool)].opened(at, 10**10, MOST))


def swap(market: Market, pool: RangedPool, number: int, amount_raw: int) -> Execution:
    maker, ledger = market.world.makers[0].address, market.world.ledger
    mint_in = pool.sides[number]
    source, to = (ledger.associated(maker, each) for each in (mint_in, pool.other(mint_in)))
    trader = Trader(maker, source, to, maker)
    return ran(market, maker, lambda tx: pool.swap(tx, trader, mint_in, amount_raw, 0))


# Prices at ticks.


def test_prices_at_the_ends_are_the_programs() -> None:
    assert orca_sqrt_price(-MAX_TICK) == 4_295_048_016
    assert orca_sqrt_price(MAX_TICK) == 79_226_673_515_401_279_992_447_579_055
    assert raydium_sqrt_price(-MAX_TICK) == 4_295_048_016
    assert raydium_sqrt_price(MAX_TICK) == 79_226_673_521_066_979_257_578_248_091
    assert orca_sqrt_price(0) == raydium_sqrt_price(0) == 1 << 64
    exact = isqrt((10_001 << 128) // 10_000)
    assert abs(orca_sqrt_price(1) - exact) < 2
    assert abs(raydium_sqrt_price(1) - exact) < 1 << 12


@given(tick=st.integers(-MAX_TICK + 1, MAX_TICK - 1))
def test_a_tick_begins_at_its_price(tick: int) -> None:
    for at in (orca_sqrt_price, raydium_sqrt_price):
        assert tick_at(at(tick), at) == tick
        assert tick_at(at(tick) - 1, at) == tick - 1
        assert abs(at(tick) * at(-tick) / 2**128 - 1) < 1e-8


# Bytes.


def test_a_whirlpools_accounts_have_the_programs_layout() -> None:
    market = start()
    pool = pool_of(market, Whirlpool)
    data = pool.data()
    assert len(data) == 653
    assert unpack_from("<HHHH", data, 41) == (4, 4, 400, 1_300)
    assert int.from_bytes(data[49:65], "little") == pool.liquidity
    assert int.from_bytes(data[65:81], "little") == pool.sqrt_price
    assert unpack_from("<i", data, 81) == (pool.tick,)
    assert (data[101:133], data[133:165]) == (pool.sides[0].address, pool.vaults[0])
    assert (data[181:213], data[213:245]) == (pool.sides[1].address, pool.vaults[1])
    lower = min(tick for tick in pool.ticks if tick != pool.widest[0])
    first = lower // (88 * 4) * 88 * 4
    address = pda(ORCA_WHIRLPOOL, b"tick_array", pool.address, str(first).encode())
    array = market.account(address)
    assert array is not None
    assert (len(array.data), array.lamports) == (9_988, 70_407_360)
    assert unpack_from("<i", array.data, 8) == (first,)
    assert array.data[9_956:] == pool.address
    at = 12 + 113 * ((lower - first) // 4)
    assert array.data[at] == 1
    assert int.from_bytes(array.data[at + 1 : at + 17], "little") == pool.ticks[lower].net
    [(place_at, position)] = [
        (at, each)
        for at, each in market.world.ledger.natives.items()
        if isinstance(each, RangedPosition) and each.pool == pool.address and each.lower == lower
    ]
    account = market.account(place_at)
    assert account is not None
    assert (account.owner, account.lamports) == (ORCA_WHIRLPOOL.address, 2_394_240)
    assert (account.data[8:40], account.data[40:72]) == (pool.address, position.mint)
    assert unpack_from("<ii", account.data, 88) == (lower, position.upper)
    assert len(account.data) == 216


def test_a_clmm_pools_accounts_have_the_programs_layout() -> None:
    market = start()
    pool = pool_of(market, ClmmPool)
    data = pool.data()
    assert len(data) == 1_544
    assert (data[73:105], data[105:137]) == tuple(side.address for side in pool.sides)
    assert (data[137:169], data[169:201]) == pool.vaults
    assert unpack_from("<BBH", data, 233) == (9, 6, 10)
    assert int.from_bytes(data[237:253], "little") == pool.liquidity
    assert int.from_bytes(data[253:269], "little") == pool.sqrt_price
    assert unpack_from("<i", data, 269) == (pool.tick,)
    lower = min(tick for tick in pool.ticks if tick != pool.widest[0])
    first = lower // 600 * 600
    bit = first // 600 + 512
    assert data[904 + bit // 8] >> bit % 8 & 1
    seed = first.to_bytes(4, "big", signed=True)
    array = market.account(pda(RAYDIUM_CLMM, b"tick_array", pool.address, seed))
    assert array is not None
    assert (len(array.data), array.lamports) == (10_240, 72_161_280)
    assert (array.data[8:40], *unpack_from("<i", array.data, 40)) == (pool.address, first)
    at = 44 + 168 * ((lower - first) // 10)
    assert unpack_from("<i", array.data, at) == (lower,)
    assert int.from_bytes(array.data[at + 4 : at + 20], "little") == pool.ticks[lower].net
    assert array.data[10_124] >= 1
    [position] = [
        each
        for each in market.world.ledger.natives.values()
        if isinstance(each, RangedPosition) and each.pool == pool.address and each.lower == lower
    ]
    account = market.account(pda(RAYDIUM_CLMM, b"position", position.mint))
    assert account is not None
    assert (len(account.data), account.lamports) == (281, 2_846_640)
    assert (account.data[9:41], account.data[41:73]) == (position.mint, pool.address)
    assert unpack_from("<ii", account.data, 73) == (lower, position.upper)


# Swaps.


@both
@settings(max_examples=30, deadline=None)
@given(amount=st.integers(1, 10**13), number=st.integers(0, 1))
def test_a_swap_keeps_the_sum_of_liquidity_and_pays_no_more_than_is_there(
    venue: type[RangedPool], amount: int, number: int
) -> None:
    market = start()
    pool = pool_of(market, venue)
    amount = amount if number == 0 else amount // 7
    quoted = pool.quote(pool.sides[number], amount)
    before = pool.save()
    if not quoted:
        return
    tx = swap(market, pool, number, amount)
    [leg] = tx.legs
    assert leg.trader_out_raw == quoted
    low, high = sorted(pool.ticks)[0], sorted(pool.ticks)[-1]
    assert low <= pool.tick < high
    assert pool.liquidity == sum(t.net for at, t in pool.ticks.items() if at <= pool.tick)
    assert (pool.sqrt_price < before[1]) == (number == 0)
    need = [0, 0]
    for each in market.world.ledger.natives.values():
        if isinstance(each, RangedPosition) and each.pool == pool.address:
            amounts = pool.amounts(each.liquidity, each.lower, each.upper, up=False)
            fees = each.settled(pool.inside(each.lower, each.upper)).owed
            need = [sum(each) for each in zip(need, amounts, fees, strict=True)]
    kept = [pool.protocol_raw[side] + pool.protocol_raw[side + 2] for side in (0, 1)]
    for side, held in enumerate(pool.vault_balances()):
        assert 0 <= held - need[side] - kept[side] < 100
    tx.changes.take_back(market.world.ledger)
    assert pool.save() == before


@both
def test_two_halves_of_a_way_are_the_way_over_a_tick(venue: type[RangedPool]) -> None:
    market = start()
    pool = pool_of(market, venue)
    ticks = sorted(pool.ticks)
    whole = swap(market, pool, 0, 4 * 10**12)
    assert pool.tick < ticks[1]  # below the demo wallet's position
    assert pool.liquidity == pool.ticks[ticks[0]].net
    whole.changes.take_back(market.world.ledger)
    assert ticks[1] <= pool.tick < ticks[2]
    parts = [swap(market, pool, 0, 10**12) for _ in range(4)]
    out = sum(part.legs[0].trader_out_raw for part in parts)
    assert abs(out - whole.legs[0].trader_out_raw) < 20
    for part in reversed(parts):
        part.changes.take_back(market.world.ledger)


@both
def test_a_swap_past_the_last_liquidity_fails(venue: type[RangedPool]) -> None:
    market = start()
    pool = pool_of(market, venue)
    assert pool.walk(True, 10**40).is_left
    assert not pool.walk(True, 10**15).is_left
    assert pool.walk(False, 10**40).is_left


# Positions.


@both
def test_a_position_is_opened_added_to_and_closed_and_nothing_is_left(
    venue: type[RangedPool],
) -> None:
    market = start()
    ledger = market.world.ledger
    pool = pool_of(market, venue)
    program = PROGRAMS[venue]
    wallet = market.world.providers[0].address
    before = [ledger.held(wallet, side) for side in pool.sides]
    liquidity, ticks = pool.liquidity, dict(pool.ticks)
    span = pool.span
    lower, upper = pool.tick // 40 * 40 - 40, pool.tick // 40 * 40 + 80
    at, tx = opened(market, pool, lower, upper)
    done = [tx]
    assert pool.liquidity == liquidity + 10**10
    assert (pool.span.lower, pool.span.upper) == (lower, upper)
    assert ledger.held(wallet, at.nft) == at.nft.supply_raw == 1
    assert at.nft.authority is None
    done.append(ran(market, wallet, *program.increased(at, 10**9, MOST)))
    assert pool.liquidity == liquidity + 11 * 10**9
    over = ledger.held(market.world.makers[0].address, pool.sides[0]) // 2
    done.append(swap(market, pool, 0, over // 100))
    done.append(swap(market, pool, 1, over // 1_000))
    position = ledger.natives[at.address]
    assert isinstance(position, RangedPosition)
    owed = position.settled(pool.inside(lower, upper)).owed
    assert owed[0] > 0
    vaults = pool.vault_balances()
    done.append(ran(market, wallet, *program.closed(at, 11 * 10**9)))
    paid = [was - now for was, now in zip(vaults, pool.vault_balances(), strict=True)]
    assert all(raw >= fee for raw, fee in zip(paid, owed, strict=True))
    assert pool.ticks.keys() == ticks.keys()
    assert at.address not in ledger.natives
    assert at.address not in ledger.lamports
    assert at.nft.supply_raw == 0
    Invariants(market).check_supply()
    for each in reversed(done):
        each.changes.take_back(ledger)
    assert [ledger.held(wallet, side) for side in pool.sides] == before
    assert (pool.liquidity, pool.ticks, pool.span) == (liquidity, ticks, span)
    assert at.nft.address not in ledger.mints


@both
def test_what_a_holder_may_not_do_fails(venue: type[RangedPool]) -> None:
    market = start()
    ledger = market.world.ledger
    pool = pool_of(market, venue)
    module = orca_liquidity if venue is Whirlpool else raydium_clmm_liquidity
    lower = pool.tick // 40 * 40
    at, tx = opened(market, pool, lower - 40, lower + 40)
    wallet, other = at.holder, market.world.providers[1].address
    stolen = replace(at, holder=other)
    ran(market, other, partial(module.decrease, at=stolen, liquidity=1), code=3_012)
    ran(market, wallet, partial(module.close, at=at), code=module.NOT_EMPTY)
    taken = partial(module.decrease, at=at, liquidity=10**10 + 1)
    ran(market, wallet, taken, code=module.TOO_MUCH_TAKEN)
    costly = partial(module.increase, at=at, liquidity=10**10, most=(1, 1))
    ran(market, wallet, costly, code=module.TOO_MUCH)
    nothing = partial(module.increase, at=at, liquidity=0, most=MOST)
    ran(market, wallet, nothing, code=module.NO_LIQUIDITY)
    tx.changes.take_back(ledger)
