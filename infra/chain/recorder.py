"""Follows any Yellowstone endpoint and keeps what it sends.

Where a stream broke, the recording goes on with what the node replays: frozen slots. Of a slot that
the node executed as the stream began again, the first part is not in the recording.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

import grpc
import structlog
from google.protobuf.message import DecodeError

from infra.backoff import Backoff
from infra.cancellation import raise_if_cancelled
from infra.chain.recording import RecordingWriter
from infra.telemetry import host_of
from schemas.proto.geyser_pb2 import PROCESSED, SubscribeRequest, SubscribeUpdate

log = structlog.get_logger(__name__)

_MAX_UPDATE_BYTES: Final = 64 << 20
_PING_EVERY_S: Final = 10.0
_SILENCE_S: Final = 60.0
_BACKOFF_S: Final = (1.0, 30.0)
# What no retry will change.
_FATAL: Final = frozenset(
    {
        grpc.StatusCode.UNAUTHENTICATED,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.UNIMPLEMENTED,
    }
)
_FALLBACK_PORTS: Final = {"https": 443, "http": 80}


class RecordingFailed(Exception):
    """The endpoint will not serve us; the text is for the user."""


@dataclass(slots=True)
class Recorder:
    """Writes an endpoint's updates until stopped; resumes where a broken stream ended."""

    url: str
    x_token: str | None
    request: SubscribeRequest
    writer: RecordingWriter
    newest_slot: int = 0
    reconnects: int = 0
    # Where a stream that broke goes on: the newest slot may be known before the last one is whole.
    _resume_slot: int = 0
    _backoff: Backoff = field(default_factory=lambda: Backoff(*_BACKOFF_S))

    async def run(self) -> None:
        """Record without end; raises RecordingFailed."""
        while True:
            try:
                await self._follow()
                reason = "the server ended the stream"
            except grpc.aio.AioRpcError as error:
                reason = f"{error.code().name}: {error.details()}"
                if error.code() in _FATAL:
                    raise RecordingFailed(f"{host_of(self.url)} refused: {reason}") from None
                if error.code() == grpc.StatusCode.OUT_OF_RANGE:
                    log.warning("recording has a gap", after_slot=self.newest_slot)
                    self.newest_slot = self._resume_slot = 0
            except TimeoutError:
                reason = f"nothing came for {_SILENCE_S:.0f} s"
            raise_if_cancelled()
            pause_s = self._backoff.next_s()
            self.reconnects += 1
            log.warning("stream ended", reason=reason, retry_in_s=round(pause_s, 2))
            await asyncio.sleep(pause_s)

    async def _follow(self) -> None:
        metadata = (("x-token", self.x_token),) if self.x_token else None
        async with _channel(self.url) as channel:
            subscribe = channel.stream_stream(
                "/geyser.Geyser/Subscribe",
                request_serializer=SubscribeRequest.SerializeToString,
                response_deserializer=bytes,  # what is kept are the bytes as they came
            )
            updates = aiter(subscribe(self._requests(), metadata=metadata))
            while True:
                try:
                    # Not wait_for: before Python 3.12 it can lose a cancellation.
                    async with asyncio.timeout(_SILENCE_S):
                        data = await anext(updates)
                except StopAsyncIteration:
                    return
                self._keep(data)

    async def _requests(self) -> AsyncIterator[SubscribeRequest]:
        request = SubscribeRequest()
        request.CopyFrom(self.request)
        if self._resume_slot:
            request.from_slot = self._resume_slot
        yield request
        while True:
            await asyncio.sleep(_PING_EVERY_S)
            ping = SubscribeRequest()
            ping.ping.id = 1
            yield ping

    def _keep(self, data: bytes) -> None:
        self._backoff.reset()
        try:
            update = SubscribeUpdate.FromString(data)
        except DecodeError:
            pass  # kept as it came: a replay shows it to readers as it was
        else:
            kind = update.WhichOneof("update_oneof")
            if kind in ("ping", "pong", None):
                return
            slot: int = getattr(update, kind).slot
            self.newest_slot = max(self.newest_slot, slot)
            if kind == "block_meta" or not self._resume_slot:
                self._resume_slot = max(self._resume_slot, slot)
        self.writer.write(data, time.time_ns() // 1_000_000)


def recording_request(accounts: tuple[str, ...], *, votes: bool, failed: bool) -> SubscribeRequest:
    """Return the subscription: transactions, every slot status and all block metas."""
    request = SubscribeRequest(commitment=PROCESSED)
    transactions = request.transactions["transactions"]
    transactions.account_include.extend(accounts)
    if not votes:
        transactions.vote = False
    if not failed:
        transactions.failed = False
    request.slots["slots"].interslot_updates = True
    request.blocks_meta["blocks_meta"].SetInParent()
    return request


def _channel(url: str) -> grpc.aio.Channel:
    parts = urlsplit(url)
    target = f"{parts.hostname}:{parts.port or _FALLBACK_PORTS[parts.scheme]}"
    options = (("grpc.max_receive_message_length", _MAX_UPDATE_BYTES),)
    if parts.scheme == "https":
        return grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
    return grpc.aio.insecure_channel(target, options)
