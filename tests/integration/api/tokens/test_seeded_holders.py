"""Holders of a token older than the tape: its largest accounts, as the lane has them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from schemas.accounts import largest_of, mint_account_of
from schemas.events import Side
from schemas.money import USDC
from schemas.solana.addresses import key, text
from tests.support.api.accounts_lane import AccountsLane, mint_data, token_data
from tests.support.api.asking import CACHE_EXPIRES_S, validator

SUPPLY_RAW = 10**12
OLD, TRADER, POOL = b"o" * 32, b"t" * 32, b"p" * 32
OLDS, TRADERS, VAULT = b"1" * 32, b"2" * 32, b"3" * 32


@pytest.fixture
async def mint(chain: Any) -> str:
    """A traded token whose creation was not seen."""
    mint: str = chain.address()
    chain.trade(mint, text(TRADER), Side.BUY, 10**6, 10**9, pool=text(POOL))
    chain.hold(mint, text(TRADER), 300, account=TRADERS)
    chain.hold(mint, text(TRADER), 40)
    chain.hold(mint, text(POOL), 10**9, account=VAULT, is_vault=True)
    await chain.settle()
    return mint


@pytest.fixture
async def lane(chain: Any, mint: str) -> AccountsLane:
    """The lane of accounts, as far as the markets are."""
    lane = AccountsLane(chain.redis, chain.slot - 1, chain.time_ms)
    await lane.advance(0)
    await asyncio.sleep(CACHE_EXPIRES_S)
    return lane


async def get(client: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    await asyncio.sleep(CACHE_EXPIRES_S)
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


def shown(answer: Any) -> list[tuple[str, str]]:
    return [(each["address"], each["balance_raw"]) for each in answer["holders"]]


async def seed(lane: AccountsLane, mint: str) -> None:
    raw = key(mint)
    for account, owner, amount in (
        (OLDS, OLD, 5_000),
        (TRADERS, TRADER, 300),
        (VAULT, POOL, 10**9),
    ):
        await lane.write(account, token_data(raw, owner, amount))
    await lane.list_largest(raw, [VAULT, OLDS, TRADERS], 300)
    await lane.write(raw, mint_data(SUPPLY_RAW, 6))
    await lane.cover_mint(raw)


async def test_the_chains_largest_accounts_are_among_the_holders(
    client: httpx.AsyncClient, lane: AccountsLane, mint: str
) -> None:
    path = f"/api/tokens/{mint}/holders"
    answer = await get(client, path)
    assert shown(answer) == [(text(TRADER), "340")]
    assert (answer["coverage"]["is_seeded"], answer["coverage"]["reason"]) == (False, "pending")
    assert await lane.asked() == [(b"mint", key(mint)), (b"holders", key(mint))]
    await seed(lane, mint)
    answer = await get(client, path)
    assert shown(answer) == [(text(OLD), "5000"), (text(TRADER), "340")], "no account counts twice"
    assert answer["holder_count"] == 2
    assert answer["holders"][0]["supply_pct"] == 100 * 5_000 / SUPPLY_RAW
    coverage = answer["coverage"]
    assert (coverage["is_seeded"], coverage["reason"]) == (True, None)
    assert (coverage["largest_slot"], coverage["largest_accounts"]) == (lane.slot, 3)
    assert coverage["unseen_at_most_raw"] == "300"
    assert str(lane.slot) in coverage["note"]
    assert answer["as_of_slot"] == lane.slot
    document = await get(client, "/openapi.json")
    check = validator(document, "get", "/api/tokens/{mint}/holders", 200)
    assert check.is_valid(answer), [*check.iter_errors(answer)]
    # A transfer that no venue had a part in.
    await lane.advance()
    await lane.write(TRADERS, token_data(key(mint), TRADER, 100))
    await lane.write(OLDS, token_data(key(mint), OLD, 5_200))
    answer = await get(client, path)
    assert answer["coverage"]["reason"] == "lane_stalled", "the tape is not there yet"
    assert shown(answer) == [(text(TRADER), "340")]


async def test_what_the_tape_saw_later_waits_for_the_lane(
    client: httpx.AsyncClient, chain: Any, lane: AccountsLane, mint: str
) -> None:
    path = f"/api/tokens/{mint}/holders"
    await seed(lane, mint)
    chain.hold(mint, text(TRADER), 0, account=TRADERS)
    chain.hold(mint, text(TRADER), 340, account=b"4" * 32)
    await chain.settle()
    answer = await get(client, path)
    assert shown(answer) == [(text(TRADER), "380")], "not 680, which would count 300 twice"
    assert answer["coverage"]["reason"] == "lane_stalled"
    asking = asyncio.create_task(get(client, path))
    await asyncio.sleep(CACHE_EXPIRES_S + 0.3)
    await lane.write(TRADERS, b"", closed=True, slot=lane.slot + 1)
    await lane.advance()
    answer = await asking
    assert answer["coverage"]["is_seeded"], "it waits for the lane"
    assert shown(answer) == [(text(OLD), "5000"), (text(TRADER), "380")]
    assert answer["holder_count"] == 2


async def test_without_the_mints_account_there_are_no_shares(
    client: httpx.AsyncClient, chain: Any, lane: AccountsLane, mint: str
) -> None:
    await chain.put_metadata(mint, decimals=6, supply_raw=10**6)
    await seed(lane, mint)
    await lane.withdraw(mint_account_of(key(mint)), "slots are lost")
    answer = await get(client, f"/api/tokens/{mint}/holders")
    assert (answer["supply_raw"], answer["supply_source"]) == (str(10**6), "rpc")
    assert [each["supply_pct"] for each in answer["holders"]] == [None, None]


async def test_why_the_largest_accounts_are_not_known(
    client: httpx.AsyncClient, chain: Any, lane: AccountsLane, mint: str
) -> None:
    async def reason(of: str = mint) -> Any:
        answer = await get(client, f"/api/tokens/{of}/holders")
        assert not answer["coverage"]["is_seeded"]
        return answer["coverage"]["reason"]

    await lane.list_largest(key(mint), [OLDS])
    assert await reason() == "pending", "the account itself is not there"
    await lane.withdraw(largest_of(key(mint)), "getTokenLargestAccounts: Too many accounts")
    assert await reason() == "withdrawn"
    answer = await get(client, f"/api/tokens/{mint}/holders")
    assert "Too many accounts" in answer["coverage"]["note"]
    new = chain.address()
    chain.create(new)
    await chain.settle()
    assert await reason(new) == "created_on_tape"
    assert (b"holders", key(new)) not in await lane.asked()
    chain.trade(USDC, text(TRADER), Side.BUY, 10**6, 10**9)
    await chain.settle()
    assert await reason(USDC) == "money"


async def test_a_token_that_nobody_traded_has_holders_too(
    client: httpx.AsyncClient, chain: Any, lane: AccountsLane
) -> None:
    mint = chain.address()
    await get(client, f"/api/tokens/{mint}/holders", 404)
    await lane.write(OLDS, token_data(key(mint), OLD, 7))
    await lane.list_largest(key(mint), [OLDS])
    await lane.write(key(mint), mint_data(28, 0))
    await lane.cover_mint(key(mint))
    answer = await get(client, f"/api/tokens/{mint}/holders")
    assert shown(answer) == [(text(OLD), "7")]
    assert (answer["holder_count"], answer["holders"][0]["supply_pct"]) == (1, 25)
    assert answer["coverage"]["unseen_at_most_raw"] is None
