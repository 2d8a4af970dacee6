"""Mint accounts, where the lane of accounts covers them: supply, decimals, authorities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from api.accounts.following import FollowState
from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from infra.redis.pipelined import Repeated
from schemas import account_reading
from schemas.accounts import BadAccount as BadStored
from schemas.accounts import mint_account_of, unpack
from schemas.redis_keys import ACCOUNT, COVERED, WATERMARK, account_tag
from schemas.solana.base58 import decode, encode
from schemas.solana.token_accounts import (
    BadAccount,
    Metadata,
    MintAccount,
    metadata_address,
    read_metadata,
    read_mint,
)

NO_LANE_FOR_S: Final = 1.0  # after it was seen that there is none
_REMEMBERED: Final = 1 << 14
_TAGS: Final = 64


class Mint(NamedTuple):
    """A mint's account, as the chain has it at `as_of_slot`."""

    account: MintAccount
    program: bytes
    slot: int  # of its last change that is known
    as_of_slot: int
    as_of_ms: int
    texts: Metadata | None = None  # its own, else those of its Metaplex account


class NoMint(NamedTuple):
    """Why a mint's account cannot be had from the lane."""

    standing: FollowState
    withdrawn: str = ""


class MintReader:
    """Reads mint accounts, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._cache: BoundedCache[bytes, tuple[MintAccount, bytes, int]] = BoundedCache(_REMEMBERED)
        self._texts: BoundedCache[bytes, Metadata] = BoundedCache(_REMEMBERED)
        self._no_lane_until = 0.0  # by the loop's clock

    async def known(self, mints: Iterable[str]) -> dict[str, Mint]:
        """Return the mints whose accounts are covered; raises Problem."""
        read = await self.read(mints)
        return {mint: found for mint, found in read.items() if isinstance(found, Mint)}

    async def read(self, mints: Iterable[str]) -> Mapping[str, Mint | NoMint]:
        """Return mints, each with its account or why it has none; raises Problem."""
        wanted = list(dict.fromkeys(mints))
        if now_s() < self._no_lane_until:
            return dict.fromkeys(wanted, NoMint(FollowState.NOT_INGESTED))
        tags = {mint: _of_mint(mint) for mint in wanted}
        # A partition's slot and floor are read before its mints, which are so never older.
        partitions = dict.fromkeys(tag for tag, _ in tags.values())
        commands: list[tuple[Any, ...]] = [each for tag in partitions for each in _of_tag(tag)]
        for _, asked in tags.values():
            commands += asked
        answers = iter(await self._stores.ask(commands) if commands else ())
        said = {tag: (next(answers), next(answers)) for tag in partitions}
        if wanted and all(slot is None for (slot, _), _ in said.values()):
            self._no_lane_until = now_s() + NO_LANE_FOR_S
        return {
            mint: self._mint(mint, *said[tag], next(answers), next(answers), next(answers))
            for mint, (tag, _) in tags.items()
        }

    def _mint(
        self,
        mint: str,
        watermark: list[bytes | None],
        floor: list[bytes | None],
        record: list[bytes | None],
        packed: bytes | None,
        metaplex: bytes | None,
    ) -> Mint | NoMint:
        slot, time_ms = watermark
        if slot is None:
            return NoMint(FollowState.NOT_INGESTED)
        coverage = account_reading.coverage(record, floor)
        if coverage.slot is None:
            known = FollowState.WITHDRAWN if coverage.reason else FollowState.PENDING
            return NoMint(known, coverage.reason)
        if packed is None:
            return NoMint(FollowState.NOT_FOUND)
        kept = self._cache.kept.get(packed)
        if kept is None:
            try:
                stored = unpack(packed)
                if stored.closed:
                    return NoMint(FollowState.NOT_FOUND)
                kept = read_mint(stored.program, stored.data()), stored.program, stored.slot
            except (BadStored, BadAccount) as error:
                return NoMint(FollowState.UNREADABLE, str(error))
            self._cache.put(packed, kept)
        account, program, changed_slot = kept
        if changed_slot < coverage.slot:
            return NoMint(FollowState.NOT_FOUND)
        texts = account.metadata
        if texts is None and metaplex is not None:
            texts = self._metaplex(decode(mint), metaplex)
        return Mint(account, program, changed_slot, int(slot), int(time_ms or 0), texts)

    def _metaplex(self, mint: bytes, packed: bytes) -> Metadata | None:
        """Return what a mint's Metaplex account calls it; None where it is closed or unreadable."""
        kept = self._texts.kept.get(packed)
        if kept is None:
            try:
                stored = unpack(packed)
                if stored.closed:
                    return None
                kept = read_metadata(mint, stored.program, stored.data())
            except (BadStored, BadAccount):
                return None
            self._texts.put(packed, kept)
        return kept


@lru_cache(maxsize=_TAGS)
def _of_tag(tag: str) -> tuple[Repeated, Repeated]:
    """Return what to ask a partition for: how far it is, and the floor of its coverage."""
    watermark = WATERMARK.make(tag=tag, group=account_reading.GROUP)
    slot = Repeated(("HMGET", watermark, "slot", "time_ms"))
    return slot, Repeated(account_reading.floor_question(tag))


@lru_cache(maxsize=_REMEMBERED)  # the second address is searched for by hashing; 1 kB each
def _of_mint(mint: str) -> tuple[str, tuple[tuple[Any, ...], ...]]:
    """Return a mint's tag, and what to ask of it: coverage, account, Metaplex account."""
    raw = decode(mint)
    tag, metaplex = account_tag(mint), encode(metadata_address(raw))
    subject = encode(mint_account_of(raw))
    return tag, (
        ("HMGET", COVERED.make(tag=tag, address=subject), "slot", "given", "reason"),
        ("GET", ACCOUNT.make(tag=tag, address=mint)),
        ("GET", ACCOUNT.make(tag=account_tag(metaplex), address=metaplex)),
    )
