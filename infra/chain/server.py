"""The local chain: a Yellowstone gRPC endpoint and an RPC endpoint over one source."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

import grpc
import structlog
from aiohttp import web

from infra.chain import metrics
from infra.chain.faults import Disturbance, Faults
from infra.chain.geyser import GeyserService
from infra.chain.history import History
from infra.chain.json_rpc import rpc_application
from infra.chain.replay import ReplayLog
from infra.chain.source import (
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
    Source,
)
from infra.chain.subscriber import StreamLimits
from infra.chain.updates import BlockUpdate, SlotUpdate, TransactionUpdate, Update, created_now
from infra.local.process import require_free_port
from schemas.proto.geyser_pb2 import (
    SLOT_COMPLETED,
    SLOT_CONFIRMED,
    SLOT_CREATED_BANK,
    SLOT_DEAD,
    SLOT_FINALIZED,
    SLOT_FIRST_SHRED_RECEIVED,
    SLOT_PROCESSED,
    SlotStatus,
)

log = structlog.get_logger(__name__)

_GRPC_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),  # a second server on the port must fail, not share it
    ("grpc.max_receive_message_length", 64 << 20),
    # Clients keep connections alive with HTTP/2 pings as often as they like.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.http2.max_ping_strikes", 0),
)


_GIVE_WAY_S: Final = 0.025
_CLOSE_UPDATES: Final = 2_000


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How the endpoints behave."""

    host: str = "127.0.0.1"
    grpc_port: int = 10_000  # 0: any free one
    rpc_port: int = 8_899  # 0: any free one
    x_token: str | None = None  # None: every caller is served
    await_subscriber: bool = False  # the source begins when somebody subscribes
    compress: bool = False  # gzip what is sent; what comes in may always be compressed
    ping_interval_s: float = 15.0
    max_lag_updates: int = 100_000
    replay_slots: int = 150
    history_slots: int = 600
    memory_bytes: int = 256 << 20
    faults: Faults = field(default_factory=Faults)


class LocalChain:
    """Runs a source and serves it; use as an async context manager."""

    def __init__(self, source: Source, options: ServerOptions | None = None) -> None:
        self._options = options = options or ServerOptions()
        self._source = source
        self.history = History(options.history_slots, options.memory_bytes)
        self.replay = ReplayLog(options.replay_slots, options.memory_bytes)
        self._disturbance = Disturbance(options.faults) if options.faults.disturbs else None
        self._grpc: grpc.aio.Server | None = None
        self._rpc: web.AppRunner | None = None
        self.grpc_port = 0
        self.rpc_port = 0

    async def __aenter__(self) -> LocalChain:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def run(self) -> None:
        """Follow the source to its end; raises BrokenSource."""
        if self._options.await_subscriber:
            await self.replay.followed.wait()
        async for event in self._source.events():
            self.publish(event)
            if isinstance(event, SlotTransactions):
                await self._let_subscribers_send()
        if self._disturbance is not None:
            self.replay.extend(self._disturbance.flush())
        metrics.source_ended()
        log.info("source ended")

    async def _let_subscribers_send(self) -> None:
        """Give way to those who follow closely, or a busy source would starve them.

        Never for long: a source keeps its own time, and slow subscribers are on their own.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + _GIVE_WAY_S
        while self.replay.is_awaited(within=_CLOSE_UPDATES) and clock() < until:  # noqa: ASYNC110
            # Some 25 looks at most: cheaper than an event that is set with every update sent.
            await asyncio.sleep(0.001)

    def publish(self, event: SlotEvent) -> None:
        """Take in one event and let every subscriber know."""
        record = self.history.apply(event)
        if isinstance(event, SlotStarted):
            self.replay.start(event.slot)
        created_at = created_now()

        def status(value: SlotStatus, error: str | None = None) -> SlotUpdate:
            return SlotUpdate(record.slot, record.parent_slot, value, created_at, error)

        updates: list[Update]
        match event:
            case SlotStarted():
                updates = [status(SLOT_FIRST_SHRED_RECEIVED), status(SLOT_CREATED_BANK)]
            case SlotTransactions(slot, transactions):
                updates = [TransactionUpdate(slot, item, created_at) for item in transactions]
            case SlotCompleted(header):
                block = BlockUpdate(record.slot, header, tuple(record.transactions), created_at)
                updates = [status(SLOT_COMPLETED), block, status(SLOT_PROCESSED)]
            case SlotConfirmed():
                updates = [status(SLOT_CONFIRMED)]
            case SlotFinalized():
                updates = [status(SLOT_FINALIZED)]
            case SlotDead(_, error):
                updates = [status(SLOT_DEAD, error)]
        metrics.published(event)
        if self._disturbance is not None:
            updates = self._disturbance.feed(updates)
            metrics.faults(self._disturbance.take_counts())
        metrics.kept(self.replay.slots, self.history.size_bytes)
        self.replay.extend(updates)

    async def _start(self) -> None:
        options = self._options
        for port, setting in ((options.grpc_port, "--port"), (options.rpc_port, "--rpc-port")):
            if port:
                require_free_port(options.host, port, setting)
        service = GeyserService(
            self.history,
            self.replay,
            StreamLimits(
                ping_interval_s=options.ping_interval_s,
                max_lag_updates=options.max_lag_updates,
                disconnect_every=options.faults.disconnect_every,
                lag_every=options.faults.lag_every,
                seed=options.faults.seed,
            ),
            options.x_token,
            self._source.genesis_hash,
        )
        self._grpc = grpc.aio.server(
            options=_GRPC_OPTIONS,
            compression=grpc.Compression.Gzip if options.compress else None,
        )
        self._grpc.add_generic_rpc_handlers((service.handlers(),))
        self.grpc_port = self._grpc.add_insecure_port(f"{options.host}:{options.grpc_port}")
        await self._grpc.start()
        self._rpc = web.AppRunner(rpc_application(self.history, self._source), access_log=None)
        await self._rpc.setup()
        site = web.TCPSite(self._rpc, options.host, options.rpc_port)
        await site.start()
        self.rpc_port = site.port
        log.info("serving", geyser_port=self.grpc_port, rpc_port=self.rpc_port)

    async def _stop(self) -> None:
        if self._grpc is not None:
            await self._grpc.stop(grace=None)
        if self._rpc is not None:
            await self._rpc.cleanup()
