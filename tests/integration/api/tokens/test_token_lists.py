"""Holders, leaderboards and the trending list against figures by hand."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import httpx
import pytest

from pipeline.domain.holders import Holders
from schemas.channels import TRENDING_FIELDS
from schemas.events import Side
from schemas.markets import BURNED
from schemas.money import USDC, WSOL
from schemas.redis_keys import POSITIONS, TOP_OF_MINT, TRADED, tag_of_wallets, wallet_tag
from schemas.solana import base58
from tests.support.api.asking import CACHE_EXPIRES_S

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
SOL_USD = 150


async def body_of(client: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def pairs(holders: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["address"], each["balance_raw"]) for each in holders]


def largest(balances: dict[str, int]) -> list[tuple[str, str]]:
    """Naive: by balance, then by the bytes of the address, the greater first."""
    ranked = sorted(
        balances.items(), key=lambda each: (each[1], base58.decode(each[0])), reverse=True
    )
    return [(owner, str(amount)) for owner, amount in ranked]


# Holders.


async def test_holders_by_balance_over_all_their_accounts(
    chain: Any, client: httpx.AsyncClient
) -> None:
    mint, pool = chain.address(), chain.address()
    chain.create(mint, pool=pool)
    rng = random.Random(3)
    balances: dict[str, int] = defaultdict(int)
    people = [chain.address() for _ in range(70)]
    for _ in range(130):
        owner = rng.choice(people)
        amount = rng.choice([5, rng.randrange(10**13), 2**53 - 1, 2**53, 2**60 + rng.randrange(9)])
        chain.hold(mint, owner, amount)
        balances[owner] += amount
    for nobody in (pool, *map(base58.encode, BURNED)):
        chain.hold(mint, nobody, 10**18)
    chain.hold(mint, chain.address(), 10**18, is_vault=True)
    await chain.settle()
    expected = largest(balances)
    assert len(expected) > 40
    answer = await body_of(client, f"/api/tokens/{mint}/holders")
    assert pairs(answer["holders"]) == expected[:20]
    assert [each["rank"] for each in answer["holders"]] == list(range(1, 21))
    assert answer["holder_count"] == len(expected)
    first = answer["holders"][0]
    assert first["supply_pct"] == pytest.approx(int(first["balance_raw"]) / 10**13)
    assert first["balance"] == int(first["balance_raw"]) / 10**6
    assert "unseen" in answer["coverage"]["note"]
    for limit in (1, 7, 100):
        answer = await body_of(client, f"/api/tokens/{mint}/holders?limit={limit}")
        assert pairs(answer["holders"]) == expected[:limit]
    for limit in ("0", "101", "-1", "x", "1.5"):
        problem = await body_of(client, f"/api/tokens/{mint}/holders?limit={limit}", 422)
        assert problem["code"] == "invalid_parameter"


async def test_a_balance_that_shrinks_below_what_a_score_holds(
    chain: Any, client: httpx.AsyncClient
) -> None:
    mint, owner, account = chain.address(), chain.address(), bytes(range(32))
    chain.create(mint)
    for amount in (2**61 + 1, 2**53 + 1, 2**53 - 1, 9):
        chain.hold(mint, owner, amount, account=account)
        await settle(chain)
        answer = await body_of(client, f"/api/tokens/{mint}/holders")
        assert pairs(answer["holders"]) == [(owner, str(amount))]
    chain.hold(mint, owner, 0, account=account)
    await settle(chain)
    answer = await body_of(client, f"/api/tokens/{mint}/holders")
    assert (answer["holders"], answer["holder_count"]) == ([], 0)


async def test_of_money_nobody_follows_the_holders(chain: Any, client: httpx.AsyncClient) -> None:
    wallet = chain.address()
    chain.trade(USDC, wallet, Side.BUY, 151_000_000, 10**9, dex="orca-whirlpool")
    await chain.settle()
    for mint in (WSOL, USDC):
        answer = await body_of(client, f"/api/tokens/{mint}/holders")
        assert (answer["holders"], answer["holder_count"]) == ([], None)
        assert "not followed" in answer["coverage"]["note"]


# Leaderboards.


class Books:
    """What wallets made of a token: first in, first out, naively and in fractions."""

    def __init__(self, chain: Any, mint: str) -> None:
        self.chain = chain
        self.mint = mint
        self.pool = chain.address()
        self.lots: dict[str, list[list[Fraction]]] = defaultdict(list)
        self.realized: dict[str, int] = defaultdict(int)  # micros of a dollar

    def buy(self, wallet: str, amount_raw: int, lamports: int) -> None:
        self.chain.trade(self.mint, wallet, Side.BUY, amount_raw, lamports, pool=self.pool)
        micros = lamports * SOL_USD // 1000
        self.lots[wallet].append([Fraction(amount_raw), Fraction(micros)])

    def sell_all(self, wallet: str, lamports: int) -> None:
        amount_raw = int(sum(lot[0] for lot in self.lots[wallet]))
        self.chain.trade(self.mint, wallet, Side.SELL, amount_raw, lamports, pool=self.pool)
        cost = sum(lot[1] for lot in self.lots.pop(wallet))
        self.realized[wallet] += lamports * SOL_USD // 1000 - int(cost)

    def ranked(self) -> list[tuple[str, str]]:
        """By gain, then by address; traders that broke even are left out."""
        found = [(-gain, wallet) for wallet, gain in self.realized.items() if gain]
        return [(wallet, str(-loss)) for loss, wallet in sorted(found)]


def gains(traders: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(each["wallet"], each["realized_usd_micros"]) for each in traders]


def a_market(chain: Any, mint: str, seed: int, wallets: int = 60) -> Books:
    """Some who gain, some who lose, some alike, some who do not sell, some who break even."""
    rng, books = random.Random(seed), Books(chain, mint)
    chain.create(mint, pool=books.pool)
    people = [chain.address() for _ in range(wallets)]
    for at, wallet in enumerate(people):
        books.buy(wallet, 10**9, 10**9)
        if at % 5 == 0:
            continue
        paid = {1: 10**9, 2: 12 * 10**8, 3: 8 * 10**8}.get(at % 5) or rng.randrange(1, 2 * 10**9)
        books.sell_all(wallet, paid)
    return books


async def test_traders_of_all_partitions_by_what_they_realized(
    chain: Any, client: httpx.AsyncClient
) -> None:
    books = a_market(chain, chain.address(), 5)
    await settle(chain)
    expected = books.ranked()
    assert len(expected) > 30
    assert len({wallet_tag(wallet) for wallet, _ in expected}) >= 6
    assert len({gain for _, gain in expected}) < len(expected) - 15  # many gained the same
    for limit in (1, 2, 5, 11, 20, 36, 100):
        answer = await body_of(client, f"/api/tokens/{books.mint}/leaderboard?limit={limit}")
        assert gains(answer["traders"]) == expected[:limit], limit
        assert [each["rank"] for each in answer["traders"]] == [
            *range(1, min(limit, len(expected)) + 1)
        ]
    assert answer["as_of_slot"] == chain.slot - 1
    default = await body_of(client, f"/api/wallets/leaderboard/{books.mint}")
    assert gains(default["traders"]) == expected[:20]
    first = default["traders"][0]
    micros = int(first["realized_usd_micros"])
    assert first["realized_usd"] == micros / 1e6
    assert first["realized_pct"] == pytest.approx(micros / 150e6 * 100)
    assert abs(int(first["realized_lamports"]) - micros * 1000 / SOL_USD) < 1000 / SOL_USD
    assert (first["bought_raw"], first["bought"], first["sold"]) == ("1000000000", 1e3, 1e3)
    assert (first["held"], first["unmatched_raw"], first["bought_usd"]) == (0.0, "0", 150.0)
    assert (first["buys"], first["sells"], first["wins"], first["losses"]) == (1, 1, 1, 0)
    assert first["first_trade_ms"] == first["last_trade_ms"] == chain.time_ms - 400
    for limit in ("0", "101", "x"):
        path = f"/api/tokens/{books.mint}/leaderboard?limit={limit}"
        assert (await body_of(client, path, 422))["code"] == "invalid_parameter"


async def test_equal_gains_stand_by_address_wherever_the_cut_goes(
    chain: Any, client: httpx.AsyncClient
) -> None:
    books = Books(chain, chain.address())
    chain.create(books.mint, pool=books.pool)
    people = [chain.address() for _ in range(80)]
    for wallet in people:
        books.buy(wallet, 10**6, 10**9)
        books.sell_all(wallet, 11 * 10**8)
    await settle(chain)
    for limit in (1, 3, 8, 20, 79):
        answer = await body_of(client, f"/api/tokens/{books.mint}/leaderboard?limit={limit}")
        assert [each["wallet"] for each in answer["traders"]] == sorted(people)[:limit]


async def test_leaderboards_of_many_tokens(chain: Any, client: httpx.AsyncClient) -> None:
    markets = [a_market(chain, chain.address(), seed, wallets=20) for seed in range(4)]
    quiet, unknown = chain.address(), chain.address()
    chain.create(quiet)
    await settle(chain)
    mints = [quiet, unknown, *(books.mint for books in markets)]
    answer = await client.post("/api/tokens/leaderboard/batch", json={"mints": mints})
    found = answer.json()
    assert found["unknown"] == [unknown]
    assert [board["mint"] for board in found["leaderboards"]] == [
        mint for mint in mints if mint != unknown
    ]
    assert found["leaderboards"][0]["traders"] == []
    for books, board in zip(markets, found["leaderboards"][1:], strict=True):
        assert gains(board["traders"]) == books.ranked()[:5]
    body = {"mints": [markets[0].mint], "limit": 20}
    [board] = (await client.post("/api/tokens/leaderboard/batch", json=body)).json()["leaderboards"]
    single = await body_of(client, f"/api/tokens/{markets[0].mint}/leaderboard?limit=20")
    assert board["traders"] == single["traders"]


async def test_the_leaderboard_of_a_token_at_rest(chain: Any, client: httpx.AsyncClient) -> None:
    books = a_market(chain, chain.address(), 9, wallets=30)
    await settle(chain)
    path = f"/api/tokens/{books.mint}/leaderboard?limit=15"
    before = await body_of(client, path)
    assert gains(before["traders"]) == books.ranked()[:15]
    await rest(chain)
    raw = base58.decode(books.mint)
    for part in range(8):
        assert await chain.redis.zscore(TRADED.make(tag=tag_of_wallets(part)), raw) is None
    for tag in map(tag_of_wallets, range(8)):
        assert not await chain.redis.exists(TOP_OF_MINT.make(tag=tag, mint=books.mint))
    after = await body_of(client, path)
    assert after["traders"] == before["traders"]
    assert after["as_of_slot"] > before["as_of_slot"]
    # One of its partitions moves again: the others' wallets are not forgotten over that.
    newcomer = chain.address()
    books.buy(newcomer, 10**9, 10**9)
    books.sell_all(newcomer, 5 * 10**9)
    await settle(chain)
    mixed = await body_of(client, path)
    assert gains(mixed["traders"]) == books.ranked()[:15]
    assert mixed["traders"][0]["wallet"] == newcomer


async def test_the_leaderboard_of_a_token_whose_traders_rest(
    chain: Any, client: httpx.AsyncClient
) -> None:
    chain.wallets_rest_h = 5
    books = a_market(chain, chain.address(), 10, wallets=30)
    await settle(chain)
    early = books.ranked()
    for pause_ms in (3 * HOUR_MS, 3 * HOUR_MS, HOUR_MS):
        chain.pass_time(pause_ms)
        newcomer = chain.address()
        books.buy(newcomer, 10**9, 10**9)
        books.sell_all(newcomer, 10**9 + pause_ms // 100)
        await settle(chain)
    tops = [TOP_OF_MINT.make(tag=tag_of_wallets(part), mint=books.mint) for part in range(8)]
    ranked = {wallet for top in tops for wallet in await chain.redis.zrange(top, 0, -1)}
    assert not ranked & {base58.decode(wallet) for wallet, _ in early}
    for limit in (1, 3, 15, 40):
        answer = await body_of(client, f"/api/tokens/{books.mint}/leaderboard?limit={limit}")
        assert gains(answer["traders"]) == books.ranked()[:limit]


async def test_a_position_that_was_put_away_in_between(
    chain: Any, client: httpx.AsyncClient
) -> None:
    books = a_market(chain, chain.address(), 4, wallets=12)
    await settle(chain)
    path = f"/api/tokens/{books.mint}/leaderboard"
    before = await body_of(client, path)
    wallet = before["traders"][0]["wallet"]
    key = POSITIONS.make(tag=wallet_tag(wallet), wallet=wallet)
    assert await chain.redis.hdel(key, base58.decode(books.mint))
    await settle(chain)
    assert (await body_of(client, path))["traders"] == before["traders"]


async def test_answers_stay_until_something_settles(chain: Any, client: httpx.AsyncClient) -> None:
    books, quiet = a_market(chain, chain.address(), 4, wallets=12), chain.address()
    chain.create(quiet)
    await settle(chain)
    paths = [f"/api/tokens/{mint}/leaderboard?limit=3" for mint in (books.mint, quiet)]
    before = [await body_of(client, path) for path in paths]
    winner = chain.address()
    books.buy(winner, 10**9, 10**9)
    books.sell_all(winner, 9 * 10**9)
    await chain.settle()
    await asyncio.sleep(CACHE_EXPIRES_S)
    after = [await body_of(client, path) for path in paths]
    assert after[0]["traders"][0]["wallet"] == winner
    assert winner not in [trader["wallet"] for trader in before[0]["traders"]]
    assert [each["as_of_slot"] for each in after] == [chain.slot - 1] * 2
    body = {"mints": [quiet, books.mint], "limit": 3}
    batch = (await client.post("/api/tokens/leaderboard/batch", json=body)).json()
    assert [board["traders"] for board in batch["leaderboards"]] == [[], after[0]["traders"]]
    await asyncio.sleep(CACHE_EXPIRES_S)
    assert [await body_of(client, path) for path in paths] == after


async def settle(chain: Any) -> None:
    await chain.settle()
    await asyncio.sleep(CACHE_EXPIRES_S)


async def rest(chain: Any) -> None:
    for pause_ms in (3 * DAY_MS, HOUR_MS, HOUR_MS):
        chain.pass_time(pause_ms)
        await settle(chain)


# Trending.


async def test_the_trending_list(chain: Any, client: httpx.AsyncClient) -> None:
    platforms = ("pump-fun", "boop", "pump-fun", "moonit")
    mints = [chain.address() for _ in platforms]
    people = [chain.address() for _ in range(8)]
    quiet = chain.address()
    chain.create(quiet)  # nobody trades it
    for at, (mint, platform) in enumerate(zip(mints, platforms, strict=True)):
        chain.create(mint, platform=platform, name=f"Coin {at}", creator=people[0])
        chain.hold(mint, people[0], 5 * 10**13)
        for wallet in people[: 2 * at + 1]:
            chain.trade(mint, wallet, Side.BUY, 10**12, 10**9, platform=platform)
    chain.pass_time(2_000)
    await chain.settle()
    await asyncio.sleep(CACHE_EXPIRES_S)
    listed = (await body_of(client, "/api/tokens/trending"))["tokens"]
    assert [token["mint"] for token in listed] == mints[::-1]
    assert [token["rank"] for token in listed] == [1, 2, 3, 4]
    assert sorted((token["score"] for token in listed), reverse=True) == [
        token["score"] for token in listed
    ]
    best = listed[0]
    assert set(best) == {*TRENDING_FIELDS, "rank", "score"}
    # Seven wallets with 150 dollars each: log2(151) each, by 21 for the three windows.
    assert best["score"] == pytest.approx(7 * 7.24 * 21, rel=0.01)
    assert (best["name"], best["dex"], best["creator"]) == ("Coin 3", "moonit", people[0])
    assert (best["buy_count"], best["sell_count"], best["buy_volume_24h"]) == (7, 0, 1_050.0)
    assert (best["dev_holding_pct"], best["supply"], best["holder_count"]) == (5.0, 1e9, 1)
    assert best["market_cap"] == pytest.approx(best["price_usd"] * 1e9)
    token = await body_of(client, f"/api/tokens/{best['mint']}")
    assert best["liquidity_usd"] == token["liquidity_usd"]
    for query, expected in (
        ("?limit=2", mints[:1:-1]),
        ("?platform=pump-fun", [mints[2], mints[0]]),
        ("?platform=boop&platform=moonit", [mints[3], mints[1]]),
        ("?platform=pump-fun&limit=1", [mints[2]]),
        ("?platform=nowhere", []),
    ):
        answer = await body_of(client, f"/api/tokens/trending{query}")
        assert [token["mint"] for token in answer["tokens"]] == expected, query
        assert answer["as_of_slot"] == chain.slot - 1
    for query in ("?limit=0", "?limit=101", "?platform=UP", "?platform=" + 41 * "a"):
        problem = await body_of(client, f"/api/tokens/trending{query}", 422)
        assert problem["code"] == "invalid_parameter", query


async def test_a_trending_token_whose_creation_was_not_seen(
    chain: Any, client: httpx.AsyncClient
) -> None:
    mint, nameless = chain.address(), chain.address()
    owners = [chain.address() for _ in range(12)]
    for each, count in ((mint, 5), (nameless, 2)):
        for wallet in owners[:count]:
            chain.trade(each, wallet, Side.BUY, 10**12, 10**9, platform="pump-fun")
    for at, owner in enumerate(owners, start=1):
        chain.hold(mint, owner, at * 10**12)
    chain.pass_time(2_000)
    await chain.settle()
    await chain.put_metadata(mint, name="Asked", symbol="ASK", decimals=6, supply_raw=10**14)
    await asyncio.sleep(CACHE_EXPIRES_S)
    first, second = (await body_of(client, "/api/tokens/trending"))["tokens"]
    assert (first["name"], first["symbol"], first["supply"]) == ("Asked", "ASK", 1e8)
    assert first["market_cap"] == pytest.approx(first["price_usd"] * 1e8)
    assert first["top10_holders_pct"] == sum(range(3, 13))
    assert (first["creator"], first["dev_holding_pct"]) == (None, None)
    for name in ("name", "symbol", "supply", "market_cap", "top10_holders_pct"):
        assert second[name] is None, name


async def test_nothing_trends_where_nothing_happened(chain: Any, client: httpx.AsyncClient) -> None:
    await asyncio.sleep(CACHE_EXPIRES_S)
    answer = await body_of(client, "/api/tokens/trending")
    assert answer == {"tokens": [], "as_of_slot": 0, "as_of_ms": 0, "gaps": None}


def test_the_pipelines_holders_leave_out_what_the_api_leaves_out() -> None:
    assert not any(Holders().counts(owner) for owner in BURNED)
