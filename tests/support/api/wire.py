"""HTTP as bytes, for requests that no client would send, and an ear on the way to a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Self

ANSWER_S = 15.0


class Hung(AssertionError):
    """The server neither answered nor closed the connection in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `status` is 0 where the server closed without an answer."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


class Wire:
    """A connection that is opened again whenever the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
            with suppress(OSError):
                await self._writer.wait_closed()
        self._reader = self._writer = None

    async def exchange(self, request: bytes) -> Answer:
        """Send bytes and return the first answer; raises Hung."""
        if self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                "127.0.0.1", self._port, limit=2**24
            )
        assert self._reader is not None
        try:
            async with asyncio.timeout(ANSWER_S):
                with suppress(ConnectionError):  # it may answer and close before it has read all
                    self._writer.write(request)
                    await self._writer.drain()
                answer = await self._read(self._reader, is_head=request.startswith(b"HEAD "))
        except TimeoutError:
            raise Hung(request[:500]) from None
        if not answer.status or answer.headers.get("connection") == "close":
            await self.close()
        return answer

    async def _read(self, reader: asyncio.StreamReader, *, is_head: bool) -> Answer:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return Answer()
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines if line)
        }
        status = int(first.split(" ")[1])
        if is_head or status in (204, 304):
            return Answer(status, headers)
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int(await reader.readline(), 16):
                parts.append((await reader.readexactly(size + 2))[:-2])
            await reader.readline()
            return Answer(status, headers, b"".join(parts))
        if "content-length" in headers:
            body = await reader.readexactly(int(headers["content-length"]))
        else:
            body = await reader.read()
        return Answer(status, headers, body)


class Ear:
    """A relay to a port of this machine that keeps what clients send there."""

    def __init__(self, to_port: int) -> None:
        self.port = 0
        self.heard: list[bytearray] = []  # by connection
        self._to_port = to_port
        self._relaying: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        """Relay while the context lasts."""
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._relaying:
                task.cancel()
            await asyncio.gather(*self._relaying, return_exceptions=True)

    def forget(self) -> None:
        """Forget what was heard so far."""
        for heard in self.heard:
            heard.clear()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._relaying.add(task)
        heard = bytearray()
        self.heard.append(heard)
        there, back = await asyncio.open_connection("127.0.0.1", self._to_port)

        async def pump(
            source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray | None
        ) -> None:
            with suppress(ConnectionError):
                while data := await source.read(65_536):
                    if kept is not None:
                        kept += data
                    sink.write(data)
                    await sink.drain()
            sink.close()

        await asyncio.gather(pump(reader, back, heard), pump(there, writer, None))
