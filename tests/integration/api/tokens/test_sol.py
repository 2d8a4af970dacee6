"""SOL is a token like any other: facts, price, candles, pools, swaps, and why nobody leads it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from schemas.events import Side
from schemas.money import USDC, USDT, WSOL

SOL_USD = 150  # of the chain by hand


async def body_of(client: httpx.AsyncClient, path: str, status: int = 200, **query: Any) -> Any:
    answer = await client.get(f"/api/tokens/{path}", params=query)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_token_and_its_price(chain: Any, client: httpx.AsyncClient) -> None:
    await chain.settle()
    token, price = await body_of(client, WSOL), await body_of(client, f"{WSOL}/price")
    assert (token["name"], token["symbol"], token["decimals"]) == ("Solana", "SOL", 9)
    assert (token["price_sol"], token["price_usd"]) == (1.0, float(SOL_USD))
    assert (token["supply"], token["market_cap_usd"], token["holder_count"]) == (None, None, None)
    assert token["day"] is None
    shared = price.keys() & token.keys()
    assert len(shared) == len(price)
    assert {name: price[name] for name in shared} == {name: token[name] for name in shared}


async def test_candles_are_of_the_reference(chain: Any, client: httpx.AsyncClient) -> None:
    begun_ms = chain.time_ms
    for _ in range(5):
        chain.pass_time(30_000)
    await chain.settle()
    answer = await body_of(client, f"{WSOL}/candles", interval="1m", to=chain.time_ms)
    assert (answer["mint"], answer["decimals"]) == (WSOL, 9)
    first_ms = begun_ms // 60_000 * 60_000
    starts = [candle["start_ms"] for candle in answer["candles"]]
    assert starts == list(range(first_ms, begun_ms + 5 * 30_000 + 1, 60_000))
    for candle in answer["candles"]:
        for shape in ("open", "high", "low", "close"):
            assert (candle[f"{shape}_sol"], candle[f"{shape}_usd"]) == (1.0, float(SOL_USD))
        for unknown in ("amount_raw", "amount", "volume_sol", "volume_usd", "buys", "sells"):
            assert candle[unknown] is None, unknown


async def test_pools_are_those_with_dollar_coins(chain: Any, client: httpx.AsyncClient) -> None:
    deep, shallow, dollars, other, wallet, mint = (chain.address() for _ in range(6))
    usdc = {"pool": deep, "dex": "orca-whirlpool", "reserve_raw": 15 * 10**9}
    # 100 SOL against 15,000 USDC: the wallet buys USDC, so it sells SOL.
    chain.trade(USDC, wallet, Side.BUY, 150_000_000, 10**9, **usdc, quote_reserve_raw=10**11)
    chain.trade(USDC, wallet, Side.SELL, 75_000_000, 5 * 10**8, **usdc, quote_reserve_raw=10**11)
    chain.trade(
        USDT, wallet, Side.BUY, 10**8, 10**9, pool=shallow, dex="raydium-cpmm",
        reserve_raw=10**9, quote_reserve_raw=10**10,
    )  # fmt: skip
    chain.trade(  # one dollar coin for another: not a pool of SOL
        USDT, wallet, Side.BUY, 10**8, 10**8, pool=dollars, quote_mint=USDC, quote_decimals=6,
        reserve_raw=10**12, quote_reserve_raw=10**12, sol_value_lamports=10**9,
    )  # fmt: skip
    chain.create(mint)
    chain.trade(mint, wallet, Side.BUY, 10**9, 10**9, pool=other, quote_reserve_raw=10**12)
    await chain.settle()
    pools = (await body_of(client, f"{WSOL}/pools"))["pools"]
    assert [pool["pool"] for pool in pools] == [deep, shallow]
    first = pools[0]
    assert (first["dex"], first["quote_mint"]) == ("orca-whirlpool", USDC)
    assert (first["price_sol"], first["price_usd"]) == (1.0, pytest.approx(150))
    assert (first["reserve_raw"], first["reserve"]) == (str(10**11), 100.0)
    assert first["liquidity_sol"] == 200.0
    assert (first["day"]["buys"], first["day"]["sells"]) == (1, 1)
    assert (first["day"]["buy_volume_usd"], first["day"]["sell_volume_usd"]) == (75.0, 150.0)
    assert pools[1]["quote_mint"] == USDT
    assert pools[1]["price_usd"] == pytest.approx(100)
    coin = (await body_of(client, f"{USDC}/pools"))["pools"]
    assert [(pool["pool"], pool["quote_mint"]) for pool in coin] == [(deep, WSOL)]
    assert (coin[0]["day"]["buys"], coin[0]["day"]["buy_volume_usd"]) == (1, 150.0)


async def test_nobody_holds_or_leads_money(chain: Any, client: httpx.AsyncClient) -> None:
    mint, wallet = chain.address(), chain.address()
    chain.create(mint)
    chain.trade(mint, wallet, Side.BUY, 10**9, 10**9)
    await chain.settle()
    for money in (WSOL, USDC):
        holders = await body_of(client, f"{money}/holders")
        assert (holders["holders"], holders["holder_count"]) == ([], None)
        assert holders["coverage"]["note"] == "Holders of SOL and of dollar coins are not followed."
        board = await body_of(client, f"{money}/leaderboard")
        assert board["traders"] == []
        assert board["note"].startswith("SOL and dollar coins are money")
    assert (await body_of(client, f"{mint}/leaderboard"))["note"] is None
