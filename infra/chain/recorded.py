"""A chain source from JSON lines of `getTransaction` answers.

The transactions keep their order (original slot, then position), but are laid onto consecutive
new slots at a steady rate, under the present time. In a loop, later passes carry signatures of
their own: on a chain no transaction happens twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from infra.chain import metrics
from infra.chain.fields import varint
from infra.chain.source import (
    Account,
    AccountWrite,
    BlockHeader,
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
    TokenSupply,
    VoteAccount,
)
from schemas.json_lines import numbered_lines, parse_line
from schemas.solana import base58, networks
from schemas.solana.rpc_json import transaction_from_json

SLOT_S: Final = 0.4
MAINNET_SLOTS_PER_EPOCH: Final = 432_000
# Empty, so that a follower knows the slots of the recording whole: it saw what came before.
LEAD_IN_SLOTS: Final = 3
CONFIRMED_AFTER_SLOTS: Final = 2
FINALIZED_AFTER_SLOTS: Final = 31

_BATCHES_PER_SLOT: Final = 20
_GENESIS_S: Final = 1_584_332_940  # of mainnet, 2020-03-16
_INDEX_TAG: Final = b"\x28"  # SubscribeUpdateTransactionInfo.index, its last field


class UnreadableFile(Exception):
    """A file holds nothing that can be replayed; the text is for the user."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """What was read from a file, and what could not be."""

    transactions: list[ChainTransaction]  # index 0, in chain order
    problems: list[str]  # "line 7: transaction.signatures: empty"


def slot_at(unix_s: float) -> int:
    """Return about the slot mainnet has at a time.

    A chain that is started again goes on above the slots it had before.
    """
    return int((unix_s - _GENESIS_S) / SLOT_S)


def read_transactions(path: Path) -> RecordedFile:
    """Read JSON lines; raises UnreadableFile if not one line holds a transaction."""
    found: list[tuple[int, int, ChainTransaction]] = []
    problems = []
    signatures = set()
    with path.open("rb") as lines:
        for number, line in numbered_lines(lines):
            try:
                read = transaction_from_json(parse_line(line))
            except ValueError as error:
                problems.append(f"line {number}: {error}")
                continue
            if read.info.signature in signatures:
                problems.append(f"line {number}: its transaction was in an earlier line")
                continue
            signatures.add(read.info.signature)
            index = read.info.index
            read.info.ClearField("index")
            found.append((read.slot or 0, index, ChainTransaction.from_info(read.info)))
    if not found:
        reason = problems[0] if problems else "it is empty"
        raise UnreadableFile(f"{path}: no getTransaction answer in it ({reason})")
    found.sort(key=lambda item: item[:2])
    return RecordedFile([item[2] for item in found], problems)


class RecordedTransactions:
    """Replays transactions once, or in a loop, between empty blocks before and after."""

    genesis_hash: Final = networks.RECORDED
    slots_per_epoch: Final = MAINNET_SLOTS_PER_EPOCH

    def __init__(
        self,
        transactions: list[ChainTransaction],
        *,
        rate: float,
        loop: bool = False,
        first_slot: int | None = None,
    ) -> None:
        """Take transactions in chain order; `rate` is transactions a second."""
        self._transactions = transactions
        self._rate = rate
        self._loop = loop
        self._first_slot = slot_at(time.time()) if first_slot is None else first_slot

    async def events(self) -> AsyncIterator[SlotEvent]:
        """Yield the slots' events in real time; after the last transaction, empty slots."""
        clock = asyncio.get_running_loop().time
        began = clock()
        coming = self._passes()
        owed = 0.0
        for height, slot in enumerate(itertools.count(self._first_slot)):
            rate = self._rate if height >= LEAD_IN_SLOTS else 0.0
            block_time = int(time.time())
            yield SlotStarted(slot, slot - 1)
            index = 0
            for batch_number in range(1, _BATCHES_PER_SLOT + 1):
                owed += rate * SLOT_S / _BATCHES_PER_SLOT
                batch = []
                for transaction in itertools.islice(coming, int(owed)):
                    batch.append(_placed(transaction, index))
                    index += 1
                if len(batch) < int(owed):
                    metrics.source_ended()
                owed -= int(owed)
                if batch:
                    yield SlotTransactions(slot, tuple(batch))
                due = began + (height + batch_number / _BATCHES_PER_SLOT) * SLOT_S
                await asyncio.sleep(max(0.0, due - clock()))
            yield SlotCompleted(
                BlockHeader(
                    slot=slot,
                    parent_slot=slot - 1,
                    blockhash=_blockhash(slot),
                    parent_blockhash=_blockhash(slot - 1),
                    block_time=block_time,
                    block_height=slot - self._first_slot + 1,
                )
            )
            if height >= CONFIRMED_AFTER_SLOTS:
                yield SlotConfirmed(slot - CONFIRMED_AFTER_SLOTS)
            if height >= FINALIZED_AFTER_SLOTS:
                yield SlotFinalized(slot - FINALIZED_AFTER_SLOTS)

    def genesis_accounts(self) -> tuple[AccountWrite, ...]:
        """Return none: a recording has no accounts."""
        return ()

    def vote_accounts(self, _: int) -> tuple[VoteAccount, ...]:
        """Return none: a recording has no validators."""
        return ()

    def account(self, _: bytes) -> Account | None:
        """Return None: transactions alone do not have accounts' data."""
        return None

    def token_supply(self, _: bytes) -> TokenSupply | None:
        """Return None: transactions alone do not have supplies."""
        return None

    def _passes(self) -> Iterator[ChainTransaction]:
        yield from self._transactions
        if self._loop:
            for number in itertools.count(1):
                salt = f"{self._first_slot}/{number}".encode()
                for transaction in self._transactions:
                    yield _under_new_signature(transaction, salt)


def _placed(transaction: ChainTransaction, index: int) -> ChainTransaction:
    if index == 0:
        return transaction
    # `index` is the last field and was left out: appending it is serializing it.
    info = transaction.info + _INDEX_TAG + varint(index)
    return replace(transaction, index=index, info=info)


def _under_new_signature(transaction: ChainTransaction, salt: bytes) -> ChainTransaction:
    signature = hashlib.sha512(salt + transaction.signature).digest()
    # 64 random bytes occur nowhere by chance: both places are replaced, and nothing else.
    info = transaction.info.replace(transaction.signature, signature)
    return replace(transaction, signature=signature, info=info)


def _blockhash(slot: int) -> str:
    return base58.encode(hashlib.sha256(f"block {slot}".encode()).digest())
