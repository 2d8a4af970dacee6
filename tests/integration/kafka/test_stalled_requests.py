"""Clients that announce large requests and stall take bounded memory of the broker, for a time."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress

import psutil
import pytest

from infra.kafka.broker import server
from tests.integration.kafka.test_login import METADATA, RIGHT, Locked, handshake
from tests.support.waiting import eventually_async

MIB = 1 << 20
STALLED = 6
AT_ONCE = server.LARGE_ROOM // server.MAX_FRAME
SLACK_BYTES = 96 * MIB  # of buffers that grow by an eighth, and of the interpreter
PATIENT_S = 240.0  # on a busy machine


@pytest.fixture
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    found = Locked("embedded", tmp_path_factory.mktemp("stalled"))
    found.start()
    try:
        yield found
    finally:
        found.stop()


class Client:
    """A connection with a login."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self.is_sent = False

    @classmethod
    async def connect(cls, broker: Locked, stack: AsyncExitStack, *, login: bool = True) -> Client:
        port = int(broker.settings.kafka_bootstrap.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        stack.callback(writer.transport.abort)
        found = cls(reader, writer)
        if login:
            for request in (handshake(), RIGHT):
                await found.ask(request)
        return found

    async def ask(self, request: bytes) -> bytes:
        """Send a request; return the answer."""
        self.writer.write(struct.pack(">i", len(request)) + request)
        size = struct.unpack(">i", await self._reader.readexactly(4))[0]
        return await self._reader.readexactly(size)

    async def stall(self, size: int, sent: int) -> None:
        """Announce a Produce request and send a part of it."""
        self.writer.write(struct.pack(">ih", size, 0))
        sent -= 2
        while sent > 0:
            self.writer.write(bytes(min(MIB, sent)))
            sent -= MIB
            await self.writer.drain()
        self.is_sent = self.writer.transport.get_write_buffer_size() == 0

    async def is_closed(self) -> bool:
        """Wait until the broker ends the connection."""
        with suppress(ConnectionError):
            return await self._reader.read() == b""
        return True


def produce(size: int) -> bytes:
    """Return a request to write into a topic that there is not."""
    head = struct.pack(">hhih hhi i", 0, 3, 5, -1, -1, 1, 1_000, 1)
    return head + struct.pack(">h1si ii", 1, b"t", 1, 0, size) + bytes(size)


@pytest.mark.slow
async def test_requests_that_stall_are_bounded_in_memory_and_time(broker: Locked) -> None:
    process = psutil.Process(broker.pid)
    async with AsyncExitStack() as stack, asyncio.timeout(2 * PATIENT_S):
        honest = await Client.connect(broker, stack)
        waiting = await Client.connect(broker, stack)
        stalled = [await Client.connect(broker, stack) for _ in range(STALLED)]
        before = process.memory_info().rss
        sending = [
            asyncio.create_task(each.stall(server.MAX_FRAME, server.MAX_FRAME - 1))
            for each in stalled
        ]
        stack.callback(lambda: [each.cancel() for each in sending])
        await eventually_async(lambda: sum(each.is_sent for each in stalled) >= AT_ONCE)
        began_s = time.monotonic()
        large = asyncio.create_task(waiting.ask(produce(MIB)))
        # Small requests are answered meanwhile.
        for _ in range(20):
            assert len(await honest.ask(METADATA)) > 4
        assert process.memory_info().rss - before < server.LARGE_ROOM + SLACK_BYTES
        # All end, those that wait for room after their own time; then there is room again.
        assert all(await asyncio.gather(*(each.is_closed() for each in stalled)))
        assert time.monotonic() - began_s < 2 * server.REQUEST_S + PATIENT_S / 4
        assert struct.unpack_from(">h", await large, 4 + 4 + 2 + 1 + 4 + 4)[0] == 3
        await asyncio.gather(*sending, return_exceptions=True)


async def test_a_request_has_the_size_of_its_kind_and_of_its_sender(broker: Locked) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENT_S):
        for login, size in ((False, server.MAX_LOGIN_FRAME), (True, server.MAX_FRAME)):
            client = await Client.connect(broker, stack, login=login)
            client.writer.write(struct.pack(">i", size + 1))
            assert await client.is_closed()
        client = await Client.connect(broker, stack)
        large = METADATA + bytes(server.MAX_SMALL_FRAME)
        client.writer.write(struct.pack(">i", len(large)) + large)
        assert await client.is_closed()
        assert len(await (await Client.connect(broker, stack)).ask(produce(MIB))) > 4
