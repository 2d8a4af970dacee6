"""The trending list: the best launch tokens of all partitions, read at most twice a second.

A list is some hundred kilobytes of records; all who ask within half a second get the same reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from api.answers.tokens import TrendingToken
from api.readers.settled import MINT_TAGS, Settled, settled
from api.readers.shared import Shared
from api.readers.token_facts import facts
from api.reply import Encoded, encode
from api.stores import Stores
from schemas.redis_keys import (
    HOLDERS,
    MARKETS,
    METADATA,
    TRENDING,
    TRENDING_RECORDS,
    mint_tag,
)

SCORE_UNIT: Final = 1024
TOP: Final = 10
ANSWERS_KEPT: Final = 64  # of a reading

_Asked = tuple[frozenset[str], int]  # platforms, limit


@dataclass(frozen=True, slots=True)
class _Listed:
    """A token of the list, with its JSON ready to be sent."""

    platform: str
    json: orjson.Fragment


@dataclass(frozen=True, slots=True)
class _Reading:
    """The list, and how far the markets are."""

    settled: Settled
    tokens: list[_Listed]
    answers: dict[_Asked, Encoded] = field(default_factory=dict)  # the first so many

    def told(self, platforms: frozenset[str], limit: int) -> Encoded:
        """Return the answer to whoever asks for some platforms, or for all."""
        tokens = [
            token.json for token in self.tokens if not platforms or token.platform in platforms
        ]
        return encode(
            {
                "tokens": tokens[:limit],
                "as_of_slot": self.settled.slot,
                "as_of_ms": self.settled.time_ms,
            }
        )


class TrendingTokens:
    """Reads the list, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._reading = Shared(self._read)

    async def first(self, platforms: frozenset[str], limit: int) -> Encoded:
        """Return the first tokens, of some platforms or of all (`answers.tokens.Trending`).

        Raises Problem.
        """
        reading = await self._reading.get()
        asked = platforms, limit
        answer = reading.answers.get(asked)
        if answer is None:
            answer = reading.told(platforms, limit)
            if len(reading.answers) < ANSWERS_KEPT:
                reading.answers[asked] = answer
        return answer

    async def _read(self) -> _Reading:
        commands: list[tuple[Any, ...]] = []
        for tag in MINT_TAGS:
            commands += (
                ("MULTI",),
                ("HMGET", MARKETS.make(tag=tag), "slot", "time_ms"),
                ("ZRANGE", TRENDING.make(tag=tag), 0, -1, "WITHSCORES"),
                ("HGETALL", TRENDING_RECORDS.make(tag=tag)),
                ("EXEC",),
            )
        answers = await self._stores.ask(commands)
        progress = []
        ranked: list[tuple[int, str, dict[str, Any]]] = []
        for slot, scores, records in answers[4::5]:
            progress.append(slot)
            for mint, score in scores:
                if (record := records.get(mint)) is not None:
                    ranked.append((int(score), mint.decode(), orjson.loads(record)))
        ranked.sort(key=lambda each: (-each[0], each[1]))
        untold = [(mint, record) for _, mint, record in ranked if not record["name"]]
        if untold:
            await self._tell(untold)
        tokens = [_listed(*each, place=place) for place, each in enumerate(ranked, start=1)]
        return _Reading(settled(progress), tokens)

    async def _tell(self, untold: list[tuple[str, dict[str, Any]]]) -> None:
        """Put what RPC said into records of tokens whose creation was not seen."""
        commands: list[tuple[Any, ...]] = []
        for mint, _ in untold:
            tag = mint_tag(mint)
            commands.append(("GET", METADATA.make(tag=tag, mint=mint)))
            top = HOLDERS.make(tag=tag, mint=mint)
            commands.append(("ZRANGE", top, 0, TOP - 1, "REV", "WITHSCORES"))
        answers = await self._stores.ask(commands)
        for (mint, record), asked, top in zip(untold, answers[::2], answers[1::2], strict=True):
            overlay(record, facts(mint, None, asked).about, sum(int(score) for _, score in top))


def overlay(record: dict[str, Any], told: Mapping[str, Any], top10_raw: int) -> None:
    """Fill in what a record leaves open: name, symbol, supply, and what follows from that."""
    record["name"], record["symbol"] = told["name"] or "", told["symbol"] or ""
    if record["decimals"] is None:
        record["decimals"] = told["decimals"]
    if record["supply"] is not None or not told["supply"]:
        return
    record["supply"] = told["supply"]
    record["top10_holders_pct"] = 100 * top10_raw / int(told["supply_raw"])
    if record["price_usd"] is not None:
        record["market_cap"] = record["price_usd"] * told["supply"]


def _listed(score: int, mint: str, record: Mapping[str, Any], place: int) -> _Listed:
    token: TrendingToken = {
        "place": place,
        "score": score / SCORE_UNIT,
        "mint": mint,
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
    return _Listed(record["dex"], orjson.Fragment(orjson.dumps(token)))
