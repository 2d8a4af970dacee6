"""The trending list is read once for all who ask within half a second."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from api.http.errors import INVALID_PARAMETER, STORE_UNAVAILABLE, Problem
from api.tokens.trending import ANSWERS_KEPT, TrendingTokens
from schemas.channels import TRENDING_FIELDS
from schemas.vocabulary import Slugs
from tests.support.api.gaps import no_gaps

RECORD = {**dict.fromkeys(TRENDING_FIELDS), "name": "n", "symbol": "s", "dex": "pump-fun"}


ALL: frozenset[str] = frozenset()


async def slot(tokens: TrendingTokens) -> int:
    as_of_slot: int = orjson.loads((await tokens.first(ALL, 5)).body)["as_of_slot"]
    return as_of_slot


class Stores:
    """Eight partitions, the first with one token; the trips are counted."""

    def __init__(self) -> None:
        self.scores = [[b"mint", 2048.0], [b"no record", 9.0]]
        self.records = {b"mint": orjson.dumps(RECORD | {"mint": "mint"}), b"gone": b"{}"}
        self.trips = 0
        self.slot = 5
        self.gate = asyncio.Event()
        self.gate.set()
        self.broken = False
        self.vocabulary: bytes | None = None

    async def ask(self, commands: Sequence[Any]) -> list[Any]:
        self.trips += 1
        await self.gate.wait()
        if self.broken:
            raise Problem(STORE_UNAVAILABLE, "away")
        progress = [b"%d" % self.slot, b"1000"]
        full = [progress, self.scores, self.records]
        rest = [[progress, [], {}]] * 7
        lists = [answer for each in (full, *rest) for answer in (b"OK", b"", b"", b"", each)]
        return [*lists, self.vocabulary]


async def test_requests_during_a_reading_wait_for_it() -> None:
    stores = Stores()
    stores.gate.clear()
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    asked = [asyncio.create_task(tokens.first(ALL, 5)) for _ in range(50)]
    await asyncio.sleep(0)
    asked[0].cancel()  # a caller that leaves does not end it for the others
    await asyncio.sleep(0)
    stores.gate.set()
    found = await asyncio.gather(*asked[1:])
    assert stores.trips == 1
    assert all(each == found[0] for each in found)
    [token] = orjson.loads(found[0].body)["tokens"]
    assert (token["mint"], token["score"], token["rank"]) == ("mint", 2.0, 1)


async def test_it_is_read_again_after_a_while() -> None:
    stores = Stores()
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    assert await slot(tokens) == 5
    stores.slot = 6
    assert await slot(tokens) == 5
    # private `_reading`: the bound on encoded lists shows in memory alone.
    # private `_fresh_for_s`: ends the cache's time without a wait.
    tokens._reading._fresh_for_s = 0.0
    assert await slot(tokens) == 6


async def test_a_store_that_is_away_is_said_to_all_and_asked_again() -> None:
    stores = Stores()
    stores.broken = True
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    found = await asyncio.gather(*(tokens.first(ALL, 5) for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [Problem] * 3
    stores.broken = False
    assert await slot(tokens) == 5
    assert stores.trips == 2


async def test_each_list_of_a_reading_is_encoded_once_and_a_caller_cannot_fill_the_memory() -> None:
    stores = Stores()
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    whole = await tokens.first(ALL, 5)
    assert await tokens.first(ALL, 5) is whole
    other = await tokens.first(frozenset({"moonit"}), 5)
    assert (orjson.loads(other.body)["tokens"], other.etag != whole.etag) == ([], True)
    for number in range(3 * ANSWERS_KEPT):
        await tokens.first(frozenset({f"platform-{number}"}), 5)
    assert len((await tokens._reading.get()).answers) == ANSWERS_KEPT
    assert stores.trips == 1


async def test_a_platform_that_does_not_exist_is_refused_where_platforms_are_known() -> None:
    stores = Stores()
    stores.vocabulary = Slugs((), ("pump-fun", "moonit")).pack()
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    assert orjson.loads((await tokens.first(frozenset({"moonit"}), 5)).body)["tokens"] == []
    wrong = "`platform` must be one of 'moonit', 'pump-fun', got 'pumpfun'"
    with pytest.raises(Problem, match=re.escape(wrong)) as raised:
        await tokens.first(frozenset({"moonit", "pumpfun"}), 5)
    assert raised.value.kind is INVALID_PARAMETER


@pytest.mark.parametrize("vocabulary", [None, b"", b"{}", b"not JSON"])
async def test_any_slug_may_be_a_platform_while_platforms_are_not_known(
    vocabulary: bytes | None,
) -> None:
    stores = Stores()
    stores.vocabulary = vocabulary
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    assert orjson.loads((await tokens.first(frozenset({"pumpfun"}), 5)).body)["tokens"] == []


class Nameless(Stores):
    """Three tokens, the creation of two of which was not seen; RPC knows them."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = [[b"c", 1.0], [b"a", 2048.0], [b"b", 2048.0]]
        self.records = {
            b"a": orjson.dumps(RECORD | {"dex": "moonit"}),
            b"b": orjson.dumps(RECORD | {"name": ""}),
            b"c": orjson.dumps(RECORD | {"name": "", "dex": "moonit"}),
        }
        self.asked: list[str] = []

    async def ask(self, commands: Sequence[Any]) -> list[Any]:
        if commands[0][0] != "GET":
            return await super().ask(commands)
        await self.gate.wait()
        self.asked += [name.rpartition(":")[2] for _, name in commands[::2]]
        metadata = {"status": "found", "asked_ms": 1, "name": "named", "symbol": "T", "uri": ""}
        metadata |= {"decimals": 6, "supply_raw": None, "token_program": ""}
        return [orjson.dumps(metadata), []] * (len(commands) // 2)


async def listed(tokens: TrendingTokens, platforms: frozenset[str], limit: int) -> list[Any]:
    found = orjson.loads((await tokens.first(platforms, limit)).body)["tokens"]
    return [(each["rank"], each["mint"], each["name"]) for each in found]


async def test_what_rpc_said_is_read_of_those_that_are_listed() -> None:
    stores = Nameless()
    tokens = TrendingTokens(stores, no_gaps())  # type: ignore[arg-type]
    assert await listed(tokens, ALL, 1) == [(1, "a", "n")]
    assert stores.asked == []
    moonit = frozenset({"moonit"})
    stores.gate.clear()
    asked = [asyncio.create_task(listed(tokens, moonit, 5)) for _ in range(20)]
    await asyncio.sleep(0)
    stores.gate.set()
    assert await asyncio.gather(*asked) == [[(1, "a", "n"), (3, "c", "named")]] * 20
    assert stores.asked == ["c"]
    assert await listed(tokens, ALL, 5) == [(1, "a", "n"), (2, "b", "named"), (3, "c", "named")]
    assert stores.asked == ["c", "b"]
