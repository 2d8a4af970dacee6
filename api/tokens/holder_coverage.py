"""What a list of holders has and what it leaves out, in fields and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from api.accounts.following import FollowState
from api.accounts.largest import Largest, NoLargest
from api.tokens.answers import HolderCoverage, HolderReason

Unseeded = NoLargest | Literal["created_on_tape", "money"]

TAPED: Final = (
    "Balances as transactions of the programs that are followed left them. An account is known "
    "from its first change seen there; what plain transfers elsewhere did to it is unseen until "
    "it appears again. Vaults, accounts of pools and curves, and burn addresses are no holders."
)
_MONEY: Final = "Holders of SOL and of dollar coins are not followed."
_CREATED: Final = "The token was created since the tape began: every holder that traded is seen."
_SEEDED: Final = (
    "The token's largest accounts as of slot {slot} are among these ({count} accounts), each "
    "followed since, transfers included.{others} A pool that has not traded since the tape began "
    "is listed as a holder."
)
_OTHERS: Final = (
    " No other account had more than {least_raw} units then; of those, what the tape has not seen "
    "is left out, also of owners with several accounts."
)
_ALL: Final = " There were no others."
_REASONS: Final[Mapping[FollowState, tuple[HolderReason, str]]] = {
    FollowState.NOT_INGESTED: (
        "not_ingested",
        "No accounts are taken in here (`soltape ingest accounts`).",
    ),
    FollowState.LANE_STALLED: ("lane_stalled", "The accounts are behind; ask again later."),
    FollowState.PENDING: ("pending", "They were asked for; ask again."),
    FollowState.WITHDRAWN: ("withdrawn", "They are not known."),
    FollowState.KEY_LIMIT: (
        "key_limit",
        "This key has asked for too many new accounts within this minute.",
    ),
    FollowState.LIMIT: (
        "limit",
        "Too many new accounts were asked for within this minute; ask again later.",
    ),
    FollowState.NOT_ASKED: ("not_asked", "They could not be asked for; ask again."),
}
_OLDER: Final = (
    "The token is older than the tape: holders who have not traded since are left out, and larger "
    "ones than these may be among them."
)


def holder_coverage(found: Largest | Unseeded, asked: FollowState | None) -> HolderCoverage:
    """Return what a list has, by the largest accounts or why they are not known.

    `asked` is why they were not asked for, None where they were.
    """
    if isinstance(found, Largest):
        others = _ALL
        if found.least_raw is not None:
            others = _OTHERS.format(least_raw=found.least_raw)
        count = len(found.accounts)
        seeded = _SEEDED.format(slot=found.listed_slot, count=count, others=others)
        return {
            "is_seeded": True,
            "reason": None,
            "largest_slot": found.listed_slot,
            "largest_accounts": count,
            "unseen_at_most_raw": None if found.least_raw is None else str(found.least_raw),
            "note": f"{seeded} Of all others: {TAPED}",
        }
    if found == "money":
        return _unseeded("money", _MONEY)
    if found == "created_on_tape":
        return _unseeded("created_on_tape", f"{_CREATED} {TAPED}")
    assert isinstance(found, NoLargest)
    standing = found.standing
    if standing is FollowState.PENDING and asked is not None:
        standing = asked
    reason, words = _REASONS[standing]
    why = f" ({found.withdrawn})" if found.withdrawn else ""
    return _unseeded(reason, f"{_OLDER} {words}{why} {TAPED}")


def _unseeded(reason: HolderReason, note: str) -> HolderCoverage:
    return {
        "is_seeded": False,
        "reason": reason,
        "largest_slot": None,
        "largest_accounts": None,
        "unseen_at_most_raw": None,
        "note": note,
    }
