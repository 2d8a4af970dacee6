"""Candles over the API: the newest snapshot of each counts, be it written or running."""

from __future__ import annotations

import time
from random import Random
from typing import get_args

import pytest

from api.history.routes import Interval
from schemas.away import bit
from schemas.markets import INTERVALS_S, PRICE_SCALE, Candle, pack_candle
from schemas.redis_keys import MARKET, MARKETS, MARKETS_AWAY, mint_tag
from schemas.rows import CANDLES, SLOTS
from schemas.solana.base58 import decode
from schemas.times import DAY_MS, HOUR_MS

NOW_MS = 1_785_499_140_000
SLOT = 400_000_000
PRICES = tuple(
    f"{name}_{unit}" for unit in ("sol", "usd") for name in ("open", "high", "low", "close")
)


def candle(random, start_s, slot, **fixed):
    """A candle as Redis packs it; one in five has no price in dollars."""
    low, *between, high = sorted(random.randrange(1, 10**20) for _ in range(4))
    prices = dict(zip(PRICES[:4], (between[0], high, low, between[1]), strict=True))
    dollars = 0 if random.random() < 0.2 else 151
    prices |= {f"{name[:-3]}usd": value * dollars for name, value in prices.items()}
    rest = {
        "amount_raw": random.randrange(2**90),
        "lamports": random.randrange(2**63),
        "usd_micros": random.randrange(2**50),
        "buys": random.randrange(1000),
        "sells": random.randrange(1000),
    }
    return Candle(**({"start_s": start_s, "slot": slot} | prices | rest | fixed))


def row(mint, interval_s, of):
    prices = [getattr(of, name) / PRICE_SCALE for name in PRICES]
    rest = (of.amount_raw, of.lamports, of.usd_micros, of.buys, of.sells, of.slot)
    return (mint, interval_s, of.start_s * 1000, *prices, *rest)


def candle_of(of, length_s, now_ms=NOW_MS):
    """What the API must say of a candle of a token with 6 decimals."""
    return {
        "start_ms": of.start_s * 1000,
        "is_closed": (of.start_s + length_s) * 1000 <= now_ms,
        **{name: getattr(of, name) / PRICE_SCALE if getattr(of, name) else None for name in PRICES},
        "amount_raw": str(of.amount_raw),
        "amount": of.amount_raw / 10**6,
        "volume_lamports": str(of.lamports),
        "volume_sol": of.lamports / 10**9,
        "volume_usd_micros": str(of.usd_micros),
        "volume_usd": of.usd_micros / 10**6,
        "buys": of.buys,
        "sells": of.sells,
        "slot": of.slot,
    }


@pytest.fixture
def token(store, new_address, request):
    """A known token, and its market as far as its last block."""
    random = Random(request.node.name)
    mint = new_address(random)
    store.token(mint)
    markets = MARKETS.make(tag=mint_tag(mint))
    store.redis.hset(markets, mapping={"slot": SLOT, "time_ms": NOW_MS, "sol_usd": "151/1"})
    return random, mint


def running(store, mint, interval_s, of, random):
    """Put the open candle of an interval into Redis, beside those of the others."""
    packed = [
        pack_candle(of if length == interval_s else candle(random, 0, 1))
        for length in INTERVALS_S.values()
    ]
    store.redis.hset(MARKET.make(tag=mint_tag(mint), mint=mint), "candles", b"".join(packed))


def test_the_intervals_are_the_pipelines():
    assert get_args(Interval) == tuple(INTERVALS_S)


@pytest.mark.parametrize("interval", INTERVALS_S)
async def test_the_last_300_with_the_running_one(store, ask, token, interval):
    random, mint = token
    length_s = INTERVALS_S[interval]
    last_s = NOW_MS // 1000 // length_s * length_s
    starts = [last_s - n * length_s for n in range(1, 350) if random.random() < 0.7]
    earlier = [candle(random, start_s, 100) for start_s in starts]
    later = [candle(random, start_s, 200) for start_s in starts if random.random() < 0.5]
    for part in (later, earlier, later):  # the newest slot counts, not what was written last
        store.insert(CANDLES.name, [row(mint, length_s, each) for each in part])
    open_one = candle(random, last_s, 300)
    running(store, mint, length_s, open_one, random)
    known = {each.start_s: each for each in (*earlier, *later, open_one)}
    answer = await ask.get(f"/api/tokens/{mint}/candles", interval=interval)
    shown = [s for s in sorted(known) if s > last_s - 300 * length_s]
    assert answer["candles"] == [candle_of(known[start_s], length_s) for start_s in shown]
    assert answer["candles"][-1]["is_closed"] is False
    assert (answer["interval"], answer["interval_s"]) == (interval, length_s)
    assert (answer["as_of_slot"], answer["as_of_ms"]) == (SLOT, NOW_MS)
    assert (answer["from_ms"], answer["to_ms"]) == ((last_s - 299 * length_s) * 1000, NOW_MS + 1)


@pytest.fixture
def began_ms(store):
    """The time of the tape's first slot, which is recorded for a test."""
    store.clickhouse.command(f"TRUNCATE TABLE {SLOTS.name}")
    time_ms = NOW_MS - 3 * DAY_MS
    for number, at_ms in ((SLOT - 1, NOW_MS), (SLOT - 700_000, time_ms)):
        store.insert(SLOTS.name, [(number, None, "", at_ms, 1, 0, 0, 0, True, None)])
    yield time_ms
    store.clickhouse.command(f"TRUNCATE TABLE {SLOTS.name}")


@pytest.mark.parametrize(
    "path",
    ["wallets/{}/pnl/daily", "wallets/{}/pnl/{}/daily", "wallets/{}/trades/daily"]
    + [f"tokens/{{1}}/candles?interval={each}" for each in INTERVALS_S if each != "1s"],
)
async def test_what_was_before_the_tape_is_not_taken_for_nothing(
    began_ms, ask, token, new_address, path
):
    random, mint = token
    answer = await ask.get("/api/" + path.format(new_address(random), mint))
    assert answer["known_from_ms"] == began_ms


async def test_what_may_be_deleted_is_said(store, began_ms, ask, token):
    """Deleted is by when a row was written; so none that began since is."""
    _, mint = token
    asked_ms = time.time_ns() // 1_000_000
    answer = await ask.get(f"/api/tokens/{mint}/candles", interval="1s")
    [[statement]] = store.clickhouse.query(
        f"SELECT create_table_query FROM system.tables WHERE name = '{CANDLES.name}' "
        "AND database = currentDatabase()"
    ).result_rows
    assert "TTL written_at + toIntervalDay(7) WHERE interval_s = 1" in statement
    assert began_ms < asked_ms - 7 * DAY_MS
    assert 0 <= answer["known_from_ms"] - (asked_ms - 7 * DAY_MS) <= HOUR_MS + 60_000
    assert answer["known_from_ms"] % HOUR_MS == 0


async def test_before_the_first_slot_nothing_is_known(store, ask, token):
    _, mint = token
    store.clickhouse.command(f"TRUNCATE TABLE {SLOTS.name}")
    for interval in ("1s", "1m"):
        answer = await ask.get(f"/api/tokens/{mint}/candles", interval=interval)
        assert answer["known_from_ms"] is None


async def test_ranges(store, ask, token):
    random, mint = token
    first_s = NOW_MS // 60_000 * 60 - 3_000 * 60
    every = [candle(random, first_s + 60 * n, 5) for n in range(3_000)]
    store.insert(CANDLES.name, [row(mint, 60, each) for each in every])
    path = f"/api/tokens/{mint}/candles"

    async def starts(**query):
        answer = await ask.get(path, **query)
        return [candle["start_ms"] // 1000 for candle in answer["candles"]]

    at = [each.start_s for each in every]
    for begin, end in ((0, 1500), (7, 8), (2999, 3000), (100, 400)):
        span = {"from": at[begin] * 1000, "to": (at[end - 1] + 1) * 1000}
        assert await starts(**span) == at[begin:end]
        assert await starts(**{**span, "from": span["from"] - 59_999}) == at[begin:end]
    assert await starts(**{"from": at[5] * 1000 + 1, "to": at[9] * 1000}) == at[6:9]
    assert await starts(to=at[2000] * 1000) == at[1700:2000]
    assert await starts(**{"from": at[1501] * 1000}) == at[1501:]
    assert await starts(**{"from": 0, "to": 60_000}) == []
    for query, says in (
        (
            {"from": at[0] * 1000, "to": at[1500] * 1000 + 1},
            "at most 1500 intervals (90000000 ms), got 1501",
        ),
        ({"from": at[0] * 1000}, "at most 1500 intervals"),
        ({"from": 0, "to": 10**12}, "at most 1500"),
        ({"from": 60_000, "to": 60_000}, "`from` must be before"),
        ({"from": NOW_MS + 10}, "`from` must be before"),
    ):
        refused = await ask.get(path, 422, **query)
        assert refused["code"] == "invalid_parameter"
        assert says in refused["detail"]


async def test_what_runs_and_what_is_written_of_one_interval(store, ask, token):
    random, mint = token
    start_s = NOW_MS // 60_000 * 60
    path = f"/api/tokens/{mint}/candles"
    written, older, newer = (candle(random, start_s, slot) for slot in (20, 10, 30))
    store.insert(CANDLES.name, [row(mint, 60, written)])
    for open_one, shown in ((older, written), (newer, newer)):
        running(store, mint, 60, open_one, random)
        assert (await ask.get(path))["candles"] == [candle_of(shown, 60)]
    # It is answered only where it lies within the range.
    past = {"from": (start_s - 600) * 1000, "to": start_s * 1000}
    assert (await ask.get(path, **past))["candles"] == []
    # A market at rest has left Redis.
    store.redis.delete(MARKET.make(tag=mint_tag(mint), mint=mint))
    store.redis.setbit(MARKETS_AWAY.make(tag=mint_tag(mint)), bit(decode(mint)), 1)
    assert (await ask.get(path))["candles"] == [candle_of(written, 60)]


async def test_a_price_that_was_not_known_is_null(store, ask, token):
    random, mint = token
    start_s = NOW_MS // 60_000 * 60
    nothing = candle(random, start_s, 7, **dict.fromkeys(PRICES, 0))
    store.insert(CANDLES.name, [row(mint, 60, nothing)])
    (shown,) = (await ask.get(f"/api/tokens/{mint}/candles"))["candles"]
    assert {shown[name] for name in PRICES} == {None}
    assert shown["volume_lamports"] == str(nothing.lamports)


async def test_what_is_refused(ask, token, new_address):
    random, mint = token
    nobody = new_address(random)
    assert (await ask.get(f"/api/tokens/{nobody}/candles", 404))["code"] == "unknown_token"
    for query in (
        {"interval": "2m"},
        {"interval": "1m' OR 1=1 --"},
        {"interval": ""},
        {"from": "x"},
        {"to": "1); DROP TABLE candles --"},
        {"from": -1},
        {"to": 10**20},
    ):
        refused = await ask.get(f"/api/tokens/{mint}/candles", 422, **query)
        assert refused["code"] == "invalid_parameter"
    refused = await ask.get("/api/tokens/'; DROP TABLE candles --/candles", 422)
    assert refused["code"] == "invalid_address"
