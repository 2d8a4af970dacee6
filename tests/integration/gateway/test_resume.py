"""Clients, gateway and Redis are killed at random: clients that resume miss nothing.

The writer is the agent's own, fed here. With `appendfsync always` all that Redis has shown is in
its file when it is killed, so what clients saw must equal what the streams hold: nothing missing,
nothing twice, no gap. The embedded Redis syncs every second; what a killed machine loses then is
cut off the file here, and the rule is: an event that a client never saw is in a gap that it got.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import suppress
from random import Random
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import connect as connect_websocket
from websockets.exceptions import InvalidHandshake, WebSocketException

from infra.redis.client import connect
from pipeline.agents.live.streams import LiveStreams, Place
from schemas import channels
from schemas.channels import CREATIONS, PRICES, STATUS, SWAPS, LiveEvent
from tests.support.gateway.reading import Store, swap, until
from tests.support.gateway.running import Gateway, running_gateway
from tests.support.waiting import eventually_async

VENUES = ("pump-fun", "pump-swap", "raydium-cpmm")
READ = (SWAPS, CREATIONS, PRICES, STATUS)
BEGINNING = "0-0-0"


class Market:
    """The live streams as the agent writes them, at some hundreds of events a second."""

    def __init__(self, store: Store, random: Random) -> None:
        redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
        self.streams = LiveStreams(redis, stream_bytes=64 << 20, hold_bytes=64 << 20)
        self.sent = 0  # swaps
        self.is_over = False
        self._random = random

    async def run(self) -> None:
        flushing = asyncio.create_task(self.streams.run())
        offset = 0
        while not self.is_over:
            self._batch(offset)
            offset += 1
            await asyncio.sleep(self._random.uniform(0, 0.03))
        flushing.cancel()
        await eventually_async(self.streams.flush)

    def _batch(self, offset: int) -> None:
        random, events = self._random, []
        for _ in range(random.randrange(1, 8)):
            number = self.sent
            self.sent += 1
            events.append((SWAPS, swap(number, random.choice(VENUES), "x" * random.randrange(900))))
        if offset % 7 == 0:
            index = ("pump-fun", "m", "w", "bonk", f"c{offset}", 0)
            events.append((CREATIONS, LiveEvent(index, CREATIONS.frame({"n": offset}))))
        if offset % 5 == 0:
            index = (offset, "confirmed")
            events.append((STATUS, LiveEvent(index, STATUS.frame({"slot": offset}))))
        self.streams.add(Place(offset % 3, offset // 3, 1000 + offset), events, [])
        prices = [LiveEvent(("m",), PRICES.frame({"n": offset}))]
        self.streams.add(None, [(PRICES, each) for each in prices], [])


class Viewer:
    """A client that comes back whenever it is thrown out, with the last ids that it saw."""

    def __init__(self, gateway: Gateway, key: str, *subscriptions: dict[str, object]) -> None:
        self.url = f"{gateway.url}/ws?api_key={key}"
        self.subscriptions = {each["channel"]: each for each in subscriptions}
        self.seen = defaultdict(list)  # channel -> whole messages, as they came
        self.gaps = defaultdict(list)
        self.notices = []
        self.connections = 0
        self._socket: Any = None

    async def run(self) -> None:
        while True:
            with suppress(OSError, WebSocketException, InvalidHandshake, TimeoutError):
                async with connect_websocket(self.url, max_size=None, open_timeout=240) as socket:
                    self._socket = socket
                    self.connections += 1
                    for channel in self.subscriptions:
                        await self._subscribe(channel)
                    async for data in socket:
                        await self._take(data)
            self._socket = None
            await asyncio.sleep(0.1)

    def kill(self) -> None:
        if self._socket:
            self._socket.transport.abort()

    async def _subscribe(self, channel: str) -> None:
        seen = self.seen[channel]
        since = orjson.loads(seen[-1])["id"] if seen else BEGINNING
        request = {"action": "subscribe", **self.subscriptions[channel], "since": since}
        await self._socket.send(orjson.dumps(request).decode())

    async def _take(self, data: str) -> None:
        message = orjson.loads(data)
        match message["type"]:
            case "subscribed":
                pass
            case "gap":
                self.gaps[message["channel"]].append(message)
            case "notice":
                self.notices.append(message["code"])
            case "error":
                assert message["code"] == "store_unavailable", message
                await asyncio.sleep(0.2)
                await self._subscribe(message["channel"])
            case _:
                self.seen[message["channel"]].append(data.encode())


class Chaos:
    """Kills, and starts again after a while, one thing at a time or several."""

    def __init__(
        self, store: Store, gateway: Gateway, viewers: list[Viewer], random: Random, *, loses: bool
    ) -> None:
        self.kills = defaultdict(int)
        self._store = store
        self._gateway = gateway
        self._viewers = viewers
        self._random = random
        self._loses = loses
        self._coming: dict[str, asyncio.Task[None]] = {}
        self._size_before = 0

    async def run(self, actions: list[str]) -> None:
        for action in actions:
            if action in self._coming:
                await self._coming.pop(action)
            self._size_before = self._store.file().stat().st_size
            await asyncio.sleep(self._random.uniform(0.1, 1.0))
            self.kills[action] += 1
            match action:
                case "client":
                    self._random.choice(self._viewers).kill()
                case "gateway":
                    self._gateway.kill()
                    self._coming[action] = asyncio.create_task(self._start_gateway())
                case "redis":
                    self._store.kill()
                    if self._loses:
                        self._lose()
                    self._coming[action] = asyncio.create_task(self._start_redis())
        for task in self._coming.values():
            await task

    def _lose(self) -> None:
        """Cut off the file what was written within the last second, or some of it."""
        with self._store.file().open("r+b") as file:
            size = file.seek(0, 2)
            file.truncate(self._random.randrange(min(self._size_before, size), size + 1))

    async def _start_gateway(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 0.5))
        await asyncio.to_thread(self._gateway.start)

    async def _start_redis(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 1.0))
        await self._store.start()


class Run:
    """All of it, until the market is over and everybody has seen its end."""

    def __init__(self, store: Store, gateway: Gateway, viewers: list[Viewer]) -> None:
        self.store = store
        self.gateway = gateway
        self.viewers = viewers

    async def held(self, channel: channels.Channel) -> list[bytes]:
        """The messages of all that a stream holds."""
        return [
            channels.with_id(event.frame, channels.event_id(entry_id.decode(), place))
            for entry_id, fields in await self.store.client.xrange(channel.stream)
            for place, event in enumerate(channels.unpack(fields).events)
        ]

    async def do(self, seed: int, *, loses: bool) -> tuple[Market, Chaos]:
        random = Random(seed)
        actions = ["client"] * 8 + ["redis"] * 4 + ["gateway"] * 3
        random.shuffle(actions)
        market = Market(self.store, random)
        chaos = Chaos(self.store, self.gateway, self.viewers, random, loses=loses)
        running = [asyncio.create_task(viewer.run()) for viewer in self.viewers]
        writing = asyncio.create_task(market.run())
        try:
            await until(lambda: all(viewer.seen["swaps"] for viewer in self.viewers))
            await chaos.run(actions)
            market.is_over = True
            await writing
            last = swap(market.sent, VENUES[0])  # which all of them want
            market.streams.add(Place(9, 0, 0), [(SWAPS, last)], [])
            assert await market.streams.flush()
            ends = {each.channel: (await self.held(each))[-1] for each in READ}
            await until(
                lambda: all(
                    viewer.seen[name][-1:] == [ends[name]]
                    for viewer in self.viewers
                    for name in viewer.subscriptions
                )
            )
        finally:
            for task in (*running, writing):
                task.cancel()
            ended = await asyncio.gather(*running, writing, return_exceptions=True)
        for each in ended:
            assert each is None or isinstance(each, asyncio.CancelledError), each
        return market, chaos


@pytest.fixture
async def store(request, tmp_path):
    store = Store(tmp_path, "--appendfsync", request.param)
    await store.start()
    yield store
    store.kill()
    await store.client.aclose()


@pytest.fixture
async def run(store, tmp_path):
    context = running_gateway(tmp_path, store.port)
    gateway = await asyncio.to_thread(context.__enter__)
    key = await asyncio.to_thread(gateway.key)
    everything = [{"channel": each.channel} for each in READ]
    viewers = [
        Viewer(gateway, key, *everything),
        Viewer(gateway, key, {"channel": "swaps"}),
        Viewer(gateway, key, {"channel": "swaps", "dex": VENUES[0]}),
    ]
    yield Run(store, gateway, viewers)
    await asyncio.to_thread(context.__exit__, None, None, None)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["always"], indirect=True)
async def test_what_clients_saw_equals_what_the_streams_hold(run):
    market, chaos = await run.do(seed=20, loses=False)
    assert chaos.kills == {"client": 8, "redis": 4, "gateway": 3}
    everything, swaps, narrow = run.viewers
    held = await run.held(SWAPS)
    assert [orjson.loads(message)["data"]["n"] for message in held] == [*range(market.sent + 1)]
    assert everything.seen["swaps"] == held
    assert swaps.seen["swaps"] == held
    assert narrow.seen["swaps"] == await wanted(run, VENUES[0])
    for channel in (CREATIONS, PRICES, STATUS):
        assert everything.seen[channel.channel] == await run.held(channel)
    assert [dict(viewer.gaps) for viewer in run.viewers] == [{}, {}, {}]
    assert all(viewer.connections > 1 for viewer in run.viewers)  # a kill may meet nobody
    assert "source_away" in everything.notices


@pytest.mark.slow
@pytest.mark.parametrize("store", ["everysec"], indirect=True)
async def test_what_redis_lost_is_in_gaps(run):
    market, _ = await run.do(seed=21, loses=True)
    held = await run.held(SWAPS)
    kept = {orjson.loads(message)["data"]["n"] for message in held}
    lost = set(range(market.sent)) - kept
    assert lost  # or nothing is shown here
    for viewer in run.viewers[:2]:
        seen = {orjson.loads(message)["id"]: message for message in viewer.seen["swaps"]}
        assert len(seen) == len(viewer.seen["swaps"])
        assert set(held) <= set(seen.values())
        numbers = {
            identity: orjson.loads(message)["data"]["n"] for identity, message in seen.items()
        }
        gaps = [
            range(numbers.get(gap["after"], -1) + 1, numbers[gap["before"]])
            for gap in viewer.gaps["swaps"]
        ]
        unseen = set(range(market.sent)) - set(numbers.values())
        assert unseen <= lost
        assert all(any(number in gap for gap in gaps) for number in unseen)
        assert {gap["reason"] for gap in viewer.gaps["swaps"]} == {"epoch"}


async def wanted(run: Run, dex: str) -> list[bytes]:
    """The messages of the swaps on one venue that the stream holds."""
    return [
        channels.with_id(event.frame, channels.event_id(entry_id.decode(), place))
        for entry_id, fields in await run.store.client.xrange(SWAPS.stream)
        for place, event in enumerate(channels.unpack(fields).events)
        if event.index[0] == dex
    ]
