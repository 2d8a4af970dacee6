"""Liquid staking: SOL for a pool's token and back, at the rate of the pool.

A deposit mints, a withdrawal burns; the SOL is lamports, or wrapped where a router wraps it.
Sanctum's router calls a stake pool, and Sanctum's Infinity swaps one pool's token for another's.
Deposits and withdrawals of stake accounts move no SOL that a balance shows, and delayed ones pay
later: neither is a swap. Nor is SOL for a share of Marinade's liquidity, which is paid back in two
tokens. Sources: spl-stake-pool program/src/instruction.rs, marinade's IDL, and
mainnet transactions for Sanctum's router.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named
from pipeline.decoding.flows import exchange
from schemas.solana.addresses import key

SANCTUM_ROUTER: Final = "stkitrT1Uoy18Dk1fTrgPw8W6MVzoCfYoAFT4MLsmhq"
STAKE_POOL, MARINADE_STATE = 0, 0

_SANCTUM_ROUTER: Final = key(SANCTUM_ROUTER)


def _convert(pool: int | None) -> Callable[[Instruction], Leg | None]:
    """Return a handler; `pool` is a place in the accounts, None: what paid out is the pool."""

    def read(ix: Instruction) -> Leg | None:
        tx, position = ix.tx, ix.position
        if any(tx.program(at) == _SANCTUM_ROUTER for at in tx.ancestors(position)):
            return None  # the caller's own instruction is the swap
        at = "" if pool is None or pool >= len(ix.accounts) else ix.address(pool)
        return exchange(tx, position, tx.subtree_end(position), pool=at)

    return read


def _venue(dex: str, *programs: str, pool: int | None = None) -> Venue:
    return Venue(dex=dex, programs=programs, any_tag=_convert(pool), tag_size=1)


VENUES: Final = (
    _venue(
        "stake-pool",
        "SPoo1Ku8WFXoNDMHPsrGSTSG1Y47rzgn41SLUNakuHy",
        "SP12tWFxD9oJsVWNavTTBZvMbA6gkAmxtVgxdqvyvhY",
        "SPMBzsVUuoHA4Jm6KunbsotaahvVikZs1JyTW6iJvbn",
        pool=STAKE_POOL,
    ),
    Venue(
        dex="marinade",
        programs=("MarBmsSgKXdrN1egZf5sqe1TMai9K1rChYNDJgjq7aD",),
        handlers=dict.fromkeys(named("deposit", "liquid_unstake"), _convert(MARINADE_STATE)),
        ignored=named(
            "add_liquidity",
            "add_validator",
            "change_authority",
            "claim",
            "config_lp",
            "config_marinade",
            "config_validator_system",
            "deactivate_stake",
            "deposit_stake_account",
            "emergency_unstake",
            "initialize",
            "merge_stakes",
            "order_unstake",
            "partial_unstake",
            "pause",
            "realloc_stake_list",
            "realloc_validator_list",
            "redelegate",
            "remove_liquidity",
            "remove_validator",
            "resume",
            "set_validator_score",
            "stake_reserve",
            "update_active",
            "update_deactivated",
            "withdraw_stake_account",
        ),
    ),
    _venue("sanctum-router", SANCTUM_ROUTER),
    _venue("sanctum-infinity", "5ocnV1qiCgaQR8Jb8xWnVbApfaygJ8tNoZfgPwsgx9kx"),
)
