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

    async def __aenter__(self) -> Balancer:
        self._server = await asyncio.start_server(self._serve, HOST, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            node = await asyncio.open_connection(HOST, next(self._nodes))
        except OSError:  # the chain does not run
            writer.close()
            return
        await asyncio.gather(_pass(reader, node[1]), _pass(node[0], writer))


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Hand on what comes, until one side ends; then neither has anything to say any more."""
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()
