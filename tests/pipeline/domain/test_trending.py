"""The trending score under attack: volume alone does not trend."""

from __future__ import annotations

import random

from pipeline.agents.market.trending_list import TrendingList
from pipeline.domain.rolling import Series, Traders, weight
from pipeline.domain.trending import score
from schemas.markets import MINUTES_KEPT, QUARTERS_KEPT

DOLLAR = 1_000_000
NOON = 29_400_000


class Coin:
    """A token's series, traded by numbered wallets."""

    def __init__(self) -> None:
        self.minutes, self.quarters = Series(1, MINUTES_KEPT), Series(15, QUARTERS_KEPT)
        self.traders = Traders()

    def trade(self, minute: int, wallet: int, dollars: float) -> None:
        micros = int(dollars * DOLLAR)
        who = wallet.to_bytes(4, "big")
        self.traders.known.setdefault(who, None)
        for series in (self.minutes, self.quarters):
            series.add(minute, is_buy=True, lamports=1, usd_micros=micros, close_sol=1, close_usd=1)
        self.traders.traded(who, minute, micros, (self.minutes, self.quarters))

    def score(self, minute: int) -> int:
        return score(self.minutes.data, self.quarters.data, minute)


def organic(wallets: int, *, minutes: int = 60, seed: int = 1) -> Coin:
    """A coin that so many wallets traded within an hour, some twenty dollars each."""
    rng = random.Random(seed)
    coin = Coin()
    for minute in range(minutes):
        for wallet in range(wallets):
            if wallet * minutes // wallets == minute:
                coin.trade(NOON - minutes + minute + 1, wallet, rng.uniform(5, 40))
    return coin


def test_one_wallet_with_millions_does_not_beat_twenty_with_twenty_dollars() -> None:
    washed = Coin()
    for minute in range(60):
        for _ in range(100):
            washed.trade(NOON - 59 + minute, 1, 10_000)
    assert organic(20).score(NOON) > washed.score(NOON)


def test_one_wallet_adds_no_more_to_a_coin_than_its_own_cap() -> None:
    coin = organic(30)
    before = coin.score(NOON)
    for _ in range(10_000):
        coin.trade(NOON, 999, 50_000)
    # 13.3 in each of the three windows, the most that any wallet has.
    assert coin.score(NOON) - before <= (16 + 4 + 1) * 14 * 1024


def test_dust_from_a_thousand_wallets_trends_less_than_fifty_traders() -> None:
    dust = Coin()
    for wallet in range(1000):
        dust.trade(NOON - wallet % 60, wallet, 0.001)
    assert organic(50).score(NOON) > dust.score(NOON)


def test_a_newcomer_overtakes_yesterdays_favourite_which_fades_without_trades() -> None:
    favourite = Coin()
    for wallet in range(300):
        favourite.trade(NOON - 1200 + wallet, wallet, 30)
    newcomer = Coin()
    for wallet in range(30):
        newcomer.trade(NOON - wallet % 4, wallet, 30)
    assert newcomer.score(NOON) > favourite.score(NOON) > 0
    scores = [favourite.score(NOON + hours * 60) for hours in range(24)]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] == 0


def test_a_trade_counts_for_five_minutes_an_hour_and_a_day() -> None:
    """16 times, 4 times and once its weight; a quarter hour counts while it begins in the day."""
    coin = Coin()
    coin.trade(NOON, 1, 20)
    one = weight(2000)
    for passed, times in ((0, 21), (4, 21), (5, 5), (59, 5), (60, 1), (1439, 1), (1440, 0)):
        assert coin.score(NOON + passed) == times * one


def test_a_partition_lists_the_two_hundred_best() -> None:
    ranked = TrendingList("{m1}")
    for number in range(1, 202):
        assert ranked.rank(f"mint {number}", number)
    assert set(ranked.scores.values()) == set(range(2, 202))
    assert not ranked.rank("never traded", Coin().score(NOON))
