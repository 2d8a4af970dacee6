"""One address in front of several nodes, as a provider's: each connection goes to the next one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

HOST: Final = "127.0.0.1"
CHUNK: Final = 1 << 16


class Balancer:
    """Passes bytes on; use as an async context manager."""

    def __init__(self, port: int, nodes: Sequence[int]) -> None:
        self._port = port
        self._nodes = itertools.cycle(nodes)
        self._server: asyncio.Server | None = None
        self._is_cut = False
        self._connections: list[asyncio.StreamWriter] = []  # of clients, the oldest first

    async def __aenter__(self) -> Balancer:
        self._server = await asyncio.start_server(self._serve, HOST, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()

    @property
    def connections(self) -> int:
        """Return how many clients are connected."""
        return len(self._connections)

    def cut(self, *spared: int) -> None:
        """Break connections, but for those at some places by age, and take no new ones."""
        self._is_cut = True
        for at, writer in enumerate(self._connections):
            if at not in spared:
                writer.transport.abort()

    def mend(self, nodes: Sequence[int]) -> None:
        """Take connections again, which go to these nodes in turn."""
        self._nodes = itertools.cycle(nodes)
        self._is_cut = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        try:
            node = await asyncio.open_connection(HOST, next(self._nodes))
        except OSError:  # the chain does not run
            writer.close()
            return
        self._connections.append(writer)
        try:
            await asyncio.gather(_pass(reader, node[1]), _pass(node[0], writer))
        finally:
            self._connections.remove(writer)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, until one side ends; then neither has anything to say any more."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
