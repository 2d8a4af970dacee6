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


def needed(pool: CpmmPool, lp_raw: int) -> tuple[int, int]:
    """Return what LP tokens cost of both tokens, with what their transfers withhold."""
    first, second = (
        raw + _withheld(side, raw)
        for side, raw in zip(pool.sides, _costs(pool, lp_raw), strict=True)
    )
    return first, second


def _costs(pool: CpmmPool, lp_raw: int) -> tuple[int, int]:
    first, second = (ceil_div(each * lp_raw, pool.lp_raw) for each in pool.reserves_without_fees())
    return first, second


def _withheld(side: Mint, raw: int) -> int:
    """Return the fee of a transfer of which `raw` arrives."""
    whole = ceil_div(raw * 10_000, 10_000 - side.transfer_fee_bps)
    return side.transfer_fee(min(whole, raw + side.transfer_fee_max_raw))


def deposit(
    tx: Execution, pool: CpmmPool, lp: Mint, owner: bytes, lp_raw: int, most: tuple[int, int]
) -> None:
    """Mint LP tokens for both tokens; fails where more than `most` of them would be needed."""
    _enter(tx, pool, lp, owner, _DEPOSIT + _ARGS(lp_raw, *most), deposits=True)
    tx.log("Program log: Instruction: Deposit")
    arriving, sent = _costs(pool, lp_raw), needed(pool, lp_raw)
    _emit(tx, pool, arriving, (sent[0] - arriving[0], sent[1] - arriving[1]), kind=0)
    if any(amount > limit for amount, limit in zip(sent, most, strict=True)) or not lp_raw:
        raise InstructionError(_EXCEEDS_SLIPPAGE, "AnchorError: ExceededSlippage.")
    pool.change(tx)
    for side, vault, amount in zip(pool.sides, pool.vaults, sent, strict=True):
        spl.transfer_checked(tx, tx.ledger.associated(owner, side), side, vault, owner, amount)
    pool.lp_raw += lp_raw
    spl.mint_to(tx, lp, tx.ledger.associated(owner, lp), AUTHORITY, lp_raw)
    tx.leave(30_000)


def withdraw(tx: Execution, pool: CpmmPool, lp: Mint, owner: bytes, lp_raw: int) -> None:
    """Burn LP tokens and pay out their share of both tokens."""
    _enter(tx, pool, lp, owner, _WITHDRAW + _ARGS(lp_raw, 0, 0), deposits=False)
    tx.log("Program log: Instruction: Withdraw")
    amounts = pool.withdrawn(lp_raw)
    fees = [side.transfer_fee(raw) for side, raw in zip(pool.sides, amounts, strict=True)]
    received = (amounts[0] - fees[0], amounts[1] - fees[1])
    _emit(tx, pool, received, (fees[0], fees[1]), kind=1)
    pool.change(tx)
    pool.lp_raw -= lp_raw
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


def _emit(
    tx: Execution, pool: CpmmPool, amounts: tuple[int, int], fees: tuple[int, int], kind: int
) -> None:
    body = _LP_AMOUNTS(pool.lp_raw, *pool.reserves_without_fees(), *amounts, *fees, kind)
    tx.emit_log(LP_EVENT + pool.address + body)
