"""What agent `live` would write, replayed from memory into the live streams of a real Valkey."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from infra.redis.client import ask, connect
from infra.settings import Settings
from schemas import channels
from schemas.channels import Channel
from schemas.redis_keys import LIVE_EPOCH
from stream_gateway.bench.market import Flush

EPOCH: Final = "1790000000000-bench"


@dataclass(slots=True)
class Fed:
    """What was written: of each flush the ids of its entries, by channel; and how late at most."""

    ids: list[dict[Channel, str]] = field(default_factory=list)
    seconds: float = 0.0
    late_ms: float = 0.0


def prepare(settings: Settings) -> None:
    """Empty the live streams, and begin the epoch."""

    async def write() -> None:
        async with connect(settings) as redis:
            streams = [channel.stream for channel in channels.ALL]
            await ask(redis, [("DEL", *streams), ("SET", LIVE_EPOCH.make(), EPOCH)])

    asyncio.run(write())


def replay(settings: Settings, flushes: Sequence[Flush]) -> Fed:
    """Write flushes at the moments they name, each in one MULTI as the agent does."""
    packed = [[*map(_entry, flush.events.items())] for flush in flushes]
    return asyncio.run(_replay(settings, flushes, packed))


async def _replay(
    settings: Settings, flushes: Sequence[Flush], packed: list[list[tuple[Any, ...]]]
) -> Fed:
    fed = Fed()
    async with connect(settings) as redis:
        await ask(redis, [("PING",)])  # connected
        began = time.monotonic()
        for flush, entries in zip(flushes, packed, strict=True):
            wait_s = began + flush.at_ms / 1000 - time.monotonic()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            fed.late_ms = max(fed.late_ms, -wait_s * 1000)
            *_, ids = await ask(redis, [("MULTI",), *entries, ("EXEC",)])
            fed.ids.append(
                {channel: i.decode() for channel, i in zip(flush.events, ids, strict=True)}
            )
        fed.seconds = time.monotonic() - began
    return fed


def _entry(item: tuple[Channel, list[channels.LiveEvent]]) -> tuple[Any, ...]:
    channel, events = item
    fields = channels.pack(EPOCH, events)
    return ("XADD", channel.stream, "*", *(part for pair in fields.items() for part in pair))
