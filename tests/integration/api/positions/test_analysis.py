"""`/analyze` over real stores: what a wallet is worth, nothing counted twice."""

# ruff: noqa: F401, F811 - the fixtures are of another file

from __future__ import annotations

import asyncio
from dataclasses import replace
from time import perf_counter, time_ns
from typing import Any

import pytest

from schemas.money import USDC as USDC_TEXT
from schemas.protocols import registry
from schemas.protocols.contract import Held, Reading, World
from schemas.redis_keys import ASKED_ACCOUNTS, COVERED, PRICE, WATERMARK, account_tags
from schemas.solana.addresses import SYSTEM_PROGRAM, key, text
from tests.integration.api.positions.test_aggregates import (
    COIN,
    LENDER,
    LENDING,
    NFT,
    POOLS,
    POSITION,
    Ask,
    Stocked,
    _protocols,
    ask,
    chain,
    client,
    read_loans,
)
from tests.integration.api.positions.test_native_stake import SLOT, TIME_MS
from tests.support.waiting import eventually_async

SOL = 10**9
USDC = key(USDC_TEXT)


async def _followed(chain: Stocked, lamports: int) -> bytes:
    wallet = chain.address()
    await chain.covers(wallet)
    await chain.put(wallet, SYSTEM_PROGRAM, b"", lamports=lamports)
    return wallet


async def test_net_worth_is_holdings_and_positions_without_debts(
    chain: Stocked,
    ask: Ask,
) -> None:
    wallet = await _followed(chain, 2 * SOL)
    await chain.token(wallet, USDC, 7_000_000)
    await chain.loan(wallet, 30, 10, await chain.bank(2))
    found = await ask(wallet, "analyze")
    worth = found["net_worth"]
    assert worth["reasons"] == []
    sol = 300.0  # 2 SOL at 150
    assert (worth["assets_usd"], worth["debts_usd"]) == (sol + 7 + 60 + 5, 20.0)
    assert worth["value_usd"] == worth["known_usd"] == worth["assets_usd"] - worth["debts_usd"]
    assert found["holdings"]["total_value_usd"] == sol + 7
    by_kind = {each["category"]: each["value_usd"] for each in found["categories"]}
    assert by_kind == {"lending": 40.0, "rewards": 5.0}
    assert len(found["positions"]) == 2
    assert not found["is_complete"], "what is pending is not here"
    assert {each["protocol"] for each in found["pending"]} >= {"p02", "p33"}
    assert found["as_of_slot"] == 0, "the books of trades have nothing yet, and are a part of it"


async def test_a_price_that_nobody_could_sell_at_counts_nowhere(chain: Stocked, ask: Ask) -> None:
    """A deposit would be worth something that was worth nothing in the wallet."""
    wallet = await _followed(chain, 2 * SOL)
    await chain.loan(wallet, 30, 10, await chain.bank(2))
    await chain.token(wallet, COIN, 7_000_000)
    price = {"price_sol": "10", "price_usd": "1500", "time_ms": TIME_MS, "slot": SLOT, "pool": ""}
    await chain.redis.hset(PRICE.make(mint=text(COIN)), mapping=price)
    found = await ask(wallet, "analyze")
    assert found["holdings"]["hidden_unverified"] == 1
    assert found["net_worth"]["value_usd"] == 300 + (30 - 10) * 2 + 5
    lines = [each for position in found["positions"] for each in position["assets"]]
    assert {(each["price_source"], each["is_verified"]) for each in lines} == {("protocol", True)}


@pytest.fixture
def _shares(monkeypatch: pytest.MonkeyPatch, _protocols: None) -> None:
    """Have a loan be the meaning of as many millionths of USDC as it supplied coins."""

    def read(held: Held, world: World) -> Reading:
        found = yield from read_loans(held, world)
        for each in found:
            if each.route == "lending":
                each.stands_for = {USDC: each.assets[0].amount_raw * 1_000_000}
        return found

    everything = [replace(each, read=read) if each is LENDING else each for each in registry.ALL]
    slugs = registry.by_slug({"p01": "lender"}, everything)
    monkeypatch.setattr(registry, "SLUGS", slugs)


@pytest.fixture
def _staking(monkeypatch: pytest.MonkeyPatch, _protocols: None) -> None:
    """Have native stake alone."""
    slugs = registry.by_slug({"staking": "native_stake"}, registry.ALL)
    monkeypatch.setattr(registry, "SLUGS", slugs)


@pytest.fixture
def _two_programs(monkeypatch: pytest.MonkeyPatch, _protocols: None) -> None:
    """Have the loans' protocol own accounts of a second program."""
    both = replace(LENDING, kinds=(*LENDING.kinds, POSITION))
    everything = [both if each is LENDING else each for each in registry.ALL]
    monkeypatch.setattr(registry, "SLUGS", registry.by_slug({"p01": "lender"}, everything))


@pytest.mark.usefixtures("_two_programs")
async def test_programs_that_are_not_covered_are_one_error_a_protocol(
    chain: Stocked,
    ask: Ask,
) -> None:
    wallet = await _followed(chain, SOL)
    for program in (LENDER, POOLS):
        await chain.redis.delete(COVERED.make(tag=account_tags()[0], address=text(program)))
    found = await ask(wallet, "analyze")
    assert found["errors"] == [
        {
            "protocol": "p01",
            "account": None,
            "code": "not_covered",
            "detail": "not all accounts of 2 of its 2 programs are known yet",
            "programs": {"missing": 2, "of": 2, "addresses": [text(LENDER), text(POOLS)]},
        }
    ]
    assert found["net_worth"]["reasons"] == ["positions_incomplete"]


@pytest.mark.usefixtures("_shares")
async def test_a_token_that_a_position_is_the_meaning_of_counts_once(
    chain: Stocked,
    ask: Ask,
) -> None:
    wallet = await _followed(chain, 2 * SOL)
    await chain.token(wallet, USDC, 6_000_000)
    await chain.token(wallet, USDC, 1_000_000)
    await chain.loan(wallet, 5, 1, await chain.bank(2))
    found = await ask(wallet, "analyze")
    assert found["taken_out"] == [{"mint": text(USDC), "amount_raw": "5000000"}]
    [usdc] = found["holdings"]["tokens"]
    assert usdc["amount_raw"] == "2000000"
    assert found["net_worth"]["value_usd"] == 300 + 2 + (5 - 1) * 2 + 5


async def test_what_fails_makes_net_worth_null_and_leaves_the_rest(
    chain: Stocked,
    ask: Ask,
) -> None:
    wallet = await _followed(chain, SOL)
    bank = await chain.bank(1)
    await chain.loan(wallet, 13, 10, bank)
    await chain.loan(wallet, 30, 10, bank)
    found = await ask(wallet, "analyze")
    worth = found["net_worth"]
    assert (worth["value_usd"], worth["assets_usd"], worth["debts_usd"]) == (None, None, None)
    assert worth["reasons"] == ["positions_incomplete"]
    assert [each["code"] for each in found["errors"]] == ["unreadable"]
    assert 20.0 in {each["value_usd"] for each in found["positions"]}
    assert found["holdings"]["total_value_usd"] == 150.0
    [lending] = [each for each in found["categories"] if each["category"] == "lending"]
    assert (lending["value_usd"], lending["is_complete"]) == (None, False)


async def test_without_all_balances_net_worth_is_null(chain: Stocked, ask: Ask) -> None:
    wallet = chain.address()
    await chain.loan(wallet, 30, 10, await chain.bank(2))
    found = await ask(wallet, "analyze")
    assert found["net_worth"]["value_usd"] is None
    assert "holdings_incomplete" in found["net_worth"]["reasons"]
    assert found["net_worth"]["known_usd"] is None  # a deposit could be in it twice
    assert not found["holdings"]["coverage"]["is_complete"]
    assert {each["value_usd"] for each in found["positions"]} == {40.0, 5.0}


async def test_a_portfolio_has_what_the_wallet_is_worth_where_that_is_asked_for(
    chain: Stocked,
    ask: Ask,
) -> None:
    wallet = await _followed(chain, 2 * SOL)
    await chain.token(wallet, USDC, 7_000_000)
    await chain.loan(wallet, 30, 10, await chain.bank(2))
    glance = await ask(wallet, "portfolio", include="positions")
    worth, whole = glance.pop("worth"), await ask(wallet, "analyze")
    assert worth["net_worth"]["value_usd"] == 300 + 7 + 60 + 5 - 20
    for name in ("net_worth", "categories", "is_complete", "pending", "coverage", "errors"):
        assert worth[name] == whole[name], name
    measured = (worth["as_of_slot"], worth["as_of_ms"])
    assert measured >= (whole["as_of_slot"], whole["as_of_ms"]), "the books of trades are behind"
    assert worth["as_of_slot"] > 0
    assert await ask(wallet, "portfolio") == glance, "and nothing else without it"


async def test_the_worth_of_a_wallet_that_nobody_asked_for_says_what_it_lacks(
    chain: Stocked,
    ask: Ask,
    client: Any,
) -> None:
    wallet = chain.address()
    await chain.loan(wallet, 30, 10, await chain.bank(2))
    asking, _ = client
    began = perf_counter()
    worth = (await ask(wallet, "portfolio", include="positions"))["worth"]
    assert perf_counter() - began < asking.timeout.read, "it waits for the wallet no longer"
    assert worth["net_worth"]["value_usd"] is None
    assert "holdings_incomplete" in worth["net_worth"]["reasons"]
    assert not worth["is_complete"]
    [lending] = [each for each in worth["categories"] if each["category"] == "lending"]
    assert (lending["position_count"], lending["value_usd"]) == (1, 40.0)
    assert (await ask(wallet, "portfolio"))["holdings"]["native"] is None
    refused = await asking.get(f"/api/wallets/{text(wallet)}/portfolio?include=lending")
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_parameter")
    assert "'positions'" in refused.json()["detail"]


async def _stale(chain: Stocked) -> bytes:
    """Return a wallet with 2 SOL as of slot 4,500 that staked nearly all of it later."""
    wallet = await _followed(chain, 2 * SOL)
    await chain.stake(wallet, 2 * SOL, slot=4_600)
    mark = {"at_ms": time_ns() // 1_000_000}
    for tag in account_tags():
        await chain.redis.hset(WATERMARK.make(tag=tag, group="accounts"), mapping=mark)
    return wallet


async def _asked(chain: Stocked, wallet: bytes) -> int:
    """Return how often the wallet's own lamports were asked for."""
    entries: Any = await chain.redis.xrange(ASKED_ACCOUNTS.make())
    return sum(fields.get(b"lamports") == wallet for _, fields in entries)


@pytest.mark.usefixtures("_staking")
@pytest.mark.parametrize("path", ["analyze", "portfolio"])
async def test_sol_that_is_older_than_a_stake_is_asked_for_and_waited_for(
    chain: Stocked, ask: Ask, path: str
) -> None:
    wallet = await _stale(chain)
    query = {"include": "positions"} if path == "portfolio" else {}
    asking = asyncio.create_task(ask(wallet, path, **query))

    async def is_asked() -> bool:
        return await _asked(chain, wallet) > 0

    await eventually_async(is_asked)
    await chain.put(wallet, SYSTEM_PROGRAM, b"", lamports=SOL // 10, slot=4_600)
    found = await asking
    worth = found["worth"]["net_worth"] if path == "portfolio" else found["net_worth"]
    assert worth["reasons"] == []
    assert worth["value_usd"] == worth["known_usd"] == 15.0 + 300.0
    assert await _asked(chain, wallet) == 1


@pytest.mark.usefixtures("_staking")
async def test_net_worth_is_null_while_sol_may_be_in_it_twice(chain: Stocked, ask: Ask) -> None:
    wallet = await _stale(chain)
    began = perf_counter()
    found = await ask(wallet, "analyze")
    assert perf_counter() - began >= 1.0, "it is waited for"
    worth = found["net_worth"]
    assert worth["reasons"] == ["native_outdated"]
    assert (worth["value_usd"], worth["assets_usd"], worth["known_usd"]) == (None, None, None)
    assert found["holdings"]["native"]["as_of_slot"] == 4_500
    assert [each["slot"] for each in found["positions"]] == [4_600]
    assert not found["is_complete"]


async def test_sol_as_of_the_last_change_is_not_asked_for_again(chain: Stocked, ask: Ask) -> None:
    wallet = await _followed(chain, 2 * SOL)
    await chain.token(wallet, USDC, 7_000_000)
    await chain.token(wallet, NFT, 1)
    assert (await ask(wallet, "analyze"))["net_worth"]["reasons"] == []
    assert await _asked(chain, wallet) == 0
