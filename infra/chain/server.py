"""The local chain: a Yellowstone gRPC endpoint and an RPC endpoint over one source."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import grpc
import structlog
from aiohttp import web

from infra.chain import metrics
from infra.chain.account_filters import AccountLimits
from infra.chain.account_store import AccountStore
from infra.chain.account_truth import AccountTruth
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
from infra.chain.subscriber import Node, StreamLimits
from infra.chain.updates import (
    AccountsUpdate,
    BlockUpdate,
    SlotUpdate,
    TransactionUpdate,
    Update,
    Written,
    created_now,
)
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


def _accounts(slot: int, written: Iterable[Written], created_at: bytes) -> list[Update]:
    found = tuple(written)
    return [AccountsUpdate(slot, found, created_at)] if found else []


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
    program_scans: bool = True  # without, getProgramAccounts is refused as some providers do
    faults: Faults = field(default_factory=Faults)
    nodes: int = 1  # gRPC endpoints of the same chain, at the ports from `grpc_port`
    last_node_replay_slots: int = 0  # of the last of several nodes; 0: as of all others
    account_limits: AccountLimits = field(default_factory=AccountLimits)


class LocalChain:
    """Runs a source and serves it; use as an async context manager."""

    def __init__(
        self,
        source: Source,
        options: ServerOptions | None = None,
        notes: AccountTruth | None = None,
    ) -> None:
        self._options = options = options or ServerOptions()
        self._source = source
        self._notes = notes  # of all accounts that the source writes
        self.history = History(options.history_slots, options.memory_bytes, options.replay_slots)
        self.replay = ReplayLog(options.replay_slots, options.memory_bytes)
        genesis = source.genesis_accounts()
        self.accounts = AccountStore(notes.genesis(genesis) if notes else genesis)
        self._disturbance = Disturbance(options.faults) if options.faults.disturbs else None
        self._grpc: list[grpc.aio.Server] = []
        self._rpc: web.AppRunner | None = None
        self.grpc_ports: list[int] = []
        self.rpc_port = 0

    @property
    def grpc_port(self) -> int:
        """Port of the first node."""
        return self.grpc_ports[0]

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
        events = self._source.events()
        async for event in self._notes.events(events) if self._notes else events:
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
        self.accounts.apply(event)
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
                updates = _accounts(
                    slot,
                    (
                        Written(write, transaction.signature)
                        for transaction in transactions
                        for write in transaction.writes
                    ),
                    created_at,
                )
                kept = record.transactions[-len(transactions) :] if transactions else ()
                updates += [TransactionUpdate(slot, item, created_at) for item in kept]
            case SlotCompleted(header, writes):
                updates = _accounts(
                    header.slot, (Written(write, None) for write in writes), created_at
                )
                block = BlockUpdate(
                    record.slot,
                    header,
                    tuple(record.transactions),
                    created_at,
                    record.rewards,
                    record.has_entries,
                )
                updates += [status(SLOT_COMPLETED), block, status(SLOT_PROCESSED)]
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
        ports = [options.grpc_port + number for number in range(options.nodes)]
        if not options.grpc_port:
            ports = [0] * options.nodes  # any free ones
        settings = [(port, "--port") for port in ports] + [(options.rpc_port, "--rpc-port")]
        for port, setting in settings:
            if port:
                require_free_port(options.host, port, setting)
        for number, port in enumerate(ports):
            await self._start_node(number, port)
        application = rpc_application(
            self.history, self.accounts, self._source, program_scans=options.program_scans
        )
        self._rpc = web.AppRunner(application, access_log=None)
        await self._rpc.setup()
        site = web.TCPSite(self._rpc, options.host, options.rpc_port)
        await site.start()
        self.rpc_port = site.port
        log.info(
            "serving",
            geyser_port=self.grpc_port,
            geyser_ports=self.grpc_ports,
            rpc_port=self.rpc_port,
        )

    async def _start_node(self, number: int, port: int) -> None:
        options, faults = self._options, self._options.faults
        is_last = options.nodes > 1 and number == options.nodes - 1
        service = GeyserService(
            self.history,
            self.replay,
            StreamLimits(
                ping_interval_s=options.ping_interval_s,
                max_lag_updates=options.max_lag_updates,
                disconnect_every=faults.disconnect_every,
                lag_every=faults.lag_every,
                seed=faults.seed,
                replay_slots=options.last_node_replay_slots if is_last else 0,
            ),
            options.x_token,
            self._source.genesis_hash,
            Node(number, options.nodes, options.account_limits, faults.accounts, faults.seed),
        )
        server = grpc.aio.server(
            options=_GRPC_OPTIONS,
            compression=grpc.Compression.Gzip if options.compress else None,
        )
        self._grpc.append(server)
        server.add_generic_rpc_handlers((service.handlers(),))
        self.grpc_ports.append(server.add_insecure_port(f"{options.host}:{port}"))
        await server.start()

    async def _stop(self) -> None:
        for server in self._grpc:
            await server.stop(grace=None)
        if self._rpc is not None:
            await self._rpc.cleanup()
