"""Compares stored accounts with RPC, a hundred a minute, and mends what differs.

What the lane takes on trust from a node is that an account's message comes before its block is
closed. This is the check of it. Keys are drawn at random each time, so that no part of them waits
for its turn, however often the process starts.
"""

from __future__ import annotations

import asyncio
import random
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
from schemas.protocols.programs import OTHER
from schemas.protocols.registry import kind_of
from schemas.redis_keys import ACCOUNT, WATERMARK, account_tag, account_tags
from schemas.solana.addresses import SYSTEM_PROGRAM, key, text

log = structlog.get_logger(__name__)

EVERY_S: Final = 60.0
ACCOUNTS: Final = 100
APPLIED_WITHIN_S: Final = 30.0  # the agent's lag that is waited for
LOOK_S: Final = 0.25
KEYS_A_LOOK: Final = 32  # that are drawn, of each partition's node
MOST_LOOKS: Final = 40  # until enough of the keys are accounts: 10,240 keys a minute, 2.6 us each
_OF_WALLETS: Final = frozenset({SYSTEM_PROGRAM, OTHER})
"""Programs that stored lamports of wallets have."""
_PREFIX: Final = ACCOUNT.pattern.partition("{")[0].encode()


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
                    await self.compare(await self.draw())
                except (RedisError, RpcRefused, BadAnswer) as error:
                    log.warning("accounts could not be audited", why=str(error))
                await asyncio.sleep(EVERY_S)
        finally:
            await self._redis.aclose()

    async def draw(self) -> list[bytes]:
        """Return stored accounts at random, each once; raises RedisError.

        They are ACCOUNTS, or fewer where Redis has few among its other keys.
        """
        commands: list[tuple[Any, ...]] = []
        for tag in account_tags():  # the first leads a cluster to the node of the others
            commands.append(("EXISTS", WATERMARK.make(tag=tag, group=GROUP)))
            commands += [("RANDOMKEY",)] * KEYS_A_LOOK
        drawn: set[bytes] = set()
        for _ in range(MOST_LOOKS):
            for name in await ask(self._redis, commands):
                if isinstance(name, bytes) and name.startswith(_PREFIX):
                    drawn.add(key(name.decode().rsplit(":", 1)[1]))
            if len(drawn) >= ACCOUNTS:
                break
        most = min(len(drawn), ACCOUNTS)
        return random.sample(sorted(drawn), most)

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
            if stored.slot > slot or stored.program in _OF_WALLETS:
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
        found_by = kind.found_by(stored.data())
        return self._tracked.lets_through(update.address, stored.program, found_by)
