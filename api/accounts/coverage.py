"""Coverage: whether all of a wallet's accounts, or a mint's account, are in the lane of accounts.

Every partition of the lane has its own record of it. All of an address is known where each
partition has one that no loss of slots made void.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api.accounts.asks import Kind
from api.stores.clients import Stores
from schemas import account_reading
from schemas.accounts import followed_of, largest_of, mint_account_of
from schemas.redis_keys import (
    COVERED,
    TRACKED_ACCOUNTS,
    TRACKED_HOLDERS,
    TRACKED_MINTS,
    TRACKED_WALLETS,
    WATERMARK,
    account_tags,
)
from schemas.solana.addresses import text

GROUP: Final = "accounts"
_TRACKED: Final = {
    "wallet": TRACKED_WALLETS.make(),
    "mint": TRACKED_MINTS.make(),
    "holders": TRACKED_HOLDERS.make(),
    "account": TRACKED_ACCOUNTS.make(),
}
_TAGS: Final = tuple(account_tags())

Command = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the lane says of an address."""

    written_ms: int | None  # when the partition that is furthest behind moved; None: no lane
    is_followed: bool  # ingest keeps the address
    is_complete: bool
    withdrawn: str  # why it is no longer covered; empty where it never was


def subject_of(kind: Kind, address: bytes) -> bytes:
    """Return what the coverage of a raw address is kept under."""
    match kind:
        case "holders":
            return largest_of(address)
        case "account":
            return followed_of(address)
        case "mint":
            return mint_account_of(address)
        case _:
            return address


async def read_coverage(stores: Stores, kind: Kind, address: bytes) -> Coverage:
    """Return the coverage of a raw address, in one trip; raises Problem."""
    subject = subject_of(kind, address)
    commands: list[Command] = [("ZSCORE", _TRACKED[kind], address)]
    for tag in _TAGS:
        commands.append(("HGET", WATERMARK.make(tag=tag, group=GROUP), "at_ms"))
        commands += _commands(tag, [subject])
    tracked, *answers = await stores.ask(commands)
    written: list[int | None] = []
    reasons = []
    is_complete = True
    for at_ms, floor, record in zip(answers[::3], answers[1::3], answers[2::3], strict=True):
        written.append(None if at_ms is None else int(at_ms))
        said = account_reading.coverage(record, floor)
        is_complete &= said.slot is not None
        reasons.append(said.reason)
    known = [each for each in written if each is not None]
    return Coverage(
        min(known) if len(known) == len(written) else None,
        tracked is not None,
        is_complete,
        "" if is_complete else next(filter(None, reasons), ""),
    )


class CompleteLook:
    """Finds which of many addresses are complete.

    Coverage moves with the watermark of its partition: while none has moved, only addresses that
    were not looked at before are. All partitions get the record of one address with the same slot,
    so one that lacks it says no for all; where it has it, the others are asked.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._marks: list[Any] = []
        self._looked: frozenset[bytes] = frozenset()  # at these marks, or later

    async def __call__(self, addresses: Collection[bytes]) -> list[bytes]:
        """Return the addresses that are complete; raises Problem."""
        names = [WATERMARK.make(tag=tag, group=GROUP) for tag in _TAGS]
        marks = await self._stores.ask([("HMGET", name, "slot", "at_ms") for name in names])
        before = self._looked if marks == self._marks else frozenset()
        found = [address for address in addresses if address not in before]
        looked = before.union(found)
        for tags in (_TAGS[:1], _TAGS[1:]):
            if found:
                found = await self._complete_in(tags, found)
        # Behind the look: one that fails is made again.
        self._marks, self._looked = marks, looked.intersection(addresses).difference(found)
        return found

    async def _complete_in(self, tags: Sequence[str], addresses: Sequence[bytes]) -> list[bytes]:
        commands = [command for tag in tags for command in _commands(tag, addresses)]
        answers = iter(await self._stores.ask(commands))
        left = dict.fromkeys(addresses, True)
        for _ in tags:
            floor = next(answers)
            for address in addresses:
                said = account_reading.coverage(next(answers), floor)
                left[address] &= said.slot is not None
        return [address for address, is_complete in left.items() if is_complete]


def _commands(tag: str, addresses: Sequence[bytes]) -> Iterator[Command]:
    yield account_reading.floor_question(tag)
    for address in addresses:
        yield ("HMGET", COVERED.make(tag=tag, address=text(address)), "slot", "given", "reason")
