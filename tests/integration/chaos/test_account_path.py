"""The way of the lane of accounts to the chain: it breaks, leads elsewhere, and lacks blocks."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress

import orjson
import pytest
from aiohttp import web

from infra.chain.market import Knobs, Market
from infra.chain.server import LocalChain, ServerOptions
from infra.local.process import free_port
from infra.settings import Settings
from infra.solana_rpc.client import RpcRefused, call, session
from pipeline.chaos.balancer import HOST, Balancer
from pipeline.chaos.forgetful_rpc import ForgetfulRpc
from pipeline.ingest.stream import Stream
from tests.support.waiting import eventually_async


async def node(letter: bytes) -> tuple[asyncio.Server, int]:
    """Serve a letter to each client, and stay connected."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(letter)
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    return server, server.sockets[0].getsockname()[1]


async def test_connections_break_but_for_one_and_then_lead_elsewhere() -> None:
    port = free_port()
    (first, first_port), (second, second_port) = await node(b"a"), await node(b"b")

    async def said() -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, port)
        with suppress(ConnectionError):
            return await reader.read(1), reader, writer
        return b"", reader, writer

    async with first, second, Balancer(port, [first_port]) as balancer:
        clients = [await said(), await said()]
        assert [letter for letter, *_ in clients] == [b"a", b"a"]
        assert balancer.connections == 2
        balancer.cut(1)
        with suppress(ConnectionError):
            assert await clients[0][1].read(1) == b""
        await eventually_async(lambda: balancer.connections == 1)
        assert (await said())[0] == b""
        assert not clients[1][1].at_eof()
        balancer.mend([second_port])
        clients.append(await said())
        assert clients[-1][0] == b"b"
        for _, _, writer in clients:
            writer.close()
        await eventually_async(lambda: balancer.connections == 0)


async def test_streams_of_a_process_have_connections_of_their_own(tmp_path) -> None:
    port = free_port()
    async with AsyncExitStack() as stack:
        chain = await stack.enter_async_context(
            LocalChain(Market(Knobs(seed=1)), ServerOptions(grpc_port=0, rpc_port=0))
        )
        balancer = await stack.enter_async_context(Balancer(port, chain.grpc_ports))
        settings = Settings(
            _env_file=None, soltape_data=tmp_path, geyser_endpoint=f"http://{HOST}:{port}"
        )
        streams = [Stream(settings), Stream(settings)]
        for stream in streams:
            stream.start()
            stack.push_async_callback(stream.close)
        await eventually_async(lambda: balancer.connections == 2, lambda: balancer.connections)


async def test_forgotten_blocks_are_cleaned_up_and_all_else_is_passed_on() -> None:
    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        said = {"jsonrpc": "2.0", "id": asked["id"], "result": [asked["method"], *asked["params"]]}
        return web.json_response(body=orjson.dumps(said))

    chain, port = free_port(), free_port()
    application = web.Application()
    application.router.add_post("/", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, HOST, chain).start()
    endpoint = f"http://{HOST}:{port}"
    try:
        async with ForgetfulRpc(port, f"http://{HOST}:{chain}") as rpc, session() as http:
            assert await call(http, endpoint, "getBlock", [5]) == ["getBlock", 5]
            rpc.forget(9)
            assert await call(http, endpoint, "getFirstAvailableBlock", []) == 9
            assert await call(http, endpoint, "getBlock", [9]) == ["getBlock", 9]
            assert await call(http, endpoint, "getSlot", []) == ["getSlot"]
            with pytest.raises(RpcRefused, match="First available block: 9") as caught:
                await call(http, endpoint, "getBlock", [8])
            assert caught.value.code == -32001
            rpc.forget(0)
            assert await call(http, endpoint, "getBlock", [8]) == ["getBlock", 8]
    finally:
        await runner.cleanup()
