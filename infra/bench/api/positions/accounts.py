"""Accounts in the bench's Redis, as the agent `accounts` stores them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from struct import pack as packed
from typing import Final

from infra.bench.api.redis_writer import RedisWriter
from infra.bench.api.world import LAST_MS, LAST_SLOT
from schemas.account_reading import GROUP
from schemas.accounts import StoredAccount, compress, followed_of, pack
from schemas.protocols.registry import kind_of, mints_of
from schemas.redis_keys import (
    ACCOUNT,
    COVERAGE_FLOOR,
    COVERED,
    FOUND_BY,
    POOLS_OF,
    TRACKED_ACCOUNTS,
    TRACKED_WALLETS,
    WATERMARK,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import CLOCK, SYSVAR_PROGRAM, TOKEN_PROGRAM, text

_SINCE: Final = LAST_SLOT - 100_000  # from which all is known
_EPOCH: Final = LAST_SLOT // 432_000
_TAGS: Final = account_tags()


def clock_data(slot: int, time_ms: int) -> bytes:
    """Return the clock sysvar."""
    return packed("<QqQQq", slot, 0, _EPOCH, _EPOCH + 1, time_ms // 1_000)


class AccountsWriter:
    """Writes accounts with what finds them, and coverage."""

    def __init__(self, write: RedisWriter) -> None:
        self._write = write

    async def put(
        self, address: bytes, program: bytes, data: bytes, lamports: int, slot: int = LAST_SLOT
    ) -> None:
        """Write a version of an account of a kind that is known."""
        kind = kind_of(address, program, data)
        assert kind is not None, f"no protocol knows {len(data)} bytes of {text(program)}"
        tag, name = account_tag(text(address)), text(address)
        stored = StoredAccount(slot, lamports, program, len(data), compress(data))
        await self._write.command("SET", ACCOUNT.make(tag=tag, address=name), pack(stored))
        for finder in kind.found_by(data):
            key = FOUND_BY.make(tag=tag, address=text(finder))
            await self._write.command("SADD", key, address)
        for mint in mints_of(kind, data):
            await self._write.command("SADD", POOLS_OF.make(tag=tag, mint=text(mint)), address)

    async def put_mint(self, mint: bytes, decimals: int, supply_raw: int) -> None:
        """Write a mint that the lane follows by its address."""
        data = packed("<I32sQBBI32s", 0, bytes(32), supply_raw, decimals, 1, 0, bytes(32))
        await self.put(mint, TOKEN_PROGRAM, data, 1_461_600)
        await self.follow_account(mint)

    async def put_token(self, address: bytes, wallet: bytes, mint: bytes, raw: int) -> None:
        """Write a wallet's token account."""
        data = mint + wallet + packed("<Q36xB56x", raw, 1)
        await self.put(address, TOKEN_PROGRAM, data, 2_039_280)

    async def follow(self, wallets: Iterable[bytes]) -> None:
        """Have wallets followed, and all of their token accounts known."""
        for wallet in wallets:
            await self._track(TRACKED_WALLETS.make(), wallet)
            await self.cover(wallet)

    async def follow_account(self, address: bytes) -> None:
        """Have an account followed by its address, and known."""
        await self._track(TRACKED_ACCOUNTS.make(), address)
        await self.cover(followed_of(address))

    async def cover(self, address: bytes) -> None:
        """Say that all of a program, a wallet or an account is known."""
        for tag in _TAGS:
            key = COVERED.make(tag=tag, address=text(address))
            await self._write.hash(key, "slot", _SINCE, "given", _SINCE)

    async def write_progress(self) -> None:
        """Write how far the lane of accounts has come, and the chain's clock."""
        at_ms = time.time_ns() // 10**6
        for tag in _TAGS:
            key = WATERMARK.make(tag=tag, group=GROUP)
            mark = ("slot", LAST_SLOT, "time_ms", LAST_MS)
            await self._write.hash(key, *mark, "offset", LAST_SLOT, "at_ms", at_ms)
            await self._write.hash(COVERAGE_FLOOR.make(tag=tag), "programs", b"covered")
        await self.put(CLOCK, SYSVAR_PROGRAM, clock_data(LAST_SLOT, LAST_MS), 1_169_280)

    async def _track(self, key: str, address: bytes) -> None:
        await self._write.ranked(key, time.time_ns() // 10**6, address)
