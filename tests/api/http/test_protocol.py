"""A connection's end: when its server stops, and when its caller closes it."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from api.http.protocol import bounded
from api.server import server_of
from infra.settings import Settings
from tests.support.waiting import eventually_async

REQUEST = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"

app = FastAPI()


@app.get("/")
async def _root() -> str:
    return "here"


class Listening:
    """A server's connections, without what starts and stops it: the test says when it stops."""

    def __init__(self, served: Any = app) -> None:
        self.server = server_of(served, Settings(_env_file=None))
        self.server.config.load()

    def protocol(self) -> asyncio.Protocol:
        state = self.server.server_state
        return bounded(10)(config=self.server.config, server_state=state, app_state={})

    def stop(self) -> None:
        for connection in list(self.server.server_state.connections):
            connection.shutdown()


async def read_all(connection: socket.socket) -> bytes:
    data = b""
    while piece := await asyncio.get_running_loop().sock_recv(connection, 65_536):
        data += piece
    return data


@pytest.mark.parametrize("asked_before", [False, True])
async def test_a_request_that_arrived_unread_is_answered_as_the_last(asked_before):
    listening = Listening()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(listening.protocol, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as connection:
        connection.setblocking(False)
        await eventually_async(lambda: listening.server.server_state.connections)
        if asked_before:
            await loop.sock_sendall(connection, REQUEST)
            assert (await loop.sock_recv(connection, 65_536)).startswith(b"HTTP/1.1 200 ")
        connection.send(REQUEST)  # the loop does not run: these bytes wait in the socket
        listening.stop()
        head, _, body = (await read_all(connection)).partition(b"\r\n\r\n")
    server.close()
    assert head.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in head.split(b"\r\n")
    assert body == b'"here"'


async def test_an_idle_connection_ends_with_nothing_said():
    listening = Listening()
    server = await asyncio.get_running_loop().create_server(listening.protocol, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as connection:
        connection.setblocking(False)
        await eventually_async(lambda: listening.server.server_state.connections)
        listening.stop()
        assert await read_all(connection) == b""
    server.close()


class Streaming:
    """An application whose answers go on until their callers are gone."""

    def __init__(self) -> None:
        self.begun = 0
        self.seen_gone = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self.begun += 1
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "http.disconnect":
            pass
        self.seen_gone += 1


@pytest.mark.parametrize("behind", [0, 1, 2])
async def test_a_closed_connection_is_seen_by_the_request_that_is_answered(behind):
    streaming = Streaming()
    listening = Listening(streaming)
    server = await asyncio.get_running_loop().create_server(listening.protocol, "127.0.0.1", 0)
    with socket.create_connection(server.sockets[0].getsockname()) as connection:
        connection.send(REQUEST * (1 + behind))
        await eventually_async(lambda: streaming.begun)
    await eventually_async(lambda: streaming.seen_gone)
    await eventually_async(lambda: not listening.server.server_state.tasks)
    assert (streaming.begun, streaming.seen_gone) == (1, 1)
    server.close()
