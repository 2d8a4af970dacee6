"""Which chain the stream is of: asked of the chain itself, never taken from a setting.

A local chain names its genesis hash in Yellowstone's GetVersion. A node's answer has none, so it
is RPC's that counts: `GEYSER_ENDPOINT` and `RPC_ENDPOINT` are taken to be of one cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import grpc
import grpc.aio
import orjson

from infra.solana_rpc import client as solana_rpc
from schemas.proto.geyser_pb2 import GetVersionRequest, GetVersionResponse
from schemas.solana.networks import is_genesis_hash

VERSION: Final = "/geyser.Geyser/GetVersion"
ASK_AGAIN_S: Final = 30.0
_TIMEOUT_S: Final = 10.0


async def ask(
    channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]], rpc_endpoint: str | None
) -> str | None:
    """Return the genesis hash of the chain behind a channel; None while nobody says it."""
    found = await _of_stream(channel, metadata)
    if found is None and rpc_endpoint:
        found = await _of_rpc(rpc_endpoint)
    return found


async def _of_stream(channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]]) -> str | None:
    ask_version = channel.unary_unary(
        VERSION,
        request_serializer=GetVersionRequest.SerializeToString,
        response_deserializer=GetVersionResponse.FromString,
    )
    try:
        answer = await ask_version(GetVersionRequest(), metadata=metadata, timeout=_TIMEOUT_S)
        version = orjson.loads(answer.version)
    except (grpc.aio.AioRpcError, orjson.JSONDecodeError):
        return None
    said = version.get("genesis_hash") if isinstance(version, dict) else None
    return said if is_genesis_hash(said) else None


async def _of_rpc(endpoint: str) -> str | None:
    try:
        async with solana_rpc.session() as http:
            said = await solana_rpc.call(http, endpoint, "getGenesisHash", [])
    except (solana_rpc.NotNow, solana_rpc.RpcRefused):
        return None
    return said if is_genesis_hash(said) else None
