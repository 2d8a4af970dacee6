"""The part of a gateway that reads, in this process, on a Valkey that may be killed."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import orjson
from websockets.frames import Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from infra.local.process import free_port
from infra.redis.client import connect
from infra.redis.embedded import valkey
from infra.settings import Settings
from schemas import channels
from schemas.channels import LiveEvent
from stream_gateway.fanout import Fanout
from stream_gateway.recent import Recent
from stream_gateway.replay import Replay
from stream_gateway.source import Source
from stream_gateway.subscriptions import Filter
from tests.support.systems import Mortal
from tests.support.waiting import WITHIN_S, eventually_async


class Store(Mortal):
    """A Valkey of one test, which may also take from its file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder / "valkey"
        self.port = free_port()
        process = valkey(self.folder, "127.0.0.1", self.port)
        super().__init__(replace(process, command=[*process.command, *options]))
        self.settings = Settings(_env_file=None, redis_url=self.process.address)
        self.client = connect(self.settings)

    def signal(self, number: signal.Signals) -> None:
        assert self.child
        self.child.send_signal(number)

    def file(self) -> Path:
        """What it appends to."""
        [file] = (self.folder / "appendonlydir").glob("*.incr.aof")
        return file

    def lose_all(self) -> None:
        """As a disk that is gone; only while it is killed."""
        shutil.rmtree(self.folder / "appendonlydir")

    async def add(self, *numbers: int, epoch: str = "e1", dex: str = "d", entry: str = "*") -> str:
        """Write swaps as one entry; return its id."""
        fields = channels.pack(epoch, [swap(number, dex) for number in numbers])
        entry_id = await self.client.xadd(channels.SWAPS.stream, fields, id=entry)
        return entry_id.decode()


def swap(number: int, dex: str = "d", filler: str = "") -> LiveEvent:
    data = {"n": number, "filler": filler}
    return LiveEvent((dex, "m", "w", "", f"s{number}", 0, "q"), channels.SWAPS.frame(data))


class Client:
    """Takes what it is sent, apart by messages; `reads` off: what comes waits for it."""

    def __init__(self) -> None:
        self.messages = []
        self.is_open = True
        self.reads = asyncio.Event()
        self.reads.set()
        self.waiting_bytes = 0
        self.turn = asyncio.Lock()
        self.charged = 0
        self._protocol = Protocol(CLIENT, state=OPEN, max_size=None)

    def deliver(self, data: bytes, events: int) -> None:
        before = len(self.messages)
        self.send(data)
        assert len(self.messages) - before == events

    replay = deliver

    def charge(self, size: int) -> None:
        self.charged += size

    def send(self, frame: bytes) -> None:
        if not self.reads.is_set():
            self.waiting_bytes += len(frame)
        self._protocol.receive_data(frame)
        for each in self._protocol.events_received():
            assert each.opcode is Opcode.TEXT
            self.messages.append(orjson.loads(each.data))
        assert self._protocol.parser_exc is None

    async def may_replay(self) -> bool:
        await self.reads.wait()
        self.waiting_bytes = 0
        return self.is_open

    @property
    def numbers(self) -> list[int]:
        return [each["data"]["n"] for each in self.messages if each["type"] == "swap"]

    @property
    def ids(self) -> list[str]:
        return [each["id"] for each in self.messages if "id" in each]

    @property
    def story(self) -> list[int | str]:
        """Numbers of swaps and reasons of gaps, as they came."""
        return [
            each["data"]["n"] if each["type"] == "swap" else each["reason"]
            for each in self.messages
            if each["type"] in ("swap", "gap")
        ]

    @property
    def gaps(self) -> list[tuple[str, str | None, str | None]]:
        return [
            (each["reason"], each["after"], each["before"])
            for each in self.messages
            if each["type"] == "gap"
        ]


class Reader:
    """Source, memory, fan-out and replay, as one gateway process has them."""

    def __init__(self, store: Store, recent: Recent | None = None) -> None:
        self.notices = []
        self.fanout = Fanout()
        self.source = Source(
            connect(store.settings, retries=0),
            publish=self.fanout.publish,
            gap=self.fanout.gap,
            notice=lambda code, _: self.notices.append(code),
            recent=recent or Recent(),
        )
        self.replay = Replay(self.source, self.fanout)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.go_on()
        async with asyncio.timeout(WITHIN_S):
            await self.source.ready.wait()

    def go_on(self) -> None:
        self._running = asyncio.create_task(self.source.run())

    async def pause(self) -> None:
        """Read no further for now."""
        assert self._running
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def stop(self) -> None:
        await self.pause()
        await self.source.redis.aclose()

    def client(self, **wanted: frozenset[str]) -> Client:
        """A client that is live on swaps."""
        client = Client()
        self.fanout.attach(client, Filter("swaps", **wanted))
        return client

    async def caught_up(self, since: str, **wanted: frozenset[str]) -> Client:
        """A client that came back with the id of an event."""
        client = Client()
        async with asyncio.timeout(WITHIN_S):
            await self.replay.catch_up(client, Filter("swaps", **wanted), since)
        return client


async def until(holds: Callable[[], object]) -> None:
    await eventually_async(holds)
