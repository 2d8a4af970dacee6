"""The current state for new subscribers: last prices, the trending list.

A snapshot names the last event of its stream when it was read, `as_of_id`. A client that gets
the snapshot, and then all events after that one, misses nothing:
- Prices are written together with their frames, so that what comes after is as new or newer.
- Trending records are written before their frames: up to a second of what is in the snapshot may
  come again after it.

Both are read from Redis as they are asked for; one reading of the trending list is shared by all
who ask within half a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from infra.redis.asks import Pipelined
from schemas import channels
from schemas.amounts import human
from schemas.channels import Channel
from schemas.compact_json import compact_json
from schemas.prices import LastPrice, last_price
from schemas.redis_keys import (
    HOLDERS,
    METADATA,
    PRICE,
    TRENDING,
    TRENDING_RECORDS,
    mint_tag,
    mint_tags,
)
from stream_gateway.frames import text_frame

MAX_TOKENS: Final = 500
"""Of a trending snapshot, some 350 kB: common clients refuse messages of more than a megabyte."""
FRESH_FOR_S: Final = 0.5
NOTHING_YET: Final = channels.event_id("0-0", 0)
"""The id that comes before all others."""

_PRICE_FIELDS: Final = LastPrice._fields
_TOP: Final = 10
_CACHED_FRAMES: Final = 64  # of one reading, by platforms


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole WebSocket frame, and after which event to go on."""

    frame: bytes
    as_of_id: str


@dataclass(frozen=True, slots=True)
class _Listed:
    """The first tokens of the trending list, the best first, and when they were read."""

    read_s: float
    as_of_id: str
    tokens: Sequence[tuple[str, orjson.Fragment]]  # platform, data
    snapshots: dict[frozenset[str], Snapshot] = field(default_factory=dict)


class Snapshots:
    """Reads snapshots, for all connections of a process."""

    def __init__(self, redis: Pipelined) -> None:
        self._redis = redis
        self._listed: _Listed | None = None
        self._reading = asyncio.Lock()

    async def prices(self, mints: Iterable[str]) -> Snapshot:
        """Return the last prices of some mints, without those that have none; raises RedisError."""
        ordered = sorted(mints)
        keys = [PRICE.make(mint=mint) for mint in ordered]
        asks = [("HMGET", key, *_PRICE_FIELDS) for key in keys]
        answers = await self._redis.ask([("MULTI",), _last(channels.PRICES), *asks, ("EXEC",)])
        last, *stored = answers[-1]
        data = []
        for mint, values in zip(ordered, stored, strict=True):
            fields = zip(_PRICE_FIELDS, values, strict=True)
            stored = {name.encode(): value for name, value in fields if value is not None}
            price = last_price(stored)
            if price is not None and price.price_usd is not None:
                data.append(channels.price_data(mint, price))
        return _snapshot(channels.PRICES, data, _id_of(last))

    async def trending(self, platforms: frozenset[str]) -> Snapshot:
        """Return the trending list, the best first, of some platforms, or of all where none is
        named; raises RedisError.
        """
        async with self._reading:
            listed = self._listed
            if listed is None or time.monotonic() - listed.read_s > FRESH_FOR_S:
                listed = self._listed = await self._list()
        snapshot = listed.snapshots.get(platforms)
        if snapshot is None:
            data = [
                token for platform, token in listed.tokens if not platforms or platform in platforms
            ]
            snapshot = _snapshot(channels.TRENDING, data[:MAX_TOKENS], listed.as_of_id)
            if len(listed.snapshots) < _CACHED_FRAMES:
                listed.snapshots[platforms] = snapshot
        return snapshot

    async def _list(self) -> _Listed:
        read_s = time.monotonic()
        # First how far the frames are: the records are ahead of them. Asked for apart, as in a
        # cluster they may be of another node.
        [last] = await self._redis.ask([_last(channels.TRENDING)])
        commands: list[tuple[Any, ...]] = []
        for tag in mint_tags():
            commands += (
                ("MULTI",),
                ("ZRANGE", TRENDING.make(tag=tag), 0, -1, "WITHSCORES"),
                ("HGETALL", TRENDING_RECORDS.make(tag=tag)),
                ("EXEC",),
            )
        answers = await self._redis.ask(commands)
        ranked: list[tuple[float, bytes, dict[str, Any]]] = []
        for scores, records in answers[3::4]:
            for mint, score in scores:
                if (record := records.get(mint)) is not None:
                    ranked.append((-score, mint, orjson.loads(record)))
        ranked.sort(key=lambda each: each[:2])
        records = [record for _, _, record in ranked]
        if nameless := [record for record in records if not record["name"]]:
            await self._complete(nameless)
        tokens = [
            (record["dex"], orjson.Fragment(compact_json(channels.trending_data(record))))
            for record in records
        ]
        return _Listed(read_s, _id_of(last), tokens)

    async def _complete(self, nameless: Sequence[dict[str, Any]]) -> None:
        """Put what RPC said into records of tokens without a name."""
        commands: list[tuple[Any, ...]] = []
        for record in nameless:
            mint = record["mint"]
            tag = mint_tag(mint)
            commands.append(("GET", METADATA.make(tag=tag, mint=mint)))
            top = HOLDERS.make(tag=tag, mint=mint)
            commands.append(("ZRANGE", top, 0, _TOP - 1, "REV", "WITHSCORES"))
        answers = await self._redis.ask(commands)
        for record, metadata, top10 in zip(nameless, answers[::2], answers[1::2], strict=True):
            if metadata is not None:
                overlay(record, orjson.loads(metadata), sum(int(score) for _, score in top10))


def overlay(record: dict[str, Any], metadata: Mapping[str, Any], top10_raw: int) -> None:
    """Fill in what a record leaves open from METADATA, as agent `market` does in its frames."""
    record["name"] = metadata["name"]
    record["symbol"] = record["symbol"] or metadata["symbol"]
    if record["decimals"] is None:
        record["decimals"] = metadata["decimals"]
    supply_raw, decimals = metadata["supply_raw"], record["decimals"]
    if record["supply"] is not None or not supply_raw or decimals is None:
        return
    record["supply"] = human(supply_raw, decimals)
    record["top10_holders_pct"] = 100 * top10_raw / supply_raw
    if record["price_usd"] is not None:
        record["market_cap"] = record["price_usd"] * record["supply"]


def _last(channel: Channel) -> tuple[Any, ...]:
    return ("XREVRANGE", channel.stream, "+", "-", "COUNT", 1)


def _id_of(entries: Sequence[tuple[bytes, Sequence[bytes]]]) -> str:
    """Return the id of the last event of a stream, from its last entry."""
    if not entries:
        return NOTHING_YET
    [(entry_id, fields)] = entries
    frames = fields[fields.index(b"frames") + 1]
    return channels.event_id(entry_id.decode(), frames.count(b"\n"))


def _snapshot(channel: Channel, data: Sequence[Any], as_of_id: str) -> Snapshot:
    message = {
        "type": "snapshot",
        "channel": channel.channel,
        "data": data,
        "as_of_id": as_of_id,
    }
    return Snapshot(text_frame(orjson.dumps(message)), as_of_id)
