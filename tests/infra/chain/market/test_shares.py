"""Pools with LP tokens: their bytes, and what readings find there is what a withdrawal pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache, partial
from math import isqrt, prod
from random import Random
from struct import unpack_from

import pytest

from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import RAYDIUM_AMM_V4, RAYDIUM_CPMM
from infra.chain.market.runtime.writes import Writer
from infra.chain.market.venues import (
    raydium_amm_v4_liquidity,
    raydium_cpmm_liquidity,
    raydium_launchlab,
)
from infra.chain.market.venues.raydium_amm_v4 import AmmV4Pool, Profit
from infra.chain.market.venues.raydium_cpmm import CpmmPool
from infra.chain.market.venues.raydium_launchlab import LaunchLabCurve
from infra.chain.market.venues.shares import SharePool
from infra.chain.market.venues.venue import Trader
from infra.chain.source import SlotCompleted, SlotTransactions
from schemas.protocols import raydium_amm_v4, raydium_cpmm
from schemas.protocols.contract import Account, Held, Position, World
from schemas.protocols.registry import kind_of

pytestmark = pytest.mark.slow  # runs a market

KNOBS = Knobs(seed=4, rate=400, wallets=120, forks=0.1, skipped=0.05, failed=0.2)
WORLD = World(9, 9, 9)
PROGRAMS = (RAYDIUM_CPMM.address, RAYDIUM_AMM_V4.address)


@lru_cache(maxsize=1)
def start() -> Market:
    """Return a market before its first slot; a test that changes it takes that back."""
    return Market(replace(KNOBS, forks=0))


def amm_pools(market: Market) -> list[AmmV4Pool]:
    pools = market.world.directory.pools.values()
    return [pool for pool in pools if isinstance(pool, AmmV4Pool)]


def cpmm_pools(market: Market, *, taxed: bool) -> list[CpmmPool]:
    return [
        pool
        for pool in market.world.directory.pools.values()
        if isinstance(pool, CpmmPool)
        and any(side.transfer_fee_bps for side in pool.sides) == taxed
        and market.world.sol in pool.sides
    ]


def ran(market: Market, wallet: bytes, *steps: Step, code: int | None = None) -> Execution:
    tx = Execution(market.world.ledger, Intent(1, wallet, steps, bytes(32)), 1, 1)
    tx.run()
    assert tx.err_code == code, tx.logs
    return tx


def stored(market: Market, address: bytes) -> Account:
    """An account as a reading gets it."""
    found = market.account(address)
    assert found is not None
    kind = kind_of(address, found.owner, found.data)
    assert kind is not None
    return Account(address, kind, found.lamports, found.data, 9)


def read(market: Market, pool: SharePool, wallet: bytes) -> list[Position]:
    """A wallet's positions in a pool, by the bytes of the chain."""
    lp = market.world.ledger.mints[pool.lp_mint]
    tokens = {lp.address: raw} if (raw := market.world.ledger.held(wallet, lp)) else {}
    protocol = raydium_cpmm if isinstance(pool, CpmmPool) else raydium_amm_v4
    reading = protocol.read(Held(wallet, [stored(market, pool.address)], tokens), WORLD)
    wanted = next(reading)
    try:
        while True:
            wanted = reading.send({each: stored(market, each) for each in wanted})
    except StopIteration as end:
        found: list[Position] = end.value
        return found


def amounts(position: Position) -> list[int | None]:
    return [each.amount_raw for each in position.assets]


class Play:
    """Swaps, deposits and withdrawals in a pool, at random."""

    def __init__(self, market: Market, pool: SharePool, seed: int) -> None:
        self.market, self.pool, self.random = market, pool, Random(seed)
        self.ledger = market.world.ledger
        self.lp = self.ledger.mints[pool.lp_mint]
        self.trader, *self.holders = [each.address for each in market.world.makers]
        self.done: list[Execution] = []
        for holder in self.holders:
            for mint in (*pool.sides, self.lp):
                at = self.ledger.associated(holder, mint)
                if at not in self.ledger.tokens:
                    self.ledger.endow(at, mint, holder, 0)
            for side in pool.sides:  # as much as the pool has
                account = self.ledger.tokens[self.ledger.associated(holder, side)]
                more = pool.reserves()[pool.sides.index(side)]
                account.amount_raw += more
                side.supply_raw += more
                if side is market.world.sol:
                    self.ledger.lamports[account.address] += more

    def held(self, wallet: bytes) -> list[int]:
        return [self.ledger.held(wallet, side) for side in self.pool.sides]

    def worth(self, wallet: bytes) -> list[int]:
        """What a wallet has of both tokens, in its accounts and as shares of the pool."""
        found = self.held(wallet)
        for position in read(self.market, self.pool, wallet):
            for number, raw in enumerate(amounts(position)):
                found[number] += raw or 0
        return found

    def run(self, wallet: bytes, step: Step, code: int | None = None) -> None:
        self.done.append(ran(self.market, wallet, step, code=code))

    def swap(self) -> None:
        pool, random, ledger = self.pool, self.random, self.ledger
        number = random.randrange(2)
        mint_in = pool.sides[number]
        most = min(pool.reserves()[number] // 20, ledger.held(self.trader, mint_in))
        amount = random.randrange(most // random.choice((2, 1_000, 10**6)) + 1) + 1
        if pool.quote(mint_in, amount) > 0:
            source, to = (ledger.associated(self.trader, each) for each in self.sides_of(mint_in))
            trader = Trader(self.trader, source, to, self.trader)
            self.run(self.trader, lambda tx: pool.swap(tx, trader, mint_in, amount, 0))

    def sides_of(self, mint_in: Mint) -> tuple[Mint, Mint]:
        return mint_in, self.pool.other(mint_in)

    def deposit(self) -> None:
        pool, owner = self.pool, self.random.choice(self.holders)
        lp_raw = pool.lp_raw // self.random.randrange(50, 10**5) + self.random.randrange(100)
        put: Callable[..., None]
        if isinstance(pool, CpmmPool):
            needs = raydium_cpmm_liquidity.needed(pool, lp_raw)
            put = partial(raydium_cpmm_liquidity.deposit, pool=pool, lp_raw=lp_raw)
            code = 6_005
        else:
            assert isinstance(pool, AmmV4Pool)
            needs = raydium_amm_v4_liquidity.needed(pool, lp_raw)
            put = partial(raydium_amm_v4_liquidity.deposit, pool=pool)
            code = 30
        put = partial(put, lp=self.lp, owner=owner)
        self.run(owner, partial(put, most=(needs[0], needs[1] - 1)), code)
        before, whole, worth = self.held(owner), pool.lp_raw, self.worth(owner)
        all_of_it = pool.withdrawn(whole)
        self.run(owner, partial(put, most=needs))
        paid = [was - now for was, now in zip(before, self.held(owner), strict=True)]
        assert paid == [*needs]
        assert pool.lp_raw >= whole + lp_raw
        for was, now in zip(all_of_it, pool.withdrawn(whole), strict=True):
            assert now >= was  # others have no less
        # AMM v4 gives LP tokens for the coin that is put in, cut off: less than one is lost.
        lost = [1 + (code == 30) * -(-raw // pool.lp_raw) for raw in pool.withdrawn(pool.lp_raw)]
        fees = [side.transfer_fee(raw) for side, raw in zip(pool.sides, needs, strict=True)]
        for was, now, fee, most in zip(worth, self.worth(owner), fees, lost, strict=True):
            assert was - fee - most <= now <= was - fee

    def withdraw(self) -> None:
        pool, owner = self.pool, self.random.choice(self.holders)
        shares = self.ledger.held(owner, self.lp)
        if not shares:
            return
        part = shares if self.random.random() < 0.3 else shares // self.random.randrange(1, 9)
        wanted = pool.withdrawn(part)
        if part == shares:  # what the bytes say is what all of it pays
            [position] = read(self.market, pool, owner)
            assert amounts(position) == [*wanted]
        before = self.held(owner)
        if not all(wanted):
            return
        take: Callable[..., None] = raydium_cpmm_liquidity.withdraw
        if isinstance(pool, AmmV4Pool):
            take = raydium_amm_v4_liquidity.withdraw
        self.run(owner, partial(take, pool=pool, lp=self.lp, owner=owner, lp_raw=part))
        paid = [now - was for was, now in zip(before, self.held(owner), strict=True)]
        fees = [side.transfer_fee(raw) for side, raw in zip(pool.sides, wanted, strict=True)]
        assert paid == [raw - fee for raw, fee in zip(wanted, fees, strict=True)]

    def go(self, steps: int) -> Iterator[None]:
        for _ in range(steps):
            self.random.choice((self.swap, self.swap, self.deposit, self.withdraw))()
            yield


def test_a_cpmm_pools_account_has_the_programs_layout() -> None:
    market = start()
    [pool, *_] = cpmm_pools(market, taxed=False)
    account = market.account(pool.address)
    assert account is not None
    assert (account.owner, account.lamports) == (RAYDIUM_CPMM.address, 5_324_400)
    data = account.data
    assert len(data) == 637
    assert (data[72:104], data[104:136]) == pool.vaults
    assert data[136:168] == pool.lp_mint
    assert (data[168:200], data[200:232]) == tuple(side.address for side in pool.sides)
    programs = tuple(side.program.address for side in pool.sides)
    assert (data[232:264], data[264:296]) == programs
    assert data[296:328] == pool.observation
    decimals = [side.decimals for side in pool.sides]
    assert unpack_from("<BBBBB", data, 328)[1:] == (0, 9, *decimals)
    lp = market.world.ledger.mints[pool.lp_mint]
    assert unpack_from("<Q", data, 333) == (lp.supply_raw + 100,)
    assert data[341:] == bytes(296)
    [position] = read(market, pool, market.world.stakers[0].address)
    first, second = pool.vault_balances()
    supply = isqrt(first * second)
    assert amounts(position) == [raw * (supply // 500) // supply for raw in (first, second)]


def test_an_amm_pools_accounts_have_the_programs_layout() -> None:
    market = start()
    [pool, *_] = amm_pools(market)
    account, targets = market.account(pool.address), market.account(pool.targets)
    assert account is not None
    assert targets is not None
    assert (account.owner, account.lamports) == (RAYDIUM_AMM_V4.address, 6_124_800)
    assert (targets.owner, len(targets.data)) == (RAYDIUM_AMM_V4.address, 2_208)
    data = account.data
    assert len(data) == 752
    assert unpack_from("<16Q", data, 0) == (
        *(6, 254, 7, 3, 9, 6, 1, 0),
        *(0, 500, 5 * 10**6, 0, 0, 1, 10**9, 10**9),
    )
    assert unpack_from("<10Q", data, 128) == (5, 10_000, 25, 10_000, 12, 100, 25, 10_000, 0, 0)
    assert data[208:336] == bytes(128)
    sides = [side.address for side in pool.sides]
    found = [data[at : at + 32] for at in range(336, 624, 32)]
    assert found[:5] == [*pool.vaults, *sides, pool.lp_mint]
    assert found[8] == pool.targets
    coin, pc = pool.vault_balances()
    lp = market.world.ledger.mints[pool.lp_mint]
    assert unpack_from("<Q", data, 720) == (isqrt(coin * pc),) == (lp.supply_raw + 10**9,)
    assert targets.data[:32] == pool.address
    scaled = [int.from_bytes(targets.data[at : at + 16], "little") for at in (1_024, 1_040)]
    assert scaled == [pc * 1_000, coin]
    assert targets.data[2_192:] == b"\xff" * 16
    [position] = read(market, pool, market.world.stakers[0].address)
    assert amounts(position) == [*pool.withdrawn(pool.lp_raw // 500)]


def test_raydiums_part_of_what_trades_earned_is_counted_where_liquidity_comes() -> None:
    market = Market(replace(KNOBS, forks=0))
    [pool, *_] = amm_pools(market)
    maker, ledger = market.world.makers[0].address, market.world.ledger
    source, to = (ledger.associated(maker, each) for each in pool.sides)
    coin, pc = pool.vault_balances()
    there = Trader(maker, source, to, maker)
    ran(market, maker, lambda tx: pool.swap(tx, there, pool.sides[0], coin // 10, 0))
    back, price = Trader(maker, to, source, maker), pc / coin
    spent = int((pool.trade_to(price)[1]) * 1.0025)
    ran(market, maker, lambda tx: pool.swap(tx, back, pool.sides[1], spent, 0))
    assert pool.reserves() == pool.vault_balances()
    first, second = pool.vault_balances()
    earned = first - isqrt(coin * pc * first // second)
    lp = ledger.mints[pool.lp_mint]
    pay = partial(raydium_amm_v4_liquidity.deposit, pool=pool, lp=lp, owner=maker)
    most = raydium_amm_v4_liquidity.needed(pool, 10**9)
    ran(
        market,
        maker,
        lambda tx: spl.create_associated(tx, maker, maker, lp),
        partial(pay, most=most),
    )
    assert earned > coin // 10_000
    assert abs(pool.profit_raw[0] - earned * 12 // 100) < 100
    assert unpack_from("<QQ", pool.data(), 192) == pool.profit_raw
    assert pool.reserves() == (
        first + most[0] - pool.profit_raw[0],
        second + most[1] - pool.profit_raw[1],
    )
    assert pool.profit() == Profit()


def test_swaps_leave_fees_that_are_not_the_providers() -> None:
    market = start()
    [pool, *_] = cpmm_pools(market, taxed=False)
    before = pool.save()
    maker, ledger = market.world.makers[0].address, market.world.ledger
    source, to = (ledger.associated(maker, each) for each in pool.sides)
    trader = Trader(maker, source, to, maker)
    amount = pool.reserves()[0] // 100
    tx = ran(market, maker, lambda tx: pool.swap(tx, trader, pool.sides[0], amount, 0))
    fee = -(-amount * 25 // 10_000)
    found = unpack_from("<5Q", pool.data(), 333)
    assert found == (pool.lp_raw, fee * 12 // 100, 0, fee * 4 // 100, 0)
    assert found[1] > found[3] > 0
    tx.changes.take_back(ledger)
    assert pool.save() == before


@pytest.mark.parametrize("kind", ["cpmm", "taxed cpmm", "amm v4"])
@pytest.mark.parametrize("seed", range(3))
def test_what_the_bytes_say_is_what_is_paid_whatever_happens(seed: int, kind: str) -> None:
    market = Market(replace(KNOBS, seed=seed, forks=0))
    pools: list[SharePool] = [*amm_pools(market)]
    if kind != "amm v4":
        pools = [*cpmm_pools(market, taxed=kind == "taxed cpmm")]
    pool = Random(seed).choice(pools)
    locked = pool.lp_raw - market.world.ledger.mints[pool.lp_mint].supply_raw
    play = Play(market, pool, seed)
    saved, vaults, supply = pool.save(), pool.vault_balances(), play.lp.supply_raw
    demo = market.world.stakers[0].address
    for _ in play.go(200):
        owners = [demo, pool.provider, *play.holders]
        shares = [play.ledger.held(owner, play.lp) for owner in owners]
        assert sum(shares) == play.lp.supply_raw == pool.lp_raw - locked
        found = [read(market, pool, owner) for owner in owners]
        worth = [[*pool.withdrawn(raw)] for raw in shares if raw]
        assert [amounts(each) for positions in found for each in positions] == worth
        for side, reserve in enumerate(pool.withdrawn(pool.lp_raw)):
            assert sum(raw[side] for raw in worth) <= reserve
    Invariants(market).check_supply()
    assert len([tx for tx in play.done if not tx.err_code]) > 100
    if isinstance(pool, AmmV4Pool):
        assert min(pool.profit_raw) > 0
    for tx in reversed(play.done):
        tx.changes.take_back(play.ledger)
    assert (pool.save(), pool.vault_balances(), play.lp.supply_raw) == (saved, vaults, supply)
    Invariants(market).check_supply()


def test_a_pool_that_a_launch_makes_has_its_account_until_it_is_forgotten() -> None:
    market = Market(replace(KNOBS, forks=0))
    world, ledger = market.world, market.world.ledger
    maker = world.makers[0].address
    platform = next(iter(raydium_launchlab.PLATFORMS))
    coin = Mint(b"c" * 32, 6, 0, authority=raydium_launchlab.AUTHORITY, platform=platform)
    curve = LaunchLabCurve(ledger, coin, world.sol, maker)
    source, to = (ledger.associated(maker, each) for each in (world.sol, coin))
    trader = Trader(maker, source, to, maker)
    ran(
        market,
        maker,
        lambda tx: raydium_launchlab.initialize(tx, world.directory, curve, maker),
        lambda tx: spl.create_associated(tx, maker, maker, coin),
        lambda tx: curve.swap(tx, trader, world.sol, raydium_launchlab.RAISED_LAMPORTS * 2, 0),
    )
    pool = raydium_launchlab.migrated_pool(ledger, curve)
    moved = ran(
        market,
        maker,
        lambda tx: raydium_launchlab.migrate(tx, world.directory, curve, pool, maker),
    )
    written = [each for each in Writer(ledger).of(moved.changes) if each.address == pool.address]
    assert [each.data for each in written] == [pool.data()]
    assert written[0].data[40:72] == raydium_launchlab.AUTHORITY
    assert unpack_from("<Q", written[0].data, 373) == (2,)  # it opens a second later
    lp = ledger.mints[pool.lp_mint]
    assert (lp.supply_raw, pool.lp_raw) == (0, isqrt(prod(pool.vault_balances())))
    lp_raw = pool.lp_raw // 1_000
    put = partial(raydium_cpmm_liquidity.deposit, pool=pool, lp=lp, owner=maker, lp_raw=lp_raw)
    ran(
        market,
        maker,
        lambda tx: spl.create_associated(tx, maker, maker, lp),
        partial(put, most=raydium_cpmm_liquidity.needed(pool, lp_raw)),
    )
    [position] = read(market, pool, maker)
    assert amounts(position) == [*pool.withdrawn(lp_raw)]
    world.directory.remove(pool)
    gone = ledger.forget(coin.address, pool.lp_mint, pool.address, *pool.vaults, *curve.vaults)
    assert pool.address in gone
    assert pool.address not in ledger.natives
    assert market.account(pool.address) is None
    Invariants(market).check_supply()


def test_pools_are_written_once_a_slot() -> None:
    market = Market(KNOBS)
    known = {each.address for each in market.genesis_accounts() if each.owner in PROGRAMS}
    changed = 0
    for event in market.generate(40):
        if isinstance(event, SlotTransactions):
            for transaction in event.transactions:
                own = {each.address for each in transaction.writes if each.owner in PROGRAMS}
                assert not own & known  # but of pools that it makes
                known |= own
        elif isinstance(event, SlotCompleted):
            written = [each.address for each in event.writes if each.owner in PROGRAMS]
            assert len(set(written)) == len(written)
            changed += len(written)
    assert changed > 100
