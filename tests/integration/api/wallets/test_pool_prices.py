"""Liquid-stake tokens that no market prices are worth what their pool says."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest

from infra.chain.market.runtime.stake_pool import STAKE_POOL_PROGRAM, StakePool
from schemas.money import WSOL
from schemas.protocols.registry import SHARE_PROGRAMS
from schemas.redis_keys import ACCOUNT, MARKETS, POOLS_OF, account_tag, tag_of_mints
from schemas.solana import addresses as address
from schemas.solana.addresses import STAKE_PROGRAM, text
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.accounts_lane import AccountsLane, mint_data, token_data
from tests.support.api.asking import CACHE_EXPIRES_S, validator
from tests.support.stake import stake_data

NOW_MS = 1_763_700_000_000
SOL_USD = 150
POOL, POOL_MINT = b"p" * 32, b"m" * 32
LAMPORTS, SUPPLY_RAW = 104 * 10**9 + 1, 100 * 10**9
HELD_RAW = 7 * 10**9 + 3


@pytest.fixture
async def wallet(make_books: Any, tape: Any) -> tuple[str, AccountsLane, Any, str]:
    """A wallet, complete, with tokens of a stake pool that nobody trades."""
    made = tape(5, wallets=1)
    books = await make_books()
    name, coin = made.wallets[0], made.mints[0]
    slot = made.empty()
    slot[2].balances.add(
        account=address.key(name), owner=name, mint=WSOL, amount_raw=10**9, decimals=9
    )
    await books.play([slot])
    await books.market(coin, 0.02, now_ms=NOW_MS)
    for partition in range(SETTLED_BY_MINT.partitions):
        head = {"slot": 5000, "time_ms": NOW_MS, "sol_usd": f"{SOL_USD}/1"}
        await books.redis.hset(MARKETS.make(tag=tag_of_mints(partition)), mapping=head)
    lane = AccountsLane(books.redis, made.slot, NOW_MS)
    await lane.advance()
    raw = address.key(name)
    await lane.write(b"t" * 32, token_data(POOL_MINT, raw, HELD_RAW), found_by=[raw])
    await lane.own_sol(raw, 10**9)
    await lane.cover(raw)
    await lane.write(POOL_MINT, mint_data(SUPPLY_RAW, 9))
    await lane.cover_mint(POOL_MINT)
    await put_pool(lane, LAMPORTS)
    for program in SHARE_PROGRAMS:
        await lane.cover(program)
    return name, lane, books, coin


async def put_pool(lane: AccountsLane, lamports: int, at: bytes = POOL) -> None:
    data = StakePool(b"x" * 32, POOL_MINT, lamports, SUPPLY_RAW).data()
    await lane.write(at, data, program=STAKE_POOL_PROGRAM, found_by=[POOL_MINT])
    tag = account_tag(text(at))
    await lane.redis.sadd(POOLS_OF.make(tag=tag, mint=text(POOL_MINT)), at)


async def forget_mint(lane: AccountsLane) -> None:
    place = text(POOL_MINT)
    await lane.redis.delete(ACCOUNT.make(tag=account_tag(place), address=place))


async def held(ask: Any, name: str) -> Any:
    await asyncio.sleep(CACHE_EXPIRES_S)
    answer = await ask.get(f"/api/wallets/{name}/holdings", include_unverified=True)
    assert answer["coverage"]["is_complete"], answer["coverage"]
    [found] = answer["tokens"]
    assert (found["mint"], found["amount_raw"]) == (text(POOL_MINT), str(HELD_RAW))
    return found


async def test_a_token_without_a_market_is_worth_its_share_of_the_pool(
    wallet: Any, ask: Any
) -> None:
    name, lane, _, _ = wallet
    for number in range(20):  # anybody may have these name the mint, and sort before the pool
        stranger = bytes([0, number]) * 16
        data = stake_data(POOL_MINT)
        await lane.write(stranger, data, program=STAKE_PROGRAM, found_by=[POOL_MINT])
    found = await held(ask, name)
    worth = Fraction(HELD_RAW * LAMPORTS, SUPPLY_RAW)
    assert found["price_source"] == "pool"
    assert found["value_lamports"] == str(int(worth))
    assert found["value_usd_micros"] == str(int(worth * SOL_USD / 1_000))
    assert found["price_sol"] == LAMPORTS / SUPPLY_RAW
    assert found["price_slot"] == lane.slot
    assert (found["is_price_stale"], found["is_verified"]) == (False, True)
    token = await ask.get(f"/api/tokens/{text(POOL_MINT)}")
    assert (token["price_source"], token["price_sol"]) == ("pool", LAMPORTS / SUPPLY_RAW)
    assert token["market_cap_usd"] == token["supply"] * token["price_usd"]
    # Stake earned.
    await lane.advance(5)
    await put_pool(lane, 2 * LAMPORTS)
    found = await held(ask, name)
    assert found["value_lamports"] == str(int(2 * worth))
    assert found["price_slot"] == lane.slot
    document = await ask.get("/openapi.json")
    answer = await ask.get(f"/api/wallets/{name}/holdings")
    check = validator(document, "get", "/api/wallets/{wallet}/holdings", 200)
    assert check.is_valid(answer), [*check.iter_errors(answer)]


@pytest.mark.parametrize("path", ["analyze", "portfolio?include=positions", "holdings"])
async def test_the_mint_that_its_price_needs_is_asked_for(wallet: Any, ask: Any, path: str) -> None:
    """Whichever answer is the first."""
    name, lane, _, _ = wallet
    await forget_mint(lane)
    await ask.get(f"/api/wallets/{name}/{path}")
    assert (b"mint", POOL_MINT) in await lane.asked()


async def test_a_share_has_its_worth_while_the_decimals_of_its_mint_are_not_known(
    wallet: Any, ask: Any
) -> None:
    name, lane, _, _ = wallet
    whole = await ask.get(f"/api/wallets/{name}/analyze")
    await forget_mint(lane)
    found = await held(ask, name)
    assert (found["decimals"], found["amount"], found["price_usd"]) == (None, None, None)
    worth = Fraction(HELD_RAW * LAMPORTS, SUPPLY_RAW)
    assert found["value_usd_micros"] == str(int(worth * SOL_USD / 1_000))
    assert found["is_verified"]
    answer = await ask.get(f"/api/wallets/{name}/analyze")
    assert [each["mint"] for each in answer["holdings"]["tokens"]] == [text(POOL_MINT)]
    for total in ("total_value_usd_micros", "value_usd_micros"):
        assert answer["holdings"][total] == whole["holdings"][total]


async def test_without_a_pool_that_is_sure_there_is_no_price(wallet: Any, ask: Any) -> None:
    name, lane, books, _ = wallet
    await lane.withdraw(STAKE_POOL_PROGRAM, "slots are lost")
    found = await held(ask, name)
    assert (found["price_source"], found["value_lamports"]) == (None, None)
    await lane.advance()
    await lane.cover(STAKE_POOL_PROGRAM)
    assert (await held(ask, name))["price_source"] is None, "the pool is older than what is covered"
    await put_pool(lane, 10**9)
    found = await held(ask, name)
    assert (found["price_source"], found["is_verified"]) == ("pool", False), "a pool of 1 SOL"
    await books.market(text(POOL_MINT), 0.5, now_ms=NOW_MS)
    found = await held(ask, name)
    assert found["price_source"] != "pool", "a market knows better"
    assert found["price_sol"] is not None
