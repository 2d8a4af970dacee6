"""The demo wallets of the local chain through the API: every route, each protocol broken in turn.

The accounts are the chain's own at its beginning, stored as agent `accounts` stores them. What a
route must answer comes from the reading of its protocol, which another test compares with what Node
wrote.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import httpx
import pytest

from api.analysis import service as analysis
from api.positions import service
from api.services import Services
from infra.chain.demo_wallets import ADDRESSES, KNOWN
from infra.redis.client import ask as send
from infra.redis.client import connect
from infra.settings import Settings
from schemas.account_reading import TRACKED_PROGRAMS
from schemas.accounts import StoredAccount, compress, followed_of, pack
from schemas.protocols.contract import Held, Protocol, Reading, World
from schemas.protocols.registry import KINDS, SLUGS, kind_of, mints_of
from schemas.redis_keys import (
    ACCOUNT,
    ASKED_ACCOUNTS,
    COVERED,
    FOUND_BY,
    MARKETS,
    POOLS_OF,
    TRACKED_ACCOUNTS,
    TRACKED_WALLETS,
    WATERMARK,
    account_tag,
    account_tags,
    tag_of_mints,
)
from schemas.solana.addresses import CLOCK, SYSTEM_PROGRAM, text
from schemas.solana.sysvars import read_clock
from schemas.topics import SETTLED_BY_MINT
from tests.infra.chain.market.test_still import chain as chain_accounts
from tests.infra.chain.market.test_still import market, positions
from tests.support.api.in_process import asked, new_key

pytestmark = pytest.mark.slow

AGGREGATES = (
    *("all-lending", "all-perps", "all-staking", "all-governance", "all-lp", "all-yield"),
    "all-rewards",
)
WALLETS = (*ADDRESSES.values(), *KNOWN.values())
ALIVE_FOR_MS = 3_600_000
CLOCK_NOW = read_clock(bytes(chain_accounts()[CLOCK].data))
NOW = World(CLOCK_NOW.slot, CLOCK_NOW.time_s, CLOCK_NOW.epoch)
ROUTES = [
    (slug, route.path)
    for slug, protocol in SLUGS.items()
    for route in protocol.routes
    if route.unsupported is None
]

Command = tuple[Any, ...]
Ask = Callable[[bytes, str], Awaitable[Any]]


class Line(NamedTuple):
    """An asset of a position."""

    role: str
    mint: str
    amount_raw: int | None


def accounts() -> Iterator[Command]:
    """All accounts of the chain's beginning, and what finds them."""
    for write in market().genesis_accounts():
        kind = kind_of(write.address, write.owner, write.data)
        if kind is None and write.address not in WALLETS:
            continue
        data = bytes(write.data)
        name, tag = text(write.address), account_tag(text(write.address))
        stored = StoredAccount(NOW.slot, write.lamports, write.owner, len(data), compress(data))
        yield "SET", ACCOUNT.make(tag=tag, address=name), pack(stored)
        if kind is not None:
            for finder in kind.found_by(data):
                yield "SADD", FOUND_BY.make(tag=tag, address=text(finder)), write.address
            for mint in mints_of(kind, data):
                yield "SADD", POOLS_OF.make(tag=tag, mint=text(mint)), write.address


def coverage() -> Iterator[Command]:
    """All of it is known, and the lane is alive."""
    now_ms = int(time.time() * 1000)
    followed = [
        write.address
        for write in market().genesis_accounts()
        if write.owner in TRACKED_PROGRAMS and write.owner != SYSTEM_PROGRAM
    ]
    for wallet in WALLETS:
        yield "ZADD", TRACKED_WALLETS.make(), now_ms, wallet
    for account in followed:
        yield "ZADD", TRACKED_ACCOUNTS.make(), now_ms, account
    subjects = [*KINDS, *WALLETS, *map(followed_of, followed)]
    for tag in account_tags():
        mark = ("slot", NOW.slot, "time_ms", NOW.time_s * 1000, "at_ms", now_ms + ALIVE_FOR_MS)
        yield "HSET", WATERMARK.make(tag=tag, group="accounts"), *mark
        for subject in subjects:
            name = COVERED.make(tag=tag, address=text(subject))
            yield "HSET", name, "slot", NOW.slot - 100, "given", NOW.slot - 90
    for partition in range(SETTLED_BY_MINT.partitions):
        books = ("slot", NOW.slot, "time_ms", NOW.time_s * 1000, "sol_usd", "150/1")
        yield "HSET", MARKETS.make(tag=tag_of_mints(partition)), *books


@pytest.fixture
async def door(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[httpx.AsyncClient, Services]]:
    for module in (service, analysis):  # a protocol that is broken now was answered a moment ago
        monkeypatch.setattr(module, "FRESH_FOR_S", 0.0)
    redis = connect(settings)
    await redis.flushdb()
    for some in (accounts(), coverage()):
        await send(redis, list(some))
    await redis.aclose()
    async with asked(settings, await new_key(settings)) as (client, app):
        yield client, app.state.services


@pytest.fixture
def services(door: tuple[httpx.AsyncClient, Services]) -> Services:
    return door[1]


@pytest.fixture
def ask(door: tuple[httpx.AsyncClient, Services]) -> Ask:
    client, _ = door

    async def get(wallet: bytes, path: str) -> Any:
        answer = await client.get(f"/api/wallets/{text(wallet)}/{path}")
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    return get


def expected(protocol: Protocol, route: str, wallet: bytes) -> list[list[Line]]:
    return sorted(
        [Line(each.role.value, text(each.mint), each.amount_raw) for each in position.assets]
        for position in positions(protocol.name, wallet, NOW)
        if position.route == route
    )


def found(answer: Any) -> list[list[Line]]:
    return sorted(
        [
            Line(
                each["role"],
                each["mint"],
                None if each["amount_raw"] is None else int(each["amount_raw"]),
            )
            for each in position["assets"]
        ]
        for position in answer["positions"]
    )


async def test_every_route_answers_what_its_reading_finds(ask: Ask) -> None:
    for slug, path in ROUTES:
        counted = 0
        for wallet in ADDRESSES.values():
            answer = await ask(wallet, f"{slug}/{path}")
            assert answer["errors"] == [], (slug, path)
            assert answer["is_complete"], (slug, path)
            assert found(answer) == expected(SLUGS[slug], path, wallet), (slug, path)
            counted += len(answer["positions"])
        assert counted, f"{slug}/{path} is empty for all demo wallets"


async def test_every_aggregate_and_the_analysis_have_positions(ask: Ask) -> None:
    for path in (*AGGREGATES, "analyze"):
        answers = [await ask(wallet, path) for wallet in ADDRESSES.values()]
        assert any(each["positions"] for each in answers), path


async def test_what_a_demo_wallet_is_worth_is_known(ask: Ask) -> None:
    for wallet in KNOWN.values():
        found = await ask(wallet, "analyze")
        worth = found["net_worth"]
        assert worth["reasons"] == []
        assert found["positions"]
        lent = sum(each["value_usd"] for each in found["positions"])
        assert lent > 0
        held = found["holdings"]["total_value_usd"]
        assert worth["value_usd"] == worth["known_usd"] == pytest.approx(held + lent)
        assert worth["unknown_positions"] == 0


def is_unknown(asset: dict[str, Any]) -> bool:
    """Whether a line has no amount, and would count with one."""
    return asset["amount_raw"] is None and (asset["is_verified"] or asset["role"] == "borrow")


async def test_of_other_demo_wallets_a_part_is_known_and_the_rest_counted(ask: Ask) -> None:
    for wallet in ADDRESSES.values():
        found = await ask(wallet, "analyze")
        worth, positions = found["net_worth"], found["positions"]
        assert worth["reasons"] == ["positions_unknown"]
        assert worth["value_usd"] is None
        uncounted = [each for each in positions if not each["is_verified_market"]]
        # No group of Carrot's Boost is known as its own, nor the chain's vault of Voltr: what is in
        # one is in no sum.
        routes = {(each["protocol"], each["route"]) for each in uncounted}
        assert routes <= {("p07", "lending"), ("p15", "positions")}
        unknown = [
            each
            for each in positions
            if each not in uncounted and any(map(is_unknown, each["assets"]))
        ]
        assert worth["unknown_positions"] >= len(unknown) > 0
        known = sum(int(each["value_usd_micros"] or 0) for each in positions)
        held = int(found["holdings"]["total_value_usd_micros"])
        assert int(worth["known_usd_micros"]) == held + known
        assert (
            sum(each["unknown_positions"] for each in found["categories"])
            == (worth["unknown_positions"])
        )


async def test_what_is_missing_in_a_market_that_is_not_verified_is_asked_for_and_no_error(
    ask: Ask, settings: Settings
) -> None:
    """Anybody can open one, and have a wallet lack an account of it for ever."""
    held = [
        (wallet, each.account.data[73:105])  # the bank of its first balance
        for wallet in ADDRESSES.values()
        for each in positions("carrot", wallet, NOW)
        if each.route == "lending"
    ]
    wallet, bank = held[0]
    redis = connect(settings)
    await redis.delete(ACCOUNT.make(tag=account_tag(text(bank)), address=text(bank)))
    answer = await ask(wallet, "p07/lending")
    asked = await redis.xrange(ASKED_ACCOUNTS.make())
    await redis.aclose()
    assert (answer["errors"], answer["is_complete"]) == ([], True)
    assert {each["value_usd"] for each in answer["positions"]} == {None}
    assert bank in {each for _, entry in asked for each in entry.values()}


async def test_each_protocol_broken_in_turn_leaves_the_others(ask: Ask, services: Services) -> None:
    def broken(held: Held, world: World) -> Reading:
        yield []
        raise ZeroDivisionError("on purpose")

    served = services.positions.slugs
    assert isinstance(served, dict)
    whole = {
        wallet: {path: await ask(wallet, path) for path in (*AGGREGATES, "analyze")}
        for wallet in ADDRESSES.values()
    }
    for slug, protocol in [*served.items()]:
        wallet = max(ADDRESSES.values(), key=lambda each: len(positions(protocol.name, each, NOW)))
        members = {
            name: {of for of, _ in aggregate.routes}
            for name, aggregate in services.positions.aggregates.items()
        }
        served[slug] = replace(protocol, read=broken)
        for path in AGGREGATES:
            if slug in members[path]:
                answer = await ask(wallet, path)
                assert_without(slug, whole[wallet][path], answer)
                assert answer["value_usd"] is None
        unrelated = next(path for path in AGGREGATES if slug not in members[path])
        assert still(await ask(wallet, unrelated)) == still(whole[wallet][unrelated])
        answer = await ask(wallet, "analyze")
        served[slug] = protocol
        assert_without(slug, whole[wallet]["analyze"], answer)
        assert answer["net_worth"]["value_usd"] is None
        assert answer["net_worth"]["reasons"]
        if not protocol.reads_tokens:  # else its tokens are no longer taken out of holdings
            assert answer["holdings"] == whole[wallet]["analyze"]["holdings"]


def assert_without(slug: str, before: Any, after: Any) -> None:
    """An answer lacks the positions of one protocol, says so, and has all others as before."""
    assert not after["is_complete"]
    codes = {each["code"] for each in after["errors"] if each["protocol"] == slug}
    assert codes == {"unreadable"}, slug
    others = [each for each in before["positions"] if each["protocol"] != slug]
    assert after["positions"] == others, slug


def still(answer: Any) -> Any:
    """An answer without what moves with time."""
    return {name: value for name, value in answer.items() if name not in {"as_of_ms"}}


async def test_a_range_whose_decimals_are_not_known_says_so_and_asks_for_the_mints(
    ask: Ask, settings: Settings
) -> None:
    wallet = ADDRESSES["lender-1"]
    ranges = [each.range for each in positions("whirlpools", wallet, NOW)]
    sides = {side for each in ranges if each for side in (each.base, each.quote)}
    redis = connect(settings)
    for mint in sides:
        name = COVERED.make(tag=account_tag(text(mint)), address=text(followed_of(mint)))
        await redis.delete(name)
    answer = await ask(wallet, "p19/liquidity")
    asked = await redis.xrange(ASKED_ACCOUNTS.make())
    await redis.aclose()
    assert answer["is_complete"]
    assert found(answer) == expected(SLUGS["p19"], "liquidity", wallet)
    for each in answer["positions"]:
        assert each["range"]["current"] is each["range"]["lower"] is None
        [field] = each["unsupported_fields"]
        assert "decimals" in field
    assert sides <= {each for _, entry in asked for each in entry.values()}
