"""The baseline: the same routing on Starlette and Uvicorn, and nothing else.

    python -m stream_gateway.bench.bare <port>

It reads the live streams of REDIS_URL, asks the same index which client gets which event of an
entry, and sends the frame, made once, by `send_text` to one after the other. It knows no keys,
limits, slow clients, gaps or resumption. uvloop, no compression, no pings, no access log.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal

import orjson
import uvicorn
from redis.asyncio import Redis
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from infra.redis.client import connect
from infra.settings import load
from schemas import channels
from schemas.channels import Channel
from schemas.plans import ENTERPRISE
from stream_gateway import messages
from stream_gateway.subscriptions import Filter, Index

PROTOCOL: Final[Literal["websockets-sansio"]] = "websockets-sansio"
BLOCK_MS: Final = 1_000
ENTRIES_AT_ONCE: Final = 100
_HOST: Final = "127.0.0.1"


class Bare:
    """The subscriptions, and what is sent for them."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._indexes: dict[Channel, Index[WebSocket]] = {
            channel: Index(channel) for channel in channels.ALL
        }
        self._channels = {channel.stream.encode(): channel for channel in channels.ALL}

    def subscribe(self, websocket: WebSocket, chosen: Filter) -> None:
        """Send a client what a filter takes, from here on."""
        [channel] = (each for each in channels.ALL if each.channel == chosen.channel)
        self._indexes[channel].add(chosen, websocket)

    async def run(self) -> None:
        """Read the streams, which are empty at first, and send, until cancelled."""
        after: dict[Any, Any] = dict.fromkeys((each.stream for each in channels.ALL), "0")
        while True:
            answer: Any = await self._redis.xread(after, count=ENTRIES_AT_ONCE, block=BLOCK_MS)
            for stream, entries in answer or ():
                for entry_id, fields in entries:
                    after[stream.decode()] = entry_id
                    await self._send(self._channels[stream], entry_id.decode(), fields)

    async def _send(self, channel: Channel, entry_id: str, fields: dict[bytes, bytes]) -> None:
        index, events = self._indexes[channel], channels.unpack(fields).events
        texts = [
            channels.with_id(event.frame, channels.event_id(entry_id, place)).decode()
            for place, event in enumerate(events)
        ]
        if index.everything:
            for text in texts:
                for websocket in index.everything.members:
                    await websocket.send_text(text)
        for group, numbers in index.match([event.index for event in events]).items():
            for number in numbers:
                for websocket in group.members:
                    await websocket.send_text(texts[number])


def create(redis: Redis) -> Starlette:
    """Return the application."""
    bare = Bare(redis)

    @asynccontextmanager
    async def reading(_: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(bare.run())
        yield
        task.cancel()
        await redis.aclose()

    async def talk(websocket: WebSocket) -> None:
        await websocket.accept()
        with suppress(WebSocketDisconnect):
            while True:
                said = messages.parse(
                    (await websocket.receive_text()).encode(), "main", ENTERPRISE, None
                )
                assert isinstance(said, messages.Subscribe)
                reply = {"type": "subscribed", "filter": said.filter.as_fields()}
                await websocket.send_text(orjson.dumps(reply).decode())
                bare.subscribe(websocket, said.filter)

    return Starlette(routes=[WebSocketRoute("/ws", talk)], lifespan=reading)


if __name__ == "__main__":
    uvicorn.run(
        create(connect(load())),
        host=_HOST,
        port=int(sys.argv[1]),
        loop="uvloop",
        ws=PROTOCOL,
        ws_per_message_deflate=False,
        ws_ping_interval=None,
        access_log=False,
        log_level="warning",
    )
