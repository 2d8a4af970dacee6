"""The trending list: the best launch tokens of all partitions, read at most twice a second.

A list is some hundred kilobytes of records; all who ask within half a second get the same reading.
Of its records those are unpacked that somebody asks for: all of them would take so long that every
request at that moment would feel it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Final

import orjson

from api.http.encoding import Encoded, encode
from api.http.errors import INVALID_PARAMETER, Problem
from api.stores.caches import SharedReading
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, settled
from api.tokens.answers import TrendingToken
from api.tokens.facts import facts
from schemas.redis_keys import (
    HOLDERS,
    MARKETS,
    METADATA,
    TRENDING,
    TRENDING_RECORDS,
    VOCABULARY,
    mint_tag,
    mint_tags,
)
from schemas.vocabulary import unpack

SCORE_UNIT: Final = 1024
TOP: Final = 10
ANSWERS_KEPT: Final = 64  # of a reading

_Asked = tuple[frozenset[str], int]  # platforms, limit


class _Listed:
    """A token of the list."""

    __slots__ = ("_packed", "_record", "mint", "rank", "score")

    def __init__(self, rank: int, score: int, mint: str, packed: bytes) -> None:
        self.rank = rank  # from 1
        self.score = score
        self.mint = mint
        self._packed = packed
        self._record: dict[str, Any] | None = None

    @property
    def record(self) -> dict[str, Any]:
        """Return its record, with what was put in later."""
        if self._record is None:
            self._record = orjson.loads(self._packed)
        return self._record


@dataclass(frozen=True, slots=True)
class _Reading:
    """The list, and how far the markets are."""

    settled: Settled
    tokens: list[_Listed]
    platforms: tuple[str, ...]  # all there are; none while they are not known
    answers: dict[_Asked, SharedReading[Encoded]] = field(default_factory=dict)  # the first so many

    def first(self, platforms: frozenset[str], limit: int) -> list[_Listed]:
        """Return the first tokens of some platforms, or of all."""
        if not platforms:
            return self.tokens[:limit]
        of_these = (token for token in self.tokens if token.record["dex"] in platforms)
        return [*islice(of_these, limit)]


class TrendingTokens:
    """Reads the list, for all requests of a process."""

    def __init__(self, stores: Stores, gaps: GapReader) -> None:
        self._stores = stores
        self._gaps = gaps
        self._reading = SharedReading(self._read)

    async def first(self, platforms: frozenset[str], limit: int) -> Encoded:
        """Return the first tokens, of some platforms or of all (`answers.Trending`).

        Raises Problem.
        """
        reading = await self._reading.get()
        if reading.platforms and (unknown := sorted(platforms.difference(reading.platforms))):
            raise _unknown_platforms(unknown, reading.platforms)
        asked = platforms, limit
        answer = reading.answers.get(asked)
        if answer is None:
            answer = SharedReading(partial(self._answer, reading, *asked), fresh_for_s=math.inf)
            if len(reading.answers) < ANSWERS_KEPT:
                reading.answers[asked] = answer
        return await answer.get()

    async def _read(self) -> _Reading:
        commands: list[tuple[Any, ...]] = []
        for tag in mint_tags():
            commands += (
                ("MULTI",),
                ("HMGET", MARKETS.make(tag=tag), "slot", "time_ms"),
                ("ZRANGE", TRENDING.make(tag=tag), 0, -1, "WITHSCORES"),
                ("HGETALL", TRENDING_RECORDS.make(tag=tag)),
                ("EXEC",),
            )
        *answers, vocabulary = await self._stores.ask([*commands, ("GET", VOCABULARY.make())])
        progress = []
        ranked: list[tuple[int, str, bytes]] = []
        for slot, scores, records in answers[4::5]:
            progress.append(slot)
            for mint, score in scores:
                if (record := records.get(mint)) is not None:
                    ranked.append((-int(score), mint.decode(), record))
        ranked.sort()
        tokens = [
            _Listed(rank, -less, mint, packed)
            for rank, (less, mint, packed) in enumerate(ranked, start=1)
        ]
        return _Reading(settled(progress), tokens, _platforms(vocabulary))

    async def _answer(self, reading: _Reading, platforms: frozenset[str], limit: int) -> Encoded:
        tokens = reading.first(platforms, limit)
        unnamed = [token for token in tokens if not token.record["name"]]
        if unnamed:
            await self._complete(unnamed)
        return encode(
            {
                "tokens": [_answer(token) for token in tokens],
                "as_of_slot": reading.settled.slot,
                "as_of_ms": reading.settled.time_ms,
                "gaps": (await self._gaps.read()).of_markets(),
            }
        )

    async def _complete(self, tokens: Sequence[_Listed]) -> None:
        """Put what RPC said into records of tokens without a name."""
        commands: list[tuple[Any, ...]] = []
        for token in tokens:
            tag = mint_tag(token.mint)
            commands.append(("GET", METADATA.make(tag=tag, mint=token.mint)))
            top = HOLDERS.make(tag=tag, mint=token.mint)
            commands.append(("ZRANGE", top, 0, TOP - 1, "REV", "WITHSCORES"))
        answers = await self._stores.ask(commands)
        for token, asked, top in zip(tokens, answers[::2], answers[1::2], strict=True):
            known = facts(token.mint, None, asked).about
            overlay(token.record, known, sum(int(score) for _, score in top))


def _platforms(vocabulary: bytes | None) -> tuple[str, ...]:
    with suppress(ValueError):  # the gateway logs it
        return unpack(vocabulary or b"").platforms
    return ()


def _unknown_platforms(unknown: Sequence[str], platforms: Sequence[str]) -> Problem:
    accepted = ", ".join(f"'{each}'" for each in sorted(platforms))
    reason = f"must be one of {accepted}, got '{unknown[0]}'"
    errors = [{"parameter": "platform", "reason": reason}]
    return Problem(INVALID_PARAMETER, f"`platform` {reason}", errors=errors)


def overlay(record: dict[str, Any], known: Mapping[str, Any], top10_raw: int) -> None:
    """Fill in what a record leaves open: name, symbol, supply, and what follows from that."""
    record["name"] = known["name"] or ""
    record["symbol"] = record["symbol"] or known["symbol"] or ""
    if record["decimals"] is None:
        record["decimals"] = known["decimals"]
    if record["supply"] is not None or not known["supply"]:
        return
    record["supply"] = known["supply"]
    record["top10_holders_pct"] = 100 * top10_raw / int(known["supply_raw"])
    if record["price_usd"] is not None:
        record["market_cap"] = record["price_usd"] * known["supply"]


def _answer(token: _Listed) -> TrendingToken:
    record = token.record
    return {
        "rank": token.rank,
        "score": token.score / SCORE_UNIT,
        "mint": token.mint,
        "name": record["name"] or None,
        "symbol": record["symbol"] or None,
        "dex": record["dex"],
        "creator": record["creator"] or None,
        "price_usd": record["price_usd"],
        "market_cap": record["market_cap"],
        "liquidity_usd": record["liquidity_usd"],
        "buy_count": record["buy_count"],
        "sell_count": record["sell_count"],
        "buy_volume_24h": record["buy_volume_24h"],
        "sell_volume_24h": record["sell_volume_24h"],
        "total_volume_24h": record["total_volume_24h"],
        "holder_count": record["holder_count"],
        "top10_holders_pct": record["top10_holders_pct"],
        "dev_holding_pct": record["dev_holding_pct"],
        "bonding_curve_pct": record["bonding_curve_pct"],
        "is_migrated": record["is_migrated"],
        "supply": record["supply"],
        "decimals": record["decimals"],
    }
