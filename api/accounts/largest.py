"""The largest token accounts of a mint, where the lane of accounts covers them.

RPC said which they were at a slot; the lane has followed each of them since.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, Final

from api.accounts.following import FollowState
from api.stores.clients import Stores
from schemas import account_reading
from schemas.accounts import BadAccount as BadStored
from schemas.accounts import largest_of, unpack
from schemas.redis_keys import (
    ACCOUNT,
    COVERED,
    WATERMARK,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key, text
from schemas.solana.token_accounts import BadAccount, read_token_account

_TAGS: Final = tuple(account_tags())
_PROGRAMS: Final = (TOKEN_PROGRAM, TOKEN_2022_PROGRAM)
_ADDRESS_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class LargestAccount:
    """A token account as the lane has it."""

    address: bytes
    owner: bytes  # empty: it is closed, or another mint's now
    amount_raw: int
    slot: int  # of its last version


@dataclass(frozen=True, slots=True)
class Largest:
    """The token accounts that were a mint's largest at `listed_slot`, as they are now."""

    accounts: tuple[LargestAccount, ...]
    listed_slot: int
    least_raw: int | None  # no other account had more at that slot; None: there was no other
    as_of_slot: int
    as_of_ms: int


@dataclass(frozen=True, slots=True)
class NoLargest:
    """Why the largest accounts of a mint cannot be had from the lane."""

    standing: FollowState
    withdrawn: str = ""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What all partitions say of a mint's largest accounts."""

    addresses: tuple[bytes, ...]
    slot: int
    least_raw: int | None
    as_of_slot: int
    as_of_ms: int


class LargestReader:
    """Reads largest accounts, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def read(self, mint: str) -> Largest | NoLargest:
        """Return the largest accounts of a mint, or why they are not known; raises Problem."""
        listed = await self._listed(mint)
        if isinstance(listed, NoLargest):
            return listed
        by_tag: defaultdict[str, list[bytes]] = defaultdict(list)
        for address in listed.addresses:
            by_tag[account_tag(text(address))].append(address)
        commands = [
            ("MGET", *(ACCOUNT.make(tag=tag, address=text(each)) for each in addresses))
            for tag, addresses in by_tag.items()
        ]
        answers = await self._stores.ask(commands) if commands else []
        found = []
        for addresses, packed in zip(by_tag.values(), answers, strict=True):
            for address, stored in zip(addresses, packed, strict=True):
                account = _account(key(mint), address, stored)
                if account is None or account.slot < listed.slot:
                    return NoLargest(FollowState.PENDING)  # let go meanwhile: it is asked again
                found.append(account)
        return Largest(
            tuple(found), listed.slot, listed.least_raw, listed.as_of_slot, listed.as_of_ms
        )

    async def _listed(self, mint: str) -> _Listed | NoLargest:
        subject = text(largest_of(key(mint)))
        commands: list[tuple[Any, ...]] = []
        for tag in _TAGS:
            watermark = WATERMARK.make(tag=tag, group=account_reading.GROUP)
            fields = ("slot", "given", "reason", "accounts", "least_raw")
            commands += (
                ("HMGET", watermark, "slot", "time_ms"),
                account_reading.floor_question(tag),
                ("HMGET", COVERED.make(tag=tag, address=subject), *fields),
            )
        answers = await self._stores.ask(commands)
        marks: list[tuple[int, int]] = []
        lists: set[tuple[int, bytes, bytes | None]] = set()
        for at in range(0, len(answers), 3):
            (slot, time_ms), floor, (*record, accounts, least_raw) = answers[at : at + 3]
            if slot is None:
                return NoLargest(FollowState.NOT_INGESTED)
            marks.append((int(slot), int(time_ms or 0)))
            covered = account_reading.coverage(record, floor)
            if covered.slot is None:
                standing = FollowState.WITHDRAWN if covered.reason else FollowState.PENDING
                return NoLargest(standing, covered.reason)
            lists.add((covered.slot, accounts or b"", least_raw))
        if len(lists) > 1:  # some partitions have a later list already
            return NoLargest(FollowState.PENDING)
        [(listed_slot, packed, least)] = lists
        addresses = tuple(
            packed[at : at + _ADDRESS_BYTES] for at in range(0, len(packed), _ADDRESS_BYTES)
        )
        return _Listed(addresses, listed_slot, None if least is None else int(least), *min(marks))


def _account(mint: bytes, address: bytes, packed: bytes | None) -> LargestAccount | None:
    """Return an account of a mint, None where it is not stored or cannot be read."""
    if packed is None:
        return None
    try:
        stored = unpack(packed)
        if stored.closed or stored.program not in _PROGRAMS:
            return LargestAccount(address, b"", 0, stored.slot)
        held = read_token_account(stored.program, stored.data())
    except (BadStored, BadAccount):
        return None
    if held.mint != mint:  # closed, and opened again
        return LargestAccount(address, b"", 0, stored.slot)
    return LargestAccount(address, held.owner, held.amount_raw, stored.slot)
