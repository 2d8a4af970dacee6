"""The accounts of the chain, from what it noted of every write: at its end, and at any slot."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.chain.account_truth import GENESIS, Noted, read
from schemas.solana.addresses import text

Version = tuple[bytes, int]
"""Address and slot, at whose end it is looked at."""


@dataclass(slots=True)
class AccountState:
    """All accounts at the end of a slot, closed ones too."""

    last_slot: int
    accounts: dict[bytes, Noted] = field(default_factory=dict)
    unsettled: set[str] = field(default_factory=set)
    """Base58: a slot that is left by now wrote them later than any other, and it may be stored."""


def after(
    file: Path, last_slot: int, canonical: Collection[int], rolled_back: Collection[int]
) -> AccountState:
    """Return the state after the canonical slots, of which `last_slot` is the last.

    `rolled_back` are slots that were confirmed and left, of which nobody could know it yet.
    """
    state = AccountState(last_slot)
    left: dict[bytes, int] = {}
    for noted in read(file):
        if noted.slot in canonical or noted.slot == GENESIS:
            state.accounts[noted.address] = noted
        elif noted.slot in rolled_back:
            left[noted.address] = max(noted.slot, left.get(noted.address, GENESIS))
    for address, slot in left.items():
        known = state.accounts.get(address)
        if known is None or known.slot < slot:
            state.unsettled.add(text(address))
    return state


def versions_at(
    file: Path, canonical: Collection[int], wanted: Iterable[Version]
) -> Mapping[Version, Noted | None]:
    """Return accounts as canonical slots left them by the end of a slot; None: not there yet."""
    found: dict[Version, Noted | None] = dict.fromkeys(wanted)
    slots: dict[bytes, list[int]] = {}
    for address, slot in found:
        slots.setdefault(address, []).append(slot)
    for noted in read(file):
        if noted.address not in slots or not (noted.slot in canonical or noted.slot == GENESIS):
            continue
        for slot in slots[noted.address]:
            if noted.slot <= slot:
                found[noted.address, slot] = noted
    return found
