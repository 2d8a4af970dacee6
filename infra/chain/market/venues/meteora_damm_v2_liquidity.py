"""Meteora DAMM v2: pools are opened; positions are opened, added to, collected from and closed.

A position's NFT is a Token-2022 mint that describes itself; its one token is in an account at the
program's own address. Both end with the position. Source: damm-v2 idl/cp_amm.json,
`instructions/{ix_create_position,ix_add_liquidity,ix_remove_liquidity,ix_claim_position_fee,
ix_close_position}.rs`; errors those of `PoolError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.accounts import mint_data
from infra.chain.market.runtime.execution import Execution, InstructionError, Step, mask
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import (
    METEORA_DAMM_V2,
    NO_ADDRESS,
    SYSTEM,
    TOKEN_2022,
    anchor_tag,
    event_tag,
)
from infra.chain.market.runtime.stake_program import set_native
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.launches import initialize_mint, register
from infra.chain.market.venues.meteora_damm_v2 import (
    AUTHORITY,
    FEE_RATE,
    MAX_SQRT_PRICE,
    MIN_SQRT_PRICE,
    POOL_BYTES,
    POSITION_BYTES,
    DammPosition,
    DammV2Pool,
    liquidity_from,
    nft_account,
    position_address,
    position_nft,
)
from infra.chain.market.venues.ranges import rent_lamports
from infra.chain.market.venues.sqrt_price import sqrt_price_of
from infra.chain.market.venues.venue import pack_u64

NOT_FOUND: Final = 3_012  # Anchor's AccountNotInitialized
TOO_MUCH: Final = 6_002  # ExceededSlippage
NO_LIQUIDITY: Final = 6_016  # InvalidParameters
TOO_MUCH_TAKEN: Final = 6_023  # InsufficientLiquidity
NOT_EMPTY: Final = 6_039  # PositionIsNotEmpty

_INITIALIZE: Final = anchor_tag("initialize_pool_with_dynamic_config")
_OPEN: Final = anchor_tag("create_position")
_ADD: Final = anchor_tag("add_liquidity")
_REMOVE: Final = anchor_tag("remove_liquidity")
_CLAIM: Final = anchor_tag("claim_position_fee")
_CLOSE: Final = anchor_tag("close_position")
_INITIALIZED: Final = event_tag("EvtInitializePool")
_OPENED: Final = event_tag("EvtCreatePosition")
_CHANGED: Final = event_tag("EvtLiquidityChange")
_CLAIMED: Final = event_tag("EvtClaimPositionFee")
_CLOSED: Final = event_tag("EvtClosePosition")
_ARGS: Final = Struct("<16sQQ").pack
_CHANGE: Final = Struct("<QQQQQQ16sQQB").pack
_AMOUNTS: Final = Struct("<QQ").pack
_ADDED, _REMOVED = 0, 1
_Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Share:
    """Whose position of which pool an instruction is about."""

    pool: DammV2Pool
    holder: bytes
    nft: Mint

    @property
    def address(self) -> bytes:
        """Return the position's address."""
        return position_address(self.nft.address)

    @property
    def nft_account(self) -> bytes:
        """Return the account that has the position's NFT."""
        return nft_account(self.nft.address)


def share(pool: DammV2Pool, holder: bytes, mint: bytes) -> Share:
    """Return a share; the mint's address is that of a key that signs where it is opened."""
    return Share(pool, holder, pool.ledger.mints.get(mint) or position_nft(mint))


def opened(at: Share, liquidity: int, most: _Pair) -> Iterator[Step]:
    """Yield the instructions that open a position with liquidity that costs no more than `most`."""
    yield partial(open_position, at=at)
    yield partial(add, at=at, liquidity=liquidity, most=most)


def increased(at: Share, liquidity: int, most: _Pair) -> Iterator[Step]:
    """Yield the instruction that adds liquidity."""
    yield partial(add, at=at, liquidity=liquidity, most=most)


def decreased(at: Share, liquidity: int) -> Iterator[Step]:
    """Yield the instruction that takes liquidity."""
    yield partial(remove, at=at, liquidity=liquidity)


def collected(at: Share) -> Iterator[Step]:
    """Yield the instruction that collects all fees until now."""
    yield partial(claim, at=at)


def closed(at: Share, liquidity: int) -> Iterator[Step]:
    """Yield the instructions that take all liquidity and fees, and close a position."""
    if liquidity:
        yield partial(remove, at=at, liquidity=liquidity)
    yield partial(claim, at=at)
    yield partial(close, at=at)


def initialize_pool(
    tx: Execution,
    directory: Directory,
    pool: DammV2Pool,
    payer: bytes,
    creator: bytes,
    sources: tuple[bytes, bytes],
    amounts: _Pair,
    config: bytes,
    mint: bytes,
) -> None:
    """Open a pool from another program; `mint` is that of its first position's NFT."""
    at = share(pool, creator, mint)
    side_a, side_b = pool.sides
    accounts = (
        creator,
        mint,
        at.nft_account,
        payer,
        creator,
        config,
        AUTHORITY,
        pool.address,
        at.address,
        side_a.address,
        side_b.address,
        *pool.vaults,
        *sources,
        side_a.program.address,
        side_b.program.address,
        TOKEN_2022.address,
        SYSTEM.address,
        METEORA_DAMM_V2.event_authority,
        METEORA_DAMM_V2.address,
    )
    if tx.ledger.lamports.get(pool.address):
        raise InstructionError(0, "Create Account: account already in use")
    tx.touch(pool)
    pool.sqrt_price, pool.creator = sqrt_price_of(*amounts), creator
    liquidity = liquidity_from(amounts)
    needed = pool.amounts(liquidity, up=True)
    sqrt, put_in = _u128(pool.sqrt_price), _u128(liquidity)
    low, high = _u128(MIN_SQRT_PRICE), _u128(MAX_SQRT_PRICE)
    fees = FEE_RATE.to_bytes(8, "little").ljust(27, b"\0") + bytes(3) + b"\x00"
    data = fees + low + high + b"\x00" + put_in + sqrt + bytes((1, pool.collect_fee_mode, 0))
    tx.enter(METEORA_DAMM_V2, accounts, _INITIALIZE + data)
    tx.log("Program log: Instruction: InitializePoolWithDynamicConfig")
    rent = rent_lamports(POOL_BYTES)
    spl.create_account(tx, payer, pool.address, rent, POOL_BYTES, METEORA_DAMM_V2, has_bytes=True)
    set_native(tx, pool.address, pool)
    _create(tx, at, payer)
    for vault, side in zip(pool.vaults, pool.sides, strict=True):
        spl.create_account(tx, payer, vault, side.account_rent_lamports, 165, side.program)
        spl.initialize_account(tx, vault, side, AUTHORITY)
    for source, side, vault, amount in zip(sources, pool.sides, pool.vaults, needed, strict=True):
        spl.transfer_checked(tx, source, side, vault, creator, amount)
    _set(tx, at, DammPosition(pool.address, mint, liquidity))
    pool.add(liquidity)
    flags = bytes(0 if side.program is not TOKEN_2022 else 1 for side in pool.sides)
    event = (
        _INITIALIZED
        + pool.address
        + side_a.address
        + side_b.address
        + creator
        + payer
        + NO_ADDRESS
        + fees
        + low
        + high
        + bytes((1, pool.collect_fee_mode))
        + put_in
        + sqrt
        + pack_u64(tx.time_s)
        + flags
        + Struct("<QQQQ").pack(*needed, *needed)
        + b"\x01"
    )
    tx.emit_cpi(METEORA_DAMM_V2, event)
    directory.open(tx, pool)
    tx.leave(80_000)


def open_position(tx: Execution, at: Share) -> None:
    """Make an empty position and its NFT."""
    pool, holder = at.pool, at.holder
    accounts = (
        *(holder, at.nft.address, at.nft_account, pool.address, at.address, AUTHORITY, holder),
        *(TOKEN_2022.address, SYSTEM.address),
        *(METEORA_DAMM_V2.event_authority, METEORA_DAMM_V2.address),
    )
    tx.enter(METEORA_DAMM_V2, accounts, _OPEN, mask("-wwww-w----"))
    tx.log("Program log: Instruction: CreatePosition")
    tx.touch(pool)
    _create(tx, at, holder)
    _set(tx, at, DammPosition(pool.address, at.nft.address, seen=pool.growths))
    pool.add(0)
    event = _OPENED + pool.address + holder + at.address + at.nft.address
    tx.emit_cpi(METEORA_DAMM_V2, event)
    tx.leave(30_000)


def add(tx: Execution, at: Share, liquidity: int, most: _Pair) -> None:
    """Add liquidity; fails where it needs more than `most` of a token."""
    pool = at.pool
    data = _ADD + _ARGS(_u128(liquidity), *most)
    tx.enter(METEORA_DAMM_V2, _accounts(tx, at), data, mask("wwwwww--------"))
    tx.log("Program log: Instruction: AddLiquidity")
    position = _found(tx, at)
    if not liquidity:
        raise InstructionError(NO_LIQUIDITY)
    raw = pool.amounts(liquidity, up=True)
    if any(amount > limit for amount, limit in zip(raw, most, strict=True)):
        raise InstructionError(TOO_MUCH)
    for side, vault, amount in zip(pool.sides, pool.vaults, raw, strict=True):
        own = tx.ledger.associated(at.holder, side)
        spl.transfer_checked(tx, own, side, vault, at.holder, amount)
    _change(tx, at, position, liquidity)
    _emit(tx, at, raw, liquidity, most, _ADDED)
    tx.leave(40_000)


def remove(tx: Execution, at: Share, liquidity: int) -> None:
    """Take liquidity; what it earned stays to be collected."""
    pool = at.pool
    data = _REMOVE + _ARGS(_u128(liquidity), 0, 0)
    accounts = (AUTHORITY, *_accounts(tx, at))
    tx.enter(METEORA_DAMM_V2, accounts, data, mask("-wwwwww--------"))
    tx.log("Program log: Instruction: RemoveLiquidity")
    position = _found(tx, at)
    if not liquidity:
        raise InstructionError(NO_LIQUIDITY)
    if liquidity > position.liquidity:
        raise InstructionError(TOO_MUCH_TAKEN)
    raw = pool.amounts(liquidity, up=False)
    _change(tx, at, position, -liquidity)
    _pay(tx, at, raw)
    _emit(tx, at, raw, liquidity, (0, 0), _REMOVED)
    tx.leave(40_000)


def claim(tx: Execution, at: Share) -> None:
    """Pay all fees until now."""
    pool = at.pool
    accounts = (AUTHORITY, *_accounts(tx, at))
    tx.enter(METEORA_DAMM_V2, accounts, _CLAIM, mask("--wwwww--------"))
    tx.log("Program log: Instruction: ClaimPositionFee")
    settled = _found(tx, at).settled(pool.growths)
    first, second = settled.pending
    claimed = settled.claimed[0] + first, settled.claimed[1] + second
    _set(tx, at, replace(settled, pending=(0, 0), claimed=claimed))
    _pay(tx, at, settled.pending)
    event = _CLAIMED + pool.address + at.address + at.holder + _AMOUNTS(first, second)
    tx.emit_cpi(METEORA_DAMM_V2, event)
    tx.leave(25_000)


def close(tx: Execution, at: Share) -> None:
    """Close a position that has no liquidity and is owed nothing, with its NFT."""
    pool, holder, nft = at.pool, at.holder, at.nft
    accounts = (
        *(nft.address, at.nft_account, pool.address, at.address, AUTHORITY, holder, holder),
        *(TOKEN_2022.address, METEORA_DAMM_V2.event_authority, METEORA_DAMM_V2.address),
    )
    tx.enter(METEORA_DAMM_V2, accounts, _CLOSE, mask("wwww-w----"))
    tx.log("Program log: Instruction: ClosePosition")
    position = _found(tx, at)
    if position.liquidity or any(position.pending):
        raise InstructionError(NOT_EMPTY)
    spl.burn(tx, at.nft_account, nft, holder, 1)
    spl.close_account(tx, at.nft_account, holder, holder)
    _close_mint(tx, nft, holder)
    tx.touch(pool)
    pool.positions -= 1
    pool.add(0)
    tx.move_lamports(at.address, holder, tx.ledger.lamports[at.address])
    set_native(tx, at.address, None)
    event = _CLOSED + pool.address + holder + at.address + nft.address
    tx.emit_cpi(METEORA_DAMM_V2, event)
    tx.leave(20_000)


def _create(tx: Execution, at: Share, payer: bytes) -> None:
    """Create a position's account, and its NFT: one token that nobody can mint again."""
    nft, account = at.nft, at.nft_account
    at.pool.positions += 1
    size = len(mint_data(nft))
    spl.create_account(tx, payer, nft.address, rent_lamports(size), size, TOKEN_2022)
    register(tx, nft)
    initialize_mint(tx, nft)
    spl.create_account(tx, payer, account, nft.account_rent_lamports, 170, TOKEN_2022)
    spl.initialize_account(tx, account, nft, at.holder)
    spl.mint_to(tx, nft, account, AUTHORITY, 1)
    spl.revoke_mint_authority(tx, nft, AUTHORITY)
    rent = rent_lamports(POSITION_BYTES)
    spl.create_account(tx, payer, at.address, rent, POSITION_BYTES, METEORA_DAMM_V2, has_bytes=True)


def _close_mint(tx: Execution, nft: Mint, to: bytes) -> None:
    """Close the mint of a token that is burned, as Token-2022 lets its close authority."""
    tx.enter(TOKEN_2022, (nft.address, to, AUTHORITY), b"\x09")
    tx.log("Program log: Instruction: CloseAccount")
    tx.move_lamports(nft.address, to, tx.ledger.lamports[nft.address])
    mints = tx.ledger.mints
    del mints[nft.address]
    tx.changes.undo.append(lambda: mints.update({nft.address: nft}))
    tx.leave(1_200)


def _found(tx: Execution, at: Share) -> DammPosition:
    position = tx.ledger.natives.get(at.address)
    held = tx.ledger.tokens.get(at.nft_account)
    is_own = held is not None and held.owner == at.holder and held.amount_raw
    if not isinstance(position, DammPosition) or not is_own:
        raise InstructionError(NOT_FOUND)
    return position


def _set(tx: Execution, at: Share, position: DammPosition) -> None:
    set_native(tx, at.address, position)


def _change(tx: Execution, at: Share, position: DammPosition, liquidity: int) -> None:
    pool = at.pool
    settled = position.settled(pool.growths)
    _set(tx, at, replace(settled, liquidity=position.liquidity + liquidity))
    tx.touch(pool)
    pool.add(liquidity)


def _pay(tx: Execution, at: Share, amounts: _Pair) -> None:
    pool = at.pool
    for side, vault, amount in zip(pool.sides, pool.vaults, amounts, strict=True):
        if amount:
            own = tx.ledger.associated(at.holder, side)
            spl.transfer_checked(tx, vault, side, own, AUTHORITY, amount)


def _accounts(tx: Execution, at: Share) -> tuple[bytes, ...]:
    """Return the accounts of adding liquidity; taking and collecting have one more before them."""
    pool, sides = at.pool, at.pool.sides
    return (
        *(pool.address, at.address, *(tx.ledger.associated(at.holder, side) for side in sides)),
        *(*pool.vaults, *(side.address for side in sides), at.nft_account, at.holder),
        *(side.program.address for side in sides),
        *(METEORA_DAMM_V2.event_authority, METEORA_DAMM_V2.address),
    )


def _emit(tx: Execution, at: Share, raw: _Pair, liquidity: int, limits: _Pair, kind: int) -> None:
    pool = at.pool
    delta = _u128(liquidity)
    body = _CHANGE(*raw, *raw, *pool.reserves(), delta, *limits, kind)
    tx.emit_cpi(METEORA_DAMM_V2, _CHANGED + pool.address + at.address + at.holder + body)


def _u128(number: int) -> bytes:
    return number.to_bytes(16, "little")
