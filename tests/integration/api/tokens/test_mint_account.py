"""A token's supply and authorities from its mint's account, followed because it was asked for."""

from __future__ import annotations

import asyncio
from struct import pack
from typing import Any

import httpx
import pytest

from schemas.accounts import mint_account_of
from schemas.events import Side
from schemas.money import WSOL
from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, key, text
from schemas.solana.token_accounts import metadata_address
from tests.support.api.accounts_lane import AccountsLane, extension, mint_data
from tests.support.api.asking import CACHE_EXPIRES_S, validator

CREATED_RAW = 10**15
AUTHORITY = b"a" * 32


@pytest.fixture
async def mint(chain: Any) -> str:
    """A token that was created, traded, and has a holder."""
    mint, holder = chain.address(), chain.address()
    chain.create(mint)
    chain.trade(mint, holder, Side.BUY, 10**12, 10**9)
    chain.hold(mint, holder, 2 * 10**14)
    await chain.settle()
    await chain.publish(mint, (chain.time_ms - 400, 1e-7, 1.5e-5))
    found: str = mint
    return found


@pytest.fixture
async def lane(chain: Any, mint: str) -> AccountsLane:
    """The lane of accounts, as far as the markets are."""
    lane = AccountsLane(chain.redis, chain.slot, chain.time_ms)
    await lane.advance()
    await asyncio.sleep(CACHE_EXPIRES_S)  # the shared API may cache that there was no lane
    return lane


async def get(client: httpx.AsyncClient, path: str, status: int = 200) -> Any:
    answer = await client.get(path)
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_without_a_lane_supply_is_as_created(
    client: httpx.AsyncClient, chain: Any, mint: str
) -> None:
    token = await get(client, f"/api/tokens/{mint}")
    assert (token["mint_account"], token["mint_account_reason"]) == (None, "not_ingested")
    assert (token["supply_source"], token["supply_raw"]) == ("creation", str(CREATED_RAW))
    assert token["supply_slot"] == token["created_slot"]


async def test_a_burn_shows_once_the_mint_is_followed(
    client: httpx.AsyncClient, lane: AccountsLane, mint: str
) -> None:
    token = await get(client, f"/api/tokens/{mint}")
    assert (token["mint_account"], token["mint_account_reason"]) == (None, "pending")
    assert await lane.asked() == [(b"mint", key(mint))]
    left_raw = CREATED_RAW // 4
    await lane.write(key(mint), mint_data(left_raw, 6, freeze=AUTHORITY))
    await lane.cover_mint(key(mint))
    changed_slot = lane.slot
    await lane.advance(3)
    await asyncio.sleep(CACHE_EXPIRES_S)
    token = await get(client, f"/api/tokens/{mint}")
    assert token["mint_account_reason"] is None
    account = token["mint_account"]
    assert (account["mint_authority"], account["freeze_authority"]) == (None, text(AUTHORITY))
    assert (account["extensions"], account["changed_slot"]) == ([], changed_slot)
    assert (token["supply_raw"], token["supply"]) == (str(left_raw), left_raw / 10**6)
    assert (token["supply_source"], token["supply_time_ms"]) == ("account", None)
    assert token["supply_slot"] == changed_slot
    assert token["market_cap_usd"] == token["supply"] * token["price_usd"]
    price = await get(client, f"/api/tokens/{mint}/price")
    batch = await client.post("/api/tokens/batch", json={"mints": [mint]})
    (of_batch,) = batch.json()["tokens"]
    holders = await get(client, f"/api/tokens/{mint}/holders")
    for other in (price, of_batch, holders):
        assert other["supply_raw"] == str(left_raw)
        assert other["supply_source"] == "account"
    assert price["market_cap_usd"] == of_batch["market_cap_usd"] == token["market_cap_usd"]
    assert holders["holders"][0]["supply_pct"] == 100 * 2 * 10**14 / left_raw
    assert await lane.asked() == [(b"mint", key(mint))], "asked once a minute at most"


async def test_extensions_are_named(
    client: httpx.AsyncClient, lane: AccountsLane, mint: str
) -> None:
    fee = pack("<32s32sQQQHQQH", AUTHORITY, AUTHORITY, 0, 0, 10**9, 100, 5, 10**9, 250)
    more = (
        extension(1, fee)
        + extension(12, AUTHORITY)
        + extension(14, pack("<32s32s", AUTHORITY, b"h" * 32))
        + extension(99, b"?")
    )
    data = mint_data(5, 6, authority=AUTHORITY, extensions=more)
    await lane.write(key(mint), data, program=TOKEN_2022_PROGRAM)
    await lane.cover_mint(key(mint))
    token = await get(client, f"/api/tokens/{mint}")
    account = token["mint_account"]
    assert account["extensions"] == [
        "transfer_fee",
        "permanent_delegate",
        "transfer_hook",
        "extension_99",
    ]
    assert account["transfer_fee_bps"] == 250
    assert (account["permanent_delegate"], account["transfer_hook"]) == (
        text(AUTHORITY),
        text(b"h" * 32),
    )
    assert account["mint_authority"] == text(AUTHORITY)
    assert token["token_program"] == text(TOKEN_2022_PROGRAM)
    document = await get(client, "/openapi.json")
    check = validator(document, "get", "/api/tokens/{mint}", 200)
    assert check.is_valid(token), [*check.iter_errors(token)]


async def test_a_mint_that_nobody_traded_is_known_by_its_account(
    client: httpx.AsyncClient, chain: Any, lane: AccountsLane
) -> None:
    mint = chain.address()
    await get(client, f"/api/tokens/{mint}", 404)
    assert (b"mint", key(mint)) in await lane.asked()
    await lane.write(key(mint), mint_data(77, 1))
    await lane.cover_mint(key(mint))
    token = await get(client, f"/api/tokens/{mint}")
    assert (token["supply"], token["decimals"], token["price_usd"]) == (7.7, 1, None)


async def test_a_mint_that_nobody_traded_has_the_name_of_its_metaplex_account(
    client: httpx.AsyncClient, chain: Any, lane: AccountsLane
) -> None:
    mint = chain.address()
    of_mint = key(mint)
    named = b"\x04" + AUTHORITY + of_mint
    for words, size in (("Named", 32), ("NMD", 10), ("https://example.org/n", 200)):
        named += pack("<I", size) + words.encode().ljust(size, b"\0")
    named = (named + pack("<H???", 0, False, False, True)).ljust(607, b"\0")
    await lane.write(of_mint, mint_data(77, 1))
    await lane.write(metadata_address(of_mint), named, program=METAPLEX_PROGRAM)
    await lane.cover_mint(of_mint)
    token = await get(client, f"/api/tokens/{mint}")
    assert (token["name"], token["symbol"], token["uri"]) == (
        *("Named", "NMD"),
        "https://example.org/n",
    )
    assert (token["metadata"], token["metadata_reason"]) == (None, "off")
    await lane.write(metadata_address(of_mint), b"\x04broken", program=METAPLEX_PROGRAM)
    await asyncio.sleep(CACHE_EXPIRES_S)
    token = await get(client, f"/api/tokens/{mint}")
    assert (token["name"], token["uri"], token["metadata_reason"]) == (None, None, "no_uri")


async def test_why_an_account_is_not_known(
    client: httpx.AsyncClient, lane: AccountsLane, mint: str
) -> None:
    async def reason() -> Any:
        await asyncio.sleep(CACHE_EXPIRES_S)
        token = await get(client, f"/api/tokens/{mint}")
        assert (token["mint_account"], token["supply_source"]) == (None, "creation")
        return token["mint_account_reason"]

    await lane.cover_mint(key(mint))
    assert await reason() == "not_found"
    await lane.write(key(mint), b"", closed=True)
    assert await reason() == "not_found"
    await lane.write(key(mint), mint_data(5, 6), slot=lane.slot - 1)
    assert await reason() == "not_found", "it is older than what is covered"
    await lane.write(key(mint), b"no mint")
    assert await reason() == "unreadable"
    await lane.withdraw(mint_account_of(key(mint)), "slots are lost")
    assert await reason() == "withdrawn"
    await lane.write(key(mint), mint_data(5, 6))
    await lane.cover_mint(key(mint))
    lane.time_ms -= 120_000
    await lane.advance(0)
    assert await reason() == "lane_stalled"


async def test_the_supply_of_sol_is_not_its_mints(
    client: httpx.AsyncClient, lane: AccountsLane
) -> None:
    await lane.write(key(WSOL), mint_data(0, 9))
    await lane.cover_mint(key(WSOL))
    token = await get(client, f"/api/tokens/{WSOL}/price")
    assert (token["supply"], token["supply_source"]) == (None, None)
