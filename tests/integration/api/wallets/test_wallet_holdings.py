"""Balances over the API: what is listed, what it is worth, and how complete that is."""

from __future__ import annotations

import asyncio
from fractions import Fraction

import orjson
import pytest

from api.wallets import holdings
from infra.clickhouse.client import connect_async
from pipeline.agents.market.cold_rows import row
from schemas.away import bit
from schemas.markets import ColdMarket
from schemas.money import USDC, WSOL
from schemas.positions import pack_balance
from schemas.redis_keys import (
    BALANCES,
    MARKET,
    MARKETS,
    MARKETS_AWAY,
    METADATA,
    mint_tag,
    tag_of_mints,
    wallet_tag,
)
from schemas.rows import COLD_MARKETS, TOKEN_METADATA
from schemas.solana import addresses as address
from schemas.solana.base58 import encode
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.asking import CACHE_EXPIRES_S

SOL_USD = 150
PATH = "/api/wallets/{}/holdings"


async def priced_sol(books, now_ms):
    for partition in range(SETTLED_BY_MINT.partitions):
        key = MARKETS.make(tag=tag_of_mints(partition))
        head = {"slot": 5000, "time_ms": now_ms, "sol_usd": f"{SOL_USD}/1"}
        await books.redis.hset(key, mapping=head)


@pytest.fixture
async def wallet(make_books, tape):
    """A wallet with SOL, a coin in two accounts, dollars, and tokens of all kinds of doubt."""
    made = tape(1, wallets=1)
    books = await make_books()
    name = made.wallets[0]
    coin, tiny, unnamed, shallow, unpriced = made.mints[:5]
    slot = made.empty()
    batch = slot[2]
    for account, mint, amount_raw, decimals, is_2022 in (
        (name, WSOL, 2_500_000_001, 9, False),
        ("w", WSOL, 10**9, 9, False),
        ("a", coin, 3_000_000, 6, True),
        ("b", coin, 9_000_000, 6, True),
        ("gone", coin, 0, 6, True),
        ("u", USDC, 12_345_678, 6, False),
        ("t", tiny, 1_000, 6, False),
        ("n", unnamed, 10**6, 6, False),
        ("s", shallow, 10**12, 6, False),
        ("p", unpriced, 10**6, 6, False),
    ):
        key = address.key(account) if account == name else account.encode().ljust(32, b"-")
        batch.balances.add(
            account=key,
            owner=name,
            mint=mint,
            amount_raw=amount_raw,
            decimals=decimals,
            is_token_2022=is_2022,
        )
    await books.play([slot])
    await books.market(coin, 0.02)
    await books.market(tiny, 1e-4, liquidity_sol=None, volume_sol=100)
    await books.market(unnamed, 0.5, name="")
    await books.market(shallow, 3.0, liquidity_sol=9, volume_sol=99, volume_in_tokens_sol=9_999)
    await books.market(unpriced, None)
    await priced_sol(books, 1_763_700_000_000)
    return name, books, (coin, tiny, unnamed, shallow, unpriced), made


async def test_verified_tokens_are_answered_with_their_accounts(wallet, ask):
    name, _, (coin, tiny, *_), made = wallet
    answer = await ask.get(PATH.format(name))
    assert answer["as_of_slot"] == made.slot
    assert [each["mint"] for each in answer["tokens"]] == [WSOL, coin, USDC, tiny]
    assert answer["hidden_unverified"] == 3
    assert answer["hidden_small"] == 0
    native = answer["native"]
    assert (native["lamports"], native["sol"]) == ("2500000001", 2.500000001)
    assert native["value_usd_micros"] == str(2_500_000_001 * SOL_USD // 1000)
    wrapped, held, dollars, small = answer["tokens"]
    assert held["program"] == "token-2022"
    assert (held["amount_raw"], held["amount"]) == ("12000000", 12.0)
    assert [(each["account"], each["amount_raw"]) for each in held["accounts"]] == [
        (encode(b"b".ljust(32, b"-")), "9000000"),
        (encode(b"a".ljust(32, b"-")), "3000000"),
    ]
    worth = Fraction(0.02) * 12 * 10**9
    assert held["value_lamports"] == str(int(worth))
    assert held["price_usd"] == 3.0
    assert dollars["value_usd_micros"] == "12345678", "nobody has priced it: it is one dollar"
    assert wrapped["program"] == "token"
    total = sum(int(each["value_usd_micros"]) for each in [native, *answer["tokens"]])
    assert answer["value_usd_micros"] == str(total)
    assert small["value_usd_micros"] == str(int(Fraction(1e-4 * SOL_USD) * 1000))


async def test_a_market_that_a_full_redis_put_away_backs_its_token_as_before(wallet, ask):
    name, books, (coin, tiny, unnamed, shallow, _), _ = wallet
    for mint in (tiny, unnamed, shallow):
        tag = mint_tag(mint)
        market, metadata = (key.make(tag=tag, mint=mint) for key in (MARKET, METADATA))
        fields = await books.redis.hgetall(market)
        about = orjson.loads(await books.redis.get(metadata)) | {"mint": mint, "asked_at": 1}
        known = tuple(about[name] for name in TOKEN_METADATA.columns)
        put_away = row(mint, ColdMarket(fields, {}, {}), 4_000)
        await books.sink.insert(COLD_MARKETS.name, [put_away], f"market {mint}")
        await books.sink.insert(TOKEN_METADATA.name, [known], f"metadata {mint}")
        await books.redis.unlink(market, metadata)
        await books.redis.setbit(MARKETS_AWAY.make(tag=tag), bit(address.key(mint)), 1)
    answer = await ask.get(PATH.format(name))
    assert [each["mint"] for each in answer["tokens"]] == [WSOL, coin, USDC, tiny]
    assert answer["hidden_unverified"] == 3


async def test_what_is_not_verified_comes_when_asked_for(wallet, ask):
    name, _, (coin, tiny, unnamed, shallow, unpriced), _ = wallet
    answer = await ask.get(PATH.format(name), include_unverified=True)
    tokens = {each["mint"]: each for each in answer["tokens"]}
    assert [each["mint"] for each in answer["tokens"]] == [
        shallow,
        WSOL,
        unnamed,
        coin,
        USDC,
        tiny,
        unpriced,
    ]
    assert answer["hidden_unverified"] == 0
    assert {mint for mint, each in tokens.items() if each["is_verified"]} == {
        WSOL,
        coin,
        USDC,
        tiny,
    }
    assert tokens[unpriced]["value_usd"] is None
    assert tokens[unpriced]["is_price_stale"] is None
    head = [int(each["value_usd_micros"] or 0) for each in (answer["native"], *tokens.values())]
    assert answer["value_usd_micros"] == str(sum(head))


async def test_small_ones_are_left_out(wallet, ask):
    name, _, (coin, *_), _ = wallet
    answer = await ask.get(PATH.format(name), min_value_usd=12.4)
    assert [each["mint"] for each in answer["tokens"]] == [WSOL, coin]
    assert (answer["hidden_small"], answer["hidden_unverified"]) == (2, 3)
    exact = await ask.get(PATH.format(name), min_value_usd=12.345678)
    assert USDC in [each["mint"] for each in exact["tokens"]]
    whole = await ask.get(PATH.format(name))
    assert whole["value_usd_micros"] == whole["total_value_usd_micros"]
    listed = [answer["native"], *answer["tokens"]]
    assert answer["value_usd_micros"] == str(sum(int(each["value_usd_micros"]) for each in listed))
    assert int(answer["value_usd_micros"]) < int(answer["total_value_usd_micros"])
    # SOL is left out like any token, and still counted in the total.
    above = whole["native"]["value_usd"] + 0.01
    rich = await ask.get(PATH.format(name), min_value_usd=above)
    assert (rich["native"], rich["hidden_native"]) == (None, True)
    assert whole["hidden_native"] is answer["hidden_native"] is False
    for other in (answer, exact, rich):
        assert other["total_value_usd_micros"] == whole["value_usd_micros"]
        assert other["total_value_usd"] == whole["value_usd"]
    none = await ask.get(PATH.format(name), min_value_usd=0, include_unverified=True)
    assert len(none["tokens"]) == 7
    for bad in ("-1", "nan", "inf", "much"):
        problem = await ask.get(PATH.format(name), 422, min_value_usd=bad)
        assert problem["code"] == "invalid_parameter"


async def test_the_portfolio_counts_the_same(wallet, ask):
    name, *_ = wallet
    whole = await ask.get(PATH.format(name))
    head = (await ask.get(f"/api/wallets/{name}/portfolio"))["holdings"]
    assert head["value_usd_micros"] == whole["value_usd_micros"]
    assert head["native"] == whole["native"]
    assert (head["verified_tokens"], head["unverified_tokens"]) == (4, 3)


@pytest.fixture
def always_asked(monkeypatch):
    monkeypatch.setattr(holdings, "FRESH_FOR_S", 0.0)


async def test_coverage_says_where_the_tape_begins(always_asked, wallet, ask, settings):
    name, *_ = wallet
    answer = (await ask.get(PATH.format(name)))["coverage"]
    assert (answer["since_slot"], answer["since_ms"]) == (None, None)
    client = await connect_async(settings)
    rows = [[slot, None, "", slot * 400, 0, 0, 0, 0, True, None] for slot in (77, 70, 90)]
    await client.insert("slots", rows)
    await client.close()
    await asyncio.sleep(CACHE_EXPIRES_S)
    answer = (await ask.get(PATH.format(name)))["coverage"]
    assert (answer["since_slot"], answer["since_ms"]) == (70, 28_000)
    assert answer["is_complete"] is False
    assert answer["known_accounts"] == answer["read_accounts"] == 9
    assert "first change" in answer["note"]


async def test_thousands_of_accounts_are_read_in_part_and_said_so(wallet, ask):
    name, books, _, made = wallet
    native = (await ask.get(PATH.format(name)))["native"]
    await asyncio.sleep(CACHE_EXPIRES_S)
    key = BALANCES.make(tag=wallet_tag(name), wallet=name)
    for start in range(0, 30_000, 1_000):
        many = {
            made.random.randbytes(32): pack_balance(made.random.randbytes(32), 1, 0, False)
            for _ in range(start, start + 1_000)
        }
        await books.redis.hset(key, mapping=many)
    answer = await ask.get(PATH.format(name), include_unverified=True)
    assert answer["coverage"]["known_accounts"] == 30_009
    assert 2_000 <= answer["coverage"]["read_accounts"] < 2_100
    assert len(answer["tokens"]) < 2_100
    for head in (answer, (await ask.get(f"/api/wallets/{name}/portfolio"))["holdings"]):
        assert head["native"] == native, "the wallet's SOL is asked for by name"
        assert (head["value_usd"], head["value_usd_micros"]) == (None, None)
        assert head["coverage"]["read_accounts"] < head["coverage"]["known_accounts"]


async def test_the_value_is_of_what_is_known(wallet, ask):
    name, books, (_, _, _, _, unpriced), _ = wallet
    key = BALANCES.make(tag=wallet_tag(name), wallet=name)
    await books.redis.delete(key)
    unworthy = pack_balance(address.key(unpriced), 10**6, 6, False)
    await books.redis.hset(key, b"p" * 32, unworthy)
    for include in (False, True):
        answer = await ask.get(PATH.format(name), include_unverified=include)
        assert (answer["native"], answer["value_usd"]) == (None, None)
    own = pack_balance(address.key(WSOL), 2 * 10**9, 9, False)
    await books.redis.hset(key, address.key(name), own)
    await asyncio.sleep(CACHE_EXPIRES_S)
    answer = await ask.get(PATH.format(name))
    assert answer["value_usd"] == 2 * SOL_USD


async def test_a_stale_price_is_called_so(wallet, ask):
    name, books, (coin, *_), _ = wallet
    now_ms = 1_763_700_000_000
    await books.market(coin, 0.02, now_ms=now_ms, time_ms=now_ms - 3_600_000)
    await priced_sol(books, now_ms)
    held = {each["mint"]: each for each in (await ask.get(PATH.format(name)))["tokens"]}
    assert held[coin]["is_price_stale"] is False
    await priced_sol(books, now_ms + 1)
    await asyncio.sleep(CACHE_EXPIRES_S)
    held = {each["mint"]: each for each in (await ask.get(PATH.format(name)))["tokens"]}
    assert held[coin]["is_price_stale"] is True
    assert held[coin]["price_time_ms"] == now_ms - 3_600_000
