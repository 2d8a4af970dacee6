"""What is computed of tokens on the way out: facts, prices, ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson
import pytest

from api.accounts import mints as mint_accounts
from api.accounts.mints import MintReader
from api.positions.accounts_reader import AccountsReader
from api.tokens.answers import TokenThen
from api.tokens.batches import TokenBatches
from api.tokens.facts import facts
from api.tokens.figures import percent, token_facts, token_now

# private `_Board`: a board with given figures; the public way needs a market of trades.
from api.tokens.leaderboards import _Board
from api.tokens.mint_accounts import SuppliedTokens
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import Token, TokenReader, Tokens
from api.tokens.trending import overlay
from pipeline.agents.market.registry import Known
from pipeline.domain.market import Token as DomainToken
from schemas.markets import Head, pack_head
from schemas.money import USDC, WSOL
from schemas.prices import CLOSE_MS, LastPrice, add_close, day_ago
from schemas.solana.base58 import encode
from schemas.times import DAY_MS
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.gaps import no_gaps

MINT = "m"
NOW_MS = 1_763_700_000_000


def token(**values: Any) -> bytes:
    """Bytes as the market books write them."""
    return orjson.dumps(asdict(DomainToken(**values)))


def rpc(**values: Any) -> bytes:
    """Bytes as the registry writes them."""
    given = {"name": "", "symbol": "", "uri": "", "decimals": 6, "supply_raw": None,
             "token_program": "", "status": "found", "asked_ms": 7, **values}  # fmt: skip
    return orjson.dumps(asdict(Known(**given)))


def test_without_any_record_nothing_is_known() -> None:
    known = facts(MINT, None, None)
    assert known.about == {**dict.fromkeys(TokenThen.__annotations__), "mint": MINT,
                           "is_migrated": False}  # fmt: skip
    assert (known.supply_raw, known.unit) == (None, None)
    assert facts(MINT, token(), rpc(status="absent", decimals=None)).about == known.about


def test_all_that_the_books_hold_is_answered() -> None:
    values: dict[str, Any] = {
        "name": "n", "symbol": "s", "uri": "u", "decimals": 3, "supply_raw": 2**70,
        "creator": "c", "platform": "p", "dex": "d", "pool": "o", "quote_mint": "q",
        "token_program": "t", "created_slot": 1, "created_ms": 2, "migrated_slot": 3,
        "migrated_ms": 4, "migrated_dex": "e", "migrated_pool": "f",
    }  # fmt: skip
    values["supply_raw"] = 2**63
    about = facts(MINT, token(**values), None).about
    for name, value in values.items():
        assert about[name] == (str(value) if name == "supply_raw" else value)  # type: ignore[literal-required]
    assert about["supply"] == 2**63 / 1000
    assert (about["supply_source"], about["supply_time_ms"]) == ("creation", 2)
    assert about["is_migrated"] is True


@pytest.mark.parametrize("decimals", [None, 0, 9, 255])
def test_a_supply_of_any_places(decimals: int | None) -> None:
    about = facts(MINT, token(decimals=decimals, supply_raw=5, created_ms=1), None).about
    assert about["supply"] == (None if decimals is None else 5 / 10**decimals)


def test_what_rpc_said_fills_in() -> None:
    asked = rpc(name="R", symbol="", uri="ru", decimals=2, supply_raw=300, token_program="T")
    about = facts(MINT, token(name="E", decimals=6), asked).about
    assert (about["name"], about["uri"], about["symbol"]) == ("E", "ru", None)
    assert (about["decimals"], about["supply"], about["supply_source"]) == (6, 0.0003, "rpc")
    assert about["supply_time_ms"] == 7
    assert (
        facts(MINT, token(supply_raw=0, created_ms=9), asked).about["supply_source"] == "creation"
    )


def test_money_has_names_of_its_own() -> None:
    assert facts(WSOL, None, None).about["decimals"] == 9
    assert facts(USDC, None, None).about["symbol"] == "USDC"
    assert facts(USDC, None, rpc(symbol="other")).about["symbol"] == "other"


def test_a_share_of_no_supply_is_not_known() -> None:
    assert percent(1, None) is None
    assert percent(0, 0) is None
    assert percent(2**70, 2**71) == 50.0


def of(price: LastPrice | None, source: Any = "live", closes: bytes = b"", **given: Any) -> Token:
    asked = token(decimals=0, supply_raw=10, created_ms=1, **given)
    head = Head(creator_raw=1, liquidity_lamports=2 * 10**9)
    return Token(MINT, facts(MINT, asked, None), pack_head(head, []), price, source, closes)


def at(now_ms: int, sol_usd: float | None = 100.0) -> Tokens:
    return Tokens({}, 1, now_ms, now_ms, sol_usd)


def test_an_answer_without_a_price() -> None:
    answer = token_facts(of(None, None), at(NOW_MS, None))
    for name in ("price_usd", "is_price_stale", "change_24h_pct", "market_cap_usd",
                 "liquidity_usd", "creator_balance_raw", "creator_pct"):  # fmt: skip
        assert answer[name] is None, name  # type: ignore[literal-required]
    assert answer["liquidity_sol"] == 2.0
    unvalued = token_facts(of(LastPrice(2.0, None, NOW_MS, 1, "")), at(NOW_MS))
    assert (unvalued["price_sol"], unvalued["price_usd"]) == (2.0, None)
    assert (unvalued["market_cap_usd"], unvalued["change_24h_pct"]) == (None, None)


def test_a_price_grows_old_by_the_chains_time() -> None:
    token = of(LastPrice(1.0, 1.0, NOW_MS, 1, ""))
    hour_ms = 3_600_000
    for later_ms, is_stale in ((-5, False), (0, False), (hour_ms, False), (hour_ms + 1, True)):
        assert token_now(token, None, at(NOW_MS + later_ms))["is_price_stale"] is is_stale


def test_a_price_of_which_no_earlier_one_is_kept_has_no_change() -> None:
    """An LP token's is as old as the older of its sides' prices, and changes with the other."""
    two_days_old = LastPrice(1.0, 1.0, NOW_MS - 2 * DAY_MS, 1, "")
    for source, change in (("live", 0.0), ("settled", 0.0), ("par", None), ("pool", None)):
        answer = token_now(of(two_days_old, source), None, at(NOW_MS))
        assert answer["change_24h_pct"] == change, source


def day_ago_naively(
    last: LastPrice, prices: Sequence[LastPrice], now_ms: int
) -> tuple[float, float | None] | None:
    """The last of all prices that was closed when the day began."""
    begun_ms = now_ms - DAY_MS
    if last.time_ms <= begun_ms:
        return last.price_sol, last.price_usd
    closed = {price.time_ms // CLOSE_MS: price for price in prices}
    over = [each for number, each in closed.items() if (number + 1) * CLOSE_MS <= begun_ms]
    return (over[-1].price_sol, over[-1].price_usd) if over else None


@pytest.mark.parametrize("every_ms", [40_000, CLOSE_MS, 7 * CLOSE_MS, DAY_MS // 2])
def test_the_price_of_a_day_ago(every_ms: int) -> None:
    closes, prices = b"", []
    for number in range(3 * DAY_MS // every_ms):
        usd = None if number % 11 == 3 else float(number)
        price = LastPrice(number + 1.0, usd, NOW_MS + number * every_ms, number, "")
        if prices and price.time_ms // CLOSE_MS > prices[-1].time_ms // CLOSE_MS:
            closes = add_close(closes, prices[-1])
        prices.append(price)
        if number % 17 == 0 or number < 3:
            for later_ms in (0, CLOSE_MS, DAY_MS // 3, DAY_MS - CLOSE_MS, DAY_MS, 2 * DAY_MS):
                now_ms = price.time_ms + later_ms
                assert day_ago(price, closes, now_ms) == day_ago_naively(price, prices[:-1], now_ms)


def test_a_change_within_a_day_is_found_fast() -> None:
    closes = b""
    for number in range(289):
        price = LastPrice(1.0, 1.0, NOW_MS - DAY_MS + number * CLOSE_MS, 1, "")
        closes = add_close(closes, price)
    began = time.process_time()
    for _ in range(1_000):
        day_ago(price, closes, NOW_MS + DAY_MS // 2)
    assert time.process_time() - began < 0.05  # from one to the next it would be twice as much


# Reading.


class Answers:
    """What Redis answers, one list a trip; the commands are kept."""

    def __init__(self, *trips: list[Any]) -> None:
        self.trips = list(trips)
        self.asked: list[Any] = []

    async def ask(self, commands: Sequence[Any]) -> list[Any]:
        self.asked.append(commands)
        return self.trips.pop(0)


PROGRESS = [b"5", b"%d" % NOW_MS, b"300/2"]
PRICE = [b"0.5", b"75.0", b"%d" % NOW_MS, b"4", b"pool"]
HEAD = pack_head(Head(price_sol=1), [])


async def test_the_same_bytes_are_read_once() -> None:
    mint = encode(b"a" * 32)
    market = [HEAD, token(name="A", decimals=6)]

    def trip(market: list[bytes], asked: bytes | None = None, closes: bytes = b"") -> list[Any]:
        return [PROGRESS, [asked], list(market), [*PRICE, closes]]

    others = (
        trip([HEAD, token(name="B", decimals=6)]),
        trip([pack_head(Head(price_sol=2), []), market[1]]),
        trip(market, rpc(uri="u")),
    )
    stores: Any = Answers(trip(market), trip(market, closes=b"c" * 20), *others)
    reader = TokenReader(stores)
    first = (await reader.read([mint])).by_mint[mint]
    again = (await reader.read([mint])).by_mint[mint]
    assert again is first
    assert again.closes == b"c" * 20
    for _ in others:
        assert (await reader.read([mint])).by_mint[mint] is not first


async def test_without_mints_the_answer_still_says_how_far_the_markets_are() -> None:
    found = await TokenReader(Answers([PROGRESS])).read([])  # type: ignore[arg-type]
    assert (found.by_mint, found.as_of_slot, found.now_ms, found.sol_usd) == ({}, 5, NOW_MS, 150.0)


async def test_partitions_that_are_not_equally_far() -> None:
    by_partition = {
        SETTLED_BY_MINT.partition(mint): mint
        for mint in (encode(bytes([at]) * 32) for at in range(20))
    }
    mints = list(by_partition.values())[:2]
    price = [*PRICE, None]
    trip = []
    for progress in ([b"9", b"2000", b"200/1"], [b"7", b"1000", b"100/1"]):
        trip += [progress, [None], [HEAD, token()], list(price)]
    found = await TokenReader(Answers(trip)).read(mints)  # type: ignore[arg-type]
    assert (found.as_of_slot, found.as_of_ms) == (7, 1000)
    assert (found.now_ms, found.sol_usd) == (2000, 200.0)


async def test_a_batch_reads_only_what_it_does_not_stand_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(mint_accounts, "NO_LANE_FOR_S", 1e9)
    first, second, unknown = (
        next(mint for mint in map(encode, (bytes([n]) * 32 for n in range(at, 250)))
             if SETTLED_BY_MINT.partition(mint) == 3)
        for at in (1, 90, 170)
    )  # fmt: skip
    price = [*PRICE, None]
    nothing = [[None] * 2, [None] * 6]
    no_account: list[Any] = [[None, None], None, [None] * 3, None, None]

    def said(slot: int) -> list[Any]:
        return [b"%d" % slot, b"%d" % (NOW_MS + slot), b"100/1"]

    stores = Answers(
        [said(7), [None], [HEAD, token(name="A")], list(price)],
        no_account,  # nor is there a lane of accounts: that is known for a while
        [said(8), [None, None], [HEAD, token(name="B")], list(price), *nothing],
        [said(8), 0],  # nor is it cold
        [said(9), [None], [HEAD, token(name="C")], list(price)],
    )
    of: Any = stores
    reader = SuppliedTokens(
        TokenReader(of), MintReader(of), PoolPrices(of, TokenReader(of), AccountsReader(of))
    )
    batches = TokenBatches(reader, no_gaps())
    found = orjson.loads(orjson.dumps(await batches.many([first])))
    assert [token["name"] for token in found["tokens"]] == ["A"]
    found = orjson.loads(orjson.dumps(await batches.many([second, first, unknown])))
    assert [token["name"] for token in found["tokens"]] == ["B", "A"]
    assert (found["unknown"], found["as_of_slot"], found["as_of_ms"]) == ([unknown], 7, NOW_MS + 7)
    # private `_fresh_for_s`: ends the cache's second without a wait.
    batches._fresh_for_s = -1.0
    found = orjson.loads(orjson.dumps(await batches.many([first])))
    assert ([token["name"] for token in found["tokens"]], found["as_of_slot"]) == (["C"], 9)
    assert stores.trips == []


# Ranks.


def board(*found: list[float], partial: bool = True) -> _Board:
    scored = [[(b"%d %d" % (at, n), score) for n, score in enumerate(each)]
              for at, each in enumerate(found)]  # fmt: skip
    return _Board(MINT, b"", scored, [partial and bool(each) for each in found])


def test_candidates_are_all_that_gained_no_less() -> None:
    made = board([9, 5, 5], [7, 5, 1], [])
    assert [wallet for _, wallet in made.candidates(3)] == [b"0 0", b"0 1", b"0 2", b"1 0", b"1 1"]
    assert len(made.candidates(100)) == 6


def test_only_a_list_that_ends_at_the_cut_may_hide_equals() -> None:
    made = board([9, 5, 5], [7, 5, 1], [])
    assert list(made.ties(3)) == [(0, 5)]
    assert list(made.ties(6)) == [(1, 1)]
    assert list(made.ties(7)) == []
    assert list(board([9, 5, 5], partial=False).ties(2)) == []


def test_an_overlay_keeps_the_fields_that_events_set() -> None:
    record = {"name": "", "symbol": "", "decimals": 6, "supply": 4.0, "price_usd": 2.0,
              "market_cap": 8.0, "top10_holders_pct": 3.0}  # fmt: skip
    about = facts(MINT, None, rpc(name="R", symbol="S", decimals=2, supply_raw=100)).about
    overlay(record, about, 50)
    assert record == {"name": "R", "symbol": "S", "decimals": 6, "supply": 4.0, "price_usd": 2.0,
                      "market_cap": 8.0, "top10_holders_pct": 3.0}  # fmt: skip
    record |= {"supply": None, "market_cap": None, "price_usd": None}
    overlay(record, about, 50)
    assert (record["supply"], record["top10_holders_pct"], record["market_cap"]) == (1.0, 50, None)
    record |= {"name": "", "symbol": "E"}
    overlay(record, about, 50)
    assert (record["name"], record["symbol"]) == ("R", "E")
