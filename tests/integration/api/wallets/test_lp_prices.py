"""LP tokens that no market prices are worth their share of the reserves, net of fees owed."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from struct import pack_into
from typing import Any

import pytest

from schemas.accounts import followed_of
from schemas.money import WSOL
from schemas.protocols import raydium_amm_v4 as amm
from schemas.protocols import raydium_cpmm as cpmm
from schemas.protocols.registry import SHARE_PROGRAMS
from schemas.redis_keys import MARKETS, POOLS_OF, account_tag, tag_of_mints
from schemas.solana.addresses import CLOCK, SYSVAR_PROGRAM, key, text
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.accounts_lane import AccountsLane, mint_data, token_data
from tests.support.api.asking import CACHE_EXPIRES_S
from tests.support.stake import clock_data

NOW_MS = 1_763_700_000_000
SOL_USD = 150
POOL, LP, COIN_VAULT, SOL_VAULT, TARGETS = (bytes([n]) * 32 for n in range(1, 6))
LP_RAW, HELD_RAW = 1_000_003, 7_001
COINS, SOLS = 500 * 10**6 + 1, 40 * 10**9 + 7  # the reserves; a coin has 6 decimals
COIN_OWED, SOL_OWED = 11_000, 13_000
COIN_SOL = 0.02


def cpmm_pool(coin: bytes, lp: bytes = LP) -> bytes:
    data = bytearray(637)
    data[:8] = cpmm.POOL.tag
    for at, value in ((72, COIN_VAULT), (104, SOL_VAULT), (136, lp), (168, coin), (200, key(WSOL))):
        data[at : at + 32] = value
    data[331:333] = bytes((6, 9))
    owed = (COIN_OWED - 3_000, SOL_OWED - 5_000, 1_000, 2_000, 2_000, 3_000)
    for at, amount in zip((333, 341, 349, 357, 365, 397, 405), (LP_RAW, *owed), strict=True):
        pack_into("<Q", data, at, amount)
    return bytes(data)


def amm_pool(coin: bytes) -> bytes:
    data = bytearray(752)
    numbers = ((0, 6), (32, 6), (40, 9), (120, 10**9), (160, 12), (168, 100))
    for at, amount in (*numbers, (192, COIN_OWED), (200, SOL_OWED), (720, LP_RAW)):
        pack_into("<Q", data, at, amount)
    addresses = ((336, COIN_VAULT), (368, SOL_VAULT), (400, coin), (432, key(WSOL)))
    for at, value in (*addresses, (464, LP), (592, TARGETS)):
        data[at : at + 32] = value
    return bytes(data)


def amm_targets() -> bytes:
    """What the root of the reserves was when profit was last taken: as now."""
    data = bytearray(2208)
    pack_into("<QQQQ", data, 1024, COINS * 1_000, 0, SOLS, 0)
    return bytes(data)


class Prepared:
    """A wallet, complete, with LP tokens that nobody trades."""

    def __init__(self, name: str, lane: AccountsLane, books: Any, coin: str) -> None:
        self.name, self.lane, self.books, self.coin = name, lane, books, coin

    async def put(self, kind: str) -> None:
        """Store the pool; nobody follows its vaults yet."""
        of = cpmm if kind == "cpmm" else amm
        data = cpmm_pool(key(self.coin)) if kind == "cpmm" else amm_pool(key(self.coin))
        program = of.POOL.program
        await self.lane.write(POOL, data, program=program, found_by=[LP])
        pools = POOLS_OF.make(tag=account_tag(text(POOL)), mint=text(LP))
        await self.lane.redis.sadd(pools, POOL)
        if of is amm:
            await self.lane.write(TARGETS, amm_targets(), program=program)
        amounts = (
            (key(self.coin), COIN_VAULT, COINS + COIN_OWED),
            (
                key(WSOL),
                SOL_VAULT,
                SOLS + SOL_OWED,
            ),
        )
        for mint, vault, amount_raw in amounts:
            await self.lane.write(vault, token_data(mint, POOL, amount_raw))

    async def follow_vaults(self) -> None:
        """Follow the vaults, as ingest does once they are asked for."""
        for vault in (COIN_VAULT, SOL_VAULT):
            await self.lane.cover(followed_of(vault))

    async def held(self, ask: Any) -> Any:
        await asyncio.sleep(CACHE_EXPIRES_S)
        answer = await ask.get(f"/api/wallets/{self.name}/holdings", include_unverified=True)
        assert answer["coverage"]["is_complete"], answer["coverage"]
        [found] = answer["tokens"]
        assert (found["mint"], found["amount_raw"]) == (text(LP), str(HELD_RAW))
        return found


@pytest.fixture
async def prepared(make_books: Any, tape: Any) -> Prepared:
    made = tape(5, wallets=1)
    books = await make_books()
    name, coin = made.wallets[0], made.mints[0]
    slot = made.empty()
    slot[2].balances.add(account=key(name), owner=name, mint=WSOL, amount_raw=10**9, decimals=9)
    await books.play([slot])
    await books.market(coin, COIN_SOL, now_ms=NOW_MS)
    for partition in range(SETTLED_BY_MINT.partitions):
        head = {"slot": 5000, "time_ms": NOW_MS, "sol_usd": f"{SOL_USD}/1"}
        await books.redis.hset(MARKETS.make(tag=tag_of_mints(partition)), mapping=head)
    lane = AccountsLane(books.redis, made.slot, NOW_MS)
    await lane.advance()
    raw = key(name)
    await lane.write(b"t" * 32, token_data(LP, raw, HELD_RAW), found_by=[raw])
    await lane.own_sol(raw, 10**9)
    await lane.cover(raw)
    await lane.write(LP, mint_data(LP_RAW, 6))
    await lane.cover_mint(LP)
    for program in SHARE_PROGRAMS:
        await lane.cover(program)
    return Prepared(name, lane, books, coin)


@pytest.mark.parametrize("kind", ["cpmm", "amm"])
async def test_an_lp_token_is_worth_its_share_of_the_reserves(
    prepared: Prepared, ask: Any, kind: str
) -> None:
    await prepared.put(kind)
    found = await prepared.held(ask)
    assert (found["price_source"], found["value_lamports"]) == (None, None)
    assert found["unsupported_fields"] == [
        "price_sol: amounts: a vault is not known yet"
        if kind == "cpmm"
        else "price_sol: amounts: an account of the pool is not known yet"
    ]
    asked = await prepared.lane.asked()
    assert {(b"account", COIN_VAULT), (b"account", SOL_VAULT)} <= {*asked}
    await prepared.follow_vaults()
    found = await prepared.held(ask)
    lamports = SOLS + COINS * Fraction(COIN_SOL) * 1_000
    micros = (Fraction(SOLS, 10**9) + Fraction(COINS, 10**6) * Fraction(COIN_SOL)) * SOL_USD * 10**6
    share = Fraction(HELD_RAW, LP_RAW)
    assert (found["price_source"], found["unsupported_fields"]) == ("pool", [])
    assert found["value_lamports"] == str(int(lamports * share))
    assert abs(int(found["value_usd_micros"]) - int(micros * share)) <= 1, "floats of prices"
    assert found["price_sol"] == float(lamports / 10**9 / Fraction(LP_RAW, 10**6))
    assert found["is_verified"], "a pool of 50 SOL, of SOL and a coin that trades"
    # The same tokens are a position: it and the holding are worth the same.
    clock = clock_data(prepared.lane.slot, 9, NOW_MS // 1_000)
    await prepared.lane.write(CLOCK, clock, program=SYSVAR_PROGRAM)
    slug = "p22" if kind == "cpmm" else "p21"
    answer = await ask.get(f"/api/wallets/{prepared.name}/{slug}/liquidity")
    [position] = answer["positions"]
    assert position["market"] == text(POOL)
    assert abs(int(position["value_usd_micros"]) - int(micros * share)) <= 2


@pytest.mark.parametrize(("kind", "status_at"), [("cpmm", 329), ("amm", 0)])
async def test_an_lp_token_of_a_paused_pool_is_worth_the_same(
    prepared: Prepared, ask: Any, kind: str, status_at: int
) -> None:
    """Its pool pays nothing out for now; what it is a share of is there."""
    await prepared.put(kind)
    await prepared.follow_vaults()
    paying = await prepared.held(ask)
    data = bytearray((cpmm_pool if kind == "cpmm" else amm_pool)(key(prepared.coin)))
    data[status_at] = 2
    program = (cpmm if kind == "cpmm" else amm).POOL.program
    await prepared.lane.write(POOL, bytes(data), program=program, found_by=[LP])
    paused = await prepared.held(ask)
    for name in ("price_source", "value_usd_micros", "is_verified", "unsupported_fields"):
        assert paused[name] == paying[name], name
    assert paused["price_source"] == "pool"


async def test_what_the_pool_lacks_is_named(prepared: Prepared, ask: Any) -> None:
    await prepared.put("cpmm")
    await prepared.follow_vaults()
    assert (await prepared.held(ask))["price_source"] == "pool"
    # A coin that nobody prices any more.
    redis = prepared.books.redis
    async for name in redis.scan_iter(match=f"*price*{prepared.coin}"):
        await redis.delete(name)
    found = await prepared.held(ask)
    named = f"price_sol: {prepared.coin} of the pool has no price"
    assert (found["value_usd_micros"], found["unsupported_fields"]) == (None, [named])
    await prepared.books.market(prepared.coin, COIN_SOL, now_ms=NOW_MS)
    assert (await prepared.held(ask))["price_source"] == "pool"
    # A vault ahead of the slot that all partitions have: amounts and LP tokens may be of two slots.
    amount_raw = COINS + COIN_OWED
    data = token_data(key(prepared.coin), POOL, amount_raw)
    await prepared.lane.write(COIN_VAULT, data, slot=prepared.lane.slot + 1)
    found = await prepared.held(ask)
    assert found["unsupported_fields"] == ["price_sol: the pool changes faster than it is read"]
    await prepared.lane.advance()
    assert (await prepared.held(ask))["price_source"] == "pool"
    await prepared.lane.withdraw(cpmm.POOL.program, "slots are lost")
    found = await prepared.held(ask)
    assert (found["price_source"], found["value_lamports"]) == (None, None)


async def test_the_share_of_a_thin_coin_is_not_verified(prepared: Prepared, ask: Any) -> None:
    await prepared.put("cpmm")
    await prepared.follow_vaults()
    await prepared.books.market(prepared.coin, COIN_SOL, liquidity_sol=1, now_ms=NOW_MS)
    found = await prepared.held(ask)
    assert (found["price_source"], found["is_verified"]) == ("pool", False)
