"""A small Yellowstone node with a chain known beforehand, for ingest to be tried against.

It speaks the real protocols (gRPC, JSON-RPC) and misbehaves on request: forks, skipped slots,
repeated and overtaking updates, broken streams, a replay buffer that is too short.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import grpc
import grpc.aio
import pytest
from aiohttp import web
from confluent_kafka.admin import AdminClient

from infra.kafka.client import confluent_client
from infra.local.process import free_port
from infra.settings import Settings
from schemas import topics
from schemas.money import USDC, WSOL
from schemas.proto import geyser_pb2 as geyser
from schemas.proto.geyser_pb2 import SubscribeUpdate, SubscribeUpdateTransactionInfo
from schemas.solana.addresses import TOKEN_PROGRAM, key, signature_text, text
from schemas.solana.rpc_json import transaction_to_json
from tests.support.forked import Forked
from tests.support.waiting import eventually

SOLFI = key("SV2EYYJyRz2YhfXwXnhNAevDEui5Q6yrfyo13WtupPF")  # a swap is its token transfers
GENESIS = 1_000
GENESIS_TIME = 1_700_000_000


def swap_transaction(
    random: Random, signature: bytes, index: int
) -> SubscribeUpdateTransactionInfo:
    """A user pays one token to a pool's vault and gets another."""
    users = [bytes([1, n]) + bytes(30) for n in range(20)]
    pools = [bytes([2, n]) + bytes(30) for n in range(12)]
    user, pool = random.choice(users), random.choice(pools)
    coin = USDC if pool == pools[0] else text(bytes([3]) + pool[1:])
    decimals = 6
    vault_in, vault_out, from_account, to_account = (bytes([4 + n]) + pool[1:] for n in range(4))
    paid, received = random.randrange(10**8, 10**10), random.randrange(1, 10**12)
    if coin == USDC:
        received = paid * 150 // 1000
    keys = [user, pool, vault_in, vault_out, from_account, to_account, key(WSOL), key(coin)]
    keys += [SOLFI, TOKEN_PROGRAM]

    info = SubscribeUpdateTransactionInfo(signature=signature, index=index)
    message = info.transaction.message
    info.transaction.signatures.append(signature)
    message.header.num_required_signatures = 1
    message.account_keys.extend(keys)
    message.recent_blockhash = bytes(32)
    message.instructions.add(program_id_index=8, accounts=bytes(range(8)), data=b"\x07")
    inner = info.meta.inner_instructions.add(index=0)

    def transfer(
        source: int, mint: int, destination: int, authority: int, raw: int, d: int
    ) -> None:
        data = bytes([12]) + raw.to_bytes(8, "little") + bytes([d])
        accounts = bytes([source, mint, destination, authority])
        inner.instructions.add(program_id_index=9, accounts=accounts, data=data, stack_height=2)

    transfer(4, 6, 2, 0, paid, 9)
    transfer(3, 7, 5, 1, received, decimals)
    info.meta.fee = 5_000
    for at, mint, owner, before, after, d in (
        (2, WSOL, pool, 0, paid, 9),
        (3, coin, pool, received, 0, decimals),
        (4, WSOL, user, paid, 0, 9),
        (5, coin, user, 0, received, decimals),
    ):
        for balances, raw in (
            (info.meta.pre_token_balances, before),
            (info.meta.post_token_balances, after),
        ):
            balance = balances.add(
                account_index=at, mint=mint, owner=text(owner), program_id=text(TOKEN_PROGRAM)
            )
            balance.ui_token_amount.amount = str(raw)
            balance.ui_token_amount.decimals = d
    return info


@dataclass
class Slot:
    slot: int
    parent: int
    canonical: bool
    transactions: list[SubscribeUpdateTransactionInfo]


@dataclass
class Node:
    """A chain made up from a seed, sent in real time to each subscriber."""

    seed: int
    slots: int
    slot_s: float = 0.05
    replay_slots: int = 10**6
    held_slots: int = 0  # the last ones, which come once `go_on` is set
    disconnect_chance: float = 0.0  # of each stream, at each slot
    rpc_serves: bool = True
    chain: list[Slot] = field(default_factory=list)
    log: list[tuple[int, SubscribeUpdate | bytes]] = field(default_factory=list)
    refused: int = 0  # from_slot past the buffer
    requests: list[geyser.SubscribeRequest] = field(default_factory=list)
    pings: int = 0
    tokens: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        self._subscribers: list[asyncio.Queue[SubscribeUpdate | bytes | None]] = []
        self.subscribed = asyncio.Event()
        self.done = asyncio.Event()
        self.held = asyncio.Event()
        self.go_on = asyncio.Event()
        self.running = asyncio.Event()  # cleared: the chain waits before its next slot
        self.running.set()
        head = GENESIS
        for number in range(GENESIS + 1, GENESIS + 1 + self.slots):
            dice = self._random.random()
            if dice < 0.1:
                continue
            canonical = dice > 0.25
            infos = [
                swap_transaction(self._random, self._random.randbytes(64), index)
                for index in range(self._random.randrange(6))
            ]
            self.chain.append(Slot(number, head, canonical, infos))
            if canonical:
                head = number

    @property
    def canonical(self) -> list[Slot]:
        return [slot for slot in self.chain if slot.canonical]

    def expected(self, after: int = 0) -> list[tuple[int, list[tuple[str, int]]]]:
        """The settled lane's truth: slots and their swaps' (signature, tx_index)."""
        return [
            (slot.slot, [(signature_text(i.signature), i.index) for i in slot.transactions])
            for slot in self.canonical
            if slot.slot > after
        ]

    async def live(self) -> None:
        """Send the chain from the first subscriber on: transactions overtake, some come twice."""
        await self.subscribed.wait()
        sent_up_to = {geyser.SLOT_CONFIRMED: GENESIS, geyser.SLOT_FINALIZED: GENESIS}
        for at, slot in enumerate(self.chain):
            if self.held_slots and at == len(self.chain) - self.held_slots:
                self.held.set()
                await self.go_on.wait()
            await self.running.wait()
            self._status(slot, geyser.SLOT_CREATED_BANK)
            updates: list[SubscribeUpdate | bytes] = [
                self._transaction(slot, info) for info in slot.transactions
            ]
            updates += [each for each in updates if self._random.random() < 0.2]
            self._random.shuffle(updates)
            for update in updates:
                self._send(slot.slot, update)
            # The last one is final at once, so no connection begins amid it.
            if at < len(self.chain) - 1:
                await asyncio.sleep(self.slot_s)
            self._send(slot.slot, self._meta(slot))
            self._status(slot, geyser.SLOT_PROCESSED)
            for status, depth in ((geyser.SLOT_CONFIRMED, 2), (geyser.SLOT_FINALIZED, 8)):
                for each in self.chain[: max(0, at + 1 - depth)]:
                    if each.canonical and each.slot > sent_up_to[status]:
                        sent_up_to[status] = each.slot
                        if self._random.random() < 0.8:  # a descendant will do
                            self._status(each, status)
            if self._random.random() < self.disconnect_chance:
                self.disconnect()
        self._status(self.canonical[-1], geyser.SLOT_FINALIZED)
        self.done.set()

    def send_slot(self, slot: Slot, *statuses: geyser.SlotStatus) -> None:
        """Send a slot at once, whole, with what becomes of it."""
        self._status(slot, geyser.SLOT_CREATED_BANK)
        for info in slot.transactions:
            self._send(slot.slot, self._transaction(slot, info))
        self._send(slot.slot, self._meta(slot))
        for status in (geyser.SLOT_PROCESSED, *statuses):
            self._status(slot, status)

    def disconnect(self) -> None:
        for queue in self._subscribers:
            queue.put_nowait(None)

    def send_garbage(self, raw: bytes) -> None:
        self._send(self.log[-1][0], raw)

    def _send(self, slot: int, update: SubscribeUpdate | bytes) -> None:
        if not isinstance(update, bytes):
            update.created_at.GetCurrentTime()
        self.log.append((slot, update))
        for queue in self._subscribers:
            queue.put_nowait(update)

    def _transaction(self, slot: Slot, info: SubscribeUpdateTransactionInfo) -> SubscribeUpdate:
        return SubscribeUpdate(
            transaction=geyser.SubscribeUpdateTransaction(slot=slot.slot, transaction=info)
        )

    def _meta(self, slot: Slot) -> SubscribeUpdate:
        meta = geyser.SubscribeUpdateBlockMeta(
            slot=slot.slot, parent_slot=slot.parent, blockhash=f"hash{slot.slot}"
        )
        meta.block_time.timestamp = GENESIS_TIME + slot.slot
        return SubscribeUpdate(block_meta=meta)

    def _status(self, slot: Slot, status: geyser.SlotStatus) -> None:
        update = geyser.SubscribeUpdateSlot(slot=slot.slot, parent=slot.parent, status=status)
        self._send(slot.slot, SubscribeUpdate(slot=update))

    def _replayed(self, from_slot: int) -> Iterator[SubscribeUpdate | bytes]:
        """Yield what was sent of frozen slots, without their beginnings: as nodes do."""
        updates = [(slot, each) for slot, each in self.log if slot >= from_slot]
        frozen = {
            slot
            for slot, each in updates
            if isinstance(each, SubscribeUpdate) and each.HasField("block_meta")
        }
        for slot, each in updates:
            begins = (
                isinstance(each, SubscribeUpdate) and each.slot.status == geyser.SLOT_CREATED_BANK
            )
            if slot in frozen and not begins:
                yield each

    async def subscribe(self, requests: Any, context: grpc.aio.ServicerContext) -> Any:
        self.tokens += [v for k, v in context.invocation_metadata() if k == "x-token"]
        request = await anext(requests)
        self.requests.append(request)
        queue: asyncio.Queue[SubscribeUpdate | bytes | None] = asyncio.Queue()
        if request.HasField("from_slot"):
            first = max((slot for slot, _ in self.log), default=0) - self.replay_slots
            if request.from_slot < first:
                self.refused += 1
                await context.abort(grpc.StatusCode.OUT_OF_RANGE, f"first available: {first}")
            for update in self._replayed(request.from_slot):
                queue.put_nowait(update)
        self._subscribers.append(queue)
        self.subscribed.set()
        answers = asyncio.create_task(self._answer(requests, queue))
        queue.put_nowait(SubscribeUpdate(ping=geyser.SubscribeUpdatePing()))
        try:
            while (update := await queue.get()) is not None:
                yield update
            await context.abort(grpc.StatusCode.INTERNAL, "lagged to send an update")
        finally:
            answers.cancel()
            self._subscribers.remove(queue)

    async def _answer(
        self, requests: Any, queue: asyncio.Queue[SubscribeUpdate | bytes | None]
    ) -> None:
        async for request in requests:
            if request.HasField("ping"):
                self.pings += 1
                queue.put_nowait(SubscribeUpdate(pong=geyser.SubscribeUpdatePong(id=1)))

    async def rpc(self, request: web.Request) -> web.Response:
        call = await request.json()
        result: Any = None
        if call["method"] == "getFirstAvailableBlock":
            result = GENESIS
        elif call["method"] == "getBlock":
            number = call["params"][0]
            block = next((slot for slot in self.canonical if slot.slot == number), None)
            if block is None:
                error = {"code": -32007, "message": f"Slot {number} was skipped"}
                return web.json_response({"jsonrpc": "2.0", "id": 1, "error": error})
            result = {
                "blockhash": f"hash{number}",
                "parentSlot": block.parent,
                "blockTime": GENESIS_TIME + number,
                "transactions": [transaction_to_json(info) for info in block.transactions],
            }
        return web.json_response({"jsonrpc": "2.0", "id": 1, "result": result})

    @asynccontextmanager
    async def serve(
        self, tls: grpc.ServerCredentials | None = None
    ) -> AsyncIterator[dict[str, str]]:
        """Serve gRPC and RPC; yields the settings that lead here."""
        # As nodes are: they end no stream whose client pings while they are slow to send.
        server = grpc.aio.server(
            options=[("grpc.http2.max_ping_strikes", 0)], compression=grpc.Compression.Gzip
        )
        handler = grpc.stream_stream_rpc_method_handler(
            self.subscribe,
            request_deserializer=geyser.SubscribeRequest.FromString,
            response_serializer=lambda update: (
                update if isinstance(update, bytes) else update.SerializeToString()
            ),
        )
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("geyser.Geyser", {"Subscribe": handler}),)
        )
        here = "127.0.0.1:0"
        port = server.add_secure_port(here, tls) if tls else server.add_insecure_port(here)
        await server.start()
        app = web.Application()
        app.router.add_post("/", self.rpc)
        runner = web.AppRunner(app)
        await runner.setup()
        rpc_port = free_port()
        await web.TCPSite(runner, "127.0.0.1", rpc_port).start()
        try:
            yield {
                "GEYSER_ENDPOINT": f"{'https' if tls else 'http'}://127.0.0.1:{port}",
                "GEYSER_BACKOFF_MAX_S": "0.5",
                "INGEST_TAKEOVER_S": "1",
                "RPC_ENDPOINT": f"http://127.0.0.1:{rpc_port}" if self.rpc_serves else "",
            }
        finally:
            await server.stop(None)
            await runner.cleanup()


@dataclass
class Role:
    """`soltape ingest` as a child process."""

    environment: dict[str, str]
    log_file: Path
    process: Forked | None = None

    def start(self) -> None:
        self.log_file.touch()
        self._started_at = len(self.log)
        self.metrics_port = free_port()
        given = self.environment | {"METRICS_PORT_INGEST": str(self.metrics_port)}
        self.process = Forked(("ingest",), os.environ | given, self.log_file)

    def stop(self, number: int) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=240)

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def has_said(self, words: str) -> bool:
        """Whether the process that was started last has logged something."""
        return words in self.log[self._started_at :]


@pytest.fixture
async def kafka(broker: Any) -> str:
    """The address of a broker on which our topics do not exist."""
    settings: Settings = broker.settings
    names = [topic.name for topic in topics.ALL]
    admin = AdminClient(confluent_client(settings))
    existing = set(admin.list_topics(timeout=120).topics)
    if ours := existing.intersection(names):
        for deleted in admin.delete_topics(list(ours)).values():
            deleted.result(timeout=120)
    eventually(lambda: not set(admin.list_topics(timeout=120).topics).intersection(names))
    return settings.kafka_bootstrap


@pytest.fixture
def make_node() -> type[Node]:
    return Node


@pytest.fixture
def make_role(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Role]]:
    roles: list[Role] = []

    def make(environment: dict[str, str]) -> Role:
        role = Role(environment, tmp_path / f"ingest-{len(roles)}.log")
        roles.append(role)
        return role

    yield make
    for role in roles:
        if role.process is not None and role.process.poll() is None:
            role.process.send_signal(signal.SIGKILL)
            role.process.wait()
