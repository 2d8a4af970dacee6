"""SPL stake pools: what a pool token is worth in lamports, as the pool last counted its stake.

Sanctum runs the same program under two more addresses: pools of one validator, and of several.
Source: `spl_stake_pool::state::StakePool`, borsh; it withdraws total_lamports / pool_token_supply
for a token, rounded down, and counts both anew once an epoch.
"""

from __future__ import annotations

from struct import error
from typing import Final

from schemas.protocols.contract import Account, Kind, PoolShare, Protocol, Unreadable
from schemas.solana.addresses import key
from schemas.solana.borsh import u64

SIZE: Final = 611
POOL_MINT_AT: Final = 162
_TAG: Final = b"\x01"  # AccountType::StakePool; 2 is its list of validators
_TOTAL_LAMPORTS_AT: Final = 258
_SUPPLY_AT: Final = 266
_LAST_EPOCH_AT: Final = 274


def _kind(name: str, program: str) -> Kind:
    return Kind(name, key(program), _TAG, size=SIZE, mints=(POOL_MINT_AT,))


KINDS: Final = (
    _kind("stake_pool", "SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy"),
    _kind("stake_pool_sanctum_single", "SP12tWFxD9oJsVWNavTTBZvMbA6gkAmxtVgxdqvyvhY"),
    _kind("stake_pool_sanctum_multi", "SPMBzsVUuoHA4Jm6KunbsotaahvVikZs1JyTW6iJvbn"),
)


def share(account: Account) -> PoolShare:
    """Return what a pool's token is a share of; raises Unreadable."""
    data = account.data
    try:
        return PoolShare(
            mint=data[POOL_MINT_AT : POOL_MINT_AT + 32],
            lamports=u64(data, _TOTAL_LAMPORTS_AT),
            supply_raw=u64(data, _SUPPLY_AT),
            epoch=u64(data, _LAST_EPOCH_AT),
        )
    except error:
        raise Unreadable(f"stake pool of {len(data)} bytes", account.address) from None


PROTOCOL: Final = Protocol("stake_pool", KINDS, share=share)
