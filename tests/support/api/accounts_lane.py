"""What agent `accounts` writes, without one: versions, hints, coverage and watermarks in Redis."""

from __future__ import annotations

import time
from collections.abc import Sequence
from struct import pack as struct_pack
from typing import Any

from redis.asyncio import Redis

from schemas.accounts import StoredAccount, compress, largest_of, mint_account_of, pack
from schemas.redis_keys import (
    ACCOUNT,
    ASKED_ACCOUNTS,
    COVERAGE_FLOOR,
    COVERED,
    FOUND_BY,
    TRACKED_WALLETS,
    WATERMARK,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_PROGRAM, text

TAGS = account_tags()


class AccountsLane:
    """The lane of accounts at a slot; `advance` moves it."""

    def __init__(self, redis: Redis, slot: int, time_ms: int) -> None:
        self.redis = redis
        self.slot = slot
        self.time_ms = time_ms

    async def advance(self, slots: int = 1, *, at_ms: int | None = None) -> None:
        """Move the watermarks of all partitions."""
        self.slot += slots
        self.time_ms += 400 * slots
        record = {
            "slot": self.slot,
            "time_ms": self.time_ms,
            "at_ms": int(time.time() * 1000) if at_ms is None else at_ms,
        }
        for tag in TAGS:
            await self.redis.hset(WATERMARK.make(tag=tag, group="accounts"), mapping=record)

    async def write(
        self,
        address: bytes,
        data: bytes,
        *,
        program: bytes = TOKEN_PROGRAM,
        lamports: int = 2_039_280,
        found_by: Sequence[bytes] = (),
        slot: int | None = None,
        closed: bool = False,
    ) -> None:
        """Store a version of an account."""
        tag = account_tag(text(address))
        data = b"" if closed else data
        stored = StoredAccount(
            self.slot if slot is None else slot,
            0 if closed else lamports,
            program,
            len(data),
            compress(data),
            closed,
        )
        await self.redis.set(ACCOUNT.make(tag=tag, address=text(address)), pack(stored))
        for each in found_by:
            await self.redis.sadd(FOUND_BY.make(tag=tag, address=text(each)), address)

    async def own_sol(self, wallet: bytes, lamports: int) -> None:
        """Store a wallet's own account."""
        await self.write(wallet, b"", program=SYSTEM_PROGRAM, lamports=lamports)

    async def cover(
        self, address: bytes, slot: int | None = None, tags: Sequence[str] = TAGS
    ) -> None:
        """Give coverage, in some partitions or all of them; it moves their watermarks."""
        since = self.slot if slot is None else slot
        async with self.redis.pipeline(transaction=True) as moved:
            for tag in tags:
                moved.hincrby(WATERMARK.make(tag=tag, group="accounts"), "at_ms", 1)
                key = COVERED.make(tag=tag, address=text(address))
                moved.delete(key)
                moved.hset(key, mapping={"slot": since, "given": self.slot})
            await moved.execute()

    async def cover_mint(self, mint: bytes) -> None:
        """Give the coverage of a mint's account."""
        await self.cover(mint_account_of(mint))

    async def list_largest(
        self, mint: bytes, accounts: Sequence[bytes], least_raw: int | None = None
    ) -> None:
        """Give the coverage of a mint's largest accounts, which are stored already."""
        subject = largest_of(mint)
        await self.cover(subject)
        listed: dict[str, Any] = {"accounts": b"".join(accounts)}
        if least_raw is not None:
            listed["least_raw"] = least_raw
        for tag in TAGS:
            await self.redis.hset(COVERED.make(tag=tag, address=text(subject)), mapping=listed)

    async def withdraw(self, address: bytes, reason: str) -> None:
        """Withdraw coverage."""
        for tag in TAGS:
            key = COVERED.make(tag=tag, address=text(address))
            await self.redis.delete(key)
            await self.redis.hset(key, mapping={"reason": reason})

    async def lose(self, slot: int, tag: str = TAGS[3]) -> None:
        """Lose the slots of a partition below one."""
        await self.redis.hset(COVERAGE_FLOOR.make(tag=tag), "slot", slot)

    async def track(self, wallet: bytes) -> None:
        """Follow a wallet, as ingest does."""
        await self.redis.zadd(TRACKED_WALLETS.make(), {wallet: time.time() * 1000})

    async def asked(self) -> list[tuple[bytes, bytes]]:
        """Return what was asked for, oldest first: field and raw address."""
        entries = await self.redis.xrange(ASKED_ACCOUNTS.make())
        return [pair for _, fields in entries for pair in fields.items()]


def token_data(
    mint: bytes,
    owner: bytes,
    amount_raw: int,
    *,
    delegate: bytes | None = None,
    delegated_raw: int = 0,
    state: int = 1,
    extensions: bytes = b"",
) -> bytes:
    """Return the bytes of a token account; `state` 2 is frozen."""
    data = struct_pack(
        "<32s32sQI32sBI8sQI32s",
        mint,
        owner,
        amount_raw,
        delegate is not None,
        delegate or bytes(32),
        state,
        0,
        bytes(8),
        delegated_raw,
        0,
        bytes(32),
    )
    return data + (b"\x02" + extensions if extensions else b"")


def mint_data(
    supply_raw: int,
    decimals: int,
    *,
    authority: bytes | None = None,
    freeze: bytes | None = None,
    extensions: bytes = b"",
) -> bytes:
    """Return the bytes of a mint account."""
    data = struct_pack(
        "<I32sQBBI32s",
        authority is not None,
        authority or bytes(32),
        supply_raw,
        decimals,
        1,
        freeze is not None,
        freeze or bytes(32),
    )
    return data + (bytes(83) + b"\x01" + extensions if extensions else b"")


def extension(kind: int, value: bytes) -> bytes:
    """Return an entry of a Token-2022 account or mint."""
    return struct_pack("<HH", kind, len(value)) + value
