"""Whether a wallet's own SOL is as new as what it may have become.

No stream brings a wallet's own lamports: they are as of when they were last asked for. Its token
accounts and positions are as of now. SOL that was staked, swapped or wrapped in between would count
twice: as SOL, and as what it became.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Final

from api.analysis.figures import amounts_of
from api.positions.answers import PositionRecord
from api.wallets.held import HeldAccounts
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key
from schemas.solana.base58 import decode

_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})


def changed_since(
    held: HeldAccounts, positions: Sequence[PositionRecord], own_ids: Container[str]
) -> int | None:
    """Return the slot of the newest change of what a wallet has beside its SOL, if SOL is older.

    None: SOL is as new, there is none, or nobody knows as of when. Only accounts count that are the
    wallet's own: those that name it, and positions that an NFT of it leads to, or that no token of
    it is the title to (`own_ids`). A pool or vault that a position is a share of changes with
    everybody's trades. The wallet's SOL went into it only where the wallet's amount of its token
    changed, too.
    """
    reading = held.reading
    if reading is None or held.lamports_slot is None or not held.lamports:
        return None
    since, own = held.lamports_slot, key(held.wallet)
    newer = [
        account.slot
        for address, account in reading.stored.items()
        if account.slot > since
        and address != own
        # What was its token account once may be somebody else's now.
        and (account.program not in _TOKEN_PROGRAMS or address in reading.tokens or account.closed)
    ]
    if changed := [each for each in positions if each["slot"] > since]:
        amounts = amounts_of(held)
        newer += [
            each["slot"]
            for each in changed
            if each["position_id"] in own_ids or _is_own(each, reading.stored, amounts)
        ]
    return max(newer, default=None)


def _is_own(position: PositionRecord, stored: Container[bytes], amounts: Mapping[str, int]) -> bool:
    """Return whether the account of a position is the wallet's; a pool is its own market."""
    name, market = position["position_id"], position["market"]
    return decode(name) in stored or (market not in (None, name) and amounts.get(name, 1) == 1)
