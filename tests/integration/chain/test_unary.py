"""The unary calls of geyser.Geyser, and which clients may make them."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from infra.chain.source import SlotCompleted, SlotConfirmed, SlotEvent, SlotFinalized
from infra.local.process import PortInUse
from schemas.proto import geyser_pb2 as geyser
from schemas.proto.geyser_pb2 import CONFIRMED, FINALIZED, PROCESSED

Serve = Any


def last(events: list[SlotEvent], kind: type) -> Any:
    return [event for event in events if isinstance(event, kind)][-1]


async def test_tips(serve: Serve, market_events: list[SlotEvent]) -> None:
    chain = await serve()
    chain.publish(market_events)
    headers = {e.header.slot: e.header for e in market_events if isinstance(e, SlotCompleted)}
    for commitment, slot in (
        (PROCESSED, max(headers)),
        (CONFIRMED, last(market_events, SlotConfirmed).slot),
        (FINALIZED, last(market_events, SlotFinalized).slot),
    ):
        asked = {"commitment": commitment}
        assert (await chain.stub.GetSlot(geyser.GetSlotRequest(**asked))).slot == slot
        height = await chain.stub.GetBlockHeight(geyser.GetBlockHeightRequest(**asked))
        assert height.block_height == headers[slot].block_height
        latest = await chain.stub.GetLatestBlockhash(geyser.GetLatestBlockhashRequest(**asked))
        assert (latest.slot, latest.blockhash) == (slot, headers[slot].blockhash)
        assert latest.last_valid_block_height == headers[slot].block_height + 150
        valid = geyser.IsBlockhashValidRequest(blockhash=headers[slot].blockhash, **asked)
        assert (await chain.stub.IsBlockhashValid(valid)).valid
        other = geyser.IsBlockhashValidRequest(blockhash="1" * 32, **asked)
        assert not (await chain.stub.IsBlockhashValid(other)).valid


async def test_ping_and_version(serve: Serve) -> None:
    chain = await serve()
    assert (await chain.stub.Ping(geyser.PingRequest(count=9))).count == 9
    assert '"proto":"12.6.0"' in (await chain.stub.GetVersion(geyser.GetVersionRequest())).version
    info = await chain.stub.SubscribeReplayInfo(geyser.SubscribeReplayInfoRequest())
    assert not info.HasField("first_available")


async def test_before_the_first_block_there_is_no_tip(serve: Serve) -> None:
    chain = await serve()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await chain.stub.GetSlot(geyser.GetSlotRequest(commitment=CONFIRMED))
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == "no block is confirmed yet"


@pytest.mark.parametrize("metadata", [(), (("x-token", "wrong"),)], ids=["none", "wrong"])
async def test_without_the_token_nothing_is_served(serve: Serve, metadata: Any) -> None:
    chain = await serve(x_token="right")
    for method, request in (
        (chain.stub.Ping, geyser.PingRequest()),
        (chain.stub.GetSlot, geyser.GetSlotRequest()),
        (chain.stub.GetVersion, geyser.GetVersionRequest()),
        (chain.stub.SubscribeReplayInfo, geyser.SubscribeReplayInfoRequest()),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await method(request, metadata=metadata)
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
    for stream, request in (
        (chain.stub.Subscribe, geyser.SubscribeRequest()),
        (chain.stub.SubscribeDeshred, geyser.SubscribeDeshredRequest()),
    ):
        call = stream(iter([request]), metadata=metadata)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_with_the_token_all_is_served(serve: Serve) -> None:
    chain = await serve(x_token="right")
    answer = await chain.stub.Ping(geyser.PingRequest(count=1), metadata=(("x-token", "right"),))
    assert answer.count == 1


async def test_a_port_in_use_is_named(serve: Serve) -> None:
    chain = await serve()
    for option in ("grpc_port", "rpc_port"):
        taken = getattr(chain.chain, option)
        with pytest.raises(PortInUse, match=f"port {taken} on 127.0.0.1 is in use"):
            await serve(**{option: taken})
