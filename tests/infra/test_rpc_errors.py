"""What an error of a node, or of the way there, says: never the URL, which may hold a key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from infra.local.process import free_port
from infra.solana_rpc import client
from infra.solana_rpc.client import MOST_TEXT, NotNow, RpcRefused
from tests.support.rpc_server import serving

SECRET = "SECRET123"


async def call(url: str) -> Any:
    async with client.session() as http:
        return await client.call(http, url, "getSlot", [])


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\nbad header line\r\n\r\n", b"nonsense\r\n", b""]
)
async def test_an_answer_that_is_no_http_is_named_without_the_url(head: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(head)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotNow) as raised:
            await call(f"http://127.0.0.1:{port}/?api-key={SECRET}")
    assert SECRET not in str(raised.value)
    assert "api-key" not in str(raised.value)


async def test_an_endpoint_that_is_not_http_is_not_shown() -> None:
    with pytest.raises(NotNow) as raised:
        await call(f"ftp://127.0.0.1/?api-key={SECRET}")
    assert SECRET not in str(raised.value)


async def test_a_refused_connection_says_what_the_system_says() -> None:
    with pytest.raises(NotNow, match=r"ClientConnectorError.*[Cc]onne"):
        await call(f"http://127.0.0.1:{free_port()}/?api-key={SECRET}")


async def test_the_text_of_a_provider_is_cut_and_without_urls() -> None:
    text = f"see https://rpc.example/?api-key={SECRET} " + "x" * 9_000

    async def answer(method: str, params: list[Any]) -> Any:
        return web.json_response({"error": {"code": -32401, "message": text}})

    async with serving(answer) as url:
        with pytest.raises(RpcRefused) as raised:
            await call(url)
    assert raised.value.code == -32401
    assert raised.value.text.startswith("see (URL) xxx")
    assert len(raised.value.text) <= MOST_TEXT
    assert SECRET not in str(raised.value)
