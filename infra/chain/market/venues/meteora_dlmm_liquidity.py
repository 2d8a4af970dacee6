"""Meteora DLMM: positions are opened, added to, collected from, taken from and closed.

A position's address follows from its holder and bins, so that none is opened twice. What it adds
is spread evenly over its bins. Source: dlmm-sdk idls/dlmm.json; errors those of `LBError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, Step, mask
from infra.chain.market.runtime.programs import (
    MEMO,
    METEORA_DLMM,
    RENT_SYSVAR,
    SYSTEM,
    anchor_tag,
    event_tag,
)
from infra.chain.market.runtime.stake_program import set_native
from infra.chain.market.venues.bins import Bin, BinnedPosition, Pair, Part, moved, spread
from infra.chain.market.venues.meteora_dlmm import (
    ARRAY_BYTES,
    BINS_PER_SIDE,
    MOST_BINS_AT_FIRST,
    BinArray,
    DlmmPool,
    DlmmPosition,
    position_address,
    position_bytes,
)
from infra.chain.market.venues.ranges import rent_lamports

NOT_FOUND: Final = 3_012  # Anchor's AccountNotInitialized
NO_ARRAY: Final = 6_009  # BinArrayNotFound
NO_LIQUIDITY: Final = 6_007  # ZeroLiquidity
NOT_EMPTY: Final = 6_030  # NonEmptyPosition
PRICE_IS_AWAY: Final = 6_004  # ExceededBinSlippageTolerance
WHOLE_BPS: Final = 10_000

_ARRAY: Final = anchor_tag("initialize_bin_array")
_OPEN: Final = anchor_tag("initialize_position_pda")
_WIDEN: Final = anchor_tag("increase_position_length2")
_ADD: Final = anchor_tag("add_liquidity_by_strategy2")
_REMOVE: Final = anchor_tag("remove_liquidity_by_range2")
_CLAIM: Final = anchor_tag("claim_fee2")
_CLOSE: Final = anchor_tag("close_position2")
_OPENED: Final = event_tag("PositionCreate")
_WIDENED: Final = event_tag("IncreasePositionLength")
_ADDED: Final = event_tag("AddLiquidity")
_REMOVED: Final = event_tag("RemoveLiquidity")
_CLAIMED: Final = event_tag("ClaimFee2")
_CLOSED: Final = event_tag("PositionClose")
_NUMBER: Final = Struct("<q").pack
_BIN: Final = Struct("<i").pack
_BINS: Final = Struct("<ii").pack
_RANGE: Final = Struct("<iiHI").pack  # first and last bin, basis points, no extra accounts
_CLAIM_RANGE: Final = Struct("<iiI").pack
_STRATEGY: Final = Struct("<QQiiiiB64sI").pack
_AMOUNTS: Final = Struct("<QQi").pack
_LENGTH: Final = Struct("<HB").pack
_UPPER_SIDE: Final = 1
_SPOT_BALANCED: Final = 3
_MAX_BIN_SLIPPAGE: Final = 3


@dataclass(frozen=True, slots=True)
class Bins:
    """Whose position of which pool an instruction is about, and its bins."""

    pool: DlmmPool
    holder: bytes
    lower: int
    upper: int

    @property
    def width(self) -> int:
        """Return how many bins it has."""
        return self.upper - self.lower + 1

    @property
    def address(self) -> bytes:
        """Return the position's address."""
        width = min(self.width, MOST_BINS_AT_FIRST)
        return position_address(self.pool.address, self.holder, self.lower, width)

    @property
    def arrays(self) -> dict[int, bytes]:
        """Return number and address of the arrays that its bins are in."""
        return self.pool.arrays(self.lower, self.upper)


def kept(pool: DlmmPool) -> Bins:
    """Return the bins of the keeper's position."""
    return Bins(pool, pool.keeper, *pool.kept_bins)


def opened(at: Bins, amounts: Pair) -> Iterator[Step]:
    """Yield the instructions that open a position with liquidity, with the arrays of its bins."""
    for number, address in at.arrays.items():
        if address not in at.pool.ledger.natives:
            yield partial(initialize_array, at=at, number=number)
    yield partial(open_position, at=at)
    if at.width > MOST_BINS_AT_FIRST:
        yield partial(widen, at=at)
    yield partial(add, at=at, amounts=amounts, active=at.pool.active_bin)


def increased(at: Bins, amounts: Pair) -> Iterator[Step]:
    """Yield the instruction that adds liquidity."""
    yield partial(add, at=at, amounts=amounts, active=at.pool.active_bin)


def decreased(at: Bins, part_bps: int) -> Iterator[Step]:
    """Yield the instruction that takes a part of all liquidity."""
    yield partial(remove, at=at, part_bps=part_bps)


def collected(at: Bins) -> Iterator[Step]:
    """Yield the instruction that collects all fees until now."""
    yield partial(claim, at=at)


def closed(at: Bins, *, is_empty: bool = False) -> Iterator[Step]:
    """Yield the instructions that take all liquidity and fees, and close a position."""
    if not is_empty:
        yield partial(remove, at=at, part_bps=WHOLE_BPS)
    yield partial(claim, at=at)
    yield partial(close, at=at)


def recentered(pool: DlmmPool, amounts: Pair) -> Iterator[Step]:
    """Yield the instructions that move the keeper's position to bins around the price."""
    active, reach = pool.active_bin, BINS_PER_SIDE - 1
    yield from closed(kept(pool))
    yield from opened(Bins(pool, pool.keeper, active - reach, active + reach), amounts)


def initialize_array(tx: Execution, at: Bins, number: int) -> None:
    """Make an array of 70 bins."""
    pool, address = at.pool, at.arrays[number]
    accounts = (pool.address, address, at.holder, SYSTEM.address)
    tx.enter(METEORA_DLMM, accounts, _ARRAY + _NUMBER(number), mask("-ww-"))
    tx.log("Program log: Instruction: InitializeBinArray")
    rent = rent_lamports(ARRAY_BYTES)
    spl.create_account(tx, at.holder, address, rent, ARRAY_BYTES, METEORA_DLMM, has_bytes=True)
    set_native(tx, address, BinArray(pool, number))
    tx.leave(9_000)


def open_position(tx: Execution, at: Bins) -> None:
    """Make an empty position; the keeper's is where the pool's middle is from then on."""
    pool, holder = at.pool, at.holder
    width = min(at.width, MOST_BINS_AT_FIRST)
    accounts = (
        *(holder, holder, at.address, pool.address, holder, SYSTEM.address, RENT_SYSVAR),
        *(METEORA_DLMM.event_authority, METEORA_DLMM.address),
    )
    data = _OPEN + _BINS(at.lower, width)
    tx.enter(METEORA_DLMM, accounts, data, mask("w-w------"))
    tx.log("Program log: Instruction: InitializePositionPda")
    size = position_bytes(width)
    spl.create_account(
        tx, holder, at.address, rent_lamports(size), size, METEORA_DLMM, has_bytes=True
    )
    parts = (Part(),) * width
    set_native(
        tx, at.address, DlmmPosition(pool.address, holder, at.lower, parts, time_s=tx.time_s)
    )
    if holder == pool.keeper:
        tx.touch(pool)
        pool.center_bin = at.lower + BINS_PER_SIDE - 1
    tx.emit_cpi(METEORA_DLMM, _OPENED + pool.address + at.address + holder)
    tx.leave(15_000)


def widen(tx: Execution, at: Bins) -> None:
    """Let a position have more bins than it may be opened with, at its upper end."""
    pool, holder = at.pool, at.holder
    accounts = (
        *(holder, pool.address, at.address, holder, SYSTEM.address),
        *(METEORA_DLMM.event_authority, METEORA_DLMM.address),
    )
    tx.enter(METEORA_DLMM, accounts, _WIDEN + _BIN(at.upper), mask("w-w----"))
    tx.log("Program log: Instruction: IncreasePositionLength2")
    position = _found(tx, at)
    more = at.upper - position.upper
    rent = rent_lamports(position_bytes(at.width)) - tx.ledger.lamports[at.address]
    spl.transfer_lamports(tx, holder, at.address, rent)
    set_native(tx, at.address, replace(position, parts=position.parts + (Part(),) * more))
    event = _WIDENED + pool.address + at.address + holder + _LENGTH(more, _UPPER_SIDE)
    tx.emit_cpi(METEORA_DLMM, event)
    tx.leave(12_000)


def add(tx: Execution, at: Bins, amounts: Pair, active: int) -> None:
    """Spread amounts evenly over the position's bins; fails where the price left `active`."""
    pool = at.pool
    bounds = (active, _MAX_BIN_SLIPPAGE, at.lower, at.upper)
    data = _ADD + _STRATEGY(*amounts, *bounds, _SPOT_BALANCED, bytes(64), 0)
    arrays = "w" * len(at.arrays)
    tx.enter(METEORA_DLMM, _accounts(tx, at, memo=False), data, mask(f"ww-wwww-------{arrays}"))
    tx.log("Program log: Instruction: AddLiquidityByStrategy2")
    position = _found(tx, at)
    if abs(pool.active_bin - active) > _MAX_BIN_SLIPPAGE:
        raise InstructionError(PRICE_IS_AWAY)
    if any(address not in tx.ledger.natives for address in at.arrays.values()):
        raise InstructionError(NO_ARRAY)
    placed = spread(pool.active_bin, at.lower, at.upper, amounts)
    after, changed = position.added(pool.bins, placed, pool.bin_step)
    if not changed:
        raise InstructionError(NO_LIQUIDITY)
    raw = moved(pool.bins, changed)
    for side, vault, amount in zip(pool.sides, pool.vaults, raw, strict=True):
        source = tx.ledger.associated(at.holder, side)
        if amount:
            spl.transfer_checked(tx, source, side, vault, at.holder, amount)
    _change(tx, at, after, changed)
    _emit(tx, at, _ADDED, raw)
    tx.leave(90_000)


def remove(tx: Execution, at: Bins, part_bps: int) -> None:
    """Take a part of each share; what it earned stays to be collected."""
    pool = at.pool
    data = _REMOVE + _RANGE(at.lower, at.upper, part_bps, 0)
    arrays = "w" * len(at.arrays)
    tx.enter(METEORA_DLMM, _accounts(tx, at, memo=True), data, mask(f"ww-wwww--------{arrays}"))
    tx.log("Program log: Instruction: RemoveLiquidityByRange2")
    after, changed = _found(tx, at).taken(pool.bins, part_bps)
    if not changed:
        raise InstructionError(NO_LIQUIDITY)
    first, second = moved(pool.bins, changed)
    _change(tx, at, after, changed)
    _pay(tx, at, (-first, -second))
    _emit(tx, at, _REMOVED, (-first, -second))
    tx.leave(60_000)


def claim(tx: Execution, at: Bins) -> None:
    """Pay all fees until now."""
    pool = at.pool
    own = (tx.ledger.associated(at.holder, side) for side in pool.sides)
    accounts = (
        *(pool.address, at.address, at.holder, *pool.vaults, *own),
        *(side.address for side in pool.sides),
        *(side.program.address for side in pool.sides),
        *(MEMO.address, METEORA_DLMM.event_authority, METEORA_DLMM.address),
        *at.arrays.values(),
    )
    data = _CLAIM + _CLAIM_RANGE(at.lower, at.upper, 0)
    arrays = "w" * len(at.arrays)
    tx.enter(METEORA_DLMM, accounts, data, mask(f"ww-wwww-------{arrays}"))
    tx.log("Program log: Instruction: ClaimFee2")
    settled = _found(tx, at).settled(pool.bins)
    set_native(tx, at.address, replace(settled.paid(), time_s=tx.time_s))
    _pay(tx, at, settled.pending)
    _emit(tx, at, _CLAIMED, settled.pending)
    tx.leave(30_000)


def close(tx: Execution, at: Bins) -> None:
    """Close a position that has no share and is owed nothing."""
    accounts = (
        *(at.address, at.holder, at.holder),
        *(METEORA_DLMM.event_authority, METEORA_DLMM.address),
    )
    tx.enter(METEORA_DLMM, accounts, _CLOSE, mask("w-w--"))
    tx.log("Program log: Instruction: ClosePosition2")
    if not _found(tx, at).is_empty:
        raise InstructionError(NOT_EMPTY)
    tx.move_lamports(at.address, at.holder, tx.ledger.lamports[at.address])
    set_native(tx, at.address, None)
    tx.emit_cpi(METEORA_DLMM, _CLOSED + at.address + at.holder)
    tx.leave(10_000)


def _found(tx: Execution, at: Bins) -> BinnedPosition:
    position = tx.ledger.natives.get(at.address)
    if not isinstance(position, BinnedPosition):
        raise InstructionError(NOT_FOUND)
    return position


def _change(tx: Execution, at: Bins, after: BinnedPosition, changed: dict[int, Bin]) -> None:
    tx.touch(at.pool)
    at.pool.change(changed)
    set_native(tx, at.address, replace(after, time_s=tx.time_s))


def _pay(tx: Execution, at: Bins, amounts: Pair) -> None:
    pool = at.pool
    for side, vault, amount in zip(pool.sides, pool.vaults, amounts, strict=True):
        if amount:
            own = tx.ledger.associated(at.holder, side)
            spl.transfer_checked(tx, vault, side, own, pool.address, amount)


def _accounts(tx: Execution, at: Bins, *, memo: bool) -> tuple[bytes, ...]:
    pool, associated = at.pool, tx.ledger.associated
    return (
        at.address,
        pool.address,
        METEORA_DLMM.address,  # no bitmap extension
        *(associated(at.holder, side) for side in pool.sides),
        *pool.vaults,
        *(side.address for side in pool.sides),
        at.holder,
        *(side.program.address for side in pool.sides),
        *((MEMO.address,) if memo else ()),
        METEORA_DLMM.event_authority,
        METEORA_DLMM.address,
        *at.arrays.values(),
    )


def _emit(tx: Execution, at: Bins, tag: bytes, amounts: Pair) -> None:
    pool = at.pool
    named = (at.address, at.holder) if tag is _CLAIMED else (at.holder, at.address)
    body = b"".join((pool.address, *named, _AMOUNTS(*amounts, pool.active_bin)))
    tx.emit_cpi(METEORA_DLMM, tag + body)
