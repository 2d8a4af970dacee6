"""What the readings say of positions in Meteora's pools is what the simulated market's ledger says.

Providers and traders act at random in a market before its first slot. A reading sees bytes alone;
what it must find is the program's own arithmetic over the ledger's numbers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache, partial
from random import Random

import pytest

from infra.chain import demo_wallets
from infra.chain.market import Knobs, Market
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime.execution import Execution, Intent, Step
from infra.chain.market.traders.trading import open_account
from infra.chain.market.venues import meteora_damm_v2_liquidity as damm
from infra.chain.market.venues import meteora_dlmm_liquidity as dlmm
from infra.chain.market.venues.bins import BinnedPosition
from infra.chain.market.venues.meteora_damm_v2 import DammPosition, DammV2Pool, nft_account
from infra.chain.market.venues.meteora_damm_v2_liquidity import Share
from infra.chain.market.venues.meteora_dlmm import BINS_PER_SIDE, DlmmPool
from infra.chain.market.venues.meteora_dlmm_liquidity import Bins
from infra.chain.market.venues.venue import Pool, Trader
from schemas.protocols import meteora_damm_v2, meteora_dlmm
from schemas.protocols.contract import Account, Held, Position, Protocol, Role, World
from schemas.protocols.registry import kind_of
from schemas.solana.addresses import TOKEN_2022_PROGRAM
from schemas.solana.token_accounts import read_mint, read_token_account

pytestmark = pytest.mark.slow  # runs hundreds of transactions, each with its readings

KNOBS = Knobs(seed=6, wallets=40)
LENDER = demo_wallets.ADDRESSES["lender-1"]
HOLDER = demo_wallets.ADDRESSES["holder-0"]
Pair = tuple[int, int]


def account_of(market: Market, address: bytes) -> Account | None:
    found = market.account(address)
    if found is None or (kind := kind_of(address, found.owner, found.data)) is None:
        return None
    return Account(address, kind, found.lamports, found.data, 1)


def answered(market: Market, protocol: Protocol, held: Held) -> dict[bytes, Position]:
    """What a reading finds, by the positions' addresses."""
    assert protocol.read is not None
    reading = protocol.read(held, World(1, 1, 0))
    try:
        wanted = next(reading)
        while True:
            wanted = reading.send(
                {at: found for at in wanted if (found := account_of(market, at)) is not None}
            )
    except StopIteration as end:
        result: list[Position] = end.value
        return {each.account.address: each for each in result}


def raw(position: Position, role: Role, pool: Pool) -> Pair:
    amounts = Counter[bytes]()
    for asset in position.assets:
        if asset.role is role:
            assert asset.amount_raw is not None
            amounts[asset.mint] += asset.amount_raw
    first, second = (amounts[side.address] for side in pool.sides)
    return first, second


class Actors:
    """Providers and a trader who act at random; each step is a transaction of its own."""

    def __init__(self, market: Market, seed: int) -> None:
        self.market = market
        self.ledger = market.world.ledger
        self.random = Random(seed)
        self.done = Counter[str]()

    def run(self, what: str, wallet: bytes, *steps: Step) -> Execution:
        tx = Execution(self.ledger, Intent(1, wallet, steps, bytes(32)), 1, 1)
        tx.run()
        self.done[what if tx.err_code is None else f"{what} failed"] += 1
        return tx

    def sell(self, pool: Pool, number: int, amount_raw: int) -> Execution:
        """Let a maker sell so much of one of a pool's sides."""
        maker = self.market.world.makers[1].address
        mint_in = pool.sides[number]
        both = (mint_in, pool.other(mint_in))
        source, to = (self.ledger.associated(maker, each) for each in both)
        trader = Trader(maker, source, to, maker)
        return self.run("swap", maker, lambda tx: pool.swap(tx, trader, mint_in, amount_raw, 0))

    def swap(self, pool: Pool) -> Execution:
        """Sell anything from a unit to two percent of what the pool has."""
        side = self.random.randrange(2)
        most = pool.vault_balances()[side] // 50
        return self.sell(pool, side, int(most ** self.random.uniform(0.3, 1)) + 1)

    def balances(self, wallet: bytes, pool: Pool) -> Pair:
        first, second = (self.ledger.held(wallet, side) for side in pool.sides)
        return first, second


# DLMM.


class Binned(Actors):
    def __init__(self, market: Market, seed: int) -> None:
        super().__init__(market, seed)
        self.roundings = Counter[tuple[bytes, int]]()  # by pool and side
        self.wallets = [each.address for each in market.world.providers[:3]]

    def own(self, pool: DlmmPool) -> dict[bytes, BinnedPosition]:
        return {
            at: each
            for at, each in self.ledger.natives.items()
            if isinstance(each, BinnedPosition) and each.pool == pool.address
        }

    def place(self, each: BinnedPosition) -> Bins:
        pool = self.ledger.natives[each.pool]
        assert isinstance(pool, DlmmPool)
        return Bins(pool, each.holder, each.lower, each.upper)

    def answer(self, at: bytes, each: BinnedPosition) -> Position:
        """What the reading says of a position, from bytes alone."""
        account = account_of(self.market, at)
        assert account is not None
        found = answered(self.market, meteora_dlmm.PROTOCOL, Held(each.holder, [account], {}))
        return found[at]

    def check(self, pool: DlmmPool, at: bytes, each: BinnedPosition) -> None:
        position = self.answer(at, each)
        assert (position.missing, position.unsupported_fields) == ([], [])
        assert position.market == pool.address
        assert raw(position, Role.SUPPLY, pool) == each.amounts(pool.bins)
        assert raw(position, Role.REWARD, pool) == each.settled(pool.bins).pending
        span = position.range
        assert span is not None
        assert (span.lower_index, span.upper_index) == (each.lower, each.upper)
        assert span.current_index == pool.active_bin

    def act(self) -> None:
        random, pool = self.random, self.random.choice(self.market.world.binned)
        roll, own = random.random(), self.own(pool)
        if roll < 0.5:
            bins = pool.bins
            self.swap(pool)
            steps = sum(bins[at] is not after for at, after in pool.bins.items())
            for side in (0, 1):
                self.roundings[pool.address, side] += steps
            return
        wallet = random.choice(self.wallets)
        mine = [self.place(each) for each in own.values() if each.holder == wallet]
        amounts = tuple(random.randrange(10**11) for _ in range(2))
        if roll < 0.52:
            at, tx = dlmm.kept(pool), self.recenter(pool)
        elif not mine or roll < 0.6:
            width = random.choice((1, 7, 40, 70, 100))
            lower = pool.active_bin - random.randrange(-3, width + 3)
            at = Bins(pool, wallet, lower, lower + width - 1)
            tx = self.run("open", wallet, *dlmm.opened(at, (amounts[0], amounts[1])))
        else:
            at = random.choice(mine)
            what, steps_of = random.choice(
                (
                    ("add", dlmm.increased(at, (amounts[0], amounts[1]))),
                    ("remove", dlmm.decreased(at, random.randrange(1, 9_999))),
                    ("collect", dlmm.collected(at)),
                    ("close", dlmm.closed(at)),
                )
            )
            tx = self.run(what, wallet, *steps_of)
        if tx.err_code is None:
            for side in (0, 1):  # both what is earned and the share itself lose a part of a unit
                self.roundings[pool.address, side] += 2 * at.width

    def recenter(self, pool: DlmmPool) -> Execution:
        amounts = self.own(pool)[dlmm.kept(pool).address].amounts(pool.bins)
        return self.run("recenter", pool.keeper, *dlmm.recentered(pool, amounts))

    def check_all(self) -> None:
        """All positions, and that vaults have what all are owed and some units of rounding."""
        for pool in self.market.world.binned:
            owed = [0, 0]
            shares = Counter[int]()
            parts = 0
            for at, each in self.own(pool).items():
                self.check(pool, at, each)
                position = self.answer(at, each)
                for role in (Role.SUPPLY, Role.REWARD):
                    for side, amount in enumerate(raw(position, role, pool)):
                        owed[side] += amount
                for bin_id, part in enumerate(each.parts, each.lower):
                    shares[bin_id] += part.share
                    parts += bool(part.share)
            assert +shares == {at: held.supply for at, held in pool.bins.items() if held.supply}
            for side, held in enumerate(pool.vault_balances()):
                spare = held - pool.protocol_raw[side] - owed[side]
                assert 0 <= spare <= self.roundings[pool.address, side] + 2 * parts
        Invariants(self.market).check_supply()


def test_positions_in_bins_are_the_ledgers_whatever_happens() -> None:
    actors = Binned(Market(KNOBS), seed=2)
    for number in range(400):
        actors.act()
        pool = actors.random.choice(actors.market.world.binned)
        at, each = actors.random.choice([*actors.own(pool).items()])
        actors.check(pool, at, each)
        if number % 50 == 49:
            actors.check_all()
    assert min(actors.done[each] for each in ("swap", "open", "add", "remove", "collect")) > 10
    assert min(actors.done[each] for each in ("close", "recenter")) > 2


@lru_cache(maxsize=1)
def started() -> Binned:
    """A market in which some trades have been; a test that changes it takes that back."""
    actors = Binned(Market(KNOBS), seed=3)
    for _ in range(40):
        for pool in actors.market.world.binned:
            actors.swap(pool)
    return actors


def demo(actors: Binned) -> tuple[bytes, BinnedPosition, DlmmPool]:
    for pool in actors.market.world.binned:
        for at, each in actors.own(pool).items():
            if each.holder == LENDER:
                return at, each, pool
    raise AssertionError("no demo wallet has a position")


def test_collecting_pays_the_fees_that_the_reading_says() -> None:
    actors = started()
    at, each, pool = demo(actors)
    said = raw(actors.answer(at, each), Role.REWARD, pool)
    assert min(said) > 0
    before = actors.balances(LENDER, pool)
    tx = actors.run("collect", LENDER, *dlmm.collected(actors.place(each)))
    after = actors.balances(LENDER, pool)
    assert (after[0] - before[0], after[1] - before[1]) == said
    now = actors.own(pool)[at]
    assert raw(actors.answer(at, now), Role.REWARD, pool) == (0, 0)
    assert now.claimed == said
    tx.changes.take_back(actors.ledger)
    assert raw(actors.answer(at, each), Role.REWARD, pool) == said


@pytest.mark.parametrize("number", [0, 1])
def test_fees_of_a_swap_over_many_bins_are_what_positions_gain(number: int) -> None:
    actors = started()
    *_, pool = demo(actors)

    def fees() -> int:
        own = actors.own(pool).items()
        return sum(raw(actors.answer(at, e), Role.REWARD, pool)[number] for at, e in own)

    before, kept, active = fees(), pool.protocol_raw[number], pool.active_bin
    tx = actors.sell(pool, number, pool.vault_balances()[number] // 10)
    shared = (tx.legs[0].fee_raw or 0) - (pool.protocol_raw[number] - kept)
    bins, gained = abs(pool.active_bin - active) + 1, fees() - before
    tx.changes.take_back(actors.ledger)
    assert bins > 3
    parts = len(actors.own(pool)) * bins
    assert shared - bins - parts <= gained <= shared + parts


def test_adding_and_taking_liquidity_changes_what_a_wallet_has_by_less_than_a_unit_a_bin() -> None:
    actors = started()
    at, each, pool = demo(actors)

    def worth() -> Pair:
        position = actors.answer(at, actors.own(pool)[at])
        lines = [raw(position, role, pool) for role in (Role.SUPPLY, Role.REWARD)]
        first, second = zip(*lines, actors.balances(LENDER, pool), strict=True)
        return sum(first), sum(second)

    before, width = worth(), each.upper - each.lower + 1
    place = actors.place(each)
    for steps in (dlmm.increased(place, (10**10, 10**9)), dlmm.decreased(place, 3_333)):
        tx = actors.run("change", LENDER, *steps)
        assert tx.err_code is None
        after = worth()
        tx.changes.take_back(actors.ledger)
        assert worth() == before
        for first, then in zip(before, after, strict=True):
            assert first - 2 * width <= then <= first + width


def test_what_a_holder_may_not_do_in_bins_fails() -> None:
    actors = started()
    _, each, pool = demo(actors)
    place = actors.place(each)
    fails = [
        (dlmm.NOT_EMPTY, lambda tx: dlmm.close(tx, place)),
        (dlmm.NO_LIQUIDITY, lambda tx: dlmm.remove(tx, place, 0)),
        (dlmm.PRICE_IS_AWAY, lambda tx: dlmm.add(tx, place, (9, 9), pool.active_bin + 9)),
        (
            dlmm.NOT_FOUND,
            lambda tx: dlmm.claim(tx, Bins(pool, actors.wallets[0], each.lower, each.upper)),
        ),
    ]
    for code, step in fails:
        assert actors.run("fail", LENDER, step).err_code == code


def test_a_keepers_position_is_longer_than_one_is_opened_with() -> None:
    pool = started().market.world.binned[0]
    account = started().market.account(dlmm.kept(pool).address)
    assert account is not None
    assert len(account.data) == 8_120 + 112 * (2 * BINS_PER_SIDE - 1 - 70)


# DAMM v2.


class OverAllPrices(Actors):
    def __init__(self, market: Market, seed: int) -> None:
        super().__init__(market, seed)
        self.roundings = Counter[tuple[bytes, int]]()  # by pool and side
        self.wallets = [each.address for each in market.world.providers[:3]]
        self.pools = market.world.whole_range

    def own(self, pool: DammV2Pool) -> dict[bytes, tuple[Share, DammPosition]]:
        """All positions of a pool by address, each with whose it is."""
        found = {}
        for at, each in self.ledger.natives.items():
            if isinstance(each, DammPosition) and each.pool == pool.address:
                holder = self.ledger.tokens[nft_account(each.nft)].owner
                found[at] = damm.share(pool, holder, each.nft), each
        return found

    def answer(self, of: Share) -> Position:
        """What the reading says of a position, from bytes alone."""
        account, nft = account_of(self.market, of.address), self.market.account(of.nft_account)
        assert account is not None
        assert nft is not None
        assert nft.owner == TOKEN_2022_PROGRAM
        token = read_token_account(nft.owner, nft.data)
        held = Held(token.owner, [account], {token.mint: token.amount_raw})
        return answered(self.market, meteora_damm_v2.PROTOCOL, held)[of.address]

    def check(self, of: Share, each: DammPosition) -> None:
        position, pool = self.answer(of), of.pool
        assert (position.missing, position.unsupported_fields) == ([], [])
        assert (position.id, position.market) == (each.nft, pool.address)
        assert position.stands_for == {each.nft: 1}
        assert raw(position, Role.SUPPLY, pool) == pool.amounts(each.liquidity, up=False)
        assert raw(position, Role.REWARD, pool) == each.settled(pool.growths).pending
        assert position.locks == []

    def act(self) -> None:
        random, pool = self.random, self.random.choice(self.pools)
        roll, own = random.random(), self.own(pool)
        side_of_all = [(pool.address, side) for side in (0, 1)]
        if roll < 0.5:
            self.swap(pool)
            self.roundings.update(side_of_all)
            return
        wallet = random.choice(self.wallets)
        mine = [each for each in own.values() if each[0].holder == wallet]
        liquidity, most = random.randrange(10**11) << 64 | random.getrandbits(64), (10**13,) * 2
        if not mine or roll < 0.6:
            at = damm.share(pool, wallet, random.randbytes(32))
            tx = self.run("open", wallet, *damm.opened(at, liquidity, most))
        else:
            at, each = random.choice(mine)
            part = random.randrange(each.liquidity + 1)
            what, steps = random.choice(
                (
                    ("add", damm.increased(at, liquidity, most)),
                    ("remove", damm.decreased(at, part)),
                    ("collect", damm.collected(at)),
                    ("close", damm.closed(at, each.liquidity)),
                )
            )
            tx = self.run(what, wallet, *steps)
        if tx.err_code is None:
            self.roundings.update(side_of_all * 2)  # of the fee, and of the amount

    def check_all(self) -> None:
        """All positions, and that vaults have what all are owed and some units of rounding."""
        for pool in self.pools:
            own, owed = self.own(pool), [0, 0]
            for of, each in own.values():
                self.check(of, each)
                position = self.answer(of)
                for role in (Role.SUPPLY, Role.REWARD):
                    for side, amount in enumerate(raw(position, role, pool)):
                        owed[side] += amount
            assert sum(each.liquidity for _, each in own.values()) == pool.liquidity
            assert pool.positions == len(own)
            for side, held in enumerate(pool.vault_balances()):
                spare = held - pool.protocol_raw[side] - owed[side]
                assert 0 <= spare <= 2 * self.roundings[pool.address, side] + 2 * len(own)
        Invariants(self.market).check_supply()


def test_positions_over_all_prices_are_the_ledgers_whatever_happens() -> None:
    actors = OverAllPrices(Market(KNOBS), seed=4)
    for number in range(400):
        actors.act()
        own = actors.own(actors.random.choice(actors.pools))
        actors.check(*actors.random.choice([*own.values()]))
        if number % 50 == 49:
            actors.check_all()
    assert min(actors.done[each] for each in ("swap", "open", "add", "remove", "collect")) > 10
    assert actors.done["close"] > 10


def test_a_demo_wallet_collects_the_fees_over_all_prices_that_the_reading_says() -> None:
    actors = OverAllPrices(Market(KNOBS), seed=5)
    for pool in actors.pools:
        [at] = [of for of, _ in actors.own(pool).values() if of.holder == HOLDER]
        for _ in range(10):
            actors.swap(pool)
        said = raw(actors.answer(at), Role.REWARD, pool)
        assert said[1] > 0  # B earns in both modes
        before = actors.balances(HOLDER, pool)
        accounts = [open_account(HOLDER, side) for side in pool.sides]
        assert actors.run("collect", HOLDER, *accounts, *damm.collected(at)).err_code is None
        after = actors.balances(HOLDER, pool)
        assert (after[0] - before[0], after[1] - before[1]) == said
        assert raw(actors.answer(at), Role.REWARD, pool) == (0, 0)


def test_adding_and_taking_over_all_prices_changes_what_a_wallet_has_by_a_unit_of_each() -> None:
    actors = OverAllPrices(Market(KNOBS), seed=7)
    wallet = actors.wallets[0]
    for number, pool in enumerate(actors.pools):
        at = damm.share(pool, wallet, bytes([number + 1]) * 32)
        opened = damm.opened(at, 10**10 << 64, (10**13,) * 2)
        assert actors.run("open", wallet, *opened).err_code is None
        for _ in range(20):
            actors.swap(pool)

        def worth(at: Share = at, pool: DammV2Pool = pool) -> Pair:
            position = actors.answer(at)
            lines = [raw(position, role, pool) for role in (Role.SUPPLY, Role.REWARD)]
            first, second = zip(*lines, actors.balances(wallet, pool), strict=True)
            return sum(first), sum(second)

        before = worth()
        for steps in (
            damm.increased(at, 10**9 << 64, (10**13,) * 2),
            damm.increased(at, 12_345 << 64, (10**13,) * 2),
            damm.decreased(at, (10**9 << 64) // 3),
        ):
            tx = actors.run("change", wallet, *steps)
            assert tx.err_code is None
            after = worth()
            tx.changes.take_back(actors.ledger)
            assert worth() == before
            for first, then in zip(before, after, strict=True):
                assert first - 1 <= then <= first


def test_a_closed_position_leaves_nothing_and_what_was_done_can_be_taken_back() -> None:
    actors = OverAllPrices(Market(KNOBS), seed=5)
    wallet, pool = actors.wallets[0], actors.pools[0]
    at = damm.share(pool, wallet, b"n" * 32)
    before, state = dict(actors.ledger.lamports), pool.save()
    done = [actors.run("open", wallet, *damm.opened(at, 10**9 << 64, (10**13,) * 2))]
    mint = actors.market.account(at.nft.address)
    assert mint is not None
    assert (mint.owner, read_mint(mint.owner, mint.data).supply_raw) == (TOKEN_2022_PROGRAM, 1)
    other = replace(at, holder=actors.wallets[1])
    fails = [
        (damm.NOT_FOUND, partial(damm.remove, at=other, liquidity=1)),
        (damm.NOT_EMPTY, partial(damm.close, at=at)),
        (damm.TOO_MUCH_TAKEN, partial(damm.remove, at=at, liquidity=(10**9 << 64) + 1)),
        (damm.TOO_MUCH, partial(damm.add, at=at, liquidity=10**9 << 64, most=(1, 1))),
        (damm.NO_LIQUIDITY, partial(damm.add, at=at, liquidity=0, most=(1, 1))),
    ]
    for code, step in fails:
        tx = actors.run("fail", step.keywords["at"].holder, step)
        assert tx.err_code == code
        done.append(tx)
    done.append(actors.run("close", wallet, *damm.closed(at, 10**9 << 64)))
    assert actors.done["open"] == actors.done["close"] == 1
    gone = (at.address, at.nft.address, at.nft_account)
    assert not any(address in actors.ledger.lamports for address in gone)
    Invariants(actors.market).check_supply()
    for tx in reversed(done):
        tx.changes.take_back(actors.ledger)
    assert (actors.ledger.lamports, pool.save()) == (before, state)
