"""What tests of watching share: a wallet that borrows, its alerts, and processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from struct import pack
from typing import Any

import orjson
from redis.asyncio import Redis

from infra.local.process import free_port
from infra.settings import Settings
from schemas import channels
from schemas.redis_keys import (
    ACCOUNT,
    LIVE_POSITIONS,
    TRACKED_WALLETS,
    WATCHED,
    WATERMARK,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import SYSTEM_PROGRAM, text
from stream_gateway.subscriptions import Filter
from tests.integration.api.positions.test_aggregates import LENDER, Stocked
from tests.support.systems import bound
from tests.support.waiting import eventually_async

ROOT = Path(__file__).parents[4]
SOL = 10**9
PACE: dict[str, Any] = {"watch_every_s": 1.0, "watch_wallets_per_s": 100.0}


class Borrower:
    """A tracked wallet with a loan, whose health tests set: supplied by borrowed, of a thousand."""

    def __init__(self, chain: Stocked, wallet: bytes, loan: bytes, bank: bytes) -> None:
        self._chain = chain
        self._loan = loan
        self._bank = bank
        self.wallet = wallet
        self.name = text(wallet)
        self.field = f"p01/lending/{text(loan)}"

    @classmethod
    async def begin(cls, chain: Stocked, supplied: int, *, lamports: int = 2 * SOL) -> Borrower:
        wallet = chain.address()
        await chain.covers(wallet)
        await chain.put(wallet, SYSTEM_PROGRAM, b"", lamports=lamports)
        bank = await chain.bank(2)
        loan = await chain.loan(wallet, supplied, 1_000, bank)
        await chain.redis.zadd(TRACKED_WALLETS.make(), {wallet: 1.0})
        return cls(chain, wallet, loan, bank)

    async def owes(self, supplied: int) -> None:
        """Set what the loan is backed by."""
        data = b"loan" + self.wallet + pack("<QQ32s", supplied, 1_000, self._bank)
        await self._chain.put(self._loan, LENDER, data, self.wallet, slot=4600)

    async def lose_bank(self) -> None:
        """Let the bank not be known, so that nothing is known of the loan's health."""
        tag = account_tag(text(self._bank))
        await self._chain.redis.delete(ACCOUNT.make(tag=tag, address=text(self._bank)))

    async def level(self) -> float | None:
        """What the watcher last knew of its health."""
        stored: Any = await self._chain.redis.hget(WATCHED.make(wallet=self.name), self.field)
        return None if stored is None else orjson.loads(stored)[3]

    async def seen(self, level: float) -> None:
        """Wait until the watcher knows a level."""

        async def is_so() -> bool:
            return await self.level() == level

        await eventually_async(is_so, lambda: level)


async def advance(chain: Stocked, time_ms: int, slots: int = 1) -> None:
    """Move the lane of accounts to a time."""
    for tag in account_tags():
        name = WATERMARK.make(tag=tag, group="accounts")
        await chain.redis.hincrby(name, "slot", slots)
        await chain.redis.hset(name, "time_ms", time_ms)


async def events(redis: Redis) -> list[channels.LiveEvent]:
    """All alerts that the stream has, oldest first."""
    entries: Any = await redis.xrange(LIVE_POSITIONS.make())
    return [event for _, fields in entries for event in channels.unpack(fields).events]


async def alerts_of(redis: Redis, wallet: str, threshold: float | None) -> list[Mapping[str, Any]]:
    """The alerts that a client with a threshold is sent, by the gateway's filter."""
    chosen = Filter("positions", wallets=frozenset({wallet}), health_below=threshold)
    return [
        orjson.loads(event.frame)["data"]
        for event in await events(redis)
        if chosen.matches(event.index)
    ]


class Process:
    """A `soltape watch` that a test may kill."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / f"watch-{self.port}.log"
        self._environment = {
            "REDIS_URL": settings.redis_url,
            "ACCESS_REDIS_URL": str(settings.access_redis_url),
            "CLICKHOUSE_URL": settings.clickhouse_url,
            "SOLTAPE_DATA": str(folder),
            "METRICS_PORT_WATCH": str(self.port),
            **{name.upper(): str(value) for name, value in PACE.items()},
        }
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it watches once it has the lease."""
        with self._log.open("ab") as log:
            self.child = subprocess.Popen(
                bound([sys.executable, "-m", "tests.integration.api.watch.lender"]),
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.child
        self.child.kill()
        self.child.wait()

    def stop(self) -> int:
        """Ask it to end; return its status."""
        assert self.child
        self.child.terminate()
        return self.child.wait(60)

    def said(self) -> str:
        """Its log."""
        return self._log.read_text()
