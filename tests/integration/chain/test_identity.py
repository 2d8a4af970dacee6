"""Which chain it is, asked of real endpoints: the stream's own word, then RPC's, else nothing."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
import pytest

from infra.chain.market import Market
from infra.chain.recorded import RecordedTransactions
from infra.chain.recording import RecordedStream
from infra.local.process import free_port
from pipeline.ingest import identity
from schemas.proto.geyser_pb2 import GetVersionRequest, GetVersionResponse
from schemas.solana.networks import RECORDED, SIMULATED

MAINNET = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"
Serve = Any


class Named:
    """A source that is of another chain."""

    genesis_hash = MAINNET

    def genesis_accounts(self) -> tuple[()]:
        return ()


def test_sources_say_what_they_are() -> None:
    assert Market.genesis_hash == SIMULATED
    assert RecordedTransactions.genesis_hash == RecordedStream.genesis_hash == RECORDED


async def ask(port: int, rpc_port: int | None, token: str | None = None) -> str | None:
    metadata = (("x-token", token),) if token else ()
    rpc = f"http://127.0.0.1:{rpc_port}" if rpc_port else None
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        return await identity.ask(channel, metadata, rpc)


async def test_a_local_chain_says_it_on_its_stream(serve: Serve) -> None:
    local = (await serve()).chain
    other = (await serve(Named())).chain
    assert await ask(local.grpc_port, None) == SIMULATED
    assert await ask(local.grpc_port, other.rpc_port) == SIMULATED  # the stream is what we read


async def test_a_refused_token_says_nothing(serve: Serve) -> None:
    local = (await serve(x_token="secret")).chain
    assert await ask(local.grpc_port, None) is None
    assert await ask(local.grpc_port, None, "secret") == SIMULATED


@pytest.fixture
async def node() -> Any:
    """A Yellowstone node: its answers name no chain."""
    answers = ['{"version":{"package":"yellowstone-grpc-geyser","version":"9.0.0"}}']

    async def version(_: GetVersionRequest, __: Any) -> GetVersionResponse:
        return GetVersionResponse(version=answers[-1])

    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        version,
        request_deserializer=GetVersionRequest.FromString,
        response_serializer=GetVersionResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("geyser.Geyser", {"GetVersion": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port, answers
    await server.stop(None)


async def test_of_a_node_rpc_says_it(serve: Serve, node: Any) -> None:
    port, answers = node
    rpc = (await serve(Named())).chain.rpc_port
    assert await ask(port, rpc) == MAINNET
    for answer in ("", "no JSON", "[]", '{"genesis_hash": 7}', '{"genesis_hash": "mainnet"}'):
        answers.append(answer)
        assert await ask(port, rpc) == MAINNET


async def test_where_nobody_says_it_it_is_unknown(node: Any) -> None:
    port, _ = node
    assert await ask(port, None) is None
    assert await ask(port, free_port()) is None
