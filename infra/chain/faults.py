"""Delivery faults: what providers do to a stream, from a seed.

A pure transformation of the outgoing sequence. It never loses a transaction: those that are
mangled are extra copies under signatures of their own, so whatever a consumer settles must
still equal the undisturbed chain.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

from infra.chain.account_faults import AccountFaults, disturb
from infra.chain.source import ChainTransaction
from infra.chain.updates import (
    AccountsUpdate,
    BlockUpdate,
    SlotUpdate,
    TransactionUpdate,
    Update,
)
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo

# A held update leaves before anything of the second slot after its own: a reader that has joined
# within a slot takes the metas of its parent and grandparent for proof that it missed nothing.
_MAX_DELAY_SLOTS: Final = 1
_SEALED: Final = (TransactionUpdate, AccountsUpdate)
_NO_ACCOUNT_FAULTS: Final = AccountFaults()


@dataclass(frozen=True, slots=True)
class Faults:
    """How often what goes wrong; all zero is a perfect provider. Shares are from 0 to 1."""

    duplicates: float = 0.0  # share of transactions sent twice
    reorder_window: int = 0  # updates among which the order is shuffled
    missing_statuses: float = 0.0  # share of slot statuses that are never sent
    malformed: float = 0.0  # share of transactions that a mangled copy accompanies
    disconnect_every: int = 0  # a stream ends with UNAVAILABLE after about so many updates
    lag_every: int = 0  # a stream ends with "lagged" after about so many updates
    accounts: AccountFaults = _NO_ACCOUNT_FAULTS
    seed: int = 1

    @property
    def disturbs(self) -> bool:
        """Whether the sequence of updates is changed at all."""
        return bool(
            self.duplicates
            or self.reorder_window
            or self.missing_statuses
            or self.malformed
            or self.accounts
        )

    def __post_init__(self) -> None:
        for name in ("duplicates", "missing_statuses", "malformed"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, not {getattr(self, name)}")
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, int | float) and value < 0:
                raise ValueError(f"{item.name} is not below 0")


class Disturbance:
    """Applies the faults to a sequence of updates; the same input and seed give the same output.

    A block's own update never precedes the first copies of its transactions and accounts.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._random = random.Random(faults.seed)  # noqa: S311 - reproducible, not secret
        self._held: list[Update] = []
        self._late: dict[int, AccountsUpdate] = {}  # by slot
        self._newest_slot = 0
        self._counts: Counter[str] = Counter()

    def feed(self, updates: Iterable[Update]) -> list[Update]:
        """Return what leaves now; the rest is held back until later updates push it out."""
        out: list[Update] = []
        for update in updates:
            self._held += self._multiplied(update)
            if update.slot > self._newest_slot:
                self._newest_slot = update.slot
                out += self._release_old()
            while len(self._held) > self._faults.reorder_window:
                out.append(self._take(self._random.randrange(len(self._held))))
        return out

    def flush(self) -> list[Update]:
        """Return everything that is still held."""
        out = []
        while self._held:
            out.append(self._take(self._random.randrange(len(self._held))))
        return out

    def take_counts(self) -> Counter[str]:
        """Return how many faults of each kind there were since the last call."""
        counts, self._counts = self._counts, Counter()
        return counts

    def _multiplied(self, update: Update) -> Iterator[Update]:
        draw = self._random.random
        if isinstance(update, SlotUpdate):
            if draw() < self._faults.missing_statuses:
                self._counts["missing_status"] += 1
                update = replace(update, silent=True)
            yield update
            return
        if isinstance(update, AccountsUpdate):
            yield self._with_faults(update)
            return
        if isinstance(update, BlockUpdate) and (late := self._late.pop(update.slot, None)):
            yield late
        yield update
        if isinstance(update, TransactionUpdate):
            if draw() < self._faults.duplicates:
                self._counts["duplicate"] += 1
                yield update
            if draw() < self._faults.malformed:
                self._counts["malformed"] += 1
                yield self._mangled(update)

    def _with_faults(self, update: AccountsUpdate) -> AccountsUpdate:
        at_once, late = disturb(update.written, self._faults.accounts, self._random)
        self._counts["account_duplicate"] += len(at_once) + len(late) - len(update.written)
        self._counts["account_late"] += len(late)
        before = self._late.pop(update.slot, None)
        if late:
            self._late = {update.slot: replace(update, written=tuple(late))}
        return replace(update, written=(*at_once, *(before.written if before else ())))

    def _take(self, index: int) -> Update:
        update = self._held[index]
        if isinstance(update, BlockUpdate):
            # What the block seals goes first: transactions and accounts, in the order they came.
            for other_index, other in enumerate(self._held):
                if isinstance(other, _SEALED) and other.slot == update.slot:
                    index = other_index
                    break
        return self._held.pop(index)

    def _release_old(self) -> Iterator[Update]:
        while True:
            old = [
                index
                for index, update in enumerate(self._held)
                if update.slot < self._newest_slot - _MAX_DELAY_SLOTS
            ]
            if not old:
                return
            yield self._take(self._random.choice(old))

    def _mangled(self, update: TransactionUpdate) -> TransactionUpdate:
        """Return a copy nobody can take for a transaction: cut short, or its keys cut out."""
        if self._random.random() < 0.5:
            # More than the whole created_at field, so that the transaction itself is cut.
            cut_bytes = len(update.created_at) + self._random.randint(3, 40)
            return replace(update, cut_bytes=cut_bytes)
        info = SubscribeUpdateTransactionInfo.FromString(update.transaction.info)
        info.signature = hashlib.sha512(info.signature).digest()
        info.transaction.signatures[0] = info.signature
        del info.transaction.message.account_keys[:]
        del info.meta.loaded_writable_addresses[:]
        del info.meta.loaded_readonly_addresses[:]
        transaction = ChainTransaction(
            signature=info.signature,
            index=update.transaction.index,
            info=info.SerializeToString(),
            accounts=update.transaction.accounts,  # so that it reaches whom the original reaches
            is_vote=update.transaction.is_vote,
            failed=update.transaction.failed,
        )
        return replace(update, transaction=transaction)
