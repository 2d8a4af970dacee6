"""Messages of the tape as rows of ClickHouse, in the column order of `schemas.rows`.

Field by field, straight from Protobuf: this runs for every event. What a column could not hold
is refused here, with CodecError: each retry of an insert would fail for all rows beside it.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Final

from schemas.codec import CodecError
from schemas.money import WSOL
from schemas.proto import tape_pb2
from schemas.rows import Row

_U64_MASK: Final = 2**64 - 1
_I64_SIGN: Final = 2**63
_MAX_U128: Final = 2**128 - 1
_MAX_U8: Final = 255
_MAX_U16: Final = 2**16 - 1
_PERP_CHANGES: Final = frozenset({"increase", "decrease", "liquidate"})
_MAX_SOL_USD: Final = Decimal(10) ** 20  # what Decimal(38, 18) can hold


def swap_row(swap: tape_pb2.Swap) -> Row:
    """Return the row of a swap; raises CodecError.

    What is nearly always the same is kept as a difference, which compresses to next to nothing;
    the table has columns that turn it back (see the migration).
    """
    side = swap.side
    decimals = swap.decimals
    quote_decimals = swap.quote_decimals
    if side not in (1, 2) or decimals > _MAX_U8 or quote_decimals > _MAX_U8:
        raise CodecError(f"Swap: side {side}, decimals {decimals} and {quote_decimals}")
    wallet = swap.wallet
    fee_payer = swap.fee_payer
    quote_mint = swap.quote_mint
    amount_raw = swap.amount_raw
    quote_amount_raw = swap.quote_amount_raw
    priority_fee_lamports = swap.priority_fee_lamports
    has = swap.HasField
    return (
        swap.signature,
        swap.slot,
        swap.tx_index,
        swap.event_index,
        swap.block_time_ms,
        swap.dex,
        swap.program_id,
        swap.pool,
        wallet,
        "" if fee_payer == wallet else fee_payer,
        swap.mint,
        quote_mint,
        side,
        amount_raw,
        decimals,
        quote_amount_raw,
        quote_decimals,
        _difference(swap.wallet_amount_raw, amount_raw),
        _difference(swap.wallet_quote_amount_raw, quote_amount_raw),
        swap.sol_value_lamports if quote_mint != WSOL and has("sol_value_lamports") else None,
        swap.usd_value_micros if has("usd_value_micros") else None,
        swap.pool_fee_raw if has("pool_fee_raw") else None,
        swap.pool_fee_mint,
        (swap.fee_lamports - priority_fee_lamports) & _U64_MASK,
        priority_fee_lamports,
        swap.tip_lamports,
        swap.router,
        swap.platform,
        swap.reserve_raw if has("reserve_raw") else None,
        swap.quote_reserve_raw if has("quote_reserve_raw") else None,
        _u128("liquidity", swap.liquidity) if swap.liquidity else None,
        _u128("sqrt_price_x64", swap.sqrt_price_x64) if swap.sqrt_price_x64 else None,
        swap.keeper,
    )


def creation_row(creation: tape_pb2.Creation) -> Row:
    """Return the row of a creation; raises CodecError."""
    if creation.decimals > _MAX_U8:
        raise CodecError(f"Creation: decimals {creation.decimals}")
    return (
        creation.signature,
        creation.slot,
        creation.tx_index,
        creation.event_index,
        creation.block_time_ms,
        creation.mint,
        creation.name,
        creation.symbol,
        creation.uri,
        creation.creator,
        creation.platform,
        creation.dex,
        creation.pool,
        creation.quote_mint,
        creation.decimals if creation.HasField("decimals") else None,
        creation.supply_raw if creation.HasField("supply_raw") else None,
        creation.token_program,
    )


def migration_row(migration: tape_pb2.Migration) -> Row:
    """Return the row of a migration."""
    return (
        migration.signature,
        migration.slot,
        migration.tx_index,
        migration.event_index,
        migration.block_time_ms,
        migration.mint,
        migration.platform,
        migration.from_dex,
        migration.from_pool,
        migration.dex,
        migration.pool,
        migration.quote_mint,
        migration.amount_raw if migration.HasField("amount_raw") else None,
        migration.quote_amount_raw if migration.HasField("quote_amount_raw") else None,
    )


def funding_row(payment: tape_pb2.FundingPayment) -> Row:
    """Return the row of a funding payment; raises CodecError."""
    if payment.market_index > _MAX_U16:
        raise CodecError(f"FundingPayment: market_index {payment.market_index}")
    return (
        payment.signature,
        payment.slot,
        payment.tx_index,
        payment.event_index,
        payment.block_time_ms,
        payment.log_index,
        payment.dex,
        payment.program_id,
        payment.wallet,
        payment.account,
        payment.market_index,
        payment.payment_raw,
        payment.base_raw,
        payment.last_cumulative_funding,
        _i128("cumulative_funding_long", payment.cumulative_funding_long),
        _i128("cumulative_funding_short", payment.cumulative_funding_short),
    )


def perp_change_row(change: tape_pb2.PerpChange) -> Row:
    """Return the row of a change of a perpetual position; raises CodecError."""
    if change.change not in _PERP_CHANGES:
        raise CodecError(f"PerpChange: change {change.change!r}")

    def known(name: str) -> int | None:
        return getattr(change, name) if change.HasField(name) else None

    return (
        change.signature,
        change.slot,
        change.tx_index,
        change.event_index,
        change.block_time_ms,
        change.dex,
        change.program_id,
        change.wallet,
        change.position,
        change.pool,
        change.custody,
        change.collateral_custody,
        change.mint,
        "long" if change.is_long else "short",
        change.change,
        change.is_instant,
        change.size_usd_micros,
        known("size_delta_usd_micros"),
        known("collateral_delta_usd_micros"),
        change.price_usd_micros,
        known("pnl_usd_micros"),
        change.fee_usd_micros,
        known("position_fee_usd_micros"),
        known("funding_fee_usd_micros"),
        known("price_impact_fee_usd_micros"),
        known("liquidation_fee_usd_micros"),
        known("paid_out_usd_micros"),
        known("collateral_usd_micros"),
        known("entry_price_usd_micros"),
    )


def perp_gap_row(gap: tape_pb2.PerpGap) -> Row:
    """Return the row of perp events that could not be read."""
    return (
        gap.signature,
        gap.slot,
        gap.tx_index,
        gap.event_index,
        gap.block_time_ms,
        gap.dex,
        gap.reason,
        gap.wallet,
    )


def slot_row(batch: tape_pb2.SlotBatch) -> Row:
    """Return the row of a slot; raises CodecError."""
    try:
        sol_usd = Decimal(batch.sol_usd) if batch.sol_usd else None
    except InvalidOperation:
        raise CodecError(f"SlotBatch: sol_usd {batch.sol_usd!r} is no decimal") from None
    if sol_usd is not None and not (sol_usd.is_finite() and 0 <= sol_usd < _MAX_SOL_USD):
        raise CodecError(f"SlotBatch: sol_usd {batch.sol_usd!r} is no price")
    return (
        batch.slot,
        batch.parent if batch.HasField("parent") else None,
        batch.blockhash,
        batch.block_time_ms,
        batch.transactions,
        batch.outcomes.decoded,
        batch.outcomes.unknown,
        batch.outcomes.malformed,
        batch.complete,
        sol_usd,
    )


def outcome_rows(batch: tape_pb2.SlotBatch) -> list[Row]:
    """Return the rows of what a slot has of each venue."""
    return [
        (
            batch.slot,
            venue.dex,
            batch.block_time_ms,
            venue.swaps,
            venue.outcomes.decoded,
            venue.outcomes.unknown,
            venue.outcomes.malformed,
        )
        for venue in batch.venues
    ]


def gap_row(gap: tape_pb2.SlotGap) -> Row:
    """Return the row of a gap; raises CodecError."""
    if gap.first_slot > gap.last_slot:
        raise CodecError(f"SlotGap: from {gap.first_slot} to {gap.last_slot}")
    return (
        *(gap.first_slot, gap.last_slot, gap.reason, gap.detected_ms),
        *(list(gap.wallets), gap.lost_by),
    )


def _difference(value: int, base: int) -> int:
    """Return value - base as a signed 64-bit integer; adding it to base wraps to value again."""
    difference = value - base
    if -_I64_SIGN <= difference < _I64_SIGN:
        return difference
    return (difference + _I64_SIGN & _U64_MASK) - _I64_SIGN


def _u128(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise CodecError(f"Swap: {name} {text!r} is no number") from None
    if not 0 <= value <= _MAX_U128:
        raise CodecError(f"Swap: {name} {text} does not fit 128 bits")
    return value


def _i128(name: str, text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise CodecError(f"FundingPayment: {name} {text[:50]!r} is no number") from None
    if not -(2**127) <= value < 2**127:
        raise CodecError(f"FundingPayment: {name} {text[:50]} does not fit 128 bits")
    return value
