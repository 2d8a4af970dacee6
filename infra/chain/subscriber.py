"""One subscriber's stream: its requests in, what its filters let through out."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import DecodeError

from infra.chain import metrics, updates
from infra.chain.account_faults import AccountFaults, disturb
from infra.chain.account_filters import AccountLimits, InvalidFilter
from infra.chain.filters import DeshredFilters, Filters
from infra.chain.history import History
from infra.chain.replay import ReplayLog
from infra.chain.updates import (
    AccountsUpdate,
    BlockUpdate,
    SlotUpdate,
    TransactionUpdate,
    Update,
    Written,
)
from infra.chain.write_versions import write_version
from schemas.proto.geyser_pb2 import (
    PROCESSED,
    SLOT_CONFIRMED,
    SLOT_FINALIZED,
    SLOT_PROCESSED,
    CommitmentLevel,
    SubscribeDeshredRequest,
    SubscribeRequest,
)

# Updates taken from the log at once: between two of these, requests and pings get their turn.
_READ_AHEAD: Final = 256
_RELEASING: Final = {
    SLOT_CONFIRMED: CommitmentLevel.CONFIRMED,
    SLOT_FINALIZED: CommitmentLevel.FINALIZED,
}
_REPLAYED: Final = frozenset({SLOT_PROCESSED, SLOT_CONFIRMED, SLOT_FINALIZED})

Context = grpc.aio.ServicerContext[Any, Any]


class EndStream(Exception):
    """The stream must end with a gRPC status and a message for the client."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code
        self.details = details


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """What one stream may cost, and when it is made to fail."""

    ping_interval_s: float = 15.0
    max_lag_updates: int = 100_000  # as channel_capacity of a Yellowstone node
    disconnect_every: int = 0  # fault: see Faults
    lag_every: int = 0
    seed: int = 1
    replay_slots: int = 0  # that from_slot can go back; 0: all that are kept


class Feed(Protocol):
    """What is asked of a stream, and how it is answered."""

    def parse(self, data: bytes) -> Any:
        """Return a request; raises DecodeError."""

    def apply(self, request: Any) -> None:
        """Replace everything that is asked; raises InvalidFilter."""

    def render(self, update: Update) -> Iterator[bytes]:
        """Yield the messages an update makes for this subscriber."""

    def replays(self, update: Update, frozen: Set[int]) -> bool:
        """Return whether an update from before is sent to a stream that begins with `from_slot`.

        `frozen` are the slots that had been executed to their end.
        """

    def ping(self) -> bytes:
        """Return the server's keepalive."""

    def pong(self, ping_id: int) -> bytes:
        """Return the answer to the client's ping."""


@dataclass(frozen=True, slots=True)
class Node:
    """What makes one node of the chain another than the next: its limits, faults and numbers."""

    number: int = 0
    nodes: int = 1
    limits: AccountLimits = field(default_factory=AccountLimits)
    account_faults: AccountFaults = field(default_factory=AccountFaults)
    seed: int = 1

    def write_version(self, version: int) -> int:
        """Return this node's number for a write of the chain."""
        return write_version(version, self.number, self.nodes)


class UpdateFeed:
    """`Subscribe`: updates at the commitment that was asked for."""

    def __init__(self, history: History, node: Node | None = None) -> None:
        self._history = history
        self._node = node or Node()
        self._filters = Filters(SubscribeRequest())

    def parse(self, data: bytes) -> SubscribeRequest:
        """Return a request; raises DecodeError."""
        return SubscribeRequest.FromString(data)

    def apply(self, request: SubscribeRequest) -> None:
        """Replace the filters; raises InvalidFilter."""
        self._filters = Filters(request, self._node.limits)

    def ping(self) -> bytes:
        """Return the server's keepalive."""
        return updates.ping_update()

    def pong(self, ping_id: int) -> bytes:
        """Return the answer to the client's ping."""
        return updates.pong_update(ping_id)

    def render(self, update: Update) -> Iterator[bytes]:
        """Yield the messages an update makes; held ones come with the status they waited for."""
        filters = self._filters
        if isinstance(update, SlotUpdate):
            if (
                filters.commitment != PROCESSED
                and _RELEASING.get(update.status) == filters.commitment
            ):
                yield from self._release(update)
            if not update.silent and (prefix := filters.slot_prefix(update)) is not None:
                yield updates.slot_update(prefix, update)
        elif filters.commitment == PROCESSED:
            if isinstance(update, TransactionUpdate):
                yield from self._transaction(update)
            elif isinstance(update, AccountsUpdate):
                yield from self._accounts(update.slot, update.written, update.created_at)
            else:
                yield from self._block(update)

    def replays(self, update: Update, frozen: Set[int]) -> bool:
        """Return whether an update from before is sent: of frozen slots, and no interslot status.

        So does Yellowstone since its release of June 2026 (`block_reconstruction.rs`): at
        `processed`, the first part of a slot that is executed right now is never sent.
        """
        if isinstance(update, SlotUpdate) and update.status not in _REPLAYED:
            return False
        return self._filters.commitment != PROCESSED or update.slot in frozen

    def _accounts(
        self, slot: int, written: Iterable[Written], created_at: bytes
    ) -> Iterator[bytes]:
        filters = self._filters
        if not filters.accounts:
            return
        for item in written:
            write, signature = item
            prefix = filters.account_prefix(write, has_signature=signature is not None)
            if prefix is not None:
                data = filters.data_slices.of(write.data)
                version = self._node.write_version(write.write_version)
                yield updates.account_update(prefix, slot, item, data, version, created_at)

    def _transaction(self, update: TransactionUpdate) -> Iterator[bytes]:
        filters = self._filters
        prefix = filters.transaction_prefix(update.transaction)
        if prefix is not None:
            yield updates.transaction_update(prefix, update)
        prefix = filters.transaction_status_prefix(update.transaction)
        if prefix is not None:
            yield updates.transaction_status_update(prefix, update)

    def _block(self, update: BlockUpdate) -> Iterator[bytes]:
        if self._filters.entries:
            for entry in update.entries():
                yield updates.entry_update(self._filters.entries, entry, update.created_at)
        if self._filters.blocks_meta:
            yield updates.block_meta_update(self._filters.blocks_meta, update)
        for item in self._filters.blocks:
            prefix = updates.labels_prefix([item.label])
            chosen = item.chosen(update.transactions)
            yield updates.block_update(prefix, update, chosen, with_entries=item.include_entries)

    def _release(self, update: SlotUpdate) -> Iterator[bytes]:
        record = self._history.record(update.slot)
        if record is None or record.header is None:
            return
        if record.pruned:
            raise EndStream(grpc.StatusCode.INTERNAL, "lagged to send an update")
        if record.written is None and self._filters.accounts:
            raise EndStream(grpc.StatusCode.INTERNAL, "lagged to send an update")
        node, created_at = self._node, update.created_at
        chance = random.Random(f"{node.seed}/{node.number}/{update.slot}")  # noqa: S311 - reproducible
        written = (record.written or {}).values() if self._filters.accounts else ()
        at_once, late = disturb(written, node.account_faults, chance)
        yield from self._accounts(update.slot, at_once, created_at)
        for transaction in record.transactions:
            yield from self._transaction(TransactionUpdate(update.slot, transaction, created_at))
        yield from self._accounts(update.slot, late, created_at)
        yield from self._block(
            BlockUpdate(
                update.slot,
                record.header,
                tuple(record.transactions),
                update.created_at,
                record.rewards,
                record.has_entries,
            )
        )


class DeshredFeed:
    """`SubscribeDeshred`: transactions as they are received, before their execution."""

    def __init__(self) -> None:
        self._filters = DeshredFilters(SubscribeDeshredRequest())

    def parse(self, data: bytes) -> SubscribeDeshredRequest:
        """Return a request; raises DecodeError."""
        return SubscribeDeshredRequest.FromString(data)

    def apply(self, request: SubscribeDeshredRequest) -> None:
        """Replace the filters; raises InvalidFilter."""
        self._filters = DeshredFilters(request)

    def ping(self) -> bytes:
        """Return the server's keepalive."""
        return updates.deshred_ping_update()

    def pong(self, ping_id: int) -> bytes:
        """Return the answer to the client's ping."""
        return updates.deshred_pong_update(ping_id)

    def replays(self, update: Update, frozen: Set[int]) -> bool:
        """Return False: there is no `from_slot` here."""
        return False

    def render(self, update: Update) -> Iterator[bytes]:
        """Yield the messages an update makes."""
        if isinstance(update, TransactionUpdate):
            prefix = self._filters.transaction_prefix(update.transaction)
            if prefix is not None:
                yield updates.deshred_transaction_update(prefix, update)
        elif isinstance(update, SlotUpdate) and not update.silent:
            prefix = self._filters.slot_prefix(update)
            if prefix is not None:
                yield updates.deshred_slot_update(prefix, update)


class Subscriber:
    """Moves one stream along the log, from its first request to its end."""

    def __init__(
        self, number: int, feed: Feed, replay: ReplayLog, limits: StreamLimits, context: Context
    ) -> None:
        self._sent = 0
        self._feed = feed
        self._replay = replay
        self._limits = limits
        self._context = context
        self._control: deque[bytes] = deque()
        self._news = asyncio.Event()
        self._position: int | None = None  # None until something is asked for
        self._replaying_until = 0
        self._from_slot = 0
        self._frozen: frozenset[int] = frozenset()  # of what is replayed
        self._failure: EndStream | None = None
        chance = random.Random(f"{limits.seed}/{number}")  # noqa: S311 - reproducible
        self._disconnect_at = _about(limits.disconnect_every, chance)
        self._lag_at = _about(limits.lag_every, chance)

    async def run(self, requests: AsyncIterable[bytes]) -> None:
        """Serve the stream until the client leaves; raises EndStream where the server ends it."""
        reader = asyncio.create_task(self._read(requests))
        self._replay.join(self)
        try:
            await self._serve()
        finally:
            self._replay.leave(self)
            reader.cancel()

    def wake(self) -> None:
        """Look again for something to do."""
        self._news.set()

    def behind(self) -> int:
        """Return how many updates are waiting to be read."""
        return 0 if self._position is None else self._replay.head - self._position

    async def _read(self, requests: AsyncIterable[bytes]) -> None:
        # A client that closes its side keeps being served: many scripts send one request only.
        async for data in requests:
            try:
                request = self._feed.parse(data)
                if request.HasField("ping"):
                    self._control.append(self._feed.pong(request.ping.id))
                else:
                    self._ask(request)
            except DecodeError as error:
                details = f"failed to decode Protobuf message: {error}"
                self._failure = EndStream(grpc.StatusCode.INTERNAL, details)
            except InvalidFilter as error:
                self._failure = EndStream(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            except EndStream as error:
                self._failure = error
            self.wake()

    def _ask(self, request: Any) -> None:
        self._feed.apply(request)
        if isinstance(request, SubscribeRequest) and request.HasField("from_slot"):
            newest = self._limits.replay_slots
            position = self._replay.position_of(request.from_slot, newest)
            if position is None:
                raise EndStream(
                    grpc.StatusCode.OUT_OF_RANGE,
                    f"broadcast from {request.from_slot} is not available, "
                    f"first available: {self._replay.first_of(newest)}",
                )
            self._position = position
            self._from_slot = request.from_slot
            self._replaying_until = self._replay.head
            self._frozen = self._replay.frozen
        elif self._position is None:
            self._position = self._replay.head
        self._replay.followed.set()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        next_ping = loop.time() + self._limits.ping_interval_s
        while True:
            if self._failure is not None:
                raise self._failure
            while self._control:
                await self._context.write(self._control.popleft())
            if loop.time() >= next_ping:
                next_ping = loop.time() + self._limits.ping_interval_s
                await self._context.write(self._feed.ping())
            if self._position is not None and self._position < self._replay.head:
                await self._send_some()
                continue
            self._news.clear()
            timer = loop.call_at(next_ping, self.wake)
            await self._news.wait()
            timer.cancel()

    async def _send_some(self) -> None:
        assert self._position is not None
        start = self._position
        behind = self._replay.head - max(start, self._replaying_until)
        if start < self._replay.base or behind > self._limits.max_lag_updates:
            raise EndStream(grpc.StatusCode.INTERNAL, "lagged to send an update")
        batch = self._replay.read(start, _READ_AHEAD)
        sent_before = self._sent
        try:
            for offset, update in enumerate(batch):
                if start + offset < self._replaying_until and not self._is_replayed(update):
                    continue
                for message in self._feed.render(update):
                    await self._context.write(message)
                    self._sent += 1
                    self._fail_on_purpose()
                if self._position != start:  # a new request moved the stream meanwhile
                    return
        finally:
            metrics.sent(self._sent - sent_before)
        self._position = start + len(batch)

    def _is_replayed(self, update: Update) -> bool:
        return update.slot >= self._from_slot and self._feed.replays(update, self._frozen)

    def _fail_on_purpose(self) -> None:
        if self._sent == self._disconnect_at:
            raise EndStream(grpc.StatusCode.UNAVAILABLE, "connection reset (injected)")
        if self._sent == self._lag_at:
            raise EndStream(grpc.StatusCode.INTERNAL, "lagged to send an update")


def _about(every: int, chance: random.Random) -> int:
    """Return a number around `every`, or 0 for never."""
    return chance.randint(max(1, every // 2), every * 3 // 2) if every else 0
