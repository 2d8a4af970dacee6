"""Asks RPC what the last epochs paid to stake accounts, and keeps the answers in Redis.

A reward is a fact of a block that is final: it needs no place in the lane.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import structlog

from infra.redis.client import RedisError, ask, connect
from infra.settings import Settings
from infra.solana_rpc.client import RpcRefused
from pipeline.ingest.accounts import metrics
from pipeline.ingest.accounts.asking import reason_of
from pipeline.ingest.accounts.rpc import MOST_A_CALL, AccountsRpc, BadAnswer
from schemas.redis_keys import STAKE_REWARDS, account_tag
from schemas.solana.addresses import text
from schemas.stake_rewards import EPOCHS, EpochReward, StakeRewards, pack_rewards

log = structlog.get_logger(__name__)

MOST_WAITING: Final = 5_000  # accounts; what is asked beyond them is dropped, and asked again


class Rewards:
    """Asks until cancelled."""

    def __init__(self, settings: Settings, rpc: AccountsRpc) -> None:
        self._redis = connect(settings)
        self._rpc = rpc
        self._waiting: dict[bytes, None] = {}
        self._wanted = asyncio.Event()

    def ask(self, account: bytes) -> None:
        """Have a stake account asked for."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting[account] = None
            self._wanted.set()

    async def run(self) -> None:
        """Ask for those that wait, a hundred at a time."""
        try:
            while True:
                await self._wanted.wait()
                accounts = [*self._waiting][:MOST_A_CALL]
                for account in accounts:
                    del self._waiting[account]
                if not self._waiting:
                    self._wanted.clear()
                try:
                    await self._answer(accounts)
                except (RedisError, RpcRefused, BadAnswer) as error:
                    metrics.REFUSED.inc()
                    log.warning("rewards could not be asked for", why=str(error))
        finally:
            await self._redis.aclose()

    async def _answer(self, accounts: list[bytes]) -> None:
        last = await self._rpc.epoch() - 1
        found: list[list[EpochReward]] = [[] for _ in accounts]
        for epoch in range(last, max(last - EPOCHS, -1), -1):
            for rewards, paid in zip(found, await self._of_epoch(accounts, epoch), strict=True):
                rewards.append(paid)
        asked_ms = int(time.time() * 1000)
        commands: list[tuple[Any, ...]] = []
        for account, rewards in zip(accounts, found, strict=True):
            name = STAKE_REWARDS.make(tag=account_tag(text(account)), address=text(account))
            packed = pack_rewards(StakeRewards(asked_ms, tuple(rewards)))
            commands.append(("SET", name, packed, "EX", STAKE_REWARDS.ttl_s))
        await ask(self._redis, commands)
        metrics.ASKED.labels("rewards").inc(len(accounts))

    async def _of_epoch(self, accounts: list[bytes], epoch: int) -> list[EpochReward]:
        try:
            paid = await self._rpc.inflation_rewards(accounts, epoch)
        except RpcRefused as error:  # it no longer has the block, or not yet
            return [EpochReward(epoch, reason=reason_of(error))] * len(accounts)
        return [EpochReward(epoch) if each is None else EpochReward(epoch, *each) for each in paid]
