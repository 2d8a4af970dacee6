"""Compares stored accounts with RPC, a hundred a minute, and mends what differs.

What the lane takes on trust from a node is that an account's message comes before its block is
closed. This is the check of it. Keys are walked in Redis's own order, which is that of hashes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

import structlog

from infra.redis.client import RedisError, ask, connect
from infra.settings import Settings
from infra.solana_rpc.client import RpcRefused
from pipeline.ingest.accounts import metrics
from pipeline.ingest.accounts.asking import Asking
from pipeline.ingest.accounts.ledger import Update
from pipeline.ingest.accounts.rpc import AccountsRpc, BadAnswer
from pipeline.ingest.accounts.tracked import Tracked
from schemas.account_reading import GROUP
from schemas.accounts import BadAccount, StoredAccount, unpack
from schemas.protocols.registry import kind_of
from schemas.redis_keys import ACCOUNT, WATERMARK, account_tag
from schemas.solana.addresses import SYSTEM_PROGRAM, key, text

log = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
ACCOUNTS: Final = 100
APPLIED_WITHIN_S: Final = 30.0  # the agent's lag that is waited for
LOOK_S: Final = 0.25
_SCAN_COUNT: Final = 1_000


class Audit:
    """Audits until cancelled."""

    def __init__(
        self, settings: Settings, rpc: AccountsRpc, asking: Asking, tracked: Tracked
    ) -> None:
        self._redis = connect(settings)
        self._rpc = rpc
        self._asking = asking
        self._tracked = tracked

    async def run(self) -> None:
        """Compare a hundred accounts every minute."""
        try:
            while True:
                try:
                    async with aclosing(self._addresses()) as addresses:
                        await self._walk(addresses)
                except (RedisError, RpcRefused, BadAnswer) as error:
                    log.warning("accounts could not be audited", why=str(error))
                await asyncio.sleep(EVERY_S)
        finally:
            await self._redis.aclose()

    async def _addresses(self) -> AsyncGenerator[bytes, None]:
        pattern = ACCOUNT.make(tag="{*}", address="*")
        async for name in self._redis.scan_iter(match=pattern, count=_SCAN_COUNT):
            yield key(name.decode().rsplit(":", 1)[1])

    async def _walk(self, addresses: AsyncIterator[bytes]) -> None:
        drawn: list[bytes] = []
        async for address in addresses:
            drawn.append(address)
            if len(drawn) == ACCOUNTS:
                await self.compare(drawn)
                drawn = []
                await asyncio.sleep(EVERY_S)
        await self.compare(drawn)

    async def compare(self, addresses: list[bytes]) -> int:
        """Compare stored accounts with RPC, mend those that differ; return how many did.

        Raises RedisError, RpcRefused, BadAnswer.
        """
        if not addresses:
            return 0
        slot, found = await self._rpc.multiple(addresses, 0)
        tags = sorted({account_tag(text(address)) for address in addresses})
        if not await self._is_applied(tags, slot):
            return 0  # the agent is behind: what it has cannot be compared
        stored = await self._stored(addresses)
        differing = [
            address
            for address, packed, update in zip(addresses, stored, found, strict=True)
            if packed is not None and self._differs(packed, update, slot)
        ]
        metrics.AUDITED.inc(len(addresses))
        if differing:
            metrics.DIFFERENCES.inc(len(differing))
            shown = [text(each) for each in differing[:10]]
            log.error("stored accounts differ from RPC", slot=slot, accounts=shown)
            await self._asking.accounts(differing, slot)
        return len(differing)

    async def _stored(self, addresses: list[bytes]) -> list[bytes | None]:
        names = (ACCOUNT.make(tag=account_tag(text(a)), address=text(a)) for a in addresses)
        return await ask(self._redis, [("GET", name) for name in names])

    async def _is_applied(self, tags: list[str], slot: int) -> bool:
        commands: list[tuple[Any, ...]] = [
            ("HGET", WATERMARK.make(tag=tag, group=GROUP), "slot") for tag in tags
        ]
        for _ in range(int(APPLIED_WITHIN_S / LOOK_S)):
            if all(int(at or -1) >= slot for at in await ask(self._redis, commands)):
                return True
            await asyncio.sleep(LOOK_S)
        return False

    def _differs(self, packed: bytes, update: Update, slot: int) -> bool:
        try:
            stored = unpack(packed)
            if stored.slot > slot or stored.program == SYSTEM_PROGRAM:
                return False  # newer; or lamports that are kept as of each asking
            if stored.closed or not update.lamports:
                return stored.closed == bool(update.lamports)
            if not self._is_kept(update, stored):
                return False
            same = (stored.lamports, stored.program, stored.data())
        except BadAccount:
            return True
        return same != (update.lamports, update.owner, update.data)

    def _is_kept(self, update: Update, stored: StoredAccount) -> bool:
        """Return whether the lane follows an account: token accounts only while tracked."""
        kind = kind_of(update.address, stored.program, stored.data())
        if kind is None or kind.group != "tokens":
            return kind is not None
        tracked = self._tracked
        return (
            update.address in tracked.mints
            or tracked.follows(update.address)
            or any(
                each in tracked.wallets or each in tracked.mints
                for each in kind.found_by(stored.data())
            )
        )
