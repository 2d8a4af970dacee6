"""What a node is asked for: filters derived from the protocol files.

One filter a kind, or up to ten programs a filter (`ACCOUNT_FILTERS`), spread over the connections
(`ACCOUNT_STREAMS`). A closed account is the System program's and passes no filter on its former
owner: closings come by a filter of their own or, where a node refuses it, by the balances of the
programs' transactions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal

from schemas.proto.geyser_pb2 import (
    CONFIRMED,
    SubscribeRequest,
    SubscribeRequestFilterAccounts,
    SubscribeRequestFilterAccountsFilter,
    SubscribeRequestFilterAccountsFilterLamports,
    SubscribeRequestFilterAccountsFilterMemcmp,
    SubscribeRequestFilterBlocksMeta,
    SubscribeRequestFilterSlots,
    SubscribeRequestFilterTransactions,
)
from schemas.protocols.contract import Kind
from schemas.solana.addresses import SYSTEM_PROGRAM, text

OWNERS_A_FILTER: Final = 10  # of Yellowstone's example configuration
CLOSED: Final = "closed"
LABEL: Final = "soltape"

FilterMode = Literal["kind", "owner"]

_MOST: Final = re.compile(r"max amount of filters\D*(\d+)", re.IGNORECASE)
_SYSTEM_REFUSED: Final = re.compile(r"1{32}\b.*not allowed", re.IGNORECASE)


class Subscription:
    """The requests of all connections; it adapts to what the node refuses."""

    def __init__(self, kinds: Iterable[Kind], mode: FilterMode, streams: int) -> None:
        kinds = tuple(kinds)
        self._mode: Final = mode
        filters = _by_kind(kinds) if mode == "kind" else _by_owner(kinds)
        self.streams: Final = max(1, min(streams, len(filters)))
        names = sorted(filters)
        self._filters = [
            {name: filters[name] for name in names[at :: self.streams]}
            for at in range(self.streams)
        ]
        self._programs = sorted({text(kind.program) for kind in kinds})
        self.closings_by_balances = False

    def request(self, stream: int, from_slot: int | None) -> SubscribeRequest:
        """Ask for the share of a connection, from a slot on or from now.

        Slots come at every status, with the interslot ones: only those show a dead slot.
        """
        accounts = dict(self._filters[stream])
        transactions = {}
        if stream == 0:
            if self.closings_by_balances:
                transactions[CLOSED] = SubscribeRequestFilterTransactions(
                    vote=False, failed=False, account_include=self._programs
                )
            else:
                accounts[CLOSED] = _closed()
        return SubscribeRequest(
            accounts=accounts,
            transactions=transactions,
            slots={
                LABEL: SubscribeRequestFilterSlots(
                    filter_by_commitment=False, interslot_updates=True
                )
            },
            blocks_meta={LABEL: SubscribeRequestFilterBlocksMeta()},
            commitment=CONFIRMED,
            from_slot=from_slot,
        )

    def explain(self, refusal: str) -> str:
        """Return what a node's refusal means and what to do; may change the next request."""
        if _SYSTEM_REFUSED.search(refusal) and not self.closings_by_balances:
            self.closings_by_balances = True
            return (
                "this endpoint refuses filters on the System program; closed accounts are read "
                "from the balances of transactions instead"
            )
        if (found := _MOST.search(refusal)) is None:
            return refusal
        most = int(found[1])
        allows = f"this endpoint allows {most} account filter{'' if most == 1 else 's'}"
        if self._mode == "kind":
            return f"{allows}; set ACCOUNT_FILTERS=owner"
        if not self.closings_by_balances:
            self.closings_by_balances = True
            return f"{allows}; closed accounts are read from the balances of transactions instead"
        wanted = sum(map(len, self._filters))
        return f"{allows}, {wanted} are needed; set ACCOUNT_STREAMS={-(-wanted // max(1, most))}"


def wanted_kinds(kinds: Iterable[Kind], groups: Collection[str]) -> tuple[Kind, ...]:
    """Return the kinds of some groups."""
    return tuple(kind for kind in kinds if kind.group in groups)


def _by_kind(kinds: Sequence[Kind]) -> dict[str, SubscribeRequestFilterAccounts]:
    # A node takes 4 KiB of names in all, which those of 250 kinds would exceed, and repeats them
    # with every update: numbers.
    return {f"{number}": _of_kind(kind) for number, kind in enumerate(kinds)}


def _of_kind(kind: Kind) -> SubscribeRequestFilterAccounts:
    if kind.addresses:
        return SubscribeRequestFilterAccounts(account=[text(each) for each in kind.addresses])
    filters = []
    if kind.size is not None:
        filters.append(SubscribeRequestFilterAccountsFilter(datasize=kind.size))
    if kind.tag:
        memcmp = SubscribeRequestFilterAccountsFilterMemcmp(offset=kind.tag_at, bytes=kind.tag)
        filters.append(SubscribeRequestFilterAccountsFilter(memcmp=memcmp))
    return SubscribeRequestFilterAccounts(owner=[text(kind.program)], filters=filters)


def _by_owner(kinds: Sequence[Kind]) -> dict[str, SubscribeRequestFilterAccounts]:
    owners = sorted({text(kind.program) for kind in kinds})
    shares = (owners[at : at + OWNERS_A_FILTER] for at in range(0, len(owners), OWNERS_A_FILTER))
    return {
        f"{number}": SubscribeRequestFilterAccounts(owner=share)
        for number, share in enumerate(shares)
    }


def _closed() -> SubscribeRequestFilterAccounts:
    none = SubscribeRequestFilterAccountsFilterLamports(eq=0)
    return SubscribeRequestFilterAccounts(
        owner=[text(SYSTEM_PROGRAM)],
        filters=[SubscribeRequestFilterAccountsFilter(lamports=none)],
    )
