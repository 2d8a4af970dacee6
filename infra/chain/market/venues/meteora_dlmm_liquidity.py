"""Meteora DLMM: taking a position's liquidity out of its bins and spreading it anew.

Source: dlmm-sdk idls/dlmm.json, remove_liquidity_by_range2 and add_liquidity_by_strategy2.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.programs import MEMO, METEORA_DLMM, anchor_tag, event_tag
from infra.chain.market.venues.meteora_dlmm import BINS_PER_SIDE, DlmmPool

_REMOVE: Final = anchor_tag("remove_liquidity_by_range2")
_ADD: Final = anchor_tag("add_liquidity_by_strategy2")
_REMOVED: Final = event_tag("RemoveLiquidity")
_ADDED: Final = event_tag("AddLiquidity")
_RANGE: Final = Struct("<iiHI").pack  # first and last bin, basis points, no extra accounts
_STRATEGY: Final = Struct("<QQiiiiB64sI").pack
_EVENT: Final = Struct("<QQi").pack
_REMOVE_WRITABLE: Final = mask("ww-wwww--------ww")
_ADD_WRITABLE: Final = mask("ww-wwww-------ww")
_WHOLE_BPS: Final = 10_000
_SPOT_BALANCED: Final = 3
_MAX_BIN_SLIPPAGE: Final = 3


def remove_all(tx: Execution, pool: DlmmPool, owner: bytes) -> None:
    """Pay the owner what all bins hold; the pool keeps its price and its fees."""
    first, last = min(pool.bins), max(pool.bins)
    data = _REMOVE + _RANGE(first, last, _WHOLE_BPS, 0)
    tx.enter(METEORA_DLMM, _accounts(tx, pool, owner, memo=True), data, _REMOVE_WRITABLE)
    tx.log("Program log: Instruction: RemoveLiquidityByRange2")
    amounts = position_amounts(pool)
    tx.touch(pool)
    pool.bins = {}
    for side, vault, amount in zip(pool.sides, pool.vaults, amounts, strict=True):
        destination = tx.ledger.associated(owner, side)
        spl.transfer_checked(tx, vault, side, destination, pool.address, amount)
    _emit(tx, pool, owner, _REMOVED, amounts)
    tx.leave(60_000)


def add_around_price(tx: Execution, pool: DlmmPool, owner: bytes, amounts: tuple[int, int]) -> None:
    """Spread amounts evenly over the bins on both sides of the active one."""
    active = pool.active_bin
    first, last = active - BINS_PER_SIDE + 1, active + BINS_PER_SIDE - 1
    args = _STRATEGY(*amounts, active, _MAX_BIN_SLIPPAGE, first, last, _SPOT_BALANCED, bytes(64), 0)
    tx.enter(METEORA_DLMM, _accounts(tx, pool, owner, memo=False), _ADD + args, _ADD_WRITABLE)
    tx.log("Program log: Instruction: AddLiquidityByStrategy2")
    tx.touch(pool)
    pool.bins = pool.spread(amounts)
    pool.center_bin = active
    placed = position_amounts(pool)
    for side, vault, amount in zip(pool.sides, pool.vaults, placed, strict=True):
        source = tx.ledger.associated(owner, side)
        spl.transfer_checked(tx, source, side, vault, owner, amount)
    _emit(tx, pool, owner, _ADDED, placed)
    tx.leave(90_000)


def position_amounts(pool: DlmmPool) -> tuple[int, int]:
    """Return what all bins hold of both sides."""
    bins = pool.bins.values()
    return sum(held_x for held_x, _ in bins), sum(held_y for _, held_y in bins)


def _accounts(tx: Execution, pool: DlmmPool, owner: bytes, *, memo: bool) -> tuple[bytes, ...]:
    associated = tx.ledger.associated
    return (
        pool.position,
        pool.address,
        METEORA_DLMM.address,  # no bitmap extension
        *(associated(owner, side) for side in pool.sides),
        *pool.vaults,
        *(side.address for side in pool.sides),
        owner,
        *(side.program.address for side in pool.sides),
        *((MEMO.address,) if memo else ()),
        METEORA_DLMM.event_authority,
        METEORA_DLMM.address,
        *pool.bin_arrays(),
    )


def _emit(
    tx: Execution, pool: DlmmPool, owner: bytes, tag: bytes, amounts: tuple[int, int]
) -> None:
    body = pool.address + owner + pool.position + _EVENT(*amounts, pool.active_bin)
    tx.emit_cpi(METEORA_DLMM, tag + body)
