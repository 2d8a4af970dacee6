"""The gRPC service `geyser.Geyser`: every method of it."""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterable, Callable
from typing import Any, Final

import grpc
import orjson

from infra.chain import metrics
from infra.chain.history import History, SlotRecord
from infra.chain.replay import ReplayLog
from infra.chain.source import BlockHeader
from infra.chain.subscriber import (
    Context,
    DeshredFeed,
    EndStream,
    Feed,
    Node,
    StreamLimits,
    Subscriber,
    UpdateFeed,
)
from schemas.proto.geyser_pb2 import (
    CommitmentLevel,
    GetBlockHeightRequest,
    GetBlockHeightResponse,
    GetLatestBlockhashRequest,
    GetLatestBlockhashResponse,
    GetSlotRequest,
    GetSlotResponse,
    GetVersionRequest,
    GetVersionResponse,
    IsBlockhashValidRequest,
    IsBlockhashValidResponse,
    PingRequest,
    PongResponse,
    SubscribeReplayInfoRequest,
    SubscribeReplayInfoResponse,
)

# Shaped as a Yellowstone node answers, so that clients that look inside find what they expect.
_VERSION: Final = {"package": "soltape-local-chain", "version": "0.1.0", "proto": "12.6.0"}
# A transaction may name a blockhash for this many blocks after it.
_BLOCKHASH_LIFE_BLOCKS: Final = 150


class GeyserService:
    """Answers subscribers from the log, and single questions from the history."""

    def __init__(
        self,
        history: History,
        replay: ReplayLog,
        limits: StreamLimits,
        x_token: str | None,
        genesis_hash: str,
        node: Node,
    ) -> None:
        self._history = history
        self._replay = replay
        self._limits = limits
        self._node = node
        self._x_token = x_token
        said = {"version": _VERSION, "genesis_hash": genesis_hash}
        self._version_json = orjson.dumps(said).decode()
        self._streams = 0

    def handlers(self) -> grpc.GenericRpcHandler[Any, Any]:
        """Return the service's methods.

        Streams carry bytes: updates are bytes already, and a request that cannot be parsed must
        end its stream, where gRPC would only stop hearing.
        """
        return grpc.method_handlers_generic_handler(
            "geyser.Geyser",
            {
                "Subscribe": grpc.stream_stream_rpc_method_handler(self._subscribe),
                "SubscribeDeshred": grpc.stream_stream_rpc_method_handler(self._subscribe_deshred),
                "SubscribeReplayInfo": self._unary(
                    self._replay_info, SubscribeReplayInfoRequest, SubscribeReplayInfoResponse
                ),
                "Ping": self._unary(self._ping, PingRequest, PongResponse),
                "GetLatestBlockhash": self._unary(
                    self._latest_blockhash, GetLatestBlockhashRequest, GetLatestBlockhashResponse
                ),
                "GetBlockHeight": self._unary(
                    self._block_height, GetBlockHeightRequest, GetBlockHeightResponse
                ),
                "GetSlot": self._unary(self._slot, GetSlotRequest, GetSlotResponse),
                "IsBlockhashValid": self._unary(
                    self._is_blockhash_valid, IsBlockhashValidRequest, IsBlockhashValidResponse
                ),
                "GetVersion": self._unary(self._version, GetVersionRequest, GetVersionResponse),
            },
        )

    def _unary(
        self, answer: Callable[[Any], Any], request: Any, response: Any
    ) -> grpc.RpcMethodHandler[Any, Any]:
        async def serve(message: Any, context: Context) -> Any:
            await self._authenticate(context)
            try:
                return answer(message)
            except EndStream as error:
                await context.abort(error.code, error.details)

        return grpc.unary_unary_rpc_method_handler(
            serve, request.FromString, response.SerializeToString
        )

    async def _authenticate(self, context: Context) -> None:
        if self._x_token is None:
            return
        given = dict(context.invocation_metadata() or ()).get("x-token", "")
        given = given.encode() if isinstance(given, str) else given
        if not hmac.compare_digest(given, self._x_token.encode()):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "No valid auth token")

    async def _subscribe(self, requests: AsyncIterable[bytes], context: Context) -> None:
        await self._stream(UpdateFeed(self._history, self._node), requests, context)

    async def _subscribe_deshred(self, requests: AsyncIterable[bytes], context: Context) -> None:
        await self._stream(DeshredFeed(), requests, context)

    async def _stream(self, feed: Feed, requests: AsyncIterable[bytes], context: Context) -> None:
        await self._authenticate(context)
        # At once, as a Yellowstone node does: some clients ask nothing before it.
        await context.send_initial_metadata(())
        self._streams += 1
        subscriber = Subscriber(self._streams, feed, self._replay, self._limits, context)
        with metrics.open_stream():
            try:
                await subscriber.run(requests)
            except EndStream as error:
                metrics.stream_ended(error.code.name)
                await context.abort(error.code, error.details)

    def _replay_info(self, _: SubscribeReplayInfoRequest) -> SubscribeReplayInfoResponse:
        return SubscribeReplayInfoResponse(
            first_available=self._replay.first_of(self._limits.replay_slots)
        )

    def _ping(self, request: PingRequest) -> PongResponse:
        return PongResponse(count=request.count)

    def _version(self, _: GetVersionRequest) -> GetVersionResponse:
        return GetVersionResponse(version=self._version_json)

    def _latest_blockhash(self, request: GetLatestBlockhashRequest) -> GetLatestBlockhashResponse:
        header = self._header(request.commitment)
        return GetLatestBlockhashResponse(
            slot=header.slot,
            blockhash=header.blockhash,
            last_valid_block_height=header.block_height + _BLOCKHASH_LIFE_BLOCKS,
        )

    def _block_height(self, request: GetBlockHeightRequest) -> GetBlockHeightResponse:
        return GetBlockHeightResponse(block_height=self._header(request.commitment).block_height)

    def _slot(self, request: GetSlotRequest) -> GetSlotResponse:
        return GetSlotResponse(slot=self._header(request.commitment).slot)

    def _is_blockhash_valid(self, request: IsBlockhashValidRequest) -> IsBlockhashValidResponse:
        tip = self._header(request.commitment)
        valid = any(
            header.blockhash == request.blockhash
            and tip.block_height - header.block_height <= _BLOCKHASH_LIFE_BLOCKS
            for header in self._headers(request.commitment)
        )
        return IsBlockhashValidResponse(slot=tip.slot, valid=valid)

    def _headers(self, commitment: CommitmentLevel) -> list[BlockHeader]:
        records = self._history.blocks(0, 2**64, commitment)
        return [record.header for record in records if record.header is not None]

    def _header(self, commitment: CommitmentLevel) -> BlockHeader:
        if commitment not in CommitmentLevel.values():
            raise EndStream(
                grpc.StatusCode.INVALID_ARGUMENT, f"unknown commitment level {commitment}"
            )
        tip: SlotRecord | None = self._history.tip(commitment)
        if tip is None or tip.header is None:
            raise EndStream(
                grpc.StatusCode.UNAVAILABLE,
                f"no block is {CommitmentLevel.Name(commitment).lower()} yet",
            )
        return tip.header
