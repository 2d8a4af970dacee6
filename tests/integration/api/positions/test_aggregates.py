"""Several protocols of one request over real stores: a lender, and a pool with NFT positions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from fractions import Fraction
from struct import pack as packed
from struct import unpack_from
from typing import Any

import httpx
import pytest

from api.positions import by_mint
from infra.redis.client import connect
from infra.settings import Settings
from schemas.plans import FREE
from schemas.protocols import programs, registry
from schemas.protocols.contract import (
    Asset,
    Health,
    Held,
    Kind,
    Position,
    Protocol,
    Range,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.redis_keys import (
    COVERED,
    POOLS_OF,
    WATERMARK,
    account_tag,
    account_tags,
    tag_of_partition,
)
from schemas.solana.addresses import TOKEN_PROGRAM, text
from schemas.topics import SETTLED_BY_WALLET
from tests.integration.api.positions.test_native_stake import SINCE, SLOT, TIME_MS, Chain
from tests.support.api.accounts_lane import token_data
from tests.support.api.asking import validator
from tests.support.api.in_process import asked, document, new_key

LENDER, POOLS = b"l" * 32, b"o" * 32
COIN, NFT = b"c" * 32, b"n" * 32
LOAN = Kind("example_loan", LENDER, b"loan", wallets=(4,))
BANK = Kind("example_bank", LENDER, b"bank")
POSITION = Kind("example_position", POOLS, b"posi", mints=(4,))


def read_loans(held: Held, world: World) -> Reading:
    loans = [(each, *unpack_from("<QQ32s", each.data, 36)) for each in held.of(LOAN)]
    banks = yield [bank for *_, bank in loans]
    found = []
    for account, supplied, borrowed, address in loans:
        if supplied == 13:
            raise Unreadable("supplied is 13", account.address)
        loan = Position("lending", account)
        reward = Position("rewards", account, assets=[Asset(Role.REWARD, COIN, 5, 0, Fraction(1))])
        if (bank := banks.get(address)) is None:
            loan.missing.append(address)
        else:
            price = Fraction(bank.data[4])
            loan.assets = [
                Asset(Role.SUPPLY, COIN, supplied, 0, price),
                Asset(Role.BORROW, COIN, borrowed, 0, price),
            ]
            loan.health = Health(Fraction(supplied, borrowed), Fraction(1, 2), None)
        found += [loan, reward]
    return found


def read_positions(held: Held, world: World) -> Reading:
    yield []
    found = []
    for account in held.of(POSITION):
        mint = account.data[4:36]
        if held.tokens.get(mint):
            asset = Asset(Role.SUPPLY, COIN, account.data[36], 0, Fraction(1))
            position = Position("liquidity", account, id=mint, assets=[asset])
            position.range = Range(COIN, NFT, -1, 1, 0, None, None, None, is_in_range=True)
            found.append(position)
    return found


LENDING = Protocol(
    "lender",
    (LOAN, BANK),
    (Route("lending", Shape.LENDING, "Loans"), Route("rewards", Shape.REWARDS, "Rewards")),
    read_loans,
)
LIQUIDITY = Protocol(
    "pools",
    (POSITION,),
    (Route("liquidity", Shape.LIQUIDITY, "Liquidity"),),
    read_positions,
    reads_tokens=True,
)


@pytest.fixture(autouse=True)
def _protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [each for each in registry.ALL if each.name in {"native_stake", "token", "clock"}]
    everything = (*own, LENDING, LIQUIDITY)
    for number, program in ((900, LENDER), (901, POOLS)):
        monkeypatch.setitem(programs.NUMBERS, program, number)
        monkeypatch.setitem(programs.ADDRESSES, number, program)
    slugs = {"p01": "lender", "p19": "pools"}
    monkeypatch.setattr(registry, "ALL", everything)
    monkeypatch.setattr(registry, "SLUGS", registry.by_slug(slugs, everything))
    monkeypatch.setattr(registry, "KINDS", registry.by_program(everything))


class Stocked(Chain):
    """Accounts of a wallet with a lender and a pool."""

    async def loan(self, wallet: bytes, supplied: int, borrowed: int, bank: bytes) -> bytes:
        address = self.address()
        data = b"loan" + wallet + packed("<QQ32s", supplied, borrowed, bank)
        await self.put(address, LENDER, data, wallet)
        return address

    async def bank(self, price: int) -> bytes:
        address = self.address()
        await self.put(address, LENDER, b"bank" + bytes([price]))
        return address

    async def token(self, wallet: bytes, mint: bytes, raw: int) -> None:
        await self.put(self.address(), TOKEN_PROGRAM, token_data(mint, wallet, raw), wallet)

    async def position(self, mint: bytes, raw: int, named: bytes | None = None) -> bytes:
        """Store a position of an NFT, which the index has under `named`."""
        address = self.address()
        await self.put(address, POOLS, b"posi" + mint + bytes([raw]))
        tag = account_tag(text(address))
        await self.redis.sadd(POOLS_OF.make(tag=tag, mint=text(named or mint)), address)
        return address

    async def covers(self, *addresses: bytes) -> None:
        for tag in account_tags():
            for address in addresses:
                name = COVERED.make(tag=tag, address=text(address))
                await self.redis.hset(name, mapping={"slot": SINCE, "given": SINCE + 10})


@pytest.fixture
async def chain(settings: Settings) -> AsyncIterator[Stocked]:
    redis = connect(settings)
    await redis.flushdb()
    made = Stocked(redis)
    await made.begin()
    await made.covers(LENDER, POOLS)
    yield made
    await redis.aclose()


Ask = Callable[..., Any]


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    async with asked(settings, await new_key(settings, FREE.name)) as (made, app):
        yield made, document(app)


@pytest.fixture
def ask(client: Any) -> Ask:
    asking, document = client

    async def get(wallet: bytes, path: str, **asked: str) -> Any:
        answer = await asking.get(f"/api/wallets/{text(wallet)}/{path}", params=asked)
        assert answer.status_code == 200, answer.text
        check = validator(document, "get", f"/api/wallets/{{wallet}}/{path}", 200)
        assert [*check.iter_errors(answer.json())] == []
        return answer.json()

    return get


async def test_protocols_are_summed_beside_what_is_pending(chain: Stocked, ask: Ask) -> None:
    wallet = chain.address()
    loan = await chain.loan(wallet, 30, 10, await chain.bank(2))
    found = await ask(wallet, "all-lending")
    assert [each["position_id"] for each in found["positions"]] == [text(loan)]
    assert (found["value_usd"], found["errors"]) == (40.0, [])
    [whole] = found["protocols"]
    assert (whole["protocol"], whole["routes"], whole["value_usd"]) == ("p01", ["lending"], 40.0)
    assert whole["is_complete"]
    assert {each["protocol"] for each in found["pending"]} == {f"p0{n}" for n in range(2, 8)}
    assert not found["is_complete"], "what is pending is not here"
    health = found["positions"][0]["health"]
    assert (health["health_factor"], health["at_risk"], health["prices"]) == (
        3.0,
        False,
        "protocol",
    )
    rewards = await ask(wallet, "all-rewards")
    assert [each["route"] for each in rewards["positions"]] == ["rewards"]
    assert rewards["value_usd"] == 5.0


async def test_with_any_failure_the_sum_is_null(chain: Stocked, ask: Ask) -> None:
    wallet, bank = chain.address(), await chain.bank(1)
    await chain.loan(wallet, 30, 10, bank)
    await chain.loan(wallet, 13, 10, bank)
    lost = chain.address()
    await chain.loan(wallet, 20, 10, lost)
    found = await ask(wallet, "all-lending")
    assert (found["value_usd"], found["protocols"][0]["value_usd"]) == (None, None)
    assert {each["code"] for each in found["errors"]} == {"unreadable", "reference_missing"}
    assert text(lost) in {each["account"] for each in found["errors"]}
    assert 20.0 in {each["value_usd"] for each in found["positions"]}


async def test_an_nft_leads_to_its_position(chain: Stocked, ask: Ask) -> None:
    wallet = chain.address()
    await chain.covers(wallet)
    await chain.token(wallet, NFT, 1)
    await chain.position(NFT, 50)
    for _ in range(3 * by_mint.FEW_OF_MINT):  # anybody may have stake accounts name the NFT
        await chain.stake(NFT, 1)
    found = await ask(wallet, "p19/liquidity")
    [position] = found["positions"]
    assert (position["position_id"], position["value_usd"]) == (text(NFT), 50.0)
    assert position["range"]["is_in_range"]
    assert (found["is_complete"], found["errors"], found["value_usd"]) == (True, [], 50.0)
    assert found["coverage"]["since_slot"] == SINCE
    every = await ask(wallet, "all-lp")
    assert every["positions"] == found["positions"]
    assert every["value_usd"] == 50.0


async def test_the_index_is_a_hint(chain: Stocked, ask: Ask) -> None:
    wallet, other = chain.address(), chain.address()
    await chain.covers(wallet)
    await chain.token(wallet, NFT, 1)
    await chain.token(wallet, b"d" * 32, 0)
    await chain.position(other, 50, named=NFT)  # it was of the NFT once
    await chain.position(b"d" * 32, 50)  # the wallet has that token no more
    old = await chain.position(NFT, 50)
    await chain.put(old, POOLS, b"posi" + NFT + bytes([50]), slot=SINCE - 1)  # closed unseen
    found = await ask(wallet, "p19/liquidity")
    assert (found["positions"], found["errors"], found["is_complete"]) == ([], [], True)


async def test_without_coverage_of_tokens_or_program_it_is_not_complete(
    chain: Stocked, ask: Ask
) -> None:
    wallet = chain.address()
    await chain.token(wallet, NFT, 1)
    await chain.position(NFT, 50)
    found = await ask(wallet, "p19/liquidity")
    assert len(found["positions"]) == 1
    assert (found["is_complete"], found["value_usd"]) == (False, None)
    [error] = found["errors"]
    assert (error["code"], error["account"]) == ("not_covered", text(wallet))
    await chain.covers(wallet)
    await chain.redis.delete(COVERED.make(tag=account_tags()[5], address=text(POOLS)))
    await asyncio.sleep(1.1)  # answers are kept for a second
    found = await ask(wallet, "p19/liquidity")
    [error] = found["errors"]
    assert (error["code"], error["account"]) == ("not_covered", text(POOLS))
    assert (found["is_complete"], found["coverage"]["since_slot"]) == (False, None)


async def test_what_is_not_looked_up_is_said(
    chain: Stocked, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet = chain.address()
    await chain.covers(wallet)
    monkeypatch.setattr(by_mint, "MOST_MINTS", 3)  # of tokens that lead to nothing, too
    for _ in range(4):
        await chain.token(wallet, chain.address(), 1)
    found = await ask(wallet, "p19/liquidity")
    assert [each["code"] for each in found["errors"]] == ["not_covered"]
    assert "of the wallet's 4 tokens 3 were looked up" in found["errors"][0]["detail"]
    assert not found["is_complete"]


async def test_an_aggregate_reads_a_wallet_once_and_costs_one_credit(
    chain: Stocked, client: Any
) -> None:
    wallet = chain.address()
    await chain.loan(wallet, 30, 10, await chain.bank(1))
    asking, _ = client
    first = await asking.get(f"/api/wallets/{text(wallet)}/all-rewards")
    await chain.redis.config_resetstat()
    second = await asking.get(f"/api/wallets/{text(wallet)}/all-lending")
    left = [int(each.headers["x-credits-left"]) for each in (first, second)]
    assert left[0] - left[1] == 1
    calls = (await chain.redis.info("commandstats"))["cmdstat_smembers"]["calls"]
    assert calls == len(account_tags())


async def test_a_batch_has_the_sections_that_are_named(chain: Stocked, client: Any) -> None:
    wallet, other = chain.address(), chain.address()
    await chain.loan(wallet, 30, 10, await chain.bank(1))
    asking, document = client
    body = {"wallets": [text(wallet), text(other)], "include": ["lending", "lp", "rewards"]}
    answer = await asking.post("/api/wallets/batch", json=body)
    assert answer.status_code == 200, answer.text
    check = validator(document, "post", "/api/wallets/batch", 200)
    assert [*check.iter_errors(answer.json())] == []
    mine, theirs = answer.json()["wallets"]
    assert (mine["lending"]["value_usd"], mine["rewards"]["value_usd"]) == (20.0, 5.0)
    assert [each["code"] for each in mine["lp"]["errors"]] == ["not_covered"]
    assert (theirs["lending"]["positions"], theirs["lending"]["value_usd"]) == ([], None)
    assert "positions" not in mine
    # It is as of the least of what is in it, whether the books of trades are behind or ahead.
    assert answer.json()["as_of_slot"] == mine["as_of_slot"] == 0
    mark = {"slot": SLOT + 100, "time_ms": TIME_MS + 40_000}
    for partition in range(SETTLED_BY_WALLET.partitions):
        tag = tag_of_partition(SETTLED_BY_WALLET, partition)
        await chain.redis.hset(WATERMARK.make(tag=tag, group="pnl"), mapping=mark)
    ahead = (await asking.post("/api/wallets/batch", json=body)).json()
    assert {each["as_of_slot"] for each in (ahead, *ahead["wallets"])} == {SLOT}
    assert {each["as_of_ms"] for each in (ahead, *ahead["wallets"])} == {TIME_MS}
    plain = await asking.post("/api/wallets/batch", json={"wallets": [text(wallet)]})
    assert plain.json()["include"] == ["positions", "holdings", "pnl", "portfolio"]
