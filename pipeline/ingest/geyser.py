"""The Yellowstone client: one stream, kept open, read as fast as it comes.

The read loop enqueues serialized updates and does nothing else: a node drops a subscriber
that lags. When the queue is full it stops reading, says so, and HTTP/2 flow control holds the
node back; should the node give us up for it, the stream resumes by `from_slot` and nothing is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final
from urllib.parse import urlsplit

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError

from infra.backoff import Backoff
from infra.cancellation import raise_if_cancelled
from infra.settings import Settings
from infra.telemetry import host_of
from pipeline.ingest import identity, metrics
from pipeline.ingest.intake import Connected, Intake
from pipeline.ingest.subscription import ping_request, subscribe_request
from schemas.proto.geyser_pb2 import (
    SubscribeReplayInfoRequest,
    SubscribeReplayInfoResponse,
    SubscribeRequest,
    SubscribeUpdate,
)

log = structlog.get_logger(__name__)

SUBSCRIBE: Final = "/geyser.Geyser/Subscribe"
REPLAY_INFO: Final = "/geyser.Geyser/SubscribeReplayInfo"
MAX_MESSAGE_BYTES: Final = 64 << 20
CONNECT_TIMEOUT_S: Final = 10.0
SILENCE_S: Final = 30.0  # slots come every 400 ms: a stream without updates for this long is dead
BACKOFF_FIRST_S: Final = 0.25
STEADY_S: Final = 30.0  # a stream that lasted this long starts the back-off anew
REPLAY_MARGIN_SLOTS: Final = 8  # the node's oldest slots are gone before we ask for them
REFUSALS: Final = frozenset(
    code.name.lower()
    for code in (
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.UNKNOWN,
    )
)
FULL_LOG_INTERVAL_S: Final = 10.0
SMALL_BYTES: Final = 64  # pings are far below; anything above is not looked into by the read loop

_END: Final[object] = grpc.aio.EOF  # type: ignore[attr-defined]


class StreamEnded(Exception):
    """The stream is over; the text says why in words for an operator."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason  # few values: a metric's label


class _Checkpoint:
    """Where to resume from, and when to stop asking for it.

    A node that was restarted, or another one behind the same address, may not have the slot
    we resume from, ever: after `limit` refusals of the same slot the stream goes live.
    """

    def __init__(self, limit: int) -> None:
        self.wanted: int | None = None
        self.floor = 0  # lower slots are known not to be had from the node
        self._limit = limit
        self._refusals = 0

    def choose(self, resume: int | None) -> int | None:
        """Return the slot to ask for, None to go live."""
        wanted = None if resume is None else max(resume, self.floor)
        if wanted != self.wanted:
            self.wanted, self._refusals = wanted, 0
        return wanted if self._refusals < self._limit else None

    def refused(self) -> None:
        """Count a stream that failed at the node, before it brought the ledger forward."""
        self._refusals += 1


class GeyserClient:
    """Keeps `intake` filled from a Yellowstone endpoint until cancelled.

    `resume` names the first slot that is still wanted, None while there is none yet. `identified`
    gets the genesis hash of the chain whenever a stream has begun, None while nobody says it.
    `request` makes the subscription from a slot on, and `explain` puts a refusal into words.
    """

    def __init__(
        self,
        settings: Settings,
        intake: Intake,
        resume: Callable[[], int | None],
        identified: Callable[[str | None], None],
        request: Callable[[int | None], SubscribeRequest] = subscribe_request,
        explain: Callable[[str], str] = str,
    ):
        self._request = request
        self._explain = explain
        self._identified = identified
        self._rpc_endpoint = settings.rpc_endpoint
        self._endpoint = settings.geyser_endpoint
        self._token = settings.geyser_x_token
        self._ping_interval_s = settings.geyser_ping_interval_s
        self._backoff_max_s = settings.geyser_backoff_max_s
        self._intake = intake
        self._resume = resume
        self._checkpoint = _Checkpoint(settings.geyser_stale_retries)
        self._last_update = 0.0
        self._said_full = -FULL_LOG_INTERVAL_S
        self._silent = False
        self._answer_ping = asyncio.Event()

    async def run(self) -> None:
        """Stream, reconnecting with jittered exponential back-off; returns only by cancellation."""
        backoff = Backoff(BACKOFF_FIRST_S, self._backoff_max_s)
        while True:
            from_slot = self._checkpoint.choose(self._resume())
            floor, began = self._checkpoint.floor, time.monotonic()
            try:
                await self._stream(from_slot)
            except asyncio.CancelledError as cancelled:
                # The frames of its traceback keep the call, and a call its connection, for as
                # long as anybody knows this task.
                raise cancelled.with_traceback(None) from None
            except StreamEnded as end:
                metrics.CONNECTED.set(0)
                metrics.RECONNECTS.labels(end.reason).inc()
                if end.reason in REFUSALS:
                    self._checkpoint.refused()
                if time.monotonic() - began > STEADY_S:
                    backoff.reset()
                # What the node still has it soon has no more: a long pause is refused again.
                knows_floor = self._checkpoint.floor != floor
                pause_s = BACKOFF_FIRST_S if knows_floor else backoff.next_s()
                log.warning(
                    "stream ended",
                    reason=end.reason,
                    detail=str(end),
                    from_slot=from_slot,
                    retry_in_s=round(pause_s, 2),
                )
            raise_if_cancelled()
            await asyncio.sleep(pause_s)

    async def _stream(self, from_slot: int | None) -> None:
        async with self._channel() as channel:
            subscribe: Any = channel.stream_stream  # untyped: bytes in, bytes out, no serializers
            call = subscribe(SUBSCRIBE)(metadata=self._metadata())
            identifying = asyncio.create_task(self._identify(channel))
            try:
                await self._converse(call, from_slot)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.OUT_OF_RANGE and from_slot is not None:
                    await self._raise_floor(channel, from_slot)
                raise self._ended(error) from None
            finally:
                identifying.cancel()
                await asyncio.gather(identifying, return_exceptions=True)
                call.cancel()

    async def _identify(self, channel: grpc.aio.Channel) -> None:
        """Find out which chain it is: another one may answer at the address than before."""
        while True:
            found = await identity.ask(channel, self._metadata(), self._rpc_endpoint)
            raise_if_cancelled()
            self._identified(found)
            if found is not None:
                return
            await asyncio.sleep(identity.ASK_AGAIN_S)

    async def _converse(self, call: Any, from_slot: int | None) -> None:
        self._silent = False
        self._last_update = time.monotonic()
        await call.write(self._request(from_slot).SerializeToString())
        beside = [
            asyncio.create_task(self._keep_alive(call)),
            asyncio.create_task(self._watch(call)),
        ]
        try:
            await self._read(call, from_slot)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._silent and not (task and task.cancelling()):
                raise StreamEnded("silent", f"no update for {SILENCE_S:.0f} s") from None
            raise
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)

    async def _read(self, call: Any, from_slot: int | None) -> None:
        first = True
        while (raw := await call.read()) is not _END:
            if len(raw) <= SMALL_BYTES and self._is_ping_or_pong(raw):
                continue
            self._last_update = time.monotonic()
            if first:
                first = False
                await self._begin(raw, from_slot)
            if self._intake.full:
                self._say_full()
            await self._intake.put(raw)
        raise StreamEnded("ended", "the server ended the stream")

    def _say_full(self) -> None:
        now = time.monotonic()
        if now - self._said_full > FULL_LOG_INTERVAL_S:
            self._said_full = now
            log.warning("queue full: not reading the stream", updates=len(self._intake))

    async def _begin(self, raw: bytes, from_slot: int | None) -> None:
        """Take the first update of a stream: only now it is known that the node accepted us."""
        metrics.CONNECTED.set(1)
        log.info("stream open", endpoint=host_of(self._endpoint), from_slot=from_slot)
        if from_slot is None and self._checkpoint.wanted is not None:
            # Live, because the node does not have what we want: next time ask for what comes now.
            self._checkpoint.floor = _slot_of(raw) or self._checkpoint.floor
        await self._intake.put(Connected(from_slot))

    def _is_ping_or_pong(self, raw: bytes) -> bool:
        try:
            kind = SubscribeUpdate.FromString(raw).WhichOneof("update_oneof")
        except DecodeError:
            return False  # the decoder counts it
        if kind == "ping":
            self._answer_ping.set()
        return kind in ("ping", "pong")

    async def _keep_alive(self, call: Any) -> None:
        """Answer the server's pings, and ping on our own: balancers close idle streams."""
        ping = ping_request().SerializeToString()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._ping_interval_s):
                    await self._answer_ping.wait()
            self._answer_ping.clear()
            await call.write(ping)

    async def _watch(self, call: Any) -> None:
        """End a stream that went silent; one that we do not read is not."""
        while time.monotonic() - self._last_update < SILENCE_S or self._intake.full:
            if self._intake.full:
                self._last_update = time.monotonic()
            await asyncio.sleep(1.0)
        self._silent = True
        call.cancel()

    async def _raise_floor(self, channel: grpc.aio.Channel, from_slot: int) -> None:
        """Ask the node what it still has: better a small hole than all until now."""
        ask = channel.unary_unary(
            REPLAY_INFO,
            request_serializer=SubscribeReplayInfoRequest.SerializeToString,
            response_deserializer=SubscribeReplayInfoResponse.FromString,
        )
        try:
            answer = await ask(
                SubscribeReplayInfoRequest(), metadata=self._metadata(), timeout=CONNECT_TIMEOUT_S
            )
        except grpc.aio.AioRpcError:
            return  # not offered by older nodes
        if answer.HasField("first_available") and answer.first_available > from_slot:
            self._checkpoint.floor = answer.first_available + REPLAY_MARGIN_SLOTS

    def _ended(self, error: grpc.aio.AioRpcError) -> StreamEnded:
        code = error.code()
        text = self._explain(error.details() or code.name)
        if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
            text = f"{text}: the endpoint refused GEYSER_X_TOKEN"
        return StreamEnded(code.name.lower(), text)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-token", self._token.get_secret_value()),) if self._token else ()

    @asynccontextmanager
    async def _channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """Open a connection; gzip is accepted by default, the server chooses."""
        url = urlsplit(self._endpoint)
        target = f"{url.hostname}:{url.port or (443 if url.scheme == 'https' else 80)}"
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.keepalive_time_ms", int(self._ping_interval_s * 1000)),
            ("grpc.keepalive_timeout_ms", 10_000),
            ("grpc.http2.max_pings_without_data", 0),
            # Else all streams of a process share one connection, and its flow control.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        if url.scheme == "https":
            channel = grpc.aio.secure_channel(target, grpc.ssl_channel_credentials(), options)
        else:
            channel = grpc.aio.insecure_channel(target, options)
        async with channel:
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await channel.channel_ready()
            except TimeoutError:
                text = f"no connection to {host_of(self._endpoint)} in {CONNECT_TIMEOUT_S:.0f} s"
                raise StreamEnded("unreachable", text) from None
            yield channel


def _slot_of(raw: bytes) -> int | None:
    try:
        update = SubscribeUpdate.FromString(raw)
    except DecodeError:
        return None
    kind = update.WhichOneof("update_oneof")
    if kind not in ("transaction", "account", "slot", "block_meta"):
        return None
    slot: int = getattr(update, kind).slot
    return slot
