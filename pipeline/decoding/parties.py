"""Parties: whose accounts took part in whose swaps.

A swap is booked on one wallet, but may run over accounts of others: a router's own, a keeper's.
These owners and the wallet are one party.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pipeline.decoding.contract import Leg
from pipeline.decoding.reading import Reading
from pipeline.solana.transaction import Transaction
from schemas.events import Swap
from schemas.solana.addresses import text


class Parties:
    """The parties of a transaction.

    `traders` has by position, for what lies inside swaps, whose share in it the swaps state: that
    of the others is what pools, makers and receipts gained and lost.
    """

    def __init__(
        self, tx: Transaction, readings: Sequence[Reading], swaps: Mapping[int, Swap]
    ) -> None:
        self._above: dict[str, str] = {}
        self._members: set[str] = set()
        self.traders: defaultdict[int, set[str]] = defaultdict(set)
        for reading in readings:
            for leg in legs(reading):
                swap = swaps[place(reading, leg)]
                owners = {swap.wallet, swap.keeper or swap.wallet, *_owners(tx, leg)}
                self._members |= owners
                self._join(owners)
                for part in (reading.position, *leg.parts):
                    for at in range(part, tx.subtree_end(part)):
                        self.traders[at] |= owners

    def of(self, owner: str) -> str:
        """Return the owner that represents its party; itself where it has none."""
        while owner in self._above:
            owner = self._above[owner]
        return owner

    def has(self, owner: str) -> bool:
        """Return whether an owner's accounts took part in somebody's swap."""
        return owner in self._members

    def _join(self, owners: Iterable[str]) -> None:
        first, *others = {self.of(owner) for owner in owners}
        self._above |= dict.fromkeys(others, first)


def legs(reading: Reading) -> Iterator[Leg]:
    """Yield what an instruction swapped."""
    return (fact for fact in reading.facts if isinstance(fact, Leg))


def place(reading: Reading, leg: Leg) -> int:
    """Return the `event_index` of a leg's swap."""
    return reading.position if leg.position is None else leg.position


def _owners(tx: Transaction, leg: Leg) -> Iterator[str]:
    if leg.user is not None:
        yield text(tx.keys[leg.user])
    for index in (leg.source, leg.destination):
        account = None if index is None else tx.token_account(index)
        if account is not None and account.owner:
            yield account.owner
