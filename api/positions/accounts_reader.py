"""Accounts of the chain from Redis: those of a wallet, and others by address.

What is known of a wallet is in all partitions of the lane of accounts; `schemas.account_reading`
says what they are asked, and which of the answers are alive. Accounts that nothing touched for long
are in ClickHouse.
"""

from __future__ import annotations

from base64 import b64decode
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api.stores.clients import Stores
from infra.clickhouse.sql import load
from schemas import account_reading
from schemas.account_reading import GROUP, Coverage, PartitionState
from schemas.accounts import MOST_OF_WALLET, BadAccount, StoredAccount, followed_of, unpack
from schemas.protocols.contract import Account
from schemas.protocols.registry import kind_of
from schemas.redis_keys import ACCOUNT, COVERED, FOUND_BY, WATERMARK, account_tag, account_tags
from schemas.solana.addresses import key, text

MOST_ACCOUNTS: Final = 1_000  # of a wallet
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


class AccountsReader:
    """Reads accounts. Every method raises Problem."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    async def of_wallet(self, wallet: str, programs: Sequence[bytes]) -> WalletAccounts:
        """Return the accounts of a wallet, and what is covered of it and of programs."""
        finder = key(wallet)
        total = await self._count(wallet)
        states, as_of_ms = await self._states(finder, programs, is_large=total > MOST_OF_WALLET)
        wanted = [
            (tag, address) for tag, state in states.items() for address in sorted(state.found)
        ]
        read = wanted[:MOST_ACCOUNTS]
        stored = await self.stored(read)
        known = max(total, len(wanted)) if total > MOST_OF_WALLET else len(wanted)
        cold: list[tuple[StoredAccount, bytes, bytes]] = []
        if known < MOST_ACCOUNTS and any(state.may_be_away for state in states.values()):
            cold = await self._cold(wallet, stored)
            known += len(cold)
        accounts: list[Account] = []
        unreadable: dict[bytes, str] = {}
        for tag, state in states.items():
            of_tag = {address: stored[address] for at, address in read if at == tag}
            living = account_reading.living(finder, state, of_tag)
            unreadable |= living.unreadable
            accounts += (
                Account(address, kind, header.lamports, data, header.slot)
                for address, (kind, header, data) in living.accounts.items()
            )
        for header, address, data in cold[: MOST_ACCOUNTS - len(read)]:
            state = states[account_tag(text(address))]
            if account_reading.is_alive(finder, state, header) and (
                kind := kind_of(address, header.program, data)
            ):
                accounts.append(Account(address, kind, header.lamports, data, header.slot))
        accounts.sort(key=lambda account: account.address)
        values = states.values()
        return WalletAccounts(
            accounts,
            unreadable,
            {each: account_reading.covered_since(values, each) for each in (finder, *programs)},
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
        wanted = [(account_tag(text(address)), address) for address in addresses]
        found: dict[bytes, Account] = {}
        for address, packed in (await self.stored(wanted)).items():
            if packed is None:
                continue
            try:
                stored = unpack(packed)
                account = None if stored.closed else _account(address, stored)
            except BadAccount:
                continue  # it counts as missing: who wants it says so
            if account is not None:
                found[address] = account
        return await self._followed(found)

    async def _followed(self, found: dict[bytes, Account]) -> dict[bytes, Account]:
        """Leave out accounts of group `tokens` that are not covered by their address.

        Coverage is read behind the account. Where it was withdrawn and given anew in between, its
        slot is above that of a version from before.
        """
        kept = {a: each for a, each in found.items() if each.kind.group != "tokens"}
        doubtful = [address for address in found if address not in kept]
        commands: list[tuple[Any, ...]] = []
        for address in doubtful:
            tag = account_tag(text(address))
            name = COVERED.make(tag=tag, address=text(followed_of(address)))
            commands += (
                account_reading.floor_question(tag),
                ("HMGET", name, "slot", "given", "reason"),
            )
        answers = await self._stores.ask(commands) if commands else []
        for address, floor, record in zip(doubtful, answers[::2], answers[1::2], strict=True):
            since = account_reading.coverage(record, floor).slot
            if since is not None and found[address].slot >= since:
                kept[address] = found[address]
        return kept

    async def _count(self, wallet: str) -> int:
        """Return how many accounts the partitions have of a wallet."""
        names = (FOUND_BY.make(tag=tag, address=wallet) for tag in account_tags())
        return sum(await self._stores.ask([("SCARD", name) for name in names]))

    async def _states(
        self, finder: bytes, programs: Sequence[bytes], *, is_large: bool
    ) -> tuple[dict[str, PartitionState], int]:
        """Return what each partition says, by tag, and the time of the slot that all have.

        Of a large wallet each names a part of the accounts.
        """
        commands: list[tuple[Any, ...]] = []
        tags = account_tags()
        for tag in tags:
            commands.append(("HGET", WATERMARK.make(tag=tag, group=GROUP), "time_ms"))
            questions = account_reading.questions(tag, finder, programs)
            commands += map(_for_a_part, questions) if is_large else questions
        answers = await self._stores.ask(commands)
        size = len(answers) // len(tags)
        states: dict[str, PartitionState] = {}
        times = []
        for number, tag in enumerate(tags):
            time_ms, *said = answers[number * size : (number + 1) * size]
            if is_large:
                said = [
                    answer[1] if command[0] == "SSCAN" else answer
                    for command, answer in zip(commands[number * size + 1 :], said, strict=False)
                ]
            states[tag] = account_reading.partition_state(finder, programs, said)
            times.append(int(time_ms or 0))
        return states, min(times)

    async def stored(self, wanted: Sequence[tuple[str, bytes]]) -> dict[bytes, bytes | None]:
        """Return what is stored at addresses, each with its tag."""
        by_tag: defaultdict[str, list[bytes]] = defaultdict(list)
        for tag, address in wanted:
            by_tag[tag].append(address)
        if not by_tag:
            return {}
        answers = await self._stores.ask(
            [
                ("MGET", *(ACCOUNT.make(tag=tag, address=text(address)) for address in addresses))
                for tag, addresses in by_tag.items()
            ]
        )
        return {
            address: packed
            for addresses, found in zip(by_tag.values(), answers, strict=True)
            for address, packed in zip(addresses, found, strict=True)
        }

    async def _cold(
        self, wallet: str, stored: Mapping[bytes, bytes | None]
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


def _for_a_part(command: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a command that reads some of a set in place of all of it."""
    if command[0] != "SMEMBERS":
        return command
    return ("SSCAN", command[1], 0, "COUNT", MOST_ACCOUNTS // 4)


def _account(address: bytes, stored: StoredAccount) -> Account | None:
    """Return an account, None where no protocol knows it; raises BadAccount."""
    data = stored.data()
    kind = kind_of(address, stored.program, data)
    if kind is None:
        return None
    return Account(address, kind, stored.lamports, data, stored.slot)
