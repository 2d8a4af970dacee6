"""Orca Whirlpool: positions are opened, added to, collected from, taken from and closed.

Instructions and events as in its IDL; both tokens of the pool are of the older token program.
Source: Orca `instructions/{open_position,increase_liquidity,decrease_liquidity,collect_fees,
close_position}.rs`; errors those of `ErrorCode`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from struct import Struct
from typing import Final

from infra.chain.market.runtime.execution import Execution, InstructionError, Step, mask
from infra.chain.market.runtime.ledger import associated_address
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    ORCA_WHIRLPOOL,
    RENT_SYSVAR,
    SYSTEM,
    TOKEN,
    anchor_tag,
    event_tag,
)
from infra.chain.market.runtime.stake_program import set_native
from infra.chain.market.venues import positions
from infra.chain.market.venues.positions import Place

TOO_MUCH: Final = 6_017  # TokenMaxExceeded
NO_LIQUIDITY: Final = 6_012  # LiquidityZero
NOT_EMPTY: Final = 6_005  # ClosePositionNotEmpty
TOO_MUCH_TAKEN: Final = 6_015  # LiquidityUnderflow

_ARRAY: Final = anchor_tag("initialize_tick_array")
_OPEN: Final = anchor_tag("open_position")
_INCREASE: Final = anchor_tag("increase_liquidity")
_DECREASE: Final = anchor_tag("decrease_liquidity")
_UPDATE: Final = anchor_tag("update_fees_and_rewards")
_COLLECT: Final = anchor_tag("collect_fees")
_CLOSE: Final = anchor_tag("close_position")
_OPENED: Final = event_tag("PositionOpened")
_INCREASED: Final = event_tag("LiquidityIncreased")
_DECREASED: Final = event_tag("LiquidityDecreased")
_TICK: Final = Struct("<i").pack
_BOUNDS: Final = Struct("<Bii").pack
_ARGS: Final = Struct("<16sQQ").pack
_CHANGED: Final = Struct("<8s32s32sii16sQQQQ").pack


def opened(at: Place, liquidity: int, most: tuple[int, int]) -> Iterator[Step]:
    """Yield the instructions that open a position, with the arrays of its ticks."""
    pool = at.pool
    for start in sorted({pool.array_start(at.lower), pool.array_start(at.upper)}):
        if pool.array_address(start) not in pool.ledger.natives:
            yield partial(initialize_array, at=at, start=start)
    yield partial(open_position, at=at)
    yield partial(increase, at=at, liquidity=liquidity, most=most)


def increased(at: Place, liquidity: int, most: tuple[int, int]) -> Iterator[Step]:
    """Yield the instruction that adds liquidity."""
    yield partial(increase, at=at, liquidity=liquidity, most=most)


def decreased(at: Place, liquidity: int) -> Iterator[Step]:
    """Yield the instruction that takes liquidity."""
    yield partial(decrease, at=at, liquidity=liquidity)


def collected(at: Place) -> Iterator[Step]:
    """Yield the instructions that collect all fees until now."""
    yield partial(update, at=at)
    yield partial(collect, at=at)


def closed(at: Place, liquidity: int) -> Iterator[Step]:
    """Yield the instructions that take all liquidity and fees, and close a position."""
    if liquidity:
        yield partial(decrease, at=at, liquidity=liquidity)
    yield partial(collect, at=at)
    yield partial(close, at=at)


def initialize_array(tx: Execution, at: Place, start: int) -> None:
    """Make an array of 88 ticks."""
    accounts = (at.pool.address, at.holder, at.pool.array_address(start), SYSTEM.address)
    tx.enter(ORCA_WHIRLPOOL, accounts, _ARRAY + _TICK(start), mask("-ww-"))
    tx.log("Program log: Instruction: InitializeTickArray")
    positions.create_array(tx, at, start)
    tx.leave(9_000)


def open_position(tx: Execution, at: Place) -> None:
    """Make an empty position and its NFT."""
    holder = at.holder
    nft_account = associated_address(holder, at.nft)
    accounts = (
        *(holder, holder, at.address, at.nft.address, nft_account, at.pool.address),
        *(TOKEN.address, SYSTEM.address, RENT_SYSVAR, ASSOCIATED_TOKEN.address),
    )
    data = _OPEN + _BOUNDS(255, at.lower, at.upper)
    tx.enter(ORCA_WHIRLPOOL, accounts, data, mask("w-www-----"))
    tx.log("Program log: Instruction: OpenPosition")
    positions.create_position(tx, at)
    tx.emit_log(_OPENED + at.pool.address + at.address + _TICK(at.lower) + _TICK(at.upper))
    tx.leave(30_000)


def increase(tx: Execution, at: Place, liquidity: int, most: tuple[int, int]) -> None:
    """Add liquidity; fails where it needs more than `most` of a token."""
    tx.enter(ORCA_WHIRLPOOL, _accounts(tx, at), _INCREASE + _args(liquidity, most), _CHANGES)
    tx.log("Program log: Instruction: IncreaseLiquidity")
    pool, position = at.pool, positions.found(tx, at)
    if not liquidity:
        raise InstructionError(NO_LIQUIDITY)
    amounts = pool.amounts(liquidity, at.lower, at.upper, up=True)
    if any(raw > limit for raw, limit in zip(amounts, most, strict=True)):
        raise InstructionError(TOO_MUCH)
    positions.pay_in(tx, at, amounts)
    _change(tx, at, liquidity)
    settled = position.settled(pool.inside(at.lower, at.upper))
    set_native(tx, at.address, replace(settled, liquidity=position.liquidity + liquidity))
    _emit(tx, _INCREASED, at, liquidity, amounts)
    tx.leave(35_000)


def decrease(tx: Execution, at: Place, liquidity: int) -> None:
    """Take liquidity; what it earned stays to be collected."""
    tx.enter(ORCA_WHIRLPOOL, _accounts(tx, at), _DECREASE + _args(liquidity, (0, 0)), _CHANGES)
    tx.log("Program log: Instruction: DecreaseLiquidity")
    pool, position = at.pool, positions.found(tx, at)
    if not liquidity:
        raise InstructionError(NO_LIQUIDITY)
    if liquidity > position.liquidity:
        raise InstructionError(TOO_MUCH_TAKEN)
    amounts = pool.amounts(liquidity, at.lower, at.upper, up=False)
    settled = position.settled(pool.inside(at.lower, at.upper))
    set_native(tx, at.address, replace(settled, liquidity=position.liquidity - liquidity))
    positions.pay_out(tx, at, amounts)
    _change(tx, at, -liquidity)
    _emit(tx, _DECREASED, at, liquidity, amounts)
    tx.leave(35_000)


def update(tx: Execution, at: Place) -> None:
    """Write down what a position has earned until now."""
    accounts = (at.pool.address, at.address, *at.arrays)
    tx.enter(ORCA_WHIRLPOOL, accounts, _UPDATE, mask("ww--"))
    tx.log("Program log: Instruction: UpdateFeesAndRewards")
    position = positions.found(tx, at)
    if not position.liquidity:
        raise InstructionError(NO_LIQUIDITY)
    set_native(tx, at.address, position.settled(at.pool.inside(at.lower, at.upper)))
    tx.leave(12_000)


def collect(tx: Execution, at: Place) -> None:
    """Pay the fees that a position is owed as it was last written."""
    nft_account = associated_address(at.holder, at.nft)
    first, second = positions.own_accounts(tx, at)
    vaults = at.pool.vaults
    accounts = (
        *(at.pool.address, at.holder, at.address, nft_account),
        *(first, vaults[0], second, vaults[1], TOKEN.address),
    )
    tx.enter(ORCA_WHIRLPOOL, accounts, _COLLECT, mask("--w-wwww-"))
    tx.log("Program log: Instruction: CollectFees")
    position = positions.found(tx, at)
    set_native(tx, at.address, replace(position, owed=(0, 0)))
    positions.pay_out(tx, at, position.owed)
    tx.leave(15_000)


def close(tx: Execution, at: Place) -> None:
    """Close a position that has no liquidity and is owed nothing; its mint stays."""
    nft_account = associated_address(at.holder, at.nft)
    accounts = (at.holder, at.holder, at.address, at.nft.address, nft_account, TOKEN.address)
    tx.enter(ORCA_WHIRLPOOL, accounts, _CLOSE, mask("-wwww-"))
    tx.log("Program log: Instruction: ClosePosition")
    position = positions.found(tx, at)
    if position.liquidity or any(position.owed):
        raise InstructionError(NOT_EMPTY)
    positions.close_position(tx, at)
    tx.leave(15_000)


_CHANGES: Final = mask("w--w-wwwwww")


def _accounts(tx: Execution, at: Place) -> tuple[bytes, ...]:
    """Return the accounts of adding and taking liquidity."""
    nft_account = associated_address(at.holder, at.nft)
    return (
        *(at.pool.address, TOKEN.address, at.holder, at.address, nft_account),
        *(*positions.own_accounts(tx, at), *at.pool.vaults, *at.arrays),
    )


def _args(liquidity: int, limits: tuple[int, int]) -> bytes:
    return _ARGS(liquidity.to_bytes(16, "little"), *limits)


def _change(tx: Execution, at: Place, liquidity: int) -> None:
    tx.touch(at.pool)
    at.pool.add(at.lower, at.upper, liquidity)


def _emit(tx: Execution, tag: bytes, at: Place, liquidity: int, amounts: tuple[int, int]) -> None:
    tx.emit_log(
        _CHANGED(
            *(tag, at.pool.address, at.address, at.lower, at.upper),
            *(liquidity.to_bytes(16, "little"), *amounts, 0, 0),
        )
    )
