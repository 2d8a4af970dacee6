"""Whether a wallet's own SOL is as new as what it may have become.

No stream brings a wallet's own lamports: they are as of when they were last asked for. Its token
accounts and positions are as of now. SOL that was staked, swapped or wrapped in between would count
twice: as SOL, and as what it became.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Final

from api.analysis.figures import amounts_of
from api.positions.answers import PositionRecord
from api.wallets.held import HeldAccounts
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key, text

_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})


def changed_since(held: HeldAccounts, positions: Sequence[PositionRecord]) -> int | None:
    """Return the slot of the newest change of what a wallet has beside its SOL, if SOL is older.

    None: SOL is as new, there is none, or nobody knows as of when. Only accounts count that are the
    wallet's own: those that name it, and positions that an NFT of it leads to. A pool or vault that
    a position is a share of changes with everybody's trades. The wallet's SOL went into it only
    where the wallet's amount of its token changed, too.
    """
    reading = held.reading
    if reading is None or held.lamports_slot is None or not held.lamports:
        return None
    own = key(held.wallet)
    slots = [
        account.slot
        for address, account in reading.stored.items()
        # What was its token account once may be somebody else's now.
        if address != own
        and (account.program not in _TOKEN_PROGRAMS or address in reading.tokens or account.closed)
    ]
    amounts = amounts_of(held)
    named = set(map(text, reading.stored))
    slots += [each["slot"] for each in positions if _is_own(each, named, amounts)]
    newest = max(slots, default=0)
    return newest if newest > held.lamports_slot else None


def _is_own(position: PositionRecord, named: Set[str], amounts: Mapping[str, int]) -> bool:
    """Return whether the account of a position is the wallet's; a pool is its own market."""
    name, market = position["position_id"], position["market"]
    return name in named or (market not in (None, name) and amounts.get(name, 1) == 1)
