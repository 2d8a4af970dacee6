"""Marinade: what mSOL is worth in lamports, as the program's state says.

Source: Marinade's `State` (Anchor, borsh). Under control are the active balance, what cools down
and the reserve; tickets of a delayed unstake, which take mSOL out of the supply at once, are owed.
"""

from __future__ import annotations

from struct import error
from typing import Final

from schemas.protocols.contract import Account, Kind, PoolShare, Protocol, Unreadable
from schemas.solana.addresses import key
from schemas.solana.borsh import u64

MINT_AT: Final = 8
_TAG: Final = bytes((216, 146, 107, 94, 104, 75, 182, 177))  # sha256("account:State")
_CONTROLLED_AT: Final = (
    226,  # stake_system.delayed_unstake_cooling_down
    376,  # validator_system.total_active_balance
    496,  # available_reserve_balance
    568,  # emergency_cooling_down
)
_SUPPLY_AT: Final = 504
_TICKETS_AT: Final = 528

STATE: Final = Kind(
    "marinade_state", key("MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD"), _TAG, mints=(MINT_AT,)
)


def share(account: Account) -> PoolShare:
    """Return what mSOL is a share of; raises Unreadable."""
    data = account.data
    try:
        controlled = sum(u64(data, at) for at in _CONTROLLED_AT)
        return PoolShare(
            mint=data[MINT_AT : MINT_AT + 32],
            lamports=max(controlled - u64(data, _TICKETS_AT), 0),
            supply_raw=u64(data, _SUPPLY_AT),
            epoch=None,
        )
    except error:
        raise Unreadable(f"Marinade's state of {len(data)} bytes", account.address) from None


PROTOCOL: Final = Protocol("marinade", (STATE,), share=share)
