"""The holders that the tape knows, with a mint's largest accounts as the chain has them; pure.

An account that both know counts once, as the chain has it. Both must be of one moment: of an
account that one of them saw change later than the other, a transfer could count twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from api.accounts.largest import LargestAccount
from schemas.markets import Account

Ranked = list[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Taped:
    """What the tape knows at the end of a slot."""

    slot: int
    accounts: Mapping[bytes, Account | None]  # of the largest accounts; None: never seen
    owners: Mapping[bytes, int]  # what the owners of these have in all accounts
    excluded: Collection[bytes]  # addresses that are no holders: pools and burn addresses

    def is_holding(self, account: LargestAccount) -> bool:
        """Return whether an account is one of a holder, not a vault or a pool's."""
        known = self.accounts.get(account.address)
        return not (known is not None and known.is_vault) and account.owner not in self.excluded


def owners_of(
    accounts: Iterable[LargestAccount], taped: Mapping[bytes, Account | None]
) -> set[bytes]:
    """Return the owners whose balances change when accounts are merged."""
    known = (taped.get(each.address) for each in accounts)
    return {each.owner for each in accounts if each.owner} | {
        each.owner for each in known if each is not None
    }


def is_even(accounts: Iterable[LargestAccount], as_of_slot: int, taped: Taped) -> bool:
    """Return whether accounts as of a slot and the tape are of one moment, the tape's.

    Where both have the same balance of an account, there is nothing that could count twice.
    """
    for each in accounts:
        known = taped.accounts.get(each.address)
        if not taped.is_holding(each):
            continue
        # Of an account that the tape lacks it saw no change, or that it was emptied.
        lacks_nothing = known is None and not each.amount_raw and each.slot <= taped.slot
        agrees = known is not None and known[:2] == (each.owner, each.amount_raw)
        is_same_moment = each.slot <= taped.slot <= as_of_slot
        if not (agrees or lacks_nothing or is_same_moment):
            return False
    return True


def merged(top: Ranked, accounts: Iterable[LargestAccount], taped: Taped) -> tuple[Ranked, int]:
    """Return the holders, the largest first, and how many more there are than the tape knows.

    `top` are the tape's largest; all owners of `accounts` are among what is returned. It is right
    for as many as `top` has, less the owners whose balance shrinks.
    """
    changes: defaultdict[bytes, int] = defaultdict(int)
    for each in accounts:
        known = taped.accounts.get(each.address)
        if known is not None and known.is_vault:
            continue
        if known is not None:
            changes[known.owner] -= known.amount_raw
        if each.owner:
            changes[each.owner] += each.amount_raw
    balances = dict(top)
    more = 0
    for owner, change in changes.items():
        if owner in taped.excluded:
            continue
        before = taped.owners.get(owner, 0)
        balances[owner] = before + change
        more += bool(balances[owner]) - bool(before)
    ranked = [(owner, raw) for owner, raw in balances.items() if raw]
    return sorted(ranked, key=lambda each: (each[1], each[0]), reverse=True), more
