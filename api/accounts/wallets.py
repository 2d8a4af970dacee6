"""Token accounts and lamports of wallets, where the lane of accounts covers them.

Every partition of the lane has some of a wallet's accounts and is at a slot of its own. An account
that is newer than the partition furthest behind may have been given what another one still has in
this reading: then it is read again, a few times.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from api.accounts.following import FollowState
from api.stores.clients import Stores
from infra.redis.pipelined import Repeated
from schemas import account_reading
from schemas.account_reading import PartitionState
from schemas.accounts import MOST_OF_WALLET, TOO_MANY_ACCOUNTS, StoredAccount, unpack
from schemas.accounts import BadAccount as BadStored
from schemas.protocols.contract import Kind
from schemas.protocols.programs import NUMBERS
from schemas.protocols.token import state_of
from schemas.redis_keys import ACCOUNT, COVERED, FOUND_BY, account_tag, account_tags
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key, text
from schemas.solana.token_accounts import BadAccount, TokenAccountState

MOST_AT_ONCE: Final = 5_000  # accounts, of all wallets of a batch
ATTEMPTS: Final = 5
PAUSE_S: Final = 0.02
_MANY: Final = 25  # accounts of a partition
_TAGS: Final = tuple(account_tags())
_ACCOUNTS: Final = {tag: ACCOUNT.make(tag=tag, address="") for tag in _TAGS}
_COVERED: Final = {tag: COVERED.make(tag=tag, address="") for tag in _TAGS}
_FOUND_BY: Final = {tag: FOUND_BY.make(tag=tag, address="") for tag in _TAGS}
_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
_NO_WALLETS: Final = frozenset(map(text, NUMBERS))
"""Programs: what is kept under their addresses is the coverage of their accounts."""

Command = tuple[Any, ...]


Opened = tuple[Kind, StoredAccount, bytes]  # with its data


@dataclass(frozen=True, slots=True)
class LaneReading:
    """What the partitions said of a wallet in one reading, and what they stored of its accounts."""

    states: Mapping[str, PartitionState]  # by tag, without the coverage of programs
    floors: Mapping[str, Sequence[bytes | None]]  # by tag, answers to `floor_question`
    stored: Mapping[bytes, StoredAccount]  # by address
    tokens: Mapping[bytes, Opened]  # those token accounts among them that are alive
    as_of_ms: int  # of the slot that all of them have


@dataclass(frozen=True, slots=True)
class WalletAccounts:
    """All that a wallet's accounts hold at the end of a slot."""

    as_of_slot: int
    as_of_ms: int  # of that block
    since_slot: int  # from which all of them are known
    lamports: int  # the wallet's own, at `lamports_slot`: they are asked for, not streamed
    lamports_slot: int
    tokens: Sequence[tuple[bytes, bytes, TokenAccountState]]  # address, program
    reading: LaneReading


@dataclass(frozen=True, slots=True)
class NotCovered:
    """Why a wallet's accounts cannot be had from the lane."""

    standing: FollowState
    withdrawn: str = ""


class WalletAccountsReader:
    """Reads the accounts of wallets, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def read(self, wallets: Sequence[str]) -> list[WalletAccounts | NotCovered]:
        """Return the accounts of wallets, in their order; raises Problem.

        One that does not fit into what those before it leave of MOST_AT_ONCE is not read.
        """
        found = await self._doubts(wallets)
        sound = [wallet for wallet, doubt in zip(wallets, found, strict=True) if doubt is None]
        if len(sound) == 1:  # as most are; no task is needed for it
            read = iter([await self._read_one(sound[0])])
        else:
            read = iter(await asyncio.gather(*map(self._read_one, sound)))
        return [next(read) if doubt is None else doubt for doubt in found]

    async def _doubts(self, wallets: Sequence[str]) -> list[NotCovered | None]:
        """Return why wallets need not be read: one partition says so of nearly all of them."""
        first = _TAGS[0]
        commands: list[Command] = [of_partition(first)[0]]
        for wallet in wallets:
            commands.append(("HMGET", _COVERED[first] + wallet, "slot", "reason"))
            commands += [("SCARD", found_by + wallet) for found_by in _FOUND_BY.values()]
        (begun, _), *answers = await self._stores.ask(commands)
        if begun is None:
            return [NotCovered(FollowState.NOT_INGESTED)] * len(wallets)
        size = 1 + len(_TAGS)
        doubts: list[NotCovered | None] = []
        room = MOST_AT_ONCE
        for wallet, at in zip(wallets, range(0, len(answers), size), strict=True):
            (slot, reason), *counts = answers[at : at + size]
            if wallet in _NO_WALLETS:
                doubts.append(NotCovered(FollowState.NOT_FOLLOWED))
            elif slot is None:
                doubts.append(_not_covered((reason or b"").decode()))
            elif sum(counts) > min(room, MOST_OF_WALLET):
                doubts.append(NotCovered(FollowState.TOO_MANY_ACCOUNTS))
            else:
                room -= sum(counts)
                doubts.append(None)
        return doubts

    async def _read_one(self, wallet: str) -> WalletAccounts | NotCovered:
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSE_S)
            found, is_even = await self._try(wallet)
            if is_even:
                break
        return found

    async def _try(self, wallet: str) -> tuple[WalletAccounts | NotCovered, bool]:
        """Return a reading, and whether no account is newer than its slot."""
        raw = key(wallet)
        asked = [(*of_partition(tag), *account_reading.finder_questions(tag, raw)) for tag in _TAGS]
        answers = iter(await self._stores.ask([each for commands in asked for each in commands]))
        marks: list[tuple[int, int]] = []
        states: dict[str, PartitionState] = {}
        floors: dict[str, Sequence[bytes | None]] = {}
        for tag, commands in zip(_TAGS, asked, strict=True):
            said = [*islice(answers, len(commands))]
            state = states[tag] = account_reading.partition_state(raw, said)
            marks.append((state.slot or 0, state.time_ms))
            floors[tag] = said[1]
        since = account_reading.covered_since(states.values(), raw)
        if since.slot is None:
            return _not_covered(since.reason), True
        as_of_slot, as_of_ms = min(marks)
        own_tag = account_tag(wallet)
        lamports, lamports_slot, newest = 0, since.slot, 0
        tokens: list[tuple[bytes, bytes, TokenAccountState]] = []
        versions: dict[bytes, StoredAccount] = {}
        opened: dict[bytes, Opened] = {}
        addresses = [
            [*state.found] + ([raw] if tag == own_tag else []) for tag, state in states.items()
        ]
        stored = await self._stored(wallet, addresses)
        if stored is None:  # let go in between
            return NotCovered(FollowState.NOT_FOLLOWED), True
        for state, packed in zip(states.values(), stored, strict=True):
            if len(packed) > _MANY:
                await asyncio.sleep(0)  # a partition at a time: others come in between
            try:
                for address, value in packed.items():
                    if value is None:
                        continue
                    account = versions[address] = unpack(value)
                    newest = max(newest, account.slot)
                    if address == raw and account_reading.is_alive(
                        raw, state, account.program, account.slot
                    ):
                        lamports = 0 if account.closed else account.lamports
                        lamports_slot = account.slot
                    # Data of others say nothing about what is held.
                    if account.program in _PROGRAMS and (
                        living := account_reading.living_account(raw, state, address, account)
                    ):
                        opened[address] = living
                        held = state_of(account.program, living[2])
                        tokens.append((address, account.program, held))
            except (BadStored, BadAccount):
                return NotCovered(FollowState.UNREADABLE), True
        least_ms = min(time_ms for _, time_ms in marks)
        reading = LaneReading(states, floors, versions, opened, least_ms)
        found = WalletAccounts(
            as_of_slot, as_of_ms, since.slot, lamports, lamports_slot, tokens, reading
        )
        return found, newest <= as_of_slot

    async def _stored(
        self, wallet: str, addresses: Sequence[Sequence[bytes]]
    ) -> list[dict[bytes, bytes | None]] | None:
        """Return the stored accounts of each partition; None where one covers them no longer.

        An account goes in the MULTI that takes its coverage away, so what is covered behind the
        reading was covered within it.
        """
        commands: list[Command] = []
        for tag, of_tag in zip(_TAGS, addresses, strict=True):
            if of_tag:
                commands.append(("MGET", *(_account(tag, each) for each in of_tag)))
            commands.append(("HEXISTS", _COVERED[tag] + wallet, "slot"))
        answers = iter(await self._stores.ask(commands))
        found: list[dict[bytes, bytes | None]] = []
        for of_tag in addresses:
            packed = next(answers) if of_tag else []
            found.append(dict(zip(of_tag, packed, strict=True)))
            if not next(answers):
                return None
        return found


def _account(tag: str, address: bytes) -> str:
    return _ACCOUNTS[tag] + text(address)


@lru_cache(len(_TAGS))
def of_partition(tag: str) -> tuple[Repeated, ...]:
    """Return what to ask a partition of itself: `account_reading.partition_questions`."""
    return tuple(map(Repeated, account_reading.partition_questions(tag)))


def _not_covered(reason: str) -> NotCovered:
    if reason == TOO_MANY_ACCOUNTS:
        return NotCovered(FollowState.TOO_MANY_ACCOUNTS, reason)
    return NotCovered(FollowState.WITHDRAWN if reason else FollowState.NOT_FOLLOWED, reason)
