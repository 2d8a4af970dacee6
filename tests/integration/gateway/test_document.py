"""PROTOCOL.md is what a gateway does: its examples are sent, and answered as they stand there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import websockets.asyncio.client
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

import stream_gateway
from pipeline.agents.live.vocabulary import SLUGS
from schemas import channels
from schemas.channels import LiveEvent
from schemas.prices import LastPrice
from schemas.proto import tape_pb2
from schemas.redis_keys import PRICE, VOCABULARY, mint_tag
from tests.support.waiting import eventually_async

WITHIN_S = 60
TEXT = (Path(stream_gateway.__file__).parent / "PROTOCOL.md").read_text()
BLOCKS = [
    block.splitlines()
    for block in re.findall(r"^```\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
    if re.search("^> ", block, re.MULTILINE)
]
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
STATUS = channels.status_event(tape_pb2.SlotStatus(slot=7))


def opened(gateway: Any, key: str, path: str = "/ws") -> connect:
    return connect(f"{gateway.url}{path}", additional_headers={"x-api-key": key})


async def next_message(client: ClientConnection, *, notices: bool = False) -> dict[str, Any]:
    """The next message, notices left out."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            message: dict[str, Any] = orjson.loads(await client.recv())
            if notices or message["type"] != "notice":
                return message


@pytest.fixture(scope="module")
def world(gateway: Any, key: str) -> Any:
    """What the examples take for granted: a price, a vocabulary, some entries."""
    price = LastPrice(
        0.0066, 1.0, 1763730000000, 381000000, "58oQChx4yWmvKdwLLZzBi4ChoCc2fqCUWBkwMihLYQo2"
    )
    redis = gateway.redis
    redis.hset(PRICE.make(tag=mint_tag(MINT), mint=MINT), mapping=price.to_hash())
    some = LiveEvent(("another", "another"), b'{"type":"price"}')
    for channel, entry_id, events in (
        (channels.PRICES, "1763730000123-0", [some] * 5),
        (channels.TRENDING, "1763730000200-0", [some] * 12),
        (channels.STATUS, "1763730000200-0", [STATUS]),
    ):
        redis.xadd(channel.stream, channels.pack("e1", events), id=entry_id)
    redis.set(VOCABULARY.make(), SLUGS.pack())

    async def known() -> None:
        async with opened(gateway, key) as client:
            ask = {"action": "subscribe", "channel": "creations", "platforms": ["letsbonk"]}

            async def subscribed() -> bool:
                await asyncio.sleep(0.2)  # a client may send so many messages a second
                await client.send(orjson.dumps(ask).decode())
                return (await next_message(client))["type"] == "subscribed"

            await eventually_async(subscribed)

    asyncio.run(known())
    return gateway


def path_of(lines: list[str]) -> str:
    asks = [orjson.loads(line[2:]) for line in lines if line.startswith("> ")]
    is_trending = any(ask["action"] == "subscribe" and "channel" not in ask for ask in asks)
    return "/ws/trending-pairs" if is_trending else "/ws"


def happens(gateway: Any, event: dict[str, Any]) -> None:
    """Let an event that is shown come, under its id."""
    entry_id, place = channels.parse_event_id(event["id"])
    assert place == 0
    frame = orjson.dumps({name: event[name] for name in ("type", "channel", "data")})
    live = LiveEvent((event["data"]["mint"], event["data"]["dex"]), frame)
    gateway.redis.xadd(channels.TRENDING.stream, channels.pack("e1", [live]), id=entry_id)


@pytest.mark.parametrize("lines", BLOCKS, ids=[block[0][2:60] for block in BLOCKS])
async def test_the_examples_are_answered_as_they_stand_there(
    world: Any, key: str, lines: list[str]
) -> None:
    async with opened(world, key, path_of(lines)) as client:
        for line in lines:
            shown = orjson.loads(line[2:])
            if line.startswith("> "):
                await client.send(line[2:])
                continue
            if "id" in shown:
                happens(world, shown)
            got = await next_message(client)
            if shown["type"] == "pong":
                assert got.pop("timestamp") > shown.pop("timestamp")
            assert orjson.dumps(got) == orjson.dumps(shown)


def test_the_examples_were_found() -> None:
    assert len(BLOCKS) == 5


class Shown:
    """The client that is shown, which follows prices."""

    def __init__(self, gateway: Any, key: str) -> None:
        self.connections: list[ClientConnection] = []
        self.taken: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def connect_as(url: str, **options: Any) -> AsyncIterator[ClientConnection]:
            headers = {"x-api-key": key}
            async for connection in connect(url, additional_headers=headers, **options):
                self.connections.append(connection)
                yield connection

        [recipe] = re.findall(r"```python\n(async def follow.*?)```", TEXT, re.DOTALL)
        client = SimpleNamespace(
            connect=connect_as,
            ConnectionClosed=ConnectionClosed,
            InvalidStatus=InvalidStatus,
            asyncio=websockets.asyncio,
        )
        namespace: dict[str, Any] = {"json": json, "websockets": client}
        exec(recipe, namespace)
        wanted = {"prices": {"mints": [MINT], "snapshot": True}}
        self.following = asyncio.create_task(
            namespace["follow"](f"{gateway.url}/ws", wanted, self.taken.put_nowait)
        )

    async def next(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(WITHIN_S):
            while (message := await self.taken.get())["type"] != kind:
                assert message["type"] != "error", message
        return message


async def test_the_client_that_is_shown_goes_on_where_it_was_cut(world: Any, key: str) -> None:
    shown = Shown(world, key)
    price = LiveEvent((MINT, "pump-fun"), b'{"type":"price","channel":"prices","data":{}}')
    await shown.next("snapshot")
    world.publish(channels.PRICES, price)
    seen = (await shown.next("price"))["id"]
    shown.connections[-1].transport.abort()
    world.publish(channels.PRICES, price)
    assert (await shown.next("subscribed"))["since"] == seen
    assert (await shown.next("price"))["id"] > seen
    shown.following.cancel()


async def test_the_client_that_is_shown_waits_for_the_end_of_its_own_that_was_lost(
    world: Any,
) -> None:
    """Where its network breaks, the gateway sees no end of the connection before."""
    key = await asyncio.to_thread(world.key, "pro")
    refused = partial(world.metric, "soltape_gateway_admissions_total", code="too_many_connections")
    before = await asyncio.to_thread(refused)
    async with opened(world, key):
        shown = Shown(world, key)
        await eventually_async(lambda: shown.following.done() or refused() > before)
    assert not shown.following.done()
    await shown.next("snapshot")
    shown.following.cancel()


async def test_all_clients_old_and_new_get_a_notice_of_a_stopped_pipeline(
    world: Any, key: str
) -> None:
    async with opened(world, key) as first:
        assert (await next_message(first, notices=True))["code"] == "pipeline_quiet"
        async with opened(world, key, "/ws/trending-pairs") as second:
            quiet = await next_message(second, notices=True)
            assert list(quiet) == ["type", "code", "message"]
            assert (quiet["type"], quiet["code"]) == ("notice", "pipeline_quiet")
            world.publish(channels.STATUS, STATUS)
            for client in (first, second):
                assert (await next_message(client, notices=True))["code"] == "pipeline_back"
            async with opened(world, key) as third:
                await third.send('{"action":"ping"}')
                assert (await next_message(third, notices=True))["type"] == "pong"
