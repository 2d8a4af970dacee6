"""Raydium CLMM: positions are opened, added to, collected from, taken from and closed.

Instructions as in the program: an NFT of the older token program without metadata, arrays of ticks
made where a position is the first that needs them. Taking liquidity, or none, pays all fees.
Source: raydium-clmm `instructions/{open_position_v2,increase_liquidity_v2,decrease_liquidity_v2,
close_position}.rs`, `states/pool.rs`; errors those of `ErrorCode`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Final

from infra.chain.market.runtime.execution import Execution, InstructionError, Step, mask
from infra.chain.market.runtime.ledger import associated_address, metadata_address
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    MEMO,
    METADATA,
    RAYDIUM_CLMM,
    RENT_SYSVAR,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    anchor_tag,
    event_tag,
    pda,
)
from infra.chain.market.runtime.stake_program import set_native
from infra.chain.market.venues import positions
from infra.chain.market.venues.positions import Place

NOT_EMPTY: Final = 6_004  # ClosePositionErr
NO_LIQUIDITY: Final = 6_017  # InvalidLiquidity
TOO_MUCH_TAKEN: Final = 6_015  # LiquiditySubValueErr
TOO_MUCH: Final = 6_021  # PriceSlippageCheck

_OPEN: Final = anchor_tag("open_position_v2")
_INCREASE: Final = anchor_tag("increase_liquidity_v2")
_DECREASE: Final = anchor_tag("decrease_liquidity_v2")
_CLOSE: Final = anchor_tag("close_position")
_OPENED: Final = event_tag("CreatePersonalPositionEvent")
_INCREASED: Final = event_tag("IncreaseLiquidityEvent")
_DECREASED: Final = event_tag("DecreaseLiquidityEvent")
_BOUNDS: Final = Struct("<iiii").pack
_ARGS: Final = Struct("<16sQQ").pack
_OPEN_EVENT: Final = Struct("<8s32s32s32sii16sQQQQ").pack
_INCREASE_EVENT: Final = Struct("<8s32s16sQQQQ").pack
_DECREASE_EVENT: Final = Struct("<8s32s16sQQQQ24xQQ").pack


def opened(at: Place, liquidity: int, most: tuple[int, int]) -> Iterator[Step]:
    """Yield the instruction that opens a position."""
    yield partial(open_position, at=at, liquidity=liquidity, most=most)


def increased(at: Place, liquidity: int, most: tuple[int, int]) -> Iterator[Step]:
    """Yield the instruction that adds liquidity."""
    yield partial(increase, at=at, liquidity=liquidity, most=most)


def decreased(at: Place, liquidity: int) -> Iterator[Step]:
    """Yield the instruction that takes liquidity, and collects all fees."""
    yield partial(decrease, at=at, liquidity=liquidity)


def collected(at: Place) -> Iterator[Step]:
    """Yield the instruction that collects all fees until now."""
    yield partial(decrease, at=at, liquidity=0)


def closed(at: Place, liquidity: int) -> Iterator[Step]:
    """Yield the instructions that take all liquidity and fees, and close a position."""
    yield partial(decrease, at=at, liquidity=liquidity)
    yield partial(close, at=at)


def open_position(tx: Execution, at: Place, liquidity: int, most: tuple[int, int]) -> None:
    """Make a position with liquidity, its NFT, and the arrays of its ticks."""
    pool, holder, nft = at.pool, at.holder, at.nft
    starts = [pool.array_start(tick) for tick in (at.lower, at.upper)]
    accounts = (
        *(holder, holder, nft.address, _nft_account(at), metadata_address(nft), pool.address),
        *(_unused(at), *at.arrays, at.address, *positions.own_accounts(tx, at), *pool.vaults),
        *(RENT_SYSVAR, SYSTEM.address, TOKEN.address, ASSOCIATED_TOKEN.address),
        *(METADATA.address, TOKEN_2022.address, *(side.address for side in pool.sides)),
    )
    data = _OPEN + _BOUNDS(at.lower, at.upper, *starts) + _args(liquidity, most) + bytes(2)
    tx.enter(RAYDIUM_CLMM, accounts, data, mask("w-wwwwwwwwwwww--------"))
    tx.log("Program log: Instruction: OpenPositionV2")
    for start in dict.fromkeys(starts):
        if pool.array_address(start) not in tx.ledger.natives:
            positions.create_array(tx, at, start)
    positions.create_position(tx, at)
    amounts = _put_in(tx, at, liquidity, most)
    place = (at.lower, at.upper, liquidity.to_bytes(16, "little"))
    tx.emit_log(_OPEN_EVENT(_OPENED, pool.address, holder, holder, *place, *amounts, 0, 0))
    tx.leave(60_000)


def increase(tx: Execution, at: Place, liquidity: int, most: tuple[int, int]) -> None:
    """Add liquidity; fails where it needs more than `most` of a token."""
    pool = at.pool
    accounts = (
        *(at.holder, _nft_account(at), pool.address, _unused(at), at.address, *at.arrays),
        *(*positions.own_accounts(tx, at), *pool.vaults, TOKEN.address, TOKEN_2022.address),
        *(side.address for side in pool.sides),
    )
    data = _INCREASE + _args(liquidity, most) + b"\0"
    tx.enter(RAYDIUM_CLMM, accounts, data, mask("--wwwwwwwww----"))
    tx.log("Program log: Instruction: IncreaseLiquidityV2")
    amounts = _put_in(tx, at, liquidity, most)
    added = liquidity.to_bytes(16, "little")
    tx.emit_log(_INCREASE_EVENT(_INCREASED, at.nft.address, added, *amounts, 0, 0))
    tx.leave(40_000)


def decrease(tx: Execution, at: Place, liquidity: int) -> None:
    """Take liquidity, which may be none, and all fees until now."""
    pool = at.pool
    accounts = (
        *(at.holder, _nft_account(at), at.address, pool.address, _unused(at), *pool.vaults),
        *(*at.arrays, *positions.own_accounts(tx, at), TOKEN.address, TOKEN_2022.address),
        *(MEMO.address, *(side.address for side in pool.sides)),
    )
    data = _DECREASE + _args(liquidity, (0, 0))
    tx.enter(RAYDIUM_CLMM, accounts, data, mask("--wwwwwwwww-----"))
    tx.log("Program log: Instruction: DecreaseLiquidityV2")
    position = positions.found(tx, at)
    if liquidity > position.liquidity:
        raise InstructionError(TOO_MUCH_TAKEN)
    amounts = pool.amounts(liquidity, at.lower, at.upper, up=False)
    settled = position.settled(pool.inside(at.lower, at.upper))
    left = replace(settled, liquidity=position.liquidity - liquidity, owed=(0, 0))
    set_native(tx, at.address, left)
    first, second = (raw + fee for raw, fee in zip(amounts, settled.owed, strict=True))
    positions.pay_out(tx, at, (first, second), checked=True)
    if liquidity:
        tx.touch(pool)
        pool.add(at.lower, at.upper, -liquidity)
    taken = liquidity.to_bytes(16, "little")
    event = (_DECREASED, at.nft.address, taken, *amounts, *settled.owed, 0, 0)
    tx.emit_log(_DECREASE_EVENT(*event))
    tx.leave(45_000)


def close(tx: Execution, at: Place) -> None:
    """Close a position that has no liquidity and is owed nothing; its mint stays."""
    programs = (SYSTEM.address, TOKEN.address)
    accounts = (at.holder, at.nft.address, _nft_account(at), at.address, *programs)
    tx.enter(RAYDIUM_CLMM, accounts, _CLOSE, mask("wwww--"))
    tx.log("Program log: Instruction: ClosePosition")
    position = positions.found(tx, at)
    if position.liquidity or any(position.owed):
        raise InstructionError(NOT_EMPTY)
    positions.close_position(tx, at)
    tx.leave(15_000)


def _put_in(tx: Execution, at: Place, liquidity: int, most: tuple[int, int]) -> tuple[int, int]:
    """Add liquidity to a position that exists; returns its amounts."""
    pool, position = at.pool, positions.found(tx, at)
    if not liquidity:
        raise InstructionError(NO_LIQUIDITY)
    amounts = pool.amounts(liquidity, at.lower, at.upper, up=True)
    if any(raw > limit for raw, limit in zip(amounts, most, strict=True)):
        raise InstructionError(TOO_MUCH)
    positions.pay_in(tx, at, amounts, checked=True)
    settled = position.settled(pool.inside(at.lower, at.upper))
    set_native(tx, at.address, replace(settled, liquidity=position.liquidity + liquidity))
    tx.touch(pool)
    pool.add(at.lower, at.upper, liquidity)
    return amounts


def _nft_account(at: Place) -> bytes:
    return associated_address(at.holder, at.nft)


def _unused(at: Place) -> bytes:
    """Return the account of all positions between two ticks, which the program keeps no more."""
    ticks = (tick.to_bytes(4, "big", signed=True) for tick in (at.lower, at.upper))
    return pda(RAYDIUM_CLMM, b"position", at.pool.address, *ticks)


def _args(liquidity: int, limits: tuple[int, int]) -> bytes:
    return _ARGS(liquidity.to_bytes(16, "little"), *limits)
