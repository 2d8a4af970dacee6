from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest

from infra.chain.market import Knobs, Market
from infra.chain.server import LocalChain, ServerOptions
from infra.chain.source import Account, AccountWrite, SlotEvent, TokenSupply, VoteAccount
from schemas.proto.geyser_pb2 import SubscribeRequest, SubscribeUpdate
from schemas.proto.geyser_pb2_grpc import GeyserStub
from schemas.solana import networks

ANY_PORT: dict[str, Any] = {"grpc_port": 0, "rpc_port": 0}


class HandFed:
    """A source whose events the test publishes, and one account."""

    genesis_hash = networks.SIMULATED
    slots_per_epoch = 100

    def events(self) -> AsyncIterator[SlotEvent]:
        raise AssertionError("this chain is fed by hand")

    def genesis_accounts(self) -> tuple[AccountWrite, ...]:
        return ()

    def vote_accounts(self, slot: int) -> tuple[VoteAccount, ...]:
        return ()

    def account(self, address: bytes) -> Account | None:
        return Account(bytes(32), 5, b"hello world") if address == b"\1" * 32 else None

    def token_supply(self, mint: bytes) -> TokenSupply | None:
        return TokenSupply(1_234_500, 6) if mint == b"\2" * 32 else None


class Subscription:
    """A Python subscriber: what it got, and how its stream ended."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.updates: list[SubscribeUpdate] = []

    async def ask(self, request: SubscribeRequest) -> None:
        await self._call.write(request)

    async def next(self, timeout_s: float = 120) -> SubscribeUpdate:
        async with asyncio.timeout(timeout_s):
            update = await self._call.read()
        assert update is not grpc.aio.EOF, f"stream ended: {await self._call.details()}"  # type: ignore[attr-defined]
        self.updates.append(update)
        return update

    async def until(self, stop: Callable[[SubscribeUpdate], bool]) -> list[SubscribeUpdate]:
        """Read up to and with the update that stops it; return what was read."""
        start = len(self.updates)
        while not stop(await self.next()):
            pass
        return self.updates[start:]

    async def ended(self, timeout_s: float = 120) -> tuple[grpc.StatusCode, str]:
        """Read to the end and return the status."""
        async with asyncio.timeout(timeout_s):
            try:
                while (update := await self._call.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
                    self.updates.append(update)
            except grpc.aio.AioRpcError as error:
                return error.code(), error.details() or ""
            return await self._call.code(), await self._call.details()


class Served:
    """A running chain and a connection to it."""

    def __init__(self, chain: LocalChain, channel: grpc.aio.Channel) -> None:
        self.chain = chain
        self.channel = channel
        self.stub: Any = GeyserStub(channel)

    def publish(self, events: list[SlotEvent]) -> None:
        for event in events:
            self.chain.publish(event)

    async def subscribe(self, request: SubscribeRequest, **options: Any) -> Subscription:
        """Subscribe, and return when the server follows the request."""
        subscription = Subscription(self.stub.Subscribe(**options))
        await subscription.ask(request)
        ping = SubscribeRequest()
        ping.ping.id = 77
        await subscription.ask(ping)
        while (await subscription.next()).WhichOneof("update_oneof") != "pong":
            pass
        return subscription


Serve = Callable[..., Any]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start chains with options; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def start(source: Any = None, **options: Any) -> Served:
            chain = LocalChain(source or HandFed(), ServerOptions(**{**ANY_PORT, **options}))
            await stack.enter_async_context(chain)
            channel = grpc.aio.insecure_channel(
                f"127.0.0.1:{chain.grpc_port}", (("grpc.max_receive_message_length", 64 << 20),)
            )
            await stack.enter_async_context(_closing(channel))
            return Served(chain, channel)

        yield start


@asynccontextmanager
async def _closing(channel: grpc.aio.Channel) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await channel.close()  # type: ignore[call-arg]


@pytest.fixture(scope="session")
def market_events() -> list[SlotEvent]:
    """Eighty slots of a busy market with forks, dead and skipped slots."""
    return list(Market(Knobs(seed=2, rate=50, forks=0.15, skipped=0.1)).generate(80))
