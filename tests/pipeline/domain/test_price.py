"""The price of a token: what moves it, what does not, and that it is a function of its trades."""

from __future__ import annotations

import struct
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.domain.pool_trade import Trade, trade_of
from pipeline.domain.price import (
    ESTIMATES_LAMPORTS,
    HALVES_MS,
    LATE_SLOTS,
    MAX_POOLS,
    PROVEN_SLOTS,
    MintPrice,
    Verdict,
)
from pipeline.domain.value import SolUsd, value_swaps
from schemas.money import WSOL
from tests.support.exploring import SLOW, examples

SOL = 10**9
MINUTE_MS = 60_000
TOKEN = 10**6  # raw units of one token


class Market:
    """Trades of one token in pools of its own; the clock goes on with each."""

    def __init__(self) -> None:
        self.mint = MintPrice()
        self.slot = 1000
        self.time_ms = 1_700_000_000_000

    def pause(self, ms: int) -> None:
        self.time_ms += ms
        self.slot += ms // 400

    def trade(
        self,
        pool: str,
        price: float,  # SOL per token
        sol: float,
        depth: float | None = None,
        *,
        virtual: float | None = None,
        after_ms: int = 400,
        slots_back: int = 0,
    ) -> Verdict:
        self.pause(after_ms)
        lamports = round(sol * SOL)
        return self.mint.apply(
            Trade(
                pool,
                "a-dex",
                self.slot - slots_back,
                self.time_ms - 400 * slots_back,
                lamports,
                round(lamports / SOL / price * TOKEN),
                None if depth is None else round(depth * SOL),
                None if virtual is None else round(virtual * SOL),
            )
        )

    @property
    def price(self) -> float:
        assert self.mint.price
        return float(Fraction(*self.mint.price) * TOKEN / SOL)


class ConstantProduct:
    """A pool of x * y = k that trades on a market; it reports reserves and the price after."""

    def __init__(self, market: Market, name: str, sol: float, price: float) -> None:
        self.market = market
        self.name = name
        self.quote = round(sol * SOL)
        self.token = round(sol / price * TOKEN)

    def swap(self, sol: float) -> None:
        """Buy for so much SOL, sell for as much if negative."""
        paid = round(sol * SOL)
        token = self.token * self.quote // (self.quote + paid)
        amount, self.token, self.quote = abs(token - self.token), token, self.quote + paid
        self.market.mint.apply(
            Trade(
                self.name, "a-dex", self.market.slot, self.market.time_ms, abs(paid), amount,
                self.quote, None, (self.quote, self.token),
            )
        )  # fmt: skip

    @property
    def price(self) -> float:
        return self.quote / SOL / (self.token / TOKEN)


def moved(before: float, after: float) -> float:
    return abs(after / before - 1)


def test_the_first_trade_ever_gives_a_price():
    market = Market()
    assert market.mint.price is None
    assert market.trade("curve", 0.002, sol=0.01) is Verdict.ACCEPTED
    assert market.price == pytest.approx(0.002)
    assert (market.mint.pool, market.mint.slot) == ("curve", market.slot)
    assert market.mint.time_ms == market.time_ms


def test_a_spike_of_half_in_a_thin_pool_moves_nothing():
    market = Market()
    deep = ConstantProduct(market, "deep", 400, 0.01)
    thin = ConstantProduct(market, "thin", 13, 0.01)
    for n in range(20):
        deep.swap(0.5 if n % 2 else -0.5)
        thin.swap(0.05 if n % 2 else -0.05)
        market.pause(400)
    before, thin_before = market.price, thin.price
    thin.swap(3.0)  # some 500 dollars
    assert thin.price > 1.5 * thin_before * 0.99
    assert moved(before, market.price) < 0.01
    for _ in range(20):  # and stays there
        market.pause(400)
        thin.swap(0.05)
        assert moved(before, market.price) < 0.01


def test_a_spike_in_a_thin_pool_does_not_move_a_token_whose_main_pool_reports_no_reserves():
    market = Market()
    thin = ConstantProduct(market, "thin", 13, 0.01)
    for n in range(100):
        market.trade("main", 0.01 * (1.001 if n % 2 else 0.999), sol=2)
        thin.swap(0.05 if n % 2 else -0.05)
    before = market.price
    thin.swap(3.0)
    assert moved(before, market.price) < 0.01
    for n in range(10):  # people go on trading in the main pool before somebody evens it out
        market.trade("main", 0.01 * (1.001 if n % 2 else 0.999), sol=2)
        assert moved(before, market.price) < 0.01


def test_a_sandwich_in_one_block_leaves_only_what_its_victim_did():
    market = Market()
    pool = ConstantProduct(market, "pool", 100, 0.01)
    pool.swap(0.001)
    before, held = market.price, pool.token
    pool.swap(20)
    bought = held - pool.token
    pool.swap(0.2)  # the victim
    k = pool.quote * pool.token
    pool.swap(-(pool.quote - k // (pool.token + bought)) / SOL)
    assert moved(before, market.price) < 0.005


def test_trading_with_oneself_in_a_thin_pool_gains_no_weight():
    market = Market()
    for n in range(300):
        market.trade("honest", 0.01, sol=0.2, depth=50)
        market.trade("wash", 0.03 if n % 2 else 0.0301, sol=40, depth=2)
    assert moved(0.01, market.price) < 0.01


@pytest.mark.parametrize("virtual", [None, 1_000_000.0])
def test_nor_in_pools_that_report_no_reserves(virtual):
    market = Market()
    for _ in range(300):
        market.trade("honest", 0.01, sol=0.2, depth=50)
        for n in range(4):
            market.trade(f"wash{n}", 0.03, sol=40, virtual=virtual, after_ms=0)
    assert moved(0.01, market.price) < 0.01


def test_many_such_pools_do_not_drive_out_the_one_with_reserves():
    market = Market()
    for _ in range(300):
        market.trade("honest", 0.01, sol=1, depth=50)
    price = 0.01
    for n in range(80):
        price *= 1.05 if n >= 50 else 1
        market.trade("honest", 0.01, sol=1, depth=50)
        for pool in range(2 * MAX_POOLS):
            market.trade(f"wash{pool}", price, sol=4000, after_ms=0)
        assert moved(0.01, market.price) < 0.01


@pytest.mark.parametrize("thin_sol", [17, 20, 30, 60])
def test_a_trade_in_a_thin_pool_does_not_move_a_token_of_a_concentrated_one(thin_sol):
    """A pool that reports what its vaults hold, as far as that is near the price."""
    market = Market()
    thin = ConstantProduct(market, "thin", thin_sol, 0.01)
    for n in range(100):
        price = 0.01 * (1.001 if n % 2 else 0.999)
        market.trade("main", price, sol=20, depth=1000, virtual=100_000)
        thin.swap(0.05 if n % 2 else -0.05)
    before = market.price
    thin.swap(3.33)  # some 500 dollars
    assert moved(before, market.price) < 0.01
    market.trade("main", 0.01, sol=20, depth=1000, virtual=100_000)
    assert moved(before, market.price) < 0.01


@pytest.mark.parametrize("paid_lamports", [10**7, 1000 * SOL])
def test_a_token_that_somebody_made_up_does_not_price_what_is_sold_for_it(swap, paid_lamports):
    """An attacker buys its own token from itself, then the victim's with it, in its own pools."""
    market = Market()
    for _ in range(100):
        market.trade("deep", 0.01, sol=10, depth=100_000)
    before = market.price
    own = swap("own", WSOL, 10**6, paid_lamports)
    for more in (1, 2, 10**9):  # how many times what it bought the attacker sells
        forged = swap("victim", "own", TOKEN, 10**6 * more)
        forged.pool, forged.quote_reserve_raw, forged.reserve_raw = "forged", 10**17, 10**11
        for _ in range(100):
            value_swaps([own, forged], SolUsd(150, 1), {})
            market.pause(400)
            forged.slot, forged.block_time_ms = market.slot, market.time_ms
            trade = trade_of(forged)
            assert trade is None or market.mint.apply(trade) is Verdict.ACCEPTED
            assert moved(before, market.price) < 0.01


def test_liquidity_that_comes_for_a_slot_moves_nothing():
    market = Market()
    deep = ConstantProduct(market, "deep", 400, 0.01)
    for n in range(300):
        deep.swap(2 if n % 2 else -2)
        market.pause(400)
    before = market.price
    old = ConstantProduct(market, "old", 1, 0.01)
    for n in range(200):  # it is known for long
        old.swap(0.01 if n % 2 else -0.01)
        market.pause(400)
    for name in ("flash", "old"):
        flash = ConstantProduct(market, name, 5000, 1.0)
        flash.swap(300)
        flash.swap(-300)
        assert moved(before, market.price) < 0.01
        for n in range(100):
            market.pause(400)
            deep.swap(2 if n % 2 else -2)
            assert moved(before, market.price) < 0.02


def test_liquidity_that_stays_has_its_say():
    market = Market()
    thin = ConstantProduct(market, "thin", 25, 0.01)
    new = ConstantProduct(market, "new", 5000, 0.0105)
    for n in range(PROVEN_SLOTS + 10):
        thin.swap(0.05 if n % 2 else -0.05)
        new.swap(20 if n % 2 else -20)
        market.pause(400)
    assert market.mint.pool == "new"


def test_weight_earned_at_the_right_price_is_lost_on_walking_off():
    market = Market()
    for _ in range(300):
        market.trade("curve", 0.01, sol=0.1, depth=3)
        market.trade("wash", 0.01, sol=40)
    price = 0.01
    while price < 0.05:
        price *= 1.08
        market.trade("wash", price, sol=40)
    assert moved(0.01, market.price) < 0.2
    market.trade("curve", 0.01, sol=0.1, depth=3)
    assert moved(0.01, market.price) < 0.01


def test_a_pool_that_walked_off_does_not_break_the_tie_of_two_that_stay():
    """Half of the weight is reached at the cheaper of the two, if the third weighs nothing."""
    market = Market()
    for pool, price in (("cheap", 0.0100), ("dear", 0.0105), ("third", 0.0102), ("third", 0.0200)):
        market.trade(pool, price, sol=5, after_ms=0)
    assert market.mint.pool == "cheap"


def test_estimates_together_never_outweigh_a_pool_of_more_than_their_bound():
    market = Market()
    depth = ESTIMATES_LAMPORTS / SOL + 1
    for _ in range(100):
        market.trade("reporting", 0.01, sol=1, depth=depth)
        for n in range(5):
            market.trade(f"hidden{n}", 0.0105, sol=500, after_ms=0)
    assert market.price == pytest.approx(0.01)


def test_a_stale_pool_loses_its_say():
    market = Market()
    for _ in range(50):
        market.trade("left", 0.01, sol=20, depth=1000)
    for minute in range(8 * 60):
        market.trade("alive", 0.02, sol=1, depth=30, after_ms=MINUTE_MS)
        if minute < 5:
            assert moved(0.01, market.price) < 0.01
    assert moved(0.02, market.price) < 0.01


def test_a_quiet_night_makes_no_pool_stale():
    market = Market()
    for _ in range(20):
        market.trade("deep", 0.01, sol=1, depth=500)
        market.trade("thin", 0.01, sol=0.1, depth=10)
    market.pause(10 * 60 * MINUTE_MS)
    market.trade("thin", 0.015, sol=2.5, depth=12)
    assert moved(0.01, market.price) < 0.01


@pytest.mark.parametrize("depth", [10, None])
def test_a_pool_that_nobody_trades_in_holds_the_price_for_hours_and_not_for_good(
    depth: float | None,
):
    """Who trades with themselves while all others rest does not have the price at once."""
    market = Market()
    for _ in range(100):
        market.trade("resting", 0.01, sol=2, depth=depth)
    for minutes, price in ((150, 0.01), (250, 0.02)):
        for _ in range(minutes):
            market.pause(MINUTE_MS)
            market.trade("other", 0.02, sol=20)
        assert market.price == pytest.approx(price)


def test_the_price_is_continuous_from_curve_to_pool():
    market = Market()
    for n in range(100):
        market.trade("curve", 1e-7 * (1 + n / 50), sol=0.8, depth=n * 0.8)
    before = market.price
    market.mint.migrated("curve", "pool")
    assert market.price == before
    assert market.mint.pool == "pool"
    assert market.trade("curve", 5e-7, sol=30, depth=85) is Verdict.LATE
    market.trade("pool", 3.1e-7, sol=0.5, depth=85)
    assert market.price == pytest.approx(3.1e-7, rel=1e-3)


@pytest.mark.parametrize("depth", [80, None])
def test_a_curve_that_leaves_for_a_pool_that_nothing_names_has_no_say(depth: float | None):
    """Its price stays until a pool trades, and holds back none that then walks off."""
    market = Market()
    for _ in range(100):
        market.trade("curve", 1e-7, sol=2, depth=depth)
    before = market.price
    market.mint.migrated("curve", "")
    assert market.price == before
    for n in range(1, 101):
        market.trade("pool", 1e-7 * (1 + n / 50), sol=0.5)
        assert market.price == pytest.approx(1e-7 * (1 + n / 50), rel=1e-3)
    assert MintPrice.unpack(market.mint.pack()).pack() == market.mint.pack()


@pytest.mark.parametrize("depth", [80, None])
def test_no_thin_pool_is_the_price_where_a_curve_leaves_for_a_pool_that_nothing_names(
    depth: float | None,
):
    """One of anybody, with reserves of next to nothing: the new pool's trades are the price."""
    market = Market()
    for _ in range(100):
        market.trade("curve", 1e-7, sol=2, depth=depth)
    for _ in range(3):
        market.pause(MINUTE_MS)
        market.trade("anybody's", 1e-4, sol=0.001, depth=0.01)
    market.mint.migrated("curve", "")
    assert market.price == pytest.approx(1e-7)
    market.trade("pool", 1e-7, sol=0.5)
    assert market.price == pytest.approx(1e-7)
    for _ in range(10):
        market.trade("anybody's", 1e-4, sol=0.001, depth=0.01)
        market.trade("pool", 1e-7, sol=0.5)
        assert market.price == pytest.approx(1e-7)


def test_the_new_pool_may_have_traded_before_the_migration_is_reported():
    market = Market()
    for _ in range(100):
        market.trade("curve", 1e-7, sol=0.8, depth=80)
    market.trade("pool", 1.02e-7, sol=0.5, depth=84)
    market.mint.migrated("curve", "pool")
    assert market.price == pytest.approx(1.02e-7, rel=1e-3)
    market.mint.migrated("", "another")
    market.mint.migrated("never seen", "another")
    assert market.mint.pool == "pool"


def test_dust_and_impossible_trades_are_set_aside_with_the_reason():
    market = Market()
    market.trade("pool", 0.01, sol=1, depth=10)
    before = market.mint.pack()
    trades = {
        (0, 5 * TOKEN): Verdict.IMPOSSIBLE,
        (SOL, 0): Verdict.IMPOSSIBLE,
        (2 * 10**18, TOKEN): Verdict.IMPOSSIBLE,
        (SOL, 1 << 64): Verdict.IMPOSSIBLE,
        (9_999, 10**12): Verdict.DUST,
        (SOL, 99): Verdict.DUST,
    }
    for (lamports, amount_raw), verdict in trades.items():
        trade = Trade("pool", "a", market.slot, market.time_ms, lamports, amount_raw, 10 * SOL)
        assert market.mint.apply(trade) is verdict
    assert market.mint.pack() == before


def test_a_trade_of_the_past_does_not_move_the_price_back():
    market = Market()
    market.trade("pool", 0.01, sol=1, depth=10)
    market.pause(200 * 400)
    market.trade("pool", 0.02, sol=1, depth=10)
    before = market.mint.pack()
    assert market.trade("pool", 0.01, sol=1, depth=9, slots_back=2) is Verdict.LATE
    seen_ms = market.mint.time_ms
    back = LATE_SLOTS + market.slot - market.mint.slot
    late = market.trade("other", 0.01, sol=9, depth=900, slots_back=back + 1, after_ms=0)
    assert late is Verdict.LATE
    assert market.mint.pack() == before
    late = market.trade("other", 0.02, sol=1, depth=9, slots_back=back, after_ms=0)
    assert late is Verdict.ACCEPTED
    assert market.mint.time_ms == seen_ms


def test_the_lightest_pools_are_forgotten():
    market = Market()
    market.trade("deep", 0.01, sol=5, depth=500)
    for n in range(100):
        market.trade(f"thin{n}", 0.5, sol=0.1, depth=0.2)
    assert market.price == pytest.approx(0.01)
    assert len(market.mint.pack()) < MAX_POOLS * 120


def test_volume_halves_with_trading_time():
    market = Market()
    market.trade("one", 0.01, sol=1, depth=1000)
    market.trade("two", 0.02, sol=0.6, depth=1000, after_ms=0)
    assert market.price == pytest.approx(0.01)  # 1 to 0.6
    for _ in range(HALVES_MS // MINUTE_MS):
        market.trade("three", 0.03, sol=0.0001, depth=0.001, after_ms=MINUTE_MS)
    market.trade("two", 0.02, sol=0.3, depth=1000, after_ms=0)
    assert market.price == pytest.approx(0.02)  # 0.5 to 0.6


@pytest.mark.parametrize("data", [b"", b"\x03" + bytes(60), bytes(41)])
def test_bytes_of_another_form_are_refused(data):
    with pytest.raises(ValueError, match="price state"):
        MintPrice.unpack(data)


def test_bytes_of_the_version_before_are_read():
    market = Market()
    for _ in range(100):
        market.trade("deep", 0.01, sol=1, depth=400)
        market.trade("hidden", 0.01, sol=1)
    whole = market.mint.pack()
    older = bytearray(b"\x01" + whole[1:])
    for name in (b"deep", b"hidden"):
        end = older.rindex(name) + len(name) + struct.calcsize("<QQQQQ?QQQQQQ")
        del older[end - 3 * 8 : end]  # the former record
    read = MintPrice.unpack(bytes(older))
    assert (read.price, read.slot, read.time_ms) == (market.mint.price, market.slot, market.time_ms)
    market.mint = read
    market.trade("flash", 1.0, sol=300, depth=5000)
    assert market.price == pytest.approx(0.01)  # beside reserves that stand


def test_cut_bytes_are_refused():
    market = Market()
    market.trade("pool", 0.01, sol=1, depth=10)
    whole = market.mint.pack()
    for size in range(len(whole)):
        with pytest.raises(ValueError, match="price state"):
            MintPrice.unpack(whole[:size])


AMOUNTS = st.integers(0, 2**64 - 1) | st.integers(10_000, 10**12)
RATIOS = st.tuples(st.integers(1, 2**63), st.integers(1, 2**63))
TRADES = st.builds(
    Trade,
    pool=st.sampled_from([f"pool{n}" for n in range(12)]),
    dex=st.just("a-dex"),
    slot=st.integers(1, 400),
    time_ms=st.integers(1, 10**8),
    lamports=AMOUNTS,
    amount_raw=AMOUNTS,
    depth_lamports=st.none() | AMOUNTS,
    virtual_lamports=st.none() | AMOUNTS,
    spot=st.none() | RATIOS,
)
MOVES = st.tuples(st.just("migrate"), st.sampled_from(["pool0", "pool1"]), st.just("pool2"))
STREAMS = st.lists(TRADES | MOVES, max_size=60)


def play(mint, stream):
    for step in stream:
        if isinstance(step, Trade):
            mint.apply(step)
        else:
            mint.migrated(*step[1:])
    return mint


def of_curve(pool, price, amount_raw):
    return Trade(pool, "a-dex", 1, 1, amount_raw * price, amount_raw, 10**15)


TWO_CURVES_INTO_ONE_POOL = [
    of_curve("pool0", 1, 10**11),
    ("migrate", "pool0", "pool2"),
    ("migrate", "pool1", "pool2"),
    of_curve("pool0", 9, 10**9),
]


@given(STREAMS)
@example(TWO_CURVES_INTO_ONE_POOL)
@examples(150, SLOW)
def test_the_price_is_always_one_that_was_accepted_of_a_pool(stream):
    mint, last = MintPrice(), {}
    for step in stream:
        if not isinstance(step, Trade):
            mint.migrated(*step[1:])
        elif mint.apply(step) is Verdict.ACCEPTED:
            last[step.pool] = step.spot or (step.lamports, step.amount_raw)
        if last:
            assert mint.price
            prices = sorted(Fraction(*price) for price in last.values())
            assert prices[0] <= Fraction(*mint.price) <= prices[-1]
        else:
            assert mint.price is None


@given(STREAMS, st.integers(0, 60))
@examples(150, SLOW)
def test_packing_amid_the_stream_changes_nothing(stream, cut):
    whole = play(MintPrice(), stream)
    packed = MintPrice.unpack(play(MintPrice(), stream[:cut]).pack())
    resumed = play(packed, stream[cut:])
    assert resumed.pack() == whole.pack() == play(MintPrice(), stream).pack()
    assert (resumed.price, resumed.pool) == (whole.price, whole.pool)


@given(st.lists(TRADES, max_size=8, unique_by=lambda trade: trade.pool), st.randoms())
@examples(150, SLOW)
def test_the_order_of_pools_does_not_matter(trades, random):
    """Trades of pools that all report their reserves, all at one moment."""
    trades = [
        Trade(t.pool, t.dex, 7, 7, t.lamports, t.amount_raw, t.depth_lamports or 0, spot=t.spot)
        for t in trades
    ]
    one = play(MintPrice(), trades)
    random.shuffle(trades)
    other = play(MintPrice(), trades)
    assert (one.price, one.pool, one.pack()) == (other.price, other.pool, other.pack())


@given(st.lists(TRADES, max_size=60))
@examples(fuzz_factor=SLOW)
def test_time_and_slot_never_go_back(trades):
    mint, seen = MintPrice(), [(0, 0)]
    for trade in trades:
        mint.apply(trade)
        seen.append((mint.slot, mint.time_ms))
    assert all(a <= c and b <= d for (a, b), (c, d) in pairwise(seen))


@pytest.mark.parametrize("pause_ms", [60_001, 3_600_000])
def test_a_pause_fades_volume_as_a_minute_does(pause_ms: int) -> None:
    packed = []
    for after_ms in (60_000, pause_ms):
        market = Market()
        market.trade("pool", 0.01, sol=1, depth=10)
        market.trade("pool", 0.01, sol=1, depth=10, after_ms=after_ms)
        packed.append(market.mint.pack()[:9])  # the version, and the trading time
    assert packed[0] == packed[1]


def test_a_pool_of_the_version_before_is_packed_as_one_without_reserves() -> None:
    market = Market()
    market.trade("pool", 0.01, sol=1)
    whole = market.mint.pack()
    read = MintPrice.unpack(b"\x01" + whole[1 : len(whole) - 3 * 8])
    assert read.pack() == whole


def test_volume_fades_by_a_quarter_in_a_quarter_of_an_hour() -> None:
    """Half is gone after half an hour, and a straight line leads there."""
    for sol, price in ((6, 0.01), (8, 0.02)):  # against 10, of which 7.5 are left
        market = Market()
        for pool, pool_price in (("first", 0.01), ("second", 0.02)):
            market.trade(pool, pool_price, sol=0.0001, depth=10_000)
        market.trade("first", 0.01, sol=10, depth=10_000, after_ms=MINUTE_MS)
        for _ in range(15):
            market.trade("second", 0.02, sol=0.0001, depth=10_000, after_ms=MINUTE_MS)
        market.trade("second", 0.02, sol=sol, depth=10_000, after_ms=0)
        assert market.price == pytest.approx(price)


def test_the_least_that_is_no_dust() -> None:
    trade = Trade("pool", "a-dex", 1, 1, 10_000, 100)
    assert MintPrice().apply(trade) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    ("sol", "verdict"),
    [(999_999_999, Verdict.ACCEPTED), (10**9, Verdict.IMPOSSIBLE), (10**10, Verdict.IMPOSSIBLE)],
)
def test_a_trade_of_all_sol_that_exists_is_impossible(sol: int, verdict: Verdict) -> None:
    assert Market().trade("pool", 1.0, sol) is verdict


def test_a_migration_of_a_pool_to_itself_and_a_second_one_change_nothing() -> None:
    market = Market()
    market.trade("curve", 0.01, sol=1, depth=10)
    market.mint.migrated("curve", "curve")
    assert market.trade("curve", 0.02, sol=1, depth=10) is Verdict.ACCEPTED
    market.mint.migrated("curve", "pool")
    assert market.trade("curve", 0.03, sol=1, depth=10) is Verdict.LATE
    market.mint.migrated("pool", "another")
    assert market.trade("pool", 0.04, sol=1, depth=10) is Verdict.ACCEPTED
    assert market.mint.pool == "pool"
