"""Accounts at rest in Redis, found by walking through all of them, some a second.

An index by time would take a fifth of what an account takes. The walk finds accounts of wallets
that nothing has touched for long, which ClickHouse has as well, and those that are not alive: their
slot is below the coverage of their program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from pipeline.agents.accounts.known import Known, has_row, kind_of_stored, known
from pipeline.agents.accounts.rows import row
from pipeline.agents.accounts.store import Store
from schemas.account_reading import TRACKED_PROGRAMS
from schemas.accounts import BadAccount, StoredAccount, unpack
from schemas.rows import Row

SLOTS_A_DAY: Final = 216_000  # of 400 ms
EVICTED_AT_ONCE: Final = 500
_SCANS_FOR_ROOM: Final = 20


@dataclass(slots=True)
class Resting:
    """Accounts that may leave Redis."""

    cold: list[bytes] = field(default_factory=list)  # to ClickHouse; the longest at rest first
    dead: list[bytes] = field(default_factory=list)  # not alive
    known: dict[bytes, Known] = field(default_factory=dict)
    rows: dict[bytes, Row] = field(default_factory=dict)  # of the cold
    unreadable: list[tuple[bytes, BadAccount]] = field(default_factory=list)


class Sweep:
    """The walk through one partition. All methods raise RedisError."""

    def __init__(self, store: Store, cold_after_days: int) -> None:
        self._store = store
        self._cold_slots = cold_after_days * SLOTS_A_DAY
        self._cursor = 0

    async def step(self, slot: int, skip: Callable[[bytes], bool]) -> Resting:
        """Look at the next accounts; return those that rest at a slot."""
        accounts, found = await self._next(skip)
        programs = [*{account.program for account in accounts.values()} - TRACKED_PROGRAMS]
        floors = dict(zip(programs, await self._store.read_floors(programs), strict=True))
        dead = [
            address
            for address, account in accounts.items()
            if not account.closed and account.slot < floors.get(account.program, 0)
        ]
        cold = [
            address
            for address, account in accounts.items()
            if account.slot < slot - self._cold_slots and _may_go(account)
        ]
        await self._read(found, [*{*dead, *cold}])
        found.dead = [address for address in dead if address in found.known]
        found.cold = [each for each in cold if each in found.rows and each not in {*found.dead}]
        return found

    async def for_room(self, skip: Callable[[bytes], bool]) -> Resting:
        """Return accounts that can go before they are due: of some thousands, the oldest."""
        oldest: dict[bytes, StoredAccount] = {}
        found = Resting()
        for _ in range(_SCANS_FOR_ROOM):
            accounts, more = await self._next(skip)
            found.unreadable += more.unreadable
            oldest |= {each: account for each, account in accounts.items() if _may_go(account)}
            if len(oldest) >= 2 * EVICTED_AT_ONCE or not self._cursor:
                break
        ranked = sorted(oldest, key=lambda address: oldest[address].slot)[:EVICTED_AT_ONCE]
        await self._read(found, ranked)
        found.cold = [address for address in ranked if address in found.rows]
        return found

    async def _next(
        self, skip: Callable[[bytes], bool]
    ) -> tuple[dict[bytes, StoredAccount], Resting]:
        """Return the headers of some accounts, without their data."""
        self._cursor, names = await self._store.scan(self._cursor)
        addresses = [address for address in {*names} if not skip(address)]
        accounts: dict[bytes, StoredAccount] = {}
        found = Resting()
        headers = await self._store.read_headers(addresses)
        for address, header in zip(addresses, headers, strict=True):
            if not header:
                continue  # gone meanwhile
            try:
                accounts[address] = unpack(header)
            except BadAccount as error:
                found.unreadable.append((address, error))
        return accounts, found

    async def _read(self, found: Resting, addresses: Sequence[bytes]) -> None:
        """Read accounts whole: what finds them, and the rows of those that have one."""
        for address, stored in zip(addresses, await self._store.read(addresses), strict=True):
            if stored is None:
                continue
            try:
                account = unpack(stored)
                about = known(address, stored)
                kind = kind_of_stored(address, account)
                data = account.data()
            except BadAccount as error:
                found.unreadable.append((address, error))
                continue
            found.known[address] = about
            if kind is not None and has_row(kind) and kind.group == "positions":
                found.rows[address] = row(address, kind, account, data, about.found_by)


def _may_go(account: StoredAccount) -> bool:
    return not account.closed and account.program not in TRACKED_PROGRAMS
