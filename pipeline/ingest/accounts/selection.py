"""Which versions of accounts go into the lane, and what the lane says of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from typing import Final

from pipeline.ingest.accounts.ledger import Update
from pipeline.ingest.accounts.tracked import Tracked
from schemas.accounts import compress
from schemas.proto.tape_pb2 import AccountVersion, Covered
from schemas.protocols.programs import NUMBERS
from schemas.protocols.registry import kind_of

DROPPED_MOST: Final = 300_000
"""Token accounts that were left out lately: over a minute of mainnet."""


class Selection:
    """Lets through the kinds of some groups; of group `tokens` what is tracked alone."""

    def __init__(self, tracked: Tracked, groups: Collection[str]) -> None:
        self._tracked = tracked
        self._groups = frozenset(groups)
        self._dropped: OrderedDict[bytes, int] = OrderedDict()  # address -> slot
        self._forgotten = -1  # the last slot of which a version that was left out is forgotten

    def of_slot(self, update: Update, slot: int) -> AccountVersion | None:
        """Return what the lane says of a version that a stream brought, None: nothing."""
        found = self._version(update, self._groups)
        if found is None and update.lamports:
            self._dropped[update.address] = slot
            self._dropped.move_to_end(update.address)
            if len(self._dropped) > DROPPED_MOST:
                self._forgotten = max(self._forgotten, self._dropped.popitem(last=False)[1])
        return found

    def asked(self, update: Update, context_slot: int) -> AccountVersion | None:
        """Return what the lane says of an answer, None where nobody keeps the account."""
        found = self._version(update, None)
        if found is not None:
            found.asked_slot = context_slot
        return found

    def is_outdated(self, update: Update, context_slot: int) -> bool:
        """Return whether a later version than an answer may have been left out.

        Nobody followed the account then.
        """
        return max(self._forgotten, self._dropped.get(update.address, -1)) > context_slot

    def keeps(self, covered: Covered) -> bool:
        """Return whether what an answer covers is still kept."""
        if covered.kind == Covered.WALLET:
            return covered.address in self._tracked.wallets
        if covered.kind == Covered.HOLDERS:
            return self._tracked.mint_of(covered.address) is not None
        if covered.kind == Covered.ACCOUNT:
            return self._tracked.account_of(covered.address) is not None
        return covered.kind != Covered.MINT or covered.address in self._tracked.mints

    def lets_go(self, covered: Covered) -> bool:
        """Return whether a withdrawal is still so: a single account may be kept again."""
        return covered.kind != Covered.HOLDERS or not self._tracked.keeps(covered.address)

    def left_by(self, covered: Covered) -> list[Covered]:
        """Return what a list of a mint's largest accounts lets go, which is kept from now on."""
        gone = self._tracked.keep_largest(covered.address, covered.accounts)
        return [Covered(kind=Covered.HOLDERS, address=account) for account in gone]

    def _version(self, update: Update, groups: Collection[str] | None) -> AccountVersion | None:
        address, program, lamports, data, _ = update
        if not lamports:
            self._tracked.leave(address)
            return AccountVersion(address=address, program=program, closed=True)
        kind = kind_of(address, program, data)
        found_by: list[bytes] = []
        if kind is None:
            if address not in self._tracked.wallets:
                return None
            if program not in NUMBERS:  # SOL of a wallet may be in an account of any program
                data = b""
        else:
            if groups is not None and kind.group not in groups:
                return None
            found_by = kind.found_by(data)
            if kind.group == "tokens":
                if not self._tracked.lets_through(address, program, found_by):
                    return None
                self._tracked.follow(address, found_by)
        return AccountVersion(
            address=address,
            program=program,
            lamports=lamports,
            size=len(data),
            data=compress(data),
            found_by=found_by,
        )
