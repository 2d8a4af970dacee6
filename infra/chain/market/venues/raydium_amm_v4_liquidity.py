"""Raydium AMM v4: putting both tokens into a pool for its LP token, and taking them out again.

Source: raydium-amm processor.rs, `process_deposit` and `process_withdraw`, with the accounts of
the order book that clients still name; errors those of `AmmError`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import OPENBOOK_V1, RAYDIUM_AMM_V4, TOKEN
from infra.chain.market.venues.raydium_amm_v4 import AUTHORITY, AmmV4Pool, ray_log
from infra.chain.market.venues.venue import ceil_div

SLIPPAGE: Final = 30  # ExceededSlippage
_NO_AMOUNT: Final = 29  # InvalidInput
_TOO_FEW: Final = 40  # InsufficientFunds
_BASE_COIN: Final = 0
_DEPOSIT: Final = Struct("<BQQQ").pack
_WITHDRAW: Final = Struct("<BQ").pack
_DEPOSIT_LOG: Final = Struct("<B6Q16s16sQQQ").pack
_WITHDRAW_LOG: Final = Struct("<B5Q16s16sQQ").pack
_DEPOSIT_WRITABLE: Final = mask("-w--wwww-www--")
_WITHDRAW_WRITABLE: Final = mask("-w-wwwww-www-www-www")


def needed(pool: AmmV4Pool, lp_raw: int) -> tuple[int, int]:
    """Return coin and pc of a deposit for so many LP tokens, or hardly more."""
    coin, pc = _reserves(pool)
    coin_raw = ceil_div(lp_raw * coin, pool.lp_raw)
    return coin_raw, ceil_div(coin_raw * pc, coin)


def deposit(tx: Execution, pool: AmmV4Pool, lp: Mint, owner: bytes, most: tuple[int, int]) -> None:
    """Put in all of the coin, and pc for it at the pool's ratio; fails where that is too much."""
    ledger, (orders, targets, market, *_) = tx.ledger, pool.market
    queue = pool.market[5]
    own = tuple(ledger.associated(owner, each) for each in (*pool.sides, lp))
    accounts = (
        *(TOKEN.address, pool.address, AUTHORITY, orders, targets, lp.address, *pool.vaults),
        *(market, *own, owner, queue),
    )
    tx.enter(RAYDIUM_AMM_V4, accounts, _DEPOSIT(3, *most, _BASE_COIN), _DEPOSIT_WRITABLE)
    profit, (coin, pc) = pool.profit(), _reserves(pool)
    moved = most[0], ceil_div(most[0] * pc, coin)
    fits = moved[1] <= most[1]
    lp_raw = most[0] * pool.lp_raw // coin if fits else 0
    counted = (each.to_bytes(16, "little") for each in pool.counted)
    head = (1, *most, _BASE_COIN, coin, pc, pool.lp_raw)
    ray_log(tx, _DEPOSIT_LOG(*head, *counted, *moved, lp_raw))
    if not fits:
        raise InstructionError(SLIPPAGE, "Error: exceeds desired slippage limit")
    if any(raw > ledger.balance(at) for raw, at in zip(moved, own[:2], strict=True)):
        raise InstructionError(_TOO_FEW, "Error: insufficient funds")
    if not (lp_raw and all(moved)):
        raise InstructionError(_NO_AMOUNT, "Error: InvalidInput")
    pool.count(tx, profit, moved, lp_raw)
    for source, vault, raw in zip(own[:2], pool.vaults, moved, strict=True):
        spl.transfer(tx, source, vault, owner, raw)
    spl.mint_to(tx, lp, own[2], AUTHORITY, lp_raw)
    tx.leave(40_000)


def withdraw(tx: Execution, pool: AmmV4Pool, lp: Mint, owner: bytes, lp_raw: int) -> None:
    """Burn LP tokens and pay out their share of both tokens."""
    ledger = tx.ledger
    orders, targets, market, bids, asks, queue, coin_vault, pc_vault, signer = pool.market
    own_lp, *own = (ledger.associated(owner, each) for each in (lp, *pool.sides))
    accounts = (
        *(TOKEN.address, pool.address, AUTHORITY, orders, targets, lp.address, *pool.vaults),
        *(OPENBOOK_V1.address, market, coin_vault, pc_vault, signer),
        *(own_lp, *own, owner, queue, bids, asks),
    )
    tx.enter(RAYDIUM_AMM_V4, accounts, _WITHDRAW(4, lp_raw), _WITHDRAW_WRITABLE)
    if lp_raw > (held := ledger.balance(own_lp)):
        raise InstructionError(_TOO_FEW, "Error: insufficient funds")
    profit, moved = pool.profit(), pool.withdrawn(lp_raw)
    counted = (each.to_bytes(16, "little") for each in pool.counted)
    head = (2, lp_raw, held, *_reserves(pool), pool.lp_raw)
    ray_log(tx, _WITHDRAW_LOG(*head, *counted, *moved))
    if not all(moved):
        raise InstructionError(_NO_AMOUNT, "Error: InvalidInput")
    pool.count(tx, profit, moved, -lp_raw)
    for vault, to, raw in zip(pool.vaults, own, moved, strict=True):
        spl.transfer(tx, vault, to, AUTHORITY, raw)
    spl.burn(tx, own_lp, lp, owner, lp_raw)
    tx.leave(40_000)


def _reserves(pool: AmmV4Pool) -> tuple[int, int]:
    """Return coin and pc that LP tokens share, once the profit until now is counted."""
    (coin, pc), profit = pool.reserves(), pool.profit()
    return coin - profit.coin_raw, pc - profit.pc_raw
