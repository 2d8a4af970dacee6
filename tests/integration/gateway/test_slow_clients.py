"""A slow client gets `lagging`, is closed, takes little memory, and delays no other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from redis.asyncio import Redis
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from infra.bench.roles import scrape, value
from infra.redis.client import connect as redis_client
from schemas import channels
from schemas.channels import SWAPS, LiveEvent
from stream_gateway.bench import serving
from stream_gateway.bench.feed import EPOCH
from stream_gateway.bench.market import Market
from stream_gateway.bench.serving import Served, Store

QUEUE_KIB = 1_024  # the least there is
LAGS_A_MINUTE = 3
ENTRY = 40  # events, some 58 kB
WITHIN_S = 60.0
TOO_SLOW = 4008
SUBSCRIBE = orjson.dumps({"action": "subscribe", "channel": "swaps"}).decode()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with serving.store(tmp_path_factory.mktemp("store")) as running:
        yield running


@pytest.fixture
def served(store: Store, request: pytest.FixtureRequest) -> Iterator[Served]:
    """A gateway that closes clients that are slow for as many seconds as the parameter says."""
    settings = {"GATEWAY_QUEUE_KIB": str(QUEUE_KIB), "GATEWAY_SLOW_S": request.param}
    with serving.gateway(store, 50, **settings) as running:
        yield running


@pytest.fixture(scope="module")
def events() -> list[LiveEvent]:
    flushes = Market(tokens=20, wallets=50).flushes(10, 400)
    return [event for flush in flushes for event in flush.events.get(SWAPS, ())]


class Writer:
    """Writes entries into the stream, and knows the id of every event in it."""

    def __init__(self, redis: Redis, events: Sequence[LiveEvent]) -> None:
        self._redis = redis
        self._events = events
        self.ids: list[str] = []

    async def write(self) -> None:
        start = len(self.ids) % len(self._events)
        some = self._events[start : start + ENTRY]
        entry_id = await self._redis.xadd(SWAPS.stream, channels.pack(EPOCH, some))
        self.ids += [channels.event_id(entry_id.decode(), place) for place in range(len(some))]


class Client:
    """A subscriber of all swaps, by another library than the gateway's.

    It reads while it is asked to; the library and the kernel hold little for it beyond.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self.ids: list[str] = []
        self.lags: list[tuple[int, int]] = []  # how many were dropped, after how many events
        self.close_code: int | None = None

    @classmethod
    async def enter(cls, stack: AsyncExitStack, url: str, since: str | None = None) -> Client:
        address = urlsplit(url)
        narrow = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, (address.hostname, address.port))
        opened = connect(url, sock=narrow, max_queue=2, compression=None, close_timeout=1.0)
        connection = await stack.enter_async_context(opened)
        wish = orjson.loads(SUBSCRIBE) | ({"since": since} if since else {})
        await connection.send(orjson.dumps(wish).decode())
        while (message := orjson.loads(await connection.recv()))["type"] == "notice":
            pass  # that no slots come here
        assert message["type"] == "subscribed"
        return cls(connection)

    async def read(self, until: Callable[[Client], bool]) -> None:
        """Read until it has what is wanted, or the connection is closed."""
        try:
            while not until(self):
                self._take(orjson.loads(await self._connection.recv()))
        except ConnectionClosed as closed:
            self.close_code = closed.rcvd.code if closed.rcvd else None

    def _take(self, message: dict[str, Any]) -> None:
        if message["type"] == "swap":
            self.ids.append(message["id"])
        elif message["type"] != "notice":  # that no slots come here
            assert message["type"] == "lagging"
            self.lags.append((message["dropped"], len(self.ids)))


def metric(served: Served, name: str, **labels: str) -> float:
    return value(scrape(served.metrics_url), f"soltape_gateway_{name}", **labels)


async def eventually(true: Callable[[], bool], meanwhile: Callable[[], Awaitable[None]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await asyncio.to_thread(true):
            await meanwhile()


@pytest.mark.parametrize("served", ["0.5"], indirect=True)
async def test_a_client_that_stops_reading_is_closed_and_the_others_get_everything(
    store: Store, served: Served, events: list[LiveEvent]
) -> None:
    stopped, reading = 6, 6
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_client(store.settings))
        for _ in range(stopped):
            await Client.enter(stack, served.url)
        others = [await Client.enter(stack, served.url) for _ in range(reading)]
        writer = Writer(redis, events)
        waiting: list[float] = []

        async def write_and_let_the_others_read() -> None:
            # The next when the others have this one: a client that keeps up is never behind here.
            await writer.write()
            wanted = len(writer.ids)
            async with asyncio.timeout(WITHIN_S):
                await asyncio.gather(
                    *(each.read(lambda c: len(c.ids) >= wanted) for each in others)
                )
            waiting.append(await asyncio.to_thread(metric, served, "queue_bytes"))

        await eventually(
            lambda: metric(served, "closes_total", code=str(TOO_SLOW), by="server") == stopped,
            write_and_let_the_others_read,
        )
        assert metric(served, "connections", endpoint="main") == reading
        assert metric(served, "dropped_total") > 0
        # Of each client that stopped at most a queue, and the entry that filled it.
        entry_bytes = ENTRY * max(len(event.frame) + 100 for event in events)
        assert QUEUE_KIB << 10 < max(waiting) <= stopped * ((QUEUE_KIB << 10) + entry_bytes)
        await write_and_let_the_others_read()
        for each in others:
            assert each.ids == writer.ids
            assert each.lags == []
            assert each.close_code is None


@pytest.mark.parametrize("served", ["600"], indirect=True)
async def test_a_client_that_reads_in_bursts_gets_lagging_is_closed_and_resumes_by_since(
    store: Store, served: Served, events: list[LiveEvent]
) -> None:
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(redis_client(store.settings))
        slow = await Client.enter(stack, served.url)
        writer = Writer(redis, events)
        for burst in range(1, LAGS_A_MINUTE + 2):
            dropped = metric(served, "dropped_total")
            await eventually(
                lambda before=dropped: metric(served, "dropped_total") > before, writer.write
            )
            await _settled(served, writer)
            async with asyncio.timeout(WITHIN_S):
                await slow.read(lambda c, reports=burst: len(c.lags) >= reports)
        async with asyncio.timeout(WITHIN_S):
            await slow.read(lambda c: False)
        assert slow.close_code == TOO_SLOW
        assert len(slow.lags) == LAGS_A_MINUTE + 1
        # To the event: what it has, and what `lagging` counted as dropped.
        assert len(slow.ids) + sum(dropped for dropped, _ in slow.lags) == len(writer.ids)
        left = iter(writer.ids)
        assert all(any(mine == each for each in left) for mine in slow.ids)  # in order, once
        first = slow.lags[0][1]
        assert slow.ids[:first] == writer.ids[:first]
        again = await Client.enter(stack, served.url, since=slow.ids[first - 1])
        async with asyncio.timeout(WITHIN_S):
            await again.read(lambda c: c.ids[-1:] == writer.ids[-1:])
        assert again.ids == writer.ids[first:]


async def _settled(served: Served, writer: Writer) -> None:
    """Wait until the gateway has read all that was written: delivered or dropped."""

    def read() -> float:
        return metric(served, "deliveries_total") + metric(served, "dropped_total")

    async def wait() -> None:
        await asyncio.sleep(0.05)

    await eventually(lambda: read() >= len(writer.ids), wait)
