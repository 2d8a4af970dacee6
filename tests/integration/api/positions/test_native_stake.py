"""`/staking/native` over real stores, with accounts as the agent stores them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import httpx
import pytest
from redis.asyncio import Redis

from api.positions.accounts_reader import MOST_ACCOUNTS
from infra.clickhouse.client import connect_async
from infra.redis.client import connect
from infra.settings import Settings
from schemas.accounts import MOST_OF_WALLET, StoredAccount, compress, pack
from schemas.away import bit
from schemas.money import WSOL
from schemas.plans import FREE
from schemas.redis_keys import (
    ACCOUNT,
    ACCOUNTS_AWAY,
    ASKED_ACCOUNTS,
    COVERAGE_FLOOR,
    COVERED,
    FOUND_BY,
    MARKETS,
    STAKE_REWARDS,
    WATERMARK,
    account_tag,
    account_tags,
    tag_of_mints,
)
from schemas.rows import ACCOUNTS
from schemas.solana import addresses
from schemas.solana.addresses import text
from schemas.stake_rewards import EpochReward, StakeRewards, pack_rewards
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.asking import validator
from tests.support.api.in_process import asked, document, new_key
from tests.support.stake import RESERVE, VOTE, clock_data, history_data, stake_data

SOL = 10**9
EPOCH = 100
SLOT = 5000
TIME_MS = 1_763_700_000_000
SINCE = 4000
STAKE = addresses.STAKE_PROGRAM


class Chain:
    """Accounts in Redis as the agent `accounts` stores them."""

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self.random = Random(1)

    def address(self) -> bytes:
        return self.random.randbytes(32)

    async def put(
        self,
        address: bytes,
        program: bytes,
        data: bytes,
        *finders: bytes,
        lamports: int = SOL,
        slot: int = 4500,
        closed: bool = False,
    ) -> None:
        """Store a version, and that wallets find it."""
        tag = account_tag(text(address))
        stored = StoredAccount(slot, lamports, program, len(data), compress(data), closed)
        await self.redis.set(ACCOUNT.make(tag=tag, address=text(address)), pack(stored))
        for finder in finders:
            await self.redis.sadd(FOUND_BY.make(tag=tag, address=text(finder)), address)

    async def stake(self, wallet: bytes, lamports: int, slot: int = 4500, **of: Any) -> bytes:
        """Store a stake account of a wallet."""
        address = self.address()
        data = stake_data(wallet, **of)
        await self.put(address, STAKE, data, wallet, lamports=lamports, slot=slot)
        return address

    async def begin(self) -> None:
        """Store watermarks, coverage of the stake program, sysvars and the price of SOL."""
        for tag in account_tags():
            mark = {"slot": SLOT, "time_ms": TIME_MS}
            await self.redis.hset(WATERMARK.make(tag=tag, group="accounts"), mapping=mark)
            await self.cover(tag)
        clock = clock_data(SLOT, EPOCH, TIME_MS // 1000)
        await self.put(addresses.CLOCK, addresses.SYSVAR_PROGRAM, clock, slot=SLOT)
        history = history_data({EPOCH - 1: (1000 * SOL, 900 * SOL, 900 * SOL)})
        await self.put(addresses.STAKE_HISTORY, addresses.SYSVAR_PROGRAM, history, slot=4900)
        for partition in range(SETTLED_BY_MINT.partitions):
            market = {"slot": SLOT, "time_ms": TIME_MS, "sol_usd": "150/1"}
            await self.redis.hset(MARKETS.make(tag=tag_of_mints(partition)), mapping=market)

    async def cover(self, tag: str) -> None:
        name = COVERED.make(tag=tag, address=text(STAKE))
        await self.redis.hset(name, mapping={"slot": SINCE, "given": SINCE + 10})


@pytest.fixture
async def chain(settings: Settings) -> AsyncIterator[Chain]:
    redis = connect(settings)
    await redis.flushdb()
    made = Chain(redis)
    await made.begin()
    yield made
    await redis.aclose()


class Asking:
    """Asks, and holds each answer against the document."""

    def __init__(self, client: httpx.AsyncClient, document: Any) -> None:
        self.client = client
        self.validator = validator(document, "get", "/api/wallets/{wallet}/staking/native", 200)

    async def get(self, wallet: bytes) -> Any:
        answer = await self.client.get(f"/api/wallets/{text(wallet)}/staking/native")
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert [*self.validator.iter_errors(found)] == []
        return found


@pytest.fixture
async def ask(settings: Settings) -> AsyncIterator[Asking]:
    async with asked(settings, await new_key(settings, FREE.name)) as (client, app):
        yield Asking(client, document(app))


async def test_a_wallet_with_stake(chain: Chain, ask: Asking) -> None:
    wallet, other = chain.address(), chain.address()
    large = await chain.stake(wallet, 90 * SOL + RESERVE, stake=90 * SOL, activated=50)
    leaving = await chain.stake(
        wallet, 45 * SOL, stake=45 * SOL, activated=50, deactivated=EPOCH - 1
    )
    as_staker = chain.address()
    data = stake_data(other, staker=wallet, stake=7 * SOL, activated=EPOCH)
    await chain.put(as_staker, STAKE, data, wallet, other, lamports=8 * SOL)
    await chain.stake(other, SOL)

    answer = await ask.get(wallet)
    assert (answer["as_of_slot"], answer["as_of_ms"]) == (SLOT, TIME_MS)
    assert (answer["is_complete"], answer["errors"]) == (True, [])
    assert answer["coverage"] == {"since_slot": SINCE, "known_accounts": 3, "read_accounts": 3}
    first, second, third = answer["positions"]
    assert [each["position_id"] for each in answer["positions"]] == [
        text(large),
        text(leaving),
        text(as_staker),
    ]
    assert first["stake"] == {
        "validator": text(VOTE),
        "status": "active",
        "effective_lamports": str(90 * SOL),
        "effective_sol": 90.0,
        "epoch": EPOCH,
        "epoch_slot": SLOT,
        "activation_epoch": 50,
        "deactivation_epoch": None,
        "authority": "withdrawer",
        "locked_until_ms": None,
        "locked_until_epoch": None,
        "rewards": None,
        "rewards_reason": "pending",
    }
    assert [(each["role"], each["amount_raw"]) for each in first["assets"]] == [
        ("locked", str(90 * SOL + RESERVE)),
    ]
    assert all(each["mint"] == WSOL for each in first["assets"])
    assert first["assets"][0]["value_usd"] == 13_500.342432  # of the reserve, 0.00228288 SOL
    assert (first["slot"], first["reference_slot"]) == (4500, 4900)
    assert second["stake"]["status"] == "deactivating"
    assert second["stake"]["effective_lamports"] == str(45 * SOL - 9 * SOL // 2)
    assert (third["assets"], third["value_usd"]) == ([], None)
    assert (third["stake"]["authority"], third["stake"]["status"]) == ("staker", "activating")
    micros = (135 * SOL + RESERVE) * 150 // 1000
    assert int(answer["value_usd_micros"]) in (micros, micros - 1)  # rounded down by the line
    theirs = await ask.get(other)
    assert [each["stake"]["authority"] for each in theirs["positions"]] == ["withdrawer"] * 2


async def test_nobody_has_nothing_and_that_is_all(chain: Chain, ask: Asking) -> None:
    answer = await ask.get(chain.address())
    assert (answer["positions"], answer["value_usd"]) == ([], None)
    assert (answer["is_complete"], answer["errors"]) == (True, [])


async def test_what_is_gone_is_not_answered(chain: Chain, ask: Asking) -> None:
    wallet = chain.address()
    await chain.stake(wallet, SOL, slot=SINCE - 1)  # the bootstrap did not have it any more
    moved = chain.address()
    await chain.put(moved, STAKE, stake_data(chain.address()), wallet)
    await chain.put(chain.address(), STAKE, b"", wallet, closed=True)
    kept = await chain.stake(wallet, SOL, slot=SINCE)
    answer = await ask.get(wallet)
    assert [each["position_id"] for each in answer["positions"]] == [text(kept)]
    assert answer["is_complete"]


@pytest.mark.parametrize("how", ["never", "lost", "reason"])
async def test_without_coverage_it_is_said(chain: Chain, ask: Asking, how: str) -> None:
    wallet = chain.address()
    await chain.stake(wallet, SOL)
    tag = account_tags()[3]
    name = COVERED.make(tag=tag, address=text(STAKE))
    if how == "lost":
        await chain.redis.hset(COVERAGE_FLOOR.make(tag=tag), "slot", SINCE + 11)
    else:
        await chain.redis.delete(name)
    if how == "reason":
        await chain.redis.hset(name, mapping={"given": 1, "reason": "a hole of 200 slots"})
    answer = await ask.get(wallet)
    assert len(answer["positions"]) == 1
    assert answer["positions"][0]["value_usd"] == 150.0
    assert (answer["is_complete"], answer["value_usd"]) == (False, None)
    assert answer["coverage"]["since_slot"] is None
    [error] = answer["errors"]
    assert (error["code"], error["account"]) == ("not_covered", text(STAKE))
    if how == "reason":
        assert error["detail"] == "a hole of 200 slots"


async def test_one_bad_account_leaves_the_others(chain: Chain, ask: Asking) -> None:
    wallet = chain.address()
    good = await chain.stake(wallet, SOL)
    bad, broken = chain.address(), chain.address()
    data = b"\7" + stake_data(wallet)[1:]
    await chain.put(bad, STAKE, data, wallet)
    await chain.put(broken, STAKE, stake_data(wallet), wallet)
    name = ACCOUNT.make(tag=account_tag(text(broken)), address=text(broken))
    await chain.redis.set(name, (await chain.redis.get(name))[:-3])
    answer = await ask.get(wallet)
    assert [each["position_id"] for each in answer["positions"]] == [text(good)]
    assert answer["value_usd"] is None
    assert {(each["account"], each["code"]) for each in answer["errors"]} == {
        (text(bad), "unreadable"),
        (text(broken), "unreadable"),
    }


@pytest.mark.parametrize("which", [addresses.CLOCK, addresses.STAKE_HISTORY])
async def test_a_missing_reference_is_named(chain: Chain, ask: Asking, which: bytes) -> None:
    wallet = chain.address()
    await chain.stake(wallet, 90 * SOL, stake=80 * SOL, activated=50)
    await chain.redis.delete(ACCOUNT.make(tag=account_tag(text(which)), address=text(which)))
    answer = await ask.get(wallet)
    assert [(each["account"], each["code"]) for each in answer["errors"]] == [
        (text(which), "reference_missing")
    ]
    assert answer["value_usd"] is None
    if which == addresses.STAKE_HISTORY:
        [position] = answer["positions"]
        assert position["stake"]["effective_lamports"] is None
        assert sum(each["value_usd"] for each in position["assets"]) == 13_500.0
        assert position["value_usd"] is None  # nothing is summed where something is missing


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a reading of a thousand accounts compute as long as a busy machine needs."""
    monkeypatch.setattr("api.positions.driver.MOST_S", 60.0)
    monkeypatch.setattr("api.positions.driver.MOST_OF_ALL_S", 60.0)


@pytest.mark.usefixtures("patient")
async def test_of_a_wallet_with_too_many_accounts_a_part_is_read(chain: Chain, ask: Asking) -> None:
    wallet = chain.address()
    for _ in range(MOST_ACCOUNTS + 5):
        await chain.stake(wallet, SOL)
    answer = await ask.get(wallet)
    assert answer["coverage"]["known_accounts"] == MOST_ACCOUNTS + 5
    assert answer["coverage"]["read_accounts"] == len(answer["positions"]) == MOST_ACCOUNTS
    assert (answer["is_complete"], answer["value_usd"]) == (False, None)


@pytest.mark.usefixtures("patient")
async def test_of_a_wallet_with_very_many_accounts_not_all_addresses_are_read(
    chain: Chain, ask: Asking
) -> None:
    wallet = chain.address()
    await chain.stake(wallet, SOL)
    many = [n.to_bytes(32, "big") for n in range(3 * MOST_OF_WALLET)]
    for at, tag in enumerate(account_tags()):
        await chain.redis.sadd(FOUND_BY.make(tag=tag, address=text(wallet)), *many[at::8])
    await chain.redis.config_resetstat()
    answer = await ask.get(wallet)
    assert answer["coverage"]["known_accounts"] == 3 * MOST_OF_WALLET + 1
    assert answer["coverage"]["read_accounts"] <= MOST_ACCOUNTS
    assert (answer["is_complete"], answer["value_usd"]) == (False, None)
    assert "cmdstat_smembers" not in await chain.redis.info("commandstats")


@pytest.fixture
async def put_away(chain: Chain, settings: Settings) -> tuple[bytes, bytes, bytes]:
    """Return a wallet, its account that is in ClickHouse alone, and one that is in Redis, too."""
    wallet, address, here = chain.address(), chain.address(), chain.address()
    client = await connect_async(settings)
    data = stake_data(wallet, stake=3 * SOL, activated=50)
    await client.insert(
        ACCOUNTS.name,
        [
            [text(each), "stake", text(STAKE), [text(wallet)], 4 * SOL, data, SINCE, 0]
            for each in (address, here)
        ],
        column_names=[*ACCOUNTS.columns],
    )
    await client.close()
    await chain.put(here, STAKE, stake_data(wallet), wallet, lamports=9 * SOL)  # newer
    tag = account_tag(text(address))
    await chain.redis.setbit(ACCOUNTS_AWAY.make(tag=tag), bit(wallet), 1)
    return wallet, address, here


async def test_what_nothing_touched_for_long_comes_from_clickhouse(
    ask: Asking, put_away: tuple[bytes, bytes, bytes]
) -> None:
    wallet, address, here = put_away
    answer = await ask.get(wallet)
    found = {each["position_id"]: each["assets"][0]["amount_raw"] for each in answer["positions"]}
    assert answer["coverage"]["read_accounts"] == 2
    assert found == {text(here): str(9 * SOL), text(address): str(3 * SOL + RESERVE)}


async def test_where_redis_has_as_many_as_are_read_those_of_clickhouse_are_counted(
    ask: Asking, put_away: tuple[bytes, bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet, _, here = put_away
    monkeypatch.setattr("api.positions.accounts_reader.MOST_ACCOUNTS", 1)
    answer = await ask.get(wallet)
    assert [each["position_id"] for each in answer["positions"]] == [text(here)]
    coverage = answer["coverage"]
    assert (coverage["known_accounts"], coverage["read_accounts"]) == (2, 1)
    assert (answer["is_complete"], answer["value_usd"]) == (False, None)


async def test_what_is_asked_wrongly_is_a_problem(chain: Chain, ask: Asking) -> None:
    for path, status, code in (
        ("/api/wallets/nobody/staking/native", 422, "invalid_address"),
        (f"/api/wallets/{text(VOTE)}/staking/other", 404, "not_found"),
        (f"/api/wallets/{text(VOTE)}/staking/native?limit=3", 422, "invalid_parameter"),
    ):
        answer = await ask.client.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    first = await ask.client.get(f"/api/wallets/{text(VOTE)}/staking/native")
    left = int(first.headers["x-credits-left"])
    etag = {"if-none-match": first.headers["etag"]}
    again = await ask.client.get(f"/api/wallets/{text(VOTE)}/staking/native", headers=etag)
    assert again.status_code == 304
    assert int(again.headers["x-credits-left"]) == left - 1


async def test_rewards_are_asked_for_and_answered(chain: Chain, ask: Asking) -> None:
    wallet = chain.address()
    address = await chain.stake(wallet, 90 * SOL + RESERVE, stake=90 * SOL, activated=50)

    async def asked() -> list[bytes]:
        entries = await chain.redis.xrange(ASKED_ACCOUNTS.make())
        return [fields[b"rewards"] for _, fields in entries if b"rewards" in fields]

    async def stake() -> Any:
        await asyncio.sleep(1.1)  # answers are kept for a second
        [position] = (await ask.get(wallet))["positions"]
        return position["stake"]

    found = await stake()
    assert (found["rewards"], found["rewards_reason"]) == (None, "pending")
    assert await asked() == [address]
    name = STAKE_REWARDS.make(tag=account_tag(text(address)), address=text(address))
    old = (EpochReward(EPOCH - 2, 7, 8, 5, 9),)
    await chain.redis.set(name, pack_rewards(StakeRewards(1, old)))
    assert (await stake())["rewards_reason"] == "pending", "an epoch has ended since"
    assert await asked() == [address], "asked once a minute at most"
    known = (
        EpochReward(EPOCH - 1, 12_500_000, 90 * SOL, 5, 4_999),
        EpochReward(EPOCH - 2),
        EpochReward(EPOCH - 3, reason="Block 9 cleaned up"),
    )
    await chain.redis.set(name, pack_rewards(StakeRewards(1, known)))
    found = await stake()
    assert found["rewards_reason"] is None
    first, second, third = found["rewards"]
    assert first == {
        "epoch": EPOCH - 1,
        "lamports": "12500000",
        "sol": 0.0125,
        "balance_lamports": str(90 * SOL),
        "balance_sol": 90.0,
        "commission_pct": 5,
        "slot": 4_999,
        "reason": None,
    }
    assert (second["lamports"], second["reason"]) == (None, "not_paid")
    assert (third["lamports"], third["reason"]) == (None, "Block 9 cleaned up")
    await chain.redis.set(name, b"{}")
    assert (await stake())["rewards_reason"] == "pending"
