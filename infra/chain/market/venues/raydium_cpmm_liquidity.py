"""Raydium CPMM: putting both tokens into a pool for its LP token, and taking them out again.

Source: raydium-cp-swap instructions/deposit.rs and withdraw.rs.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import MEMO, RAYDIUM_CPMM, TOKEN, TOKEN_2022, anchor_tag
from infra.chain.market.venues.raydium_cpmm import AUTHORITY, LP_EVENT, CpmmPool
from infra.chain.market.venues.venue import ceil_div

_DEPOSIT: Final = anchor_tag("deposit")
_WITHDRAW: Final = anchor_tag("withdraw")
_ARGS: Final = Struct("<QQQ").pack
_LP_AMOUNTS: Final = Struct("<7QB").pack
_DEPOSIT_WRITABLE: Final = mask("--wwwwww----w")
_WITHDRAW_WRITABLE: Final = mask("--wwwwww----w-")
_EXCEEDS_SLIPPAGE: Final = 6_005


def share(pool: CpmmPool, lp: Mint, lp_raw: int, *, up: bool) -> tuple[int, int]:
    """Return what of both tokens LP tokens are worth, rounded for the pool."""
    reserves = pool.reserves_without_fees()
    parts = (reserve * lp_raw for reserve in reserves)
    first, second = (ceil_div(p, lp.supply_raw) if up else p // lp.supply_raw for p in parts)
    return first, second


def deposit(
    tx: Execution, pool: CpmmPool, lp: Mint, owner: bytes, lp_raw: int, most: tuple[int, int]
) -> None:
    """Mint LP tokens for both tokens; fails where more than `most` of them would be needed."""
    _enter(tx, pool, lp, owner, _DEPOSIT + _ARGS(lp_raw, *most), deposits=True)
    tx.log("Program log: Instruction: Deposit")
    amounts = share(pool, lp, lp_raw, up=True)
    if any(amount > limit for amount, limit in zip(amounts, most, strict=True)) or not lp_raw:
        raise InstructionError(_EXCEEDS_SLIPPAGE, "AnchorError: ExceededSlippage.")
    _emit(tx, pool, lp, amounts, kind=0)
    for side, vault, amount in zip(pool.sides, pool.vaults, amounts, strict=True):
        spl.transfer_checked(tx, tx.ledger.associated(owner, side), side, vault, owner, amount)
    spl.mint_to(tx, lp, tx.ledger.associated(owner, lp), AUTHORITY, lp_raw)
    tx.leave(30_000)


def withdraw(tx: Execution, pool: CpmmPool, lp: Mint, owner: bytes, lp_raw: int) -> None:
    """Burn LP tokens and pay out their share of both tokens."""
    _enter(tx, pool, lp, owner, _WITHDRAW + _ARGS(lp_raw, 0, 0), deposits=False)
    tx.log("Program log: Instruction: Withdraw")
    amounts = share(pool, lp, lp_raw, up=False)
    _emit(tx, pool, lp, amounts, kind=1)
    spl.burn(tx, tx.ledger.associated(owner, lp), lp, owner, lp_raw)
    for side, vault, amount in zip(pool.sides, pool.vaults, amounts, strict=True):
        destination = tx.ledger.associated(owner, side)
        spl.transfer_checked(tx, vault, side, destination, AUTHORITY, amount)
    tx.leave(30_000)


def _enter(
    tx: Execution, pool: CpmmPool, lp: Mint, owner: bytes, data: bytes, *, deposits: bool
) -> None:
    ledger = tx.ledger
    accounts = (
        owner,
        AUTHORITY,
        pool.address,
        ledger.associated(owner, lp),
        *(ledger.associated(owner, side) for side in pool.sides),
        *pool.vaults,
        TOKEN.address,
        TOKEN_2022.address,
        *(side.address for side in pool.sides),
        lp.address,
    )
    if deposits:
        tx.enter(RAYDIUM_CPMM, accounts, data, _DEPOSIT_WRITABLE)
    else:
        tx.enter(RAYDIUM_CPMM, (*accounts, MEMO.address), data, _WITHDRAW_WRITABLE)
    if not pool.alive:
        raise InstructionError(3012, "AnchorError: AccountNotInitialized. Error Number: 3012.")


def _emit(tx: Execution, pool: CpmmPool, lp: Mint, amounts: tuple[int, int], kind: int) -> None:
    reserves = pool.reserves_without_fees()
    fees = (side.transfer_fee(amount) for side, amount in zip(pool.sides, amounts, strict=True))
    body = _LP_AMOUNTS(lp.supply_raw, *reserves, *amounts, *fees, kind)
    tx.emit_log(LP_EVENT + pool.address + body)
