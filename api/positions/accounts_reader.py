"""Accounts of the chain from Redis: those of a wallet, and others by address.

What is known of a wallet is in all partitions of the lane of accounts; `schemas.account_reading`
says what they are asked, and which of the answers are alive. Accounts that nothing touched for long
are in ClickHouse.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Final, NamedTuple

from api.accounts.wallets import LaneReading, of_partition
from api.positions import covered_programs
from api.positions.covered_programs import CoveredPrograms, OfPrograms
from api.positions.opened import OpenedAccounts
from api.stores.caches import BoundedCache
from api.stores.clients import Stores
from infra.clickhouse.sql import load
from infra.redis.pipelined import Repeated
from schemas import account_reading
from schemas.account_reading import Coverage, PartitionState
from schemas.accounts import MOST_OF_WALLET, BadAccount, StoredAccount, followed_of
from schemas.protocols.contract import Account
from schemas.protocols.registry import kind_of
from schemas.redis_keys import ACCOUNT, COVERED, FOUND_BY, account_tag, account_tags
from schemas.solana.addresses import key, text

MOST_ACCOUNTS: Final = 1_000  # of a wallet
_REMEMBERED: Final = 1 << 14  # addresses, some 500 bytes each
_WALLETS: Final = 1 << 12  # of which is remembered what they had, 5 kB each at most
MOST_AHEAD: Final = 64  # accounts of a wallet that are read along with the question which it has
_PLACES: Final = 1 << 15  # addresses, some 300 bytes each: a wallet with 20 positions has 60
_OWN_KEPT_BYTES: Final = 1 << 26  # of accounts of wallets that are kept open
_ADDRESS: Final = attrgetter("address")
_FOUND_BY: Final = tuple(FOUND_BY.make(tag=tag, address="") for tag in account_tags())
_ACCOUNTS: Final = {tag: ACCOUNT.make(tag=tag, address="") for tag in account_tags()}
_COLD: Final = load(__package__, "cold_accounts")


@dataclass(slots=True)
class WalletAccounts:
    """What is known of a wallet's accounts."""

    accounts: list[Account]  # by address
    unreadable: dict[bytes, str]  # address -> what is wrong
    coverage: dict[bytes, Coverage]  # of the wallet and of programs: from when all is known
    known: int  # accounts found; not all are read where they are more than MOST_ACCOUNTS
    read: int
    as_of_slot: int  # that all partitions have; 0: one has nothing yet
    as_of_ms: int  # time of its block
    states: Mapping[str, PartitionState] = field(default_factory=dict)  # by tag

    @property
    def is_whole(self) -> bool:
        """Return whether all accounts that were found were read."""
        return self.known == self.read


class _States(NamedTuple):
    """What all partitions say of a wallet."""

    by_tag: Mapping[str, PartitionState]
    of_programs: OfPrograms
    as_of_ms: int  # time of the slot that all have


class AccountsReader:
    """Reads accounts. Every method raises Problem."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._opened = OpenedAccounts()
        self._own = OpenedAccounts(_OWN_KEPT_BYTES)
        self._programs = CoveredPrograms()
        self._last_had: BoundedCache[str, tuple[bytes, ...]] = BoundedCache(_WALLETS)

    async def of_wallet(
        self, wallet: str, programs: Sequence[bytes], reading: LaneReading | None = None
    ) -> WalletAccounts:
        """Return the accounts of a wallet, and what is covered of it and of programs.

        From a reading of the wallet where the coverage of programs is known that it had.
        """
        finder = key(wallet)
        total, said = 0, self._said(tuple(programs), reading)
        packed: dict[bytes, bytes | None] = {}
        if said is None:
            reading = None
            total, said, packed = await self._found(wallet, tuple(programs))
        states, of_programs, as_of_ms = said
        wanted = [
            (tag, address) for tag, state in states.items() for address in sorted(state.found)
        ]
        read = wanted[:MOST_ACCOUNTS]
        if reading is None:
            had = tuple([address for _, address in read])
            if had != (*packed,):
                packed |= await self.stored(each for each in had if each not in packed)
                packed = {each: packed[each] for each in had}
            ahead = had[:MOST_AHEAD]
            if total <= MOST_OF_WALLET and self._last_had.kept.get(wallet) != ahead:
                self._last_had.put(wallet, ahead)
        known = max(total, len(wanted)) if total > MOST_OF_WALLET else len(wanted)
        cold: list[tuple[StoredAccount, bytes, bytes]] = []
        if known <= MOST_ACCOUNTS and any(state.may_be_away for state in states.values()):
            cold = await self._cold(wallet, packed if reading is None else reading.stored)
            known += len(cold)
        accounts: list[Account] = []
        unreadable: dict[bytes, str] = {}
        for tag, address in read:
            try:
                if reading is None:
                    account = self.living(finder, states[tag], address, packed[address])
                    if account is not None and not account.kind.names(account.data, finder):
                        continue
                else:
                    account = _living_of(finder, states[tag], address, reading)
            except BadAccount as error:
                unreadable[address] = str(error)
                continue
            if account is not None:
                accounts.append(account)
        for header, address, data in cold[: MOST_ACCOUNTS - len(read)]:
            state = states[account_tag(text(address))]
            if account_reading.is_alive(finder, state, header.program, header.slot) and (
                kind := kind_of(address, header.program, data)
            ):
                accounts.append(Account(address, kind, header.lamports, data, header.slot))
        accounts.sort(key=_ADDRESS)
        values = states.values()
        return WalletAccounts(
            accounts,
            unreadable,
            {finder: account_reading.covered_since(values, finder), **of_programs},
            known,
            min(len(read) + len(cold), MOST_ACCOUNTS),
            account_reading.as_of_slot(values) or 0,
            as_of_ms,
            states,
        )

    async def at(self, addresses: Sequence[bytes]) -> dict[bytes, Account]:
        """Return the accounts at addresses, those that exist and that a protocol knows.

        Of token accounts and mints those alone that the lane follows: what is stored of others may
        be outdated.
        """
        if not addresses:
            return {}
        by_tag = _by_tag(addresses)
        # Coverage is read behind the account. Where it was withdrawn and given anew in between, its
        # slot is above that of a version from before.
        followed = self._opened.of_tokens(addresses)
        answers = await self._stores.ask([*_gets(by_tag), *_coverage_questions(followed)])
        # One that cannot be opened counts as missing: who wants it says so.
        found = self._opened.all_of(_stored(by_tag, answers))
        since = _covered_since(followed, answers[len(by_tag) :])
        of_tokens = [each for each in found if found[each].kind.group == "tokens"]
        if asked := [each for each in of_tokens if each not in since]:
            since |= _covered_since(asked, await self._stores.ask(_coverage_questions(asked)))
        for address in of_tokens:
            slot = since[address]
            if slot is None or found[address].slot < slot:
                del found[address]
        return found

    async def _found(
        self, wallet: str, programs: tuple[bytes, ...]
    ) -> tuple[int, _States, dict[bytes, bytes | None]]:
        """Return how many accounts a wallet has, what `_states` does, and what is stored of some.

        One that had few the last time is not counted first, and what it had is read along.
        """
        finder = key(wallet)
        had = self._last_had.kept.get(wallet)
        if had is not None:
            states, stored = await self._states(finder, programs, had)
            total = sum([len(state.found) for state in states.by_tag.values()])
            if total <= MOST_OF_WALLET:
                return total, states, stored
            self._last_had.kept.pop(wallet, None)
        else:
            total = await self._count(wallet)
        is_large = total > MOST_OF_WALLET
        states, _ = await self._states(finder, programs, is_large=is_large)
        return total, states, {}

    def _said(self, programs: tuple[bytes, ...], reading: LaneReading | None) -> _States | None:
        """Return what `_states` does, from a reading; None where it must be asked."""
        if reading is None:
            return None
        known = self._programs.known(programs)
        states: dict[str, PartitionState] = {}
        covered: list[OfPrograms] = []
        for tag, state in reading.states.items():
            of_partition = known.get(tag)
            coverage = None if of_partition is None else of_partition.get(reading.floors[tag])
            if coverage is None:
                return None
            covered.append(coverage)
            states[tag] = PartitionState(
                state.slot,
                {**state.coverage, **coverage},
                state.found,
                state.may_be_away,
                state.time_ms,
            )
        return _States(states, self._programs.since(programs, covered), reading.as_of_ms)

    async def _count(self, wallet: str) -> int:
        """Return how many accounts the partitions have of a wallet."""
        return sum(await self._stores.ask([("SCARD", found_by + wallet) for found_by in _FOUND_BY]))

    async def _states(
        self,
        finder: bytes,
        programs: tuple[bytes, ...],
        ahead: Sequence[bytes] = (),
        *,
        is_large: bool = False,
    ) -> tuple[_States, dict[bytes, bytes | None]]:
        """Return what each partition says, and what is stored at the addresses of `ahead`.

        Of a large wallet each names a part of the accounts.
        """
        known = self._programs.known(programs)
        by_tag = _by_tag(ahead)
        while True:
            commands: list[tuple[Any, ...]] = []
            for tag in account_tags():
                if tag not in known:
                    commands += covered_programs.questions(tag, programs)
                commands += of_partition(tag)
                questions = account_reading.finder_questions(tag, finder)
                commands += map(_for_a_part, questions) if is_large else questions
            # What is stored is read behind what its partition says, as accounts always are.
            answers = iter(await self._stores.ask([*commands, *_gets(by_tag)]))
            states: dict[str, PartitionState] = {}
            covered: list[OfPrograms] = []
            for tag in account_tags():
                of_programs = None if tag in known else [*islice(answers, 1 + len(programs))]
                mark, floor, found, *others = islice(answers, 5)
                if of_programs is None:
                    coverage: OfPrograms | None = known[tag].get(floor)
                else:
                    coverage = self._programs.learn(tag, programs, of_programs, floor)
                if coverage is None:
                    break
                covered.append(coverage)
                said = (mark, floor, found[1] if is_large else found, *others)
                states[tag] = account_reading.partition_state(finder, said, coverage)
            else:
                as_of_ms = min([each.time_ms for each in states.values()])
                said_all = _States(states, self._programs.since(programs, covered), as_of_ms)
                return said_all, dict(_stored(by_tag, [*answers]))
            known = {}  # the coverage of a program has changed

    async def stored(self, wanted: Iterable[bytes]) -> dict[bytes, bytes | None]:
        """Return what is stored at addresses."""
        by_tag = _by_tag(wanted)
        if not by_tag:
            return {}
        return dict(_stored(by_tag, await self._stores.ask(_gets(by_tag))))

    def living(
        self, finder: bytes, state: PartitionState, address: bytes, packed: bytes | None
    ) -> Account | None:
        """Return a stored account that is not below its coverage, None where there is none.

        Whose it is nobody has looked at. Raises BadAccount.
        """
        if packed is None:
            return None
        account = self._own.get(address, packed)
        if account is None:  # closed, unknown, or there is something wrong with it
            account_reading.living_one(finder, state, address, packed)
            return None
        is_alive = account_reading.is_alive(finder, state, account.kind.program, account.slot)
        return account if is_alive else None

    async def _cold(
        self, wallet: str, stored: Mapping[bytes, object]
    ) -> list[tuple[StoredAccount, bytes, bytes]]:
        """Return header, address and data of what ClickHouse alone has of a wallet."""
        rows = await self._stores.query(_COLD, {"wallet": wallet, "most": MOST_ACCOUNTS + 1})
        found = []
        for row in rows:
            address, data = key(row["address"]), b64decode(row["data"])
            program = key(row["program"])
            if stored.get(address) is None:
                header = StoredAccount(row["slot"], row["lamports"], program, len(data), b"")
                found.append((header, address, data))
        return found


def _living_of(
    finder: bytes, state: PartitionState, address: bytes, reading: LaneReading
) -> Account | None:
    """Return an account of a reading, as `AccountsReader.living`."""
    living = reading.tokens.get(address)
    if living is None and (account := reading.stored.get(address)) is not None:
        living = account_reading.living_account(finder, state, address, account)
    if living is None:
        return None
    kind, header, data = living
    return Account(address, kind, header.lamports, data, header.slot)


@lru_cache(_PLACES)
def _place(address: bytes) -> tuple[str, str]:
    """Return the tag of an account, and the key that it is stored under."""
    name = text(address)
    tag = account_tag(name)
    return tag, _ACCOUNTS[tag] + name


@lru_cache(_REMEMBERED)
def _coverage_question(address: bytes) -> Repeated:
    """Return what to ask for the coverage of an account that is followed by its address."""
    name = COVERED.make(tag=_place(address)[0], address=text(followed_of(address)))
    return Repeated(("HMGET", name, "slot", "given", "reason"))


@lru_cache(len(_FOUND_BY))
def _floor_question(tag: str) -> Repeated:
    return Repeated(account_reading.floor_question(tag))


class _OfTag(NamedTuple):
    """Addresses of one tag, and the keys that their accounts are stored under."""

    addresses: list[bytes]
    names: list[str]


def _by_tag(wanted: Iterable[bytes]) -> dict[str, _OfTag]:
    """Return addresses by their tags."""
    by_tag: dict[str, _OfTag] = {}
    for address in wanted:
        tag, name = _place(address)
        if (of_tag := by_tag.get(tag)) is None:
            by_tag[tag] = _OfTag([address], [name])
        else:
            of_tag.addresses.append(address)
            of_tag.names.append(name)
    return by_tag


def _gets(by_tag: Mapping[str, _OfTag]) -> list[tuple[Any, ...]]:
    """Return what to ask for what is stored at addresses: a question a tag."""
    return [("MGET", *of_tag.names) for of_tag in by_tag.values()]


def _stored(
    by_tag: Mapping[str, _OfTag], answers: Sequence[Any]
) -> Iterator[tuple[bytes, bytes | None]]:
    """Return addresses with what is stored there, from answers that begin with those to `_gets`."""
    return chain.from_iterable(map(zip, [each.addresses for each in by_tag.values()], answers))


def _coverage_questions(addresses: Sequence[bytes]) -> list[tuple[Any, ...]]:
    """Return what to ask for the coverage of accounts that are followed by their address."""
    tags = dict.fromkeys([_place(each)[0] for each in addresses])
    return [*map(_floor_question, tags), *map(_coverage_question, addresses)]


def _covered_since(addresses: Sequence[bytes], answers: Sequence[Any]) -> dict[bytes, int | None]:
    """Return from which slot accounts are covered, from the answers to `_coverage_questions`."""
    tags = [_place(each)[0] for each in addresses]
    floors = dict(zip(dict.fromkeys(tags), answers, strict=False))
    records = answers[len(floors) :]
    return {
        address: account_reading.coverage(record, floors[tag]).slot
        for address, tag, record in zip(addresses, tags, records, strict=True)
    }


def _for_a_part(command: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a command that reads some of a set in place of all of it."""
    if command[0] != "SMEMBERS":
        return command
    return ("SSCAN", command[1], 0, "COUNT", MOST_ACCOUNTS // 4)
