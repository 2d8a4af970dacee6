"""Launched coins: what becomes of them, and what they are called."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from infra.chain.market import Knobs, Market
from infra.chain.market.believable import NAMES_SHOWN, Believable
from infra.chain.market.invariants import Invariants
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import WSOL
from infra.chain.market.traders.valuation import COMPLETION_MULTIPLE, Life
from infra.chain.market.venues.pump_fun import BondingCurve
from infra.chain.market.venues.pump_fun_v2 import DollarCurve
from infra.chain.market.venues.venue import Pool
from infra.chain.market.world.names import NOT_REPEATED, Names
from infra.chain.source import SlotCompleted


def lives(count: int) -> list[Life]:
    curve = BondingCurve(Ledger(), Mint(bytes(32), 6, 0), Mint(WSOL, 9, 0), bytes(32))
    random = Random(4)
    return [Life.drawn(curve, 0.0, random, tempo=1.0, popular=False) for _ in range(count)]


def test_few_coins_complete_their_curve_and_not_at_once() -> None:
    drawn = lives(20_000)
    hits = [life for life in drawn if exp(life.log_peak) >= COMPLETION_MULTIPLE]
    assert 0.01 < len(hits) / len(drawn) < 0.05
    minutes = sorted(life.rise_ms / 60_000 for life in hits)
    assert minutes[len(minutes) // 20] > 2
    assert 8 < minutes[len(minutes) // 2] < 30
    assert 60 < minutes[-len(minutes) // 50] < 6 * 60


def test_multiples_are_heavy_tailed() -> None:
    peaks = sorted(exp(life.log_peak) for life in lives(20_000))
    assert peaks[len(peaks) // 2] < 2
    assert peaks[-len(peaks) // 1_000] > 50


def test_a_coin_ends_below_where_it_began_and_is_over() -> None:
    for life in lives(200):
        end = life.rise_ms + 6 * life.fall_ms
        assert not life.over(life.rise_ms)
        assert life.over(end)
        assert life.log_worth(end) < 0.1
        assert life.log_worth(life.rise_ms) == life.log_peak


def test_names_are_not_repeated() -> None:
    names = Names(Random(1))
    drawn = [names.draw() for _ in range(3 * NOT_REPEATED)]
    for which in (0, 1):
        latest = [each[which] for each in drawn[:NOT_REPEATED]]
        assert len(set(latest)) == NOT_REPEATED
    assert all(1 <= len(symbol) <= 8 and symbol.isupper() for _, symbol in drawn)


@pytest.mark.slow
def test_a_market_shows_a_migration_soon_and_deaths() -> None:
    market = Market(Knobs(seed=5, rate=150, wallets=80, tempo=20), bytes_every=50)
    believable = Believable(market.habits.curves)
    for event in market.generate(400):
        if isinstance(event, SlotCompleted):
            believable.look((event.header.slot - market.knobs.start_slot) * 400.0)
    figures = believable.figures()
    assert figures["completion_min"] is not None
    assert figures["coins_died"] > 20
    assert figures["greatest_multiple"]["p50"] < 3 < figures["greatest_multiple"]["p99"]
    assert figures["names_repeated"] == 0
    assert figures["coins_launched"] > NAMES_SHOWN


@pytest.mark.slow
def test_supplies_add_up_when_coins_are_forgotten() -> None:
    """A coin quoted in USDC takes dollars with it."""
    knobs = Knobs(seed=9, rate=300, wallets=60, curves_kept=5, pools_kept=1, forks=0.05)
    market = Market(knobs, bytes_every=50)
    seen: set[bytes] = set()
    for event in market.generate(150):
        if isinstance(event, SlotCompleted):
            seen |= {mint for mint, curve in market.world.launched.items() if is_dollar(curve)}
    assert seen - market.world.launched.keys()
    Invariants(market).check_supply()


def is_dollar(curve: Pool) -> bool:
    return isinstance(curve, DollarCurve)
