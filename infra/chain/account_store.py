"""Every account of the chain, at each commitment. Pure state.

The base is the state at the end of the newest finalized slot. Each later slot that is still on a
live fork is an overlay of what it wrote. The state at a slot is the base under the overlays of the
slot and its ancestors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from infra.chain.account_index import AccountIndex
from infra.chain.source import (
    AccountWrite,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from infra.chain.token_layout import is_token_account, token_mint, token_owner
from schemas.proto.geyser_pb2 import CONFIRMED, FINALIZED, PROCESSED, CommitmentLevel

_BEFORE_ANY_SLOT: Final = 0
_MERGED: Final = 3  # a tip for each commitment


class StaleView(Exception):
    """A view was asked after the store had gone on: what it says would be of no single slot."""


class _Overlay:
    """What one slot wrote."""

    __slots__ = ("accounts", "commitment", "parent_slot")

    def __init__(self, parent_slot: int) -> None:
        self.parent_slot = parent_slot
        self.accounts = AccountIndex(keeps_closed=True)
        self.commitment: CommitmentLevel | None = None  # None until completed


class AccountStore:
    """Takes the server's events, checked by `History` before, and gives views of the accounts."""

    def __init__(self, genesis: Iterable[AccountWrite] = ()) -> None:
        self._base = AccountIndex(keeps_closed=False)
        for write in genesis:
            self._base.put(write)
        self.is_seeded = len(self._base) > 0
        """Whether the store began with the chain's accounts, so that it knows every one."""
        self._root: int | None = None  # None before the first slot is started
        self._overlays: dict[int, _Overlay] = {}  # ascending by when they were started
        self._abandoned: set[int] = set()  # slots after the root that no finalized one will have
        self._merged: dict[int, dict[bytes, AccountWrite]] = {}  # by tip, until the root moves
        self.version = 0

    def apply(self, event: SlotEvent) -> None:
        """Take in one event; that of a slot on an abandoned fork changes nothing."""
        self.version += 1
        match event:
            case SlotStarted(slot, parent_slot):
                self._start(slot, parent_slot)
            case SlotTransactions(slot, transactions):
                if (overlay := self._overlays.get(slot)) is not None:
                    for transaction in transactions:
                        for write in transaction.writes:
                            overlay.accounts.put(write)
            case SlotCompleted(header, writes):
                if (overlay := self._overlays.get(header.slot)) is not None:
                    for write in writes:
                        overlay.accounts.put(write)
                    overlay.commitment = PROCESSED
            case SlotConfirmed(slot):
                if (overlay := self._overlays.get(slot)) is not None:
                    overlay.commitment = CONFIRMED
            case SlotFinalized(slot):
                if slot in self._overlays:
                    self._finalize(slot)
            case SlotDead(slot):
                self._abandon({slot} if slot in self._overlays else set())

    def view(self, commitment: CommitmentLevel) -> AccountView:
        """Return the accounts at the end of the commitment's newest slot."""
        slot = self._tip(commitment)
        path = [overlay.accounts for _, overlay in self._ancestry(slot)]
        merged = self._merged.get(slot)
        if merged is None:
            merged = {}
            for overlay in reversed(path):
                merged.update(overlay.writes())
            if len(self._merged) >= _MERGED:
                self._merged.clear()
            self._merged[slot] = merged
        return AccountView(self, slot, self._base, path, merged)

    @property
    def unfinalized_slots(self) -> int:
        """Return how many overlays there are."""
        return len(self._overlays)

    @property
    def finalized_accounts(self) -> int:
        """Return how many accounts the base has."""
        return len(self._base)

    def _tip(self, commitment: CommitmentLevel) -> int:
        root = _BEFORE_ANY_SLOT if self._root is None else self._root
        if commitment == FINALIZED:
            return root
        return max(
            (
                slot
                for slot, overlay in self._overlays.items()
                if overlay.commitment is not None and overlay.commitment >= commitment
            ),
            default=root,
        )

    def _ancestry(self, slot: int) -> Iterator[tuple[int, _Overlay]]:
        """Yield the slot and its ancestors that are not finalized, newest first."""
        while (overlay := self._overlays.get(slot)) is not None:
            yield slot, overlay
            slot = overlay.parent_slot

    def _start(self, slot: int, parent_slot: int) -> None:
        if self._root is None:
            self._root = parent_slot
        is_abandoned = parent_slot < self._root or parent_slot in self._abandoned
        if slot <= self._root:
            return
        if is_abandoned:
            self._abandoned.add(slot)
            return
        # A parent that is neither the root nor known is a hole of a recording: built on the base.
        self._overlays[slot] = _Overlay(parent_slot)

    def _finalize(self, root: int) -> None:
        """Fold the slot and its ancestors into the base; forks that it is not on are over."""
        path = list(self._ancestry(root))
        for slot, overlay in reversed(path):
            for write in overlay.accounts.writes().values():
                self._base.put(write)
            del self._overlays[slot]
        self._root = root
        self._merged.clear()
        # By what they say of their parents; what was built on them goes with them.
        self._abandon(
            {
                slot
                for slot, each in self._overlays.items()
                if slot < root or each.parent_slot < root
            }
        )
        self._abandoned = {slot for slot in self._abandoned if slot > root}

    def _abandon(self, slots: set[int]) -> None:
        """Drop slots, and what was built on them."""
        while slots:
            for slot in slots:
                del self._overlays[slot]
            self._abandoned |= slots
            slots = {slot for slot, each in self._overlays.items() if each.parent_slot in slots}


class AccountView:
    """The accounts at the end of `slot`; to be read before the store takes its next event."""

    def __init__(
        self,
        store: AccountStore,
        slot: int,
        base: AccountIndex,
        overlays: list[AccountIndex],
        written: dict[bytes, AccountWrite],
    ) -> None:
        """Take the overlays of the slot and its ancestors, and the last write of each address."""
        self.slot = slot
        self._store = store
        self._version = store.version
        self._base = base
        self._overlays = overlays
        self._written = written

    def account(self, address: bytes) -> AccountWrite | None:
        """Return the account as it was last written; None if there is none."""
        self._check()
        write = self._written.get(address)
        if write is not None:
            return write if write.lamports else None
        return self._base.get(address)

    def of_program(self, program: bytes) -> list[AccountWrite]:
        """Return the accounts that a program owns, in no order.

        Looks at every account: rarely asked, where an index would cost each account memory.
        """
        self._check()
        rewritten = (
            each for each in self._written.values() if each.owner == program and each.lamports
        )
        return [*self._unwritten(program, self._base.writes()), *rewritten]

    def of_token_owner(self, program: bytes, wallet: bytes) -> list[AccountWrite]:
        """Return a wallet's token accounts under a token program, in no order."""
        self._check()
        return [
            *self._unwritten(program, self._base.of_token_owner(wallet)),
            *(
                account
                for account in self._rewritten(
                    program, (each.of_token_owner(wallet) for each in self._overlays)
                )
                if token_owner(account.data) == wallet
            ),
        ]

    def of_mint(self, program: bytes, mint: bytes) -> list[AccountWrite]:
        """Return a mint's token accounts under a token program, in no order."""
        self._check()
        return [
            *self._unwritten(program, self._base.of_mint(mint)),
            *(
                account
                for account in self._rewritten(
                    program, (each.of_mint(mint) for each in self._overlays)
                )
                if token_mint(account.data) == mint
            ),
        ]

    def _unwritten(
        self, program: bytes, indexed: Mapping[bytes, AccountWrite]
    ) -> list[AccountWrite]:
        """Return those that no overlay has written: what an index of the base says is so."""
        written = self._written
        return [
            account
            for address, account in indexed.items()
            if account.owner == program and address not in written
        ]

    def _rewritten(
        self, program: bytes, indexed: Iterable[Mapping[bytes, AccountWrite]]
    ) -> Iterator[AccountWrite]:
        """Yield those that are still token accounts: an older overlay's index may be outdated."""
        for address in set[bytes]().union(*indexed):
            account = self._written[address]
            if not account.lamports or account.owner != program:
                continue
            if is_token_account(program, account.data):
                yield account

    def _check(self) -> None:
        if self._version != self._store.version:
            raise StaleView(f"the view of slot {self.slot} is older than the store's last event")
