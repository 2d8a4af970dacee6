"""Servers on loopback addresses, of which tests take some for public ones."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from api.metadata.fetching import Fetcher, Limits, Resolve
from api.metadata.hosts import Hosts
from api.metadata.targets import Targets
from infra.local import process

PUBLIC, PRIVATE = "127.0.0.2", "127.0.0.1"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """What answers on one address, and the heads of the requests that reached it."""

    port: int
    heads: list[str] = field(default_factory=list)


@dataclass
class Names:
    """A resolver of tests: each name's answers in turn, the last one from then on."""

    answers: dict[str, list[list[str]]]
    asked: list[str] = field(default_factory=list)

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        answers = self.answers.get(host, [[host]])
        return answers.pop(0) if len(answers) > 1 else answers[0]


def free_port() -> int:
    """Return a port that is free on both addresses."""
    for _ in range(1_000):
        port = process.free_port(PUBLIC)
        with socket.socket() as other, suppress(OSError):
            other.bind((PRIVATE, port))
            return port
    raise OSError(f"no port is free on {PUBLIC} and {PRIVATE}")


@asynccontextmanager
async def serving(answer: bytes | Handler, host: str, port: int) -> AsyncIterator[Server]:
    """Answer every request with these bytes, or by a handler that gets the head read."""
    server = Server(port)
    at_work: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        at_work.add(task)
        server.heads.append("")  # a connection is enough
        try:
            server.heads[-1] = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            at_work.discard(task)

    listener = await asyncio.start_server(handle, host, port)
    try:
        yield server
    finally:
        listener.close()
        for task in at_work:
            task.cancel()


@pytest.fixture
def port() -> int:
    return free_port()


def fetcher_of(
    names: Resolve, port: int, *, trusted: str | None = None, total_s: float = 60.0
) -> Fetcher:
    """Return a fetcher that takes 127.0.0.2 for a public address, and may use one port of tests."""
    return Fetcher(
        Targets(trusted, ports={80, 443, port}),
        names,
        Hosts(),
        Limits(total_s=total_s, connect_s=min(total_s, 30.0)),
        may_reach=lambda address: address == PUBLIC,
    )
