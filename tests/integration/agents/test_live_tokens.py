"""Symbols and launch platforms of live swaps, on a real Valkey."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from infra.redis.client import connect
from pipeline.agents.live import tokens as module
from pipeline.agents.live.streams import LiveStreams
from pipeline.agents.live.tokens import Tokens
from pipeline.domain.market import Token as MarketToken
from schemas.money import USDC
from schemas.proto.tape_pb2 import Creation, Migration, Swap
from schemas.redis_keys import MARKET, METADATA, PRICE, mint_tag

CREATION = Creation(mint="coin", symbol="COIN", platform="bags")


class Worker:
    """What a worker knows of tokens; another one begins with what Redis has."""

    def __init__(self, store: Any) -> None:
        self.redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
        self.streams = LiveStreams(self.redis, stream_bytes=1 << 20, hold_bytes=1 << 20)
        self.tokens = Tokens(self.redis, self.streams)

    async def of_swap(self, mint: str, named: str = "") -> tuple[str | None, str]:
        """Return symbol and platform of a swap."""
        await self.tokens.load([mint, mint])
        return self.tokens.symbol(mint), self.tokens.platform(Swap(mint=mint, platform=named))


@pytest.fixture
async def workers(store: Any) -> AsyncIterator[Any]:
    made: list[Worker] = []

    def worker() -> Worker:
        made.append(Worker(store))
        return made[-1]

    yield worker
    for each in made:
        await each.redis.aclose()


async def market(store: Any, mint: str, **known: Any) -> None:
    key = MARKET.make(tag=mint_tag(mint), mint=mint)
    token = dataclasses.asdict(MarketToken(**known))
    await store.client.hset(key, "token", orjson.dumps(token))


async def asked_of_rpc(store: Any, mint: str, symbol: str) -> None:
    await store.client.set(METADATA.make(tag=mint_tag(mint), mint=mint), f'{{"symbol":"{symbol}"}}')


async def lookups(store: Any) -> int:
    """Return for how many mints Redis was asked: each has one HMGET."""
    stats = await store.client.info("commandstats")
    return int(stats.get("cmdstat_hmget", {"calls": 0})["calls"])


async def test_a_creation_is_known_at_once_and_after_a_restart(store: Any, workers: Any) -> None:
    first = workers()
    await first.tokens.load(["coin"])
    first.tokens.created(CREATION)
    assert await first.of_swap("coin", "meteora-dbc") == ("COIN", "bags")
    assert await first.streams.flush()
    assert 0 < await store.client.ttl(PRICE.make(tag=mint_tag("coin"), mint="coin")) <= PRICE.ttl_s
    assert await workers().of_swap("coin") == ("COIN", "bags")


@pytest.mark.parametrize(
    ("known", "named", "expected"),
    [
        ({"symbol": "A", "platform": "bags", "created_slot": 5}, "meteora-dbc", ("A", "bags")),
        ({"platform": "letsbonk"}, "", ("RPC", "letsbonk")),  # its curve or migration named it
        ({"platform": "raydium-launchlab"}, "letsbonk", ("RPC", "letsbonk")),
        ({}, "", ("RPC", "")),
    ],
)
async def test_what_was_launched_before_is_read_from_the_market(
    store: Any, workers: Any, known: Any, named: str, expected: tuple[str, str]
) -> None:
    await market(store, "coin", **known)
    await asked_of_rpc(store, "coin", "RPC")
    assert await workers().of_swap("coin", named) == expected


async def test_nothing_known_is_no_symbol_and_money_has_its_own(store: Any, workers: Any) -> None:
    worker = workers()
    assert await worker.of_swap("coin") == (None, "")
    assert await worker.of_swap(USDC) == ("USDC", "")
    worker.tokens.migrated(Migration(mint="coin", platform="pump-fun"))
    assert await worker.of_swap("coin") == (None, "pump-fun")


async def test_mints_are_asked_for_together_once_and_again_only_after_a_pause(
    store: Any, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    mints = [f"mint{n}" for n in range(40)]
    await market(store, mints[0], symbol="A", platform="bags", created_slot=5)
    worker = workers()
    clock = [1_000.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    for _ in range(50):
        await worker.tokens.load(mints)
    assert await lookups(store) == len(mints)
    clock[0] += module.ASK_AGAIN_FIRST_S
    await worker.tokens.load(mints)
    assert await lookups(store) == len(mints) + len(mints) - 1, "what is known is not asked again"
    clock[0] += module.ASK_AGAIN_FIRST_S
    await worker.tokens.load(mints)
    assert await lookups(store) == 2 * len(mints) - 1, "then after twice as long"
    await asked_of_rpc(store, mints[1], "LATE")
    clock[0] += module.ASK_AGAIN_FIRST_S
    assert await worker.of_swap(mints[1]) == ("LATE", "")


async def test_memory_is_bounded(store: Any, workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MINTS_IN_MEMORY", 3)
    worker = workers()
    for mint in ("a", "b", "c", "a", "d"):
        await worker.tokens.load([mint])
    # private `_tokens`: the bound on memory; answers are the same without it.
    assert list(worker.tokens._tokens) == ["c", "a", "d"]
    await worker.tokens.load("vwxyz")
    assert list(worker.tokens._tokens) == list("vwxyz"), "all of a batch"


async def test_a_redis_that_is_away_is_asked_once_and_holds_nothing_up(
    store: Any, workers: Any
) -> None:
    await market(store, "coin", symbol="A", platform="bags", created_slot=5)
    worker = workers()
    store.kill()
    assert await worker.of_swap("coin") == (None, "")
    assert worker.streams.away
    worker.tokens.created(CREATION)
    assert await worker.of_swap("coin") == ("COIN", "bags")


async def test_what_cannot_be_read_is_not_known(store: Any, workers: Any) -> None:
    await store.client.hset(MARKET.make(tag=mint_tag("coin"), mint="coin"), "token", b"{}")
    await store.client.set(METADATA.make(tag=mint_tag("coin"), mint="coin"), b"no JSON")
    assert await workers().of_swap("coin") == (None, "")
