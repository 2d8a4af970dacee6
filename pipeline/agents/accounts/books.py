"""The books of one partition's accounts: the last version of each, and what finds it.

A version is the state of an account at the end of a slot. Of two the later slot wins; the same slot
is the same state, so to apply a slot again changes nothing. What was asked of RPC is the state at
the end of the slot that the answer names, and is taken unless a later version is known.

The account, the wallets and mints that find it, and coverage are written in one transaction with
the watermark: all of them have the hash tag of the account's partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from secrets import token_bytes
from typing import Any, Final

from pipeline.agents.accounts.known import ABSENT, PUT_AWAY, Known, has_row, known
from pipeline.agents.accounts.rows import gone_row, row
from pipeline.agents.accounts.store import KEYS_AT_ONCE, Store
from pipeline.agents.accounts.sweep import Sweep
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.quarantine import Quarantine
from schemas.account_reading import TRACKED_PROGRAMS
from schemas.accounts import BadAccount, StoredAccount, decompress, mint_account_of, pack
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.protocols.contract import Kind
from schemas.protocols.programs import NUMBERS, OTHER, numbered
from schemas.protocols.registry import MINT_PROGRAMS, kind_of, mints_of
from schemas.rows import ACCOUNTS, Row
from schemas.solana.addresses import (
    METAPLEX_PROGRAM,
    SYSTEM_PROGRAM,
    TOKEN_2022_PROGRAM,
    TOKEN_PROGRAM,
    text,
)
from schemas.times import HOUR_MS

KNOWN_IN_MEMORY: Final = 1_000  # of one partition, some 300 bytes each: written lately
CLOSED_FOR_MS: Final = HOUR_MS
CLOSED_AT_ONCE: Final = 2_000  # removed by a tick
_ADDRESS_BYTES: Final = 32
_REVISION_BYTES: Final = 8
_FOUND: Final = {
    Covered.WALLET: frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM}),
    Covered.MINT: frozenset({METAPLEX_PROGRAM}),
}
"""Programs of the accounts that coverage of an address is about, of those that the address finds.

The same address may be a wallet and a mint.
"""
_OWN: Final = {
    Covered.WALLET: frozenset({SYSTEM_PROGRAM, OTHER}),
    # A mint, or a token account: ingest says when nobody keeps it as anything.
    Covered.HOLDERS: TRACKED_PROGRAMS - {SYSTEM_PROGRAM, OTHER},
}
"""Programs that the account at the address itself has, where coverage is about that, too."""


class AccountBooks:
    """`pipeline.agents.settled.books.Books` of the accounts of one partition."""

    def __init__(
        self,
        store: Store,
        quarantine: Quarantine,
        cold_after_days: int,
        *,
        slot: int = 0,
        time_ms: int = 0,
        in_memory: int = KNOWN_IN_MEMORY,
    ) -> None:
        self.quarantine = quarantine
        self._store = store
        self._sweep = Sweep(store, cold_after_days)
        self._slot = slot
        self._time_ms = time_ms
        self._in_memory = in_memory
        self._known: dict[bytes, Known] = {}  # least recently used first
        self._decoded: dict[tuple[int, bytes], tuple[Kind | None, bytes]] = {}  # by slot, address
        self._found: dict[bytes, set[bytes]] = {}  # by wallets and mints whose coverage is loaded
        # Since the last take, and by that. Addresses are raw; the stored form, None: removed.
        self._changed: dict[bytes, bytes | None] = {}
        self._writing: dict[bytes, bytes | None] = {}
        # (wallet or mint, account) -> whether it finds it.
        self._hints: dict[tuple[bytes, bytes], bool] = {}
        self._hints_writing: dict[tuple[bytes, bytes], bool] = {}
        self._closed_ms: dict[bytes, int | None] = {}  # None: it is not closed
        self._rows: dict[bytes, Row] = {}
        self._away: set[bytes] = set()
        self._commands: list[tuple[Any, ...]] = []  # of coverage
        # A process before this one may not have said so.
        self._has_covered = True  # coverage of a program changed
        self._is_whole: bool | None = None  # the last slot had all its changes; None: not known

    # Loading.

    async def load(self, batches: Sequence[SlotBatch]) -> None:
        """Read what is known of the accounts; raises CodecError for a batch that is wrong."""
        self._decoded = {}
        for batch in batches:
            self._decode(batch)
        self.quarantine.slot = batches[0].slot
        concerned = [
            covered for batch in batches for covered in batch.covered if _concerns_accounts(covered)
        ]
        finders = {covered.address for covered in concerned if covered.kind in _FOUND}
        own = {covered.address for covered in concerned if covered.kind in _OWN}
        self._found = dict(
            zip(finders, await self._store.read_found([*finders]), strict=True) if finders else ()
        )
        closing = {
            version.address
            for batch in batches
            for version in batch.accounts
            if version.closed or not version.found_by
        }
        touched = {version.address for batch in batches for version in batch.accounts}
        await self._read(touched.union(own, *self._found.values()), closing)
        self.quarantine.fresh()

    def _decode(self, batch: SlotBatch) -> None:
        """Open the data of what something finds. Raises CodecError, which names the field."""
        for version in batch.accounts:
            address = version.address
            for name, value in (("address", address), ("program", version.program)):
                _check_address(f"accounts.{name}", value)
            for finder in version.found_by:
                _check_address("accounts.found_by", finder)
            if version.closed or not version.found_by:
                continue
            try:
                data = decompress(version.data, version.size)
            except BadAccount as error:
                raise CodecError(f"accounts.data of {text(address)}: {error}") from None
            self._decoded[batch.slot, address] = kind_of(address, version.program, data), data
        for covered in batch.covered:
            if covered.kind != Covered.ALL:
                _check_address("covered.address", covered.address)
            for account in covered.accounts:
                _check_address("covered.accounts", account)

    async def _read(self, addresses: set[bytes], closing: set[bytes]) -> None:
        """Read what is not in memory; of `closing` also whether ClickHouse may have them."""
        asked = [address for address in addresses if address not in self._known]
        absent = []
        for address, stored in zip(asked, await self._store.read(asked), strict=True):
            if stored is None:
                self._known[address] = ABSENT
                if address in closing:
                    absent.append(address)
                continue
            try:
                self._known[address] = known(address, stored)
            except BadAccount as error:
                self.quarantine.put(text(address), self._store.account(address), error)
        may_be = await self._store.away.may_be(absent)
        self._known.update(
            (address, PUT_AWAY) for address, is_away in zip(absent, may_be, strict=True) if is_away
        )

    # Applying.

    def apply(self, batch: SlotBatch) -> None:
        """Take one slot."""
        slot = batch.slot
        if self._slot and batch.HasField("parent") and batch.parent > self._slot:
            # The group lost the slots between: what was covered is not known any more.
            self._commands.append(("HSET", self._store.floor, "slot", slot))
        self._slot = slot
        if self._is_whole is not batch.complete:
            # Until a hole is mended, nobody may take for complete what is stored.
            self._is_whole = batch.complete
            floor = self._store.floor  # NX: a process before this one may have seen its beginning
            is_hole = ("HSETNX", floor, "hole", slot)
            self._commands.append(("HDEL", floor, "hole") if batch.complete else is_hole)
        self._time_ms = max(self._time_ms, batch.block_time_ms)
        for version in batch.accounts:
            self._take_version(version, slot)
        for covered in batch.covered:
            self._cover(covered, slot)

    def _take_version(self, version: AccountVersion, slot: int) -> None:
        address = version.address
        if self.quarantine and text(address) in self.quarantine:
            return
        at = version.asked_slot if version.HasField("asked_slot") else slot
        before = self._known.pop(address)
        if before.slot > at:
            self._known[address] = before
            return
        if version.closed:
            # The owner of what is closed is the System program: the stored form has the former.
            program = before.program if before.is_here else version.program
            account = StoredAccount(at, 0, program, 0, b"", closed=True)
            after = Known(at, program, closed=True)
            self._take_mints(address, before, None, b"")
            self._closed_ms[address] = self._time_ms
        else:
            program = numbered(version.program)
            account = StoredAccount(at, version.lamports, program, version.size, version.data)
            kind, data = self._decoded.pop((slot, address), (None, b""))
            after = Known(at, program, False, tuple(version.found_by), has_row=has_row(kind))
            self._take_mints(address, before, kind, data)
            if kind is not None and after.has_row:
                self._rows[address] = row(address, kind, account, data, after.found_by)
            if before.closed:
                self._closed_ms[address] = None
        self._put(address, before, after, pack(account))

    def _take_mints(self, address: bytes, before: Known, kind: Kind | None, data: bytes) -> None:
        """Note the mints that an account is found by, and let go of those it was found by."""
        named = [] if kind is None else mints_of(kind, data)
        if before.program in MINT_PROGRAMS:
            for finder in before.found_by:
                if finder not in named:
                    self._commands.append(("SREM", self._store.pools_of(finder), address))
        for mint in named:
            if mint not in before.found_by or before.program not in MINT_PROGRAMS:
                self._commands.append(("SADD", self._store.pools_of(mint), address))

    def _put(self, address: bytes, before: Known, after: Known, stored: bytes | None) -> None:
        if before.found_by != after.found_by:
            self._hints.update(((finder, address), False) for finder in before.found_by)
            self._hints.update(((finder, address), True) for finder in after.found_by)
        if before.has_row and not after.has_row:
            self._rows[address] = gone_row(address, after.slot if after.is_here else before.slot)
        self._known[address] = after
        self._changed[address] = stored

    def _remove(self, address: bytes) -> None:
        """Forget an account that is not alive, or not kept any more."""
        before = self._known.pop(address)
        if before.closed:
            self._closed_ms[address] = None
        self._put(address, before, ABSENT, None)

    # Coverage.

    def _cover(self, covered: Covered, slot: int) -> None:
        if covered.kind == Covered.ALL:  # what this slot gives comes behind it
            self._commands.append(("HSET", self._store.floor, "slot", slot))
            return
        if covered.kind == Covered.PROGRAM:
            self._has_covered = True
        elif covered.address in NUMBERS:
            return  # a program's coverage is that of its accounts, whatever it was asked for as
        is_mint = covered.kind == Covered.MINT
        key = self._store.covered(mint_account_of(covered.address) if is_mint else covered.address)
        if covered.HasField("slot"):
            fields: list[Any] = ["slot", covered.slot, "given", slot]
            absent = ["reason"]
            if covered.kind == Covered.HOLDERS:
                fields += ["accounts", b"".join(covered.accounts)]
                if covered.HasField("least_raw"):
                    fields += ["least_raw", covered.least_raw]
                else:
                    absent.append("least_raw")
            self._commands.append(("HSET", key, *fields))
            self._commands.append(("HDEL", key, *absent))
            floor = covered.slot
        elif covered.reason:
            self._commands.append(("HSET", key, "reason", covered.reason))
            self._commands.append(("HDEL", key, "slot", "given"))
            return
        else:
            self._commands.append(("UNLINK", key))
            floor = slot + 1
        if not _concerns_accounts(covered):
            return
        if covered.kind in _FOUND:
            for address in self._found_by(covered.address):
                self._remove_of(_FOUND[covered.kind], address, floor)
        if covered.kind in _OWN:
            self._remove_of(_OWN[covered.kind], covered.address, floor)

    def _remove_of(self, programs: frozenset[bytes], address: bytes, floor: int) -> None:
        """Forget an account of some programs, where what is known of it is older than a slot."""
        account = self._known.get(address, ABSENT)
        is_alive = account.is_here and not account.closed
        if is_alive and account.slot < floor and account.program in programs:
            self._remove(address)

    def _found_by(self, finder: bytes) -> set[bytes]:
        """Return the accounts that a wallet or mint finds now, in the stores or not."""
        found = set(self._found[finder])
        for hints in (self._hints_writing, self._hints):
            for (name, address), is_there in hints.items():
                if name == finder:
                    (found.add if is_there else found.discard)(address)
        return found

    # Writing.

    def take(self) -> Writes:
        """Return what changed since the last take."""
        store = self._store
        commands: list[tuple[Any, ...]] = []
        gone = []
        for address, stored in self._changed.items():
            if stored is None:
                gone.append(store.account(address))
            else:
                commands.append(("SET", store.account(address), stored))
        if gone:
            commands += [("UNLINK", *part) for part in _parts(gone)]
        commands += self._take_hints()
        opened = [address for address, at_ms in self._closed_ms.items() if at_ms is None]
        scores = [(at_ms, each) for each, at_ms in self._closed_ms.items() if at_ms is not None]
        commands += [("ZREM", store.closed, *part) for part in _parts(opened)]
        commands += [
            ("ZADD", store.closed, *(value for pair in part for value in pair))
            for part in _parts(scores)
        ]
        commands += [store.away.mark(address) for address in self._away]
        commands += self._commands
        if self._has_covered:
            # Random: Redis may fall back to an older state, and go on from there.
            commands.append(("HSET", store.floor, "programs", token_bytes(_REVISION_BYTES)))
            self._has_covered = False
        commands += self.quarantine.commands()
        rows = {ACCOUNTS.name: [*self._rows.values()]} if self._rows else {}
        self._writing, self._changed = self._changed, {}
        self._hints_writing, self._hints = self._hints, {}
        self._closed_ms, self._rows, self._away, self._commands = {}, {}, set(), []
        return Writes(rows, commands)

    def _take_hints(self) -> Iterable[tuple[Any, ...]]:
        by_key: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
        for (finder, address), is_there in self._hints.items():
            command = "SADD" if is_there else "SREM"
            by_key[command, self._store.found_by(finder)].append(address)
        for (command, key), addresses in by_key.items():
            for part in _parts(addresses):
                yield command, key, *part

    def written(self) -> None:
        """Forget what has not been used for long."""
        self._writing = {}
        self._hints_writing = {}
        surplus = len(self._known) - self._in_memory
        if surplus > 0:
            idle = (address for address in self._known if address not in self._changed)
            for address in [*islice(idle, surplus)]:
                del self._known[address]

    # By the clock.

    async def tick(self) -> None:
        """Remove closings after an hour of the chain, and look at some accounts at rest."""
        due = await self._store.read_closed(self._time_ms - CLOSED_FOR_MS, CLOSED_AT_ONCE)
        for address in due:
            if self._is_unwritten(address):
                continue
            self._known[address] = Known(-1, closed=True)
            self._remove(address)
        resting = await self._sweep.step(self._slot, self._is_unwritten)
        for address in resting.dead:
            self._known[address] = resting.known[address]
            self._remove(address)
        for address in resting.cold:
            before = self._known[address] = resting.known[address]
            self._away.update((address, *before.found_by))
            self._rows[address] = resting.rows[address]
            self._put(address, before, PUT_AWAY, None)
        for address, error in resting.unreadable:
            self.quarantine.slot = self._slot + 1
            self.quarantine.put(text(address), self._store.account(address), error)

    def _is_unwritten(self, address: bytes) -> bool:
        return address in self._changed or address in self._writing

    async def evict(self, slot: int) -> Writes | None:
        """Put accounts of wallets away before they are due, those at rest for longest first."""
        resting = await self._sweep.for_room(self._is_unwritten)
        if not resting.cold:
            return None
        store = self._store
        commands: list[tuple[Any, ...]] = []
        for address in resting.cold:
            self._known.pop(address, None)
            found_by = resting.known[address].found_by
            commands.append(("UNLINK", store.account(address)))
            commands += [("SREM", store.found_by(finder), address) for finder in found_by]
            commands += [store.away.mark(each) for each in (address, *found_by)]
        rows = [resting.rows[address] for address in resting.cold]
        return Writes({ACCOUNTS.name: rows}, commands, len(rows))


def _concerns_accounts(covered: Covered) -> bool:
    """Return whether stored accounts may have to go: of a program the sweep finds them."""
    if covered.kind in (Covered.PROGRAM, Covered.ALL):
        return False
    return covered.HasField("slot") or not covered.reason


def _check_address(field: str, value: bytes) -> None:
    if len(value) != _ADDRESS_BYTES:
        raise CodecError(f"{field} has {len(value)} bytes, not {_ADDRESS_BYTES}")


def _parts(values: Sequence[Any]) -> Iterable[Sequence[Any]]:
    for at in range(0, len(values), KEYS_AT_ONCE):
        yield values[at : at + KEYS_AT_ONCE]
