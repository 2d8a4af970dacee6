"""What a token is and costs, as the API answers, against figures by hand."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from api.http.errors import TOO_MANY_HOLDERS, Problem
from api.stores.clients import Stores
from api.tokens import cold_markets
from infra.settings import Settings
from schemas.events import Side
from schemas.money import USD1, USDC, WSOL
from schemas.redis_keys import ACTIVE, mint_tag
from tests.support.api.asking import CACHE_EXPIRES_S

T0_MS = 1_763_700_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MINUTES_5 = 5 * 60_000


async def body_of(client: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


async def posted(client: httpx.AsyncClient, path: str, body: Any, status: int = 200) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_token_from_its_creation_on(chain: Any, client: httpx.AsyncClient) -> None:
    mint, creator, buyer, pool = (chain.address() for _ in range(4))
    chain.create(mint, creator=creator, pool=pool)
    created_slot = chain.slot
    chain.hold(mint, creator, 2 * 10**13)
    chain.hold(mint, pool, 9 * 10**14)  # a curve is no holder
    chain.pass_time(1_000)
    # 4e12 raw are 4e6 tokens, for 1 SOL.
    chain.trade(
        mint, buyer, Side.BUY, 4 * 10**12, 10**9, pool=pool, platform="pump-fun",
        reserve_raw=793_100_000_000_000 // 2, quote_reserve_raw=30 * 10**9,
    )  # fmt: skip
    chain.hold(mint, buyer, 4 * 10**12)
    await chain.settle()
    # A day ago, to within five minutes, it was worth 2e-5 dollars.
    begun = chain.time_ms - DAY_MS
    await chain.publish(
        mint,
        (begun - 2 * MINUTES_5, 1e-7, 2e-5),
        (begun + MINUTES_5, 9e-7, 9e-5),
        (T0_MS + 1_000, 2.5e-7, 3.75e-5),
    )
    token = await body_of(client, f"/api/tokens/{mint}")
    day = token.pop("day")
    assert token == {
        "mint": mint, "name": "Coin", "symbol": "CN", "uri": "ipfs://x", "decimals": 6,
        "token_program": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "supply_raw": "1000000000000000", "supply": 1e9, "supply_source": "creation",
        "supply_time_ms": T0_MS, "supply_slot": created_slot, "mint_account": None,
        "mint_account_reason": "not_ingested", "creator": creator,
        "metadata": None, "metadata_reason": "off", "metadata_detail": "METADATA_FETCH is off",
        "creator_balance_raw": "20000000000000",
        "creator_balance": 2e7, "creator_pct": 2.0, "platform": "pump-fun", "dex": "pump-fun",
        "pool": pool, "quote_mint": WSOL, "created_slot": created_slot, "created_ms": T0_MS,
        "is_migrated": False, "migrated_slot": None, "migrated_ms": None, "migrated_dex": None,
        "migrated_pool": None, "bonding_curve_pct": pytest.approx(50.0),
        "liquidity_lamports": "60000000000", "liquidity_sol": 60.0, "liquidity_usd": 9_000.0,
        "holder_count": 2, "last_activity_ms": T0_MS + 1_000, "price_sol": 2.5e-7,
        "price_usd": 3.75e-5, "price_time_ms": T0_MS + 1_000, "price_slot": 900,
        "price_source": "live", "is_price_stale": False,
        "change_24h_pct": pytest.approx(87.5), "market_cap_usd": pytest.approx(37_500.0),
        "as_of_slot": chain.slot - 1, "as_of_ms": T0_MS + 1_000,
        "gaps": None,
    }  # fmt: skip
    assert day == {
        "buys": 1, "sells": 0, "traders": 1,
        "buy_volume_usd_micros": "150000000", "buy_volume_usd": 150.0,
        "sell_volume_usd_micros": "0", "sell_volume_usd": 0.0,
        "volume_usd_micros": "150000000", "volume_usd": 150.0,
        "volume_lamports": "1000000000", "volume_sol": 1.0,
    }  # fmt: skip
    price = await body_of(client, f"/api/tokens/{mint}/price")
    assert price == {name: token[name] for name in price}
    assert {"price_usd", "change_24h_pct", "market_cap_usd", "supply_raw"} < price.keys()
    listed = await posted(client, "/api/tokens/batch", {"mints": [mint]})
    as_of = {name: token.pop(name) for name in ("as_of_slot", "as_of_ms", "gaps")}
    of_one = ("mint_account", "mint_account_reason")
    for name in (*of_one, "metadata", "metadata_reason", "metadata_detail"):
        del token[name]
    assert listed == {"tokens": [token], "unknown": [], **as_of}
    again = await posted(client, "/api/tokens/batch", {"mints": [mint]})
    assert again == listed


async def test_a_batch_shows_what_has_changed_since_the_last(
    chain: Any, client: httpx.AsyncClient
) -> None:
    mint, other, wallet, pool, new_pool = (chain.address() for _ in range(5))
    chain.create(mint, pool=pool)
    chain.create(other)
    chain.trade(mint, wallet, Side.BUY, 10**12, 10**9, pool=pool)
    await chain.settle()
    await chain.publish(mint, (T0_MS, 1e-6, 1.5e-4))
    body = {"mints": [other, mint]}
    before = (await posted(client, "/api/tokens/batch", body))["tokens"]
    assert [token["mint"] for token in before] == [other, mint]
    assert before[1]["is_migrated"] is False
    assert before[1]["is_price_stale"] is False
    chain.migrate(mint, pool, new_pool)
    await chain.settle()
    await chain.publish(mint, (T0_MS, 1e-6, 1.5e-4), (T0_MS + 900, 2e-6, 3e-4))
    await asyncio.sleep(CACHE_EXPIRES_S)
    after = (await posted(client, "/api/tokens/batch", body))["tokens"]
    assert after[0] == before[0]
    assert (after[1]["is_migrated"], after[1]["migrated_pool"]) == (True, new_pool)
    assert (after[1]["bonding_curve_pct"], after[1]["price_usd"]) == (100.0, 3e-4)
    chain.pass_time(2 * HOUR_MS)
    await chain.settle()
    await asyncio.sleep(CACHE_EXPIRES_S)
    later = (await posted(client, "/api/tokens/batch", body))["tokens"]
    assert later[1] == {**after[1], "is_price_stale": True}


async def test_the_limits_of_a_batch(chain: Any, client: httpx.AsyncClient) -> None:
    known, *unknown = (chain.address() for _ in range(101))
    chain.create(known)
    await chain.settle()
    for path in ("/api/tokens/batch", "/api/tokens/leaderboard/batch"):
        answer = await posted(client, path, {"mints": [*unknown[:99], known]})
        assert answer["unknown"] == unknown[:99]
        assert len(answer.get("tokens") or answer["leaderboards"]) == 1
        twice = await posted(client, path, {"mints": [known, known]})
        assert len(twice.get("tokens") or twice["leaderboards"]) == 1
        for body, code in (
            ({"mints": [known, *unknown]}, "invalid_body"),
            ({"mints": []}, "invalid_body"),
            ({}, "invalid_body"),
            ({"mints": [known], "more": 1}, "invalid_body"),
            ({"mints": [known, "0" * 40]}, "invalid_address"),
            ({"mints": [known, known[:31]]}, "invalid_address"),
        ):
            problem = await posted(client, path, body, 422)
            assert problem["code"] == code, body
    for limit in (0, 21, "x"):
        body = {"mints": [known], "limit": limit}
        problem = await posted(client, "/api/tokens/leaderboard/batch", body, 422)
        assert problem["code"] == "invalid_body"


async def test_a_batch_costs_one_credit(chain: Any, client: httpx.AsyncClient, served: Any) -> None:
    mints = [chain.address() for _ in range(7)]
    before = (await body_of(client, "/api/usage"))["credits"]["used"]
    await posted(client, "/api/tokens/batch", {"mints": mints})
    await posted(client, "/api/tokens/leaderboard/batch", {"mints": [*mints[:3], mints[0]]})
    await body_of(client, f"/api/tokens/{mints[0]}", 404)
    after = (await body_of(client, "/api/usage"))["credits"]["used"]
    assert after - before == 3


async def test_words_in_an_addresss_place_are_no_addresses(client: httpx.AsyncClient) -> None:
    problem = await body_of(client, "/api/tokens/batch", 405)
    assert problem["code"] == "method_not_allowed"
    assert (await client.get("/api/tokens/batch")).headers["allow"] == "POST"
    assert (await body_of(client, "/api/tokens/leaderboard", 404))["code"] == "not_found"
    assert (await body_of(client, "/api/tokens/leaderboard/batch", 405))["code"] == (
        "method_not_allowed"
    )


@pytest.mark.parametrize("what", ["", "/price", "/pools", "/holders", "/leaderboard"])
async def test_a_token_nobody_has_heard_of(
    chain: Any, client: httpx.AsyncClient, what: str
) -> None:
    unknown = chain.address()
    assert (await body_of(client, f"/api/tokens/{unknown}{what}", 404))["code"] == "unknown_token"
    await chain.put_metadata(unknown, status="absent")
    assert (await body_of(client, f"/api/tokens/{unknown}{what}", 404))["code"] == "unknown_token"
    problem = await body_of(client, f"/api/tokens/{unknown[:-1]}0{what}", 422)
    assert problem["code"] == "invalid_address"


async def test_a_token_known_by_rpc_alone(chain: Any, client: httpx.AsyncClient) -> None:
    mint, named = chain.address(), chain.address()
    await chain.put_metadata(mint, name="Old", symbol="OLD", decimals=2, supply_raw=12_345)
    chain.create(named, name="New", symbol="NEW", uri="")
    await chain.settle()
    await chain.put_metadata(named, name="Other", symbol="OTH", uri="u", decimals=2, supply_raw=1)
    token = await body_of(client, f"/api/tokens/{mint}")
    assert (token["name"], token["supply"], token["supply_source"]) == ("Old", 123.45, "rpc")
    assert token["supply_time_ms"] == T0_MS + 5
    for name in ("price_usd", "price_source", "market_cap_usd", "holder_count", "day", "uri"):
        assert token[name] is None, name
    # Fields from events come first, the RPC fills in the rest.
    token = await body_of(client, f"/api/tokens/{named}")
    assert (token["name"], token["symbol"], token["uri"]) == ("New", "NEW", "u")
    assert (token["decimals"], token["supply_source"]) == (6, "creation")
    for what in ("/holders", "/leaderboard", "/pools"):
        assert (await body_of(client, f"/api/tokens/{mint}{what}"))["mint"] == mint


async def test_a_token_that_is_only_just_there(chain: Any, client: httpx.AsyncClient) -> None:
    """The live lane is ahead of what is settled."""
    mint = chain.address()
    await chain.settle()
    await chain.publish(mint, (T0_MS + 900, 2e-7, None))
    token = await body_of(client, f"/api/tokens/{mint}")
    assert (token["price_sol"], token["price_usd"], token["is_price_stale"]) == (2e-7, None, False)
    for name in ("name", "decimals", "market_cap_usd", "change_24h_pct", "holder_count"):
        assert token[name] is None, name
    holders = await body_of(client, f"/api/tokens/{mint}/holders")
    assert (holders["holders"], holders["holder_count"]) == ([], None)
    assert (await body_of(client, f"/api/tokens/{mint}/leaderboard"))["traders"] == []
    assert (await body_of(client, f"/api/tokens/{mint}/pools"))["pools"] == []


async def test_what_has_not_changed_at_a_later_slot_is_not_sent_again(
    chain: Any, client: httpx.AsyncClient
) -> None:
    mint = chain.address()
    chain.create(mint)
    await chain.settle()
    pools = await client.get(f"/api/tokens/{mint}/pools")
    had = {"if-none-match": pools.headers["etag"]}
    chain.create(chain.address())
    await chain.settle()
    again = await client.get(f"/api/tokens/{mint}/pools", headers=had)
    assert (again.status_code, again.content) == (304, b"")
    later = (await body_of(client, f"/api/tokens/{mint}/pools"))["as_of_slot"]
    assert later > pools.json()["as_of_slot"]
    chain.trade(mint, chain.address(), Side.BUY, 10**9, 10**8)
    await chain.settle()
    changed = await client.get(f"/api/tokens/{mint}/pools", headers=had)
    assert (changed.status_code, len(changed.json()["pools"])) == (200, 1)


async def test_a_price_that_expired_is_the_one_its_market_was_left_with(
    chain: Any, client: httpx.AsyncClient
) -> None:
    mint, wallet = chain.address(), chain.address()
    chain.create(mint)
    chain.pass_time(2_000)
    chain.trade(mint, wallet, Side.BUY, 10**12, 5 * 10**8)
    traded_slot, traded_ms = chain.slot, chain.time_ms
    chain.pass_time(HOUR_MS + 1)
    chain.hold(mint, wallet, 10**12)  # moves the market on, not its price
    await chain.settle()
    price = await body_of(client, f"/api/tokens/{mint}/price")
    assert (price["price_sol"], price["price_usd"]) == (5e-7, 7.5e-5)
    assert (price["price_slot"], price["price_time_ms"]) == (traded_slot, traded_ms)
    assert (price["price_source"], price["is_price_stale"]) == ("settled", True)
    assert price["market_cap_usd"] == pytest.approx(75_000)
    assert price["change_24h_pct"] is None
    chain.pass_time(DAY_MS)
    await chain.settle()
    assert (await body_of(client, f"/api/tokens/{mint}/price"))["change_24h_pct"] == 0.0


async def test_sol_and_the_dollar_coins(chain: Any, client: httpx.AsyncClient) -> None:
    usdc_pool, wallet = chain.address(), chain.address()
    sol = await body_of(client, f"/api/tokens/{WSOL}/price")
    assert (sol["price_sol"], sol["price_usd"], sol["symbol"]) == (1.0, None, "SOL")
    # 151 USDC for a SOL: traded, it costs what its market says.
    chain.trade(USDC, wallet, Side.BUY, 151_000_000, 10**9, pool=usdc_pool, dex="orca-whirlpool")
    dust = {"pool": chain.address(), "dex": "orca-whirlpool"}
    chain.trade(USD1, wallet, Side.BUY, 1_000, 6_666, **dust)
    await chain.settle()
    begun = chain.time_ms - DAY_MS
    await chain.publish(
        WSOL, (begun - MINUTES_5, 1.0, 120.0), (begun + MINUTES_5, 1.0, 140.0), (T0_MS, 1.0, 149.0)
    )
    sol = await body_of(client, f"/api/tokens/{WSOL}")
    assert (sol["price_sol"], sol["price_usd"], sol["price_source"]) == (1.0, 150.0, "reference")
    assert (sol["change_24h_pct"], sol["is_price_stale"]) == (25.0, False)
    assert (sol["holder_count"], sol["market_cap_usd"], sol["decimals"]) == (None, None, 9)
    usdc = await body_of(client, f"/api/tokens/{USDC}/price")
    assert usdc["price_source"] == "settled"
    assert usdc["price_usd"] == pytest.approx(150 / 151)
    usd1 = await body_of(client, f"/api/tokens/{USD1}/price")
    assert (usd1["price_usd"], usd1["price_source"], usd1["symbol"]) == (1.0, "par", "USD1")
    assert usd1["price_sol"] == pytest.approx(1 / 150)
    assert (usd1["change_24h_pct"], usd1["is_price_stale"]) == (None, False)
    many = await posted(client, "/api/tokens/batch", {"mints": [USD1, WSOL, USDC]})
    assert [token["price_source"] for token in many["tokens"]] == ["par", "reference", "settled"]


async def test_pools_deepest_first(chain: Any, client: httpx.AsyncClient) -> None:
    mint, wallet, other, shallow, deep, silent = (chain.address() for _ in range(6))
    strange, coin, unpriced = (chain.address() for _ in range(3))
    for each in (mint, strange):
        chain.create(each)
    chain.trade(
        strange, wallet, Side.BUY, 10**12, 10**9, pool=unpriced, quote_mint=coin,
        quote_decimals=6, sol_value_lamports=None, usd_value_micros=None, quote_reserve_raw=10**11,
    )  # fmt: skip
    for pool, quote in ((shallow, 10**9), (deep, 10**11), (silent, None)):
        chain.trade(
            mint, wallet, Side.BUY, 10**12, 10**9, pool=pool, dex="raydium-amm-v4",
            reserve_raw=10**15 if quote else None, quote_reserve_raw=quote,
        )  # fmt: skip
    chain.trade(
        mint, other, Side.SELL, 10**12, 10**9, pool=deep, dex="raydium-amm-v4",
        reserve_raw=10**15, quote_reserve_raw=10**11,
    )  # fmt: skip
    await chain.settle()
    answer = await body_of(client, f"/api/tokens/{mint}/pools")
    assert [pool["pool"] for pool in answer["pools"]] == [deep, shallow, silent]
    assert [pool["liquidity_sol"] for pool in answer["pools"]] == [200.0, 2.0, None]
    assert answer["pools"][0]["liquidity_usd"] == 30_000.0
    assert answer["pools"][0]["reserve"] == 10**9
    assert answer["pools"][2]["reserve_raw"] is None
    assert [pool["day"]["traders"] for pool in answer["pools"]] == [2, 1, 1]
    token = await body_of(client, f"/api/tokens/{mint}")
    assert (token["liquidity_sol"], token["day"]["traders"]) == (202.0, 2)
    assert (token["day"]["buys"], token["day"]["sells"]) == (3, 1)
    [pool] = (await body_of(client, f"/api/tokens/{strange}/pools"))["pools"]
    for answer in (pool, await body_of(client, f"/api/tokens/{strange}")):
        for name in ("liquidity_lamports", "liquidity_sol", "liquidity_usd"):
            assert answer[name] is None


async def test_a_market_at_rest_is_answered_from_clickhouse(
    chain: Any, client: httpx.AsyncClient, token_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    mint, wallet, whale, creator, pool, old = (chain.address() for _ in range(6))
    chain.create(mint, creator=creator, pool=pool)
    chain.trade(
        mint, wallet, Side.BUY, 10**12, 10**9, pool=pool, reserve_raw=10**14,
        quote_reserve_raw=10**10,
    )  # fmt: skip
    chain.trade(old, wallet, Side.BUY, 10**12, 10**9)
    await chain.put_metadata(old, name="Of old", symbol="OLD", decimals=6, supply_raw=10**15)
    for owner, amount in ((wallet, 10**12), (whale, 2**60 + 1), (creator, 7), (pool, 10**14)):
        chain.hold(mint, owner, amount)
    chain.hold(mint, wallet, 5)
    chain.hold(mint, chain.address(), 10**16, is_vault=True)
    await chain.settle()
    paths = [f"/api/tokens/{mint}{what}" for what in ("", "/price", "/holders", "/pools")]
    paths += [f"/api/tokens/{old}{what}" for what in ("", "/holders")]  # which RPC named
    before = [await body_of(client, path) for path in paths]
    assert before[2]["holders"][0]["balance_raw"] == str(2**60 + 1)
    assert [each["balance_raw"] for each in before[2]["holders"]] == [
        str(2**60 + 1), str(10**12 + 5), "7",
    ]  # fmt: skip
    chain.pass_time(3 * DAY_MS)
    await chain.settle()
    chain.pass_time(HOUR_MS)
    await chain.settle()
    await asyncio.sleep(CACHE_EXPIRES_S)
    for each in (mint, old):
        assert not await chain.redis.keys(f"*{mint_tag(each)}:{each}")
        assert not await chain.redis.zscore(ACTIVE.make(tag=mint_tag(each)), each)
    after = [await body_of(client, path) for path in paths]
    changed = {"as_of_slot", "as_of_ms", "is_price_stale", "change_24h_pct", "day"}
    for was, now in zip(before, after, strict=True):
        for name, value in was.items():
            if name == "pools":
                assert [{**p, "day": 0} for p in value] == [{**p, "day": 0} for p in now[name]]
            elif name not in changed:
                assert now[name] == value, name
    assert after[0]["is_price_stale"] is True
    assert after[0]["change_24h_pct"] == 0.0
    assert after[0]["day"]["buys"] == 0
    many = await posted(client, "/api/tokens/batch", {"mints": [chain.address(), mint]})
    [token] = many["tokens"]
    assert token == {name: after[0][name] for name in token}
    limited = await body_of(client, f"/api/tokens/{mint}/holders?limit=1")
    assert limited["holders"] == after[2]["holders"][:1]
    # private `_MOST`: makes a small market one of too many rows.
    monkeypatch.setattr(cold_markets, "_MOST", 100)
    stores = Stores(token_settings)
    with pytest.raises(Problem, match="more than the 100") as refused:
        await cold_markets.read_cold_market(stores, mint, 2**63)
    await stores.close()
    assert refused.value.kind is TOO_MANY_HOLDERS
    assert after[0]["holder_count"] == 3  # as the problem says where to find it
