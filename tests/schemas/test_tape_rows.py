"""Rows of the tape: the columns of `schemas.rows`, and nothing that an insert would fail on."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import rows, tape_rows
from schemas.codec import CodecError
from schemas.events import Side, Swap
from schemas.proto import tape_pb2
from tests.support.messages import to_proto

WSOL = "So11111111111111111111111111111111111111112"
SWAP = Swap(
    signature="s", slot=7, tx_index=1, event_index=2, block_time_ms=1_785_500_000_000,
    dex="pump-fun", program_id="program", pool="pool", wallet="w", fee_payer="w", mint="m",
    quote_mint=WSOL, side=Side.SELL, amount_raw=10, decimals=6, quote_amount_raw=20,
    quote_decimals=9, wallet_amount_raw=9, wallet_quote_amount_raw=23, pool_fee_raw=None,
    pool_fee_mint="", fee_lamports=6_000, priority_fee_lamports=1_000, tip_lamports=3, router="",
    platform="", reserve_raw=None, quote_reserve_raw=0, liquidity=2**100, sqrt_price_x64=None,
    sol_value_lamports=20, usd_value_micros=4,
)  # fmt: skip
U64 = st.integers(0, 2**64 - 1)


def row_of(table, row):
    return dict(zip(table.columns, row, strict=True))


def swap_row(swap):
    return row_of(rows.SWAPS, tape_rows.swap_row(to_proto(swap)))


def test_a_swap():
    row = swap_row(SWAP)
    assert row["block_time"] == SWAP.block_time_ms
    assert row["other_fee_payer"] == ""
    assert (row["wallet_amount_diff_raw"], row["wallet_quote_amount_diff_raw"]) == (-1, 3)
    assert row["base_fee_lamports"] == 5_000
    assert row["sol_value_unlike_quote_lamports"] is None
    assert row["usd_value_micros"] == 4
    assert (row["reserve_raw"], row["quote_reserve_raw"]) == (None, 0)
    assert (row["liquidity"], row["sqrt_price_x64"]) == (2**100, None)
    assert row["side"] == 2


def test_what_differs_from_the_usual_is_kept():
    other = swap_row(replace(SWAP, fee_payer="p", quote_mint="usdc", sol_value_lamports=21))
    assert other["other_fee_payer"] == "p"
    assert (swap_row(SWAP)["keeper"], swap_row(replace(SWAP, keeper="k"))["keeper"]) == ("", "k")
    assert other["sol_value_unlike_quote_lamports"] == 21
    unknown = swap_row(
        replace(SWAP, quote_mint="x", sol_value_lamports=None, usd_value_micros=None)
    )
    assert unknown["sol_value_unlike_quote_lamports"] is None
    assert unknown["usd_value_micros"] is None


@given(amount=U64, moved=U64, fee=U64, priority=U64)
def test_differences_turn_back_whatever_the_amounts(amount, moved, fee, priority):
    """As the table adds them: modulo 2^64."""
    row = swap_row(
        replace(
            SWAP,
            amount_raw=amount,
            wallet_amount_raw=moved,
            fee_lamports=fee,
            priority_fee_lamports=priority,
        )
    )
    assert -(2**63) <= row["wallet_amount_diff_raw"] < 2**63
    assert (row["amount_raw"] + row["wallet_amount_diff_raw"]) % 2**64 == moved
    assert 0 <= row["base_fee_lamports"] < 2**64
    assert (row["base_fee_lamports"] + row["priority_fee_lamports"]) % 2**64 == fee


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("side", 0),
        ("decimals", 256),
        ("quote_decimals", 4_000_000_000),
        ("liquidity", "many"),
        ("liquidity", str(2**128)),
        ("sqrt_price_x64", "-1"),
    ],
)
def test_a_swap_that_no_column_can_hold_is_refused(field, value):
    message = to_proto(SWAP)
    setattr(message, field, value)
    with pytest.raises(CodecError, match=field.removeprefix("quote_")):
        tape_rows.swap_row(message)


def test_liquidity_of_zero_is_known_and_none_is_not():
    row = swap_row(replace(SWAP, liquidity=0, sqrt_price_x64=2**128 - 1))
    assert (row["liquidity"], row["sqrt_price_x64"]) == (0, 2**128 - 1)
    assert swap_row(replace(SWAP, liquidity=None))["liquidity"] is None


def test_a_funding_payment_names_its_market_with_16_bits():
    payment = tape_pb2.FundingPayment(
        market_index=2**16 - 1, cumulative_funding_long="1", cumulative_funding_short="2"
    )
    row = row_of(rows.FUNDING_PAYMENTS, tape_rows.funding_row(payment))
    assert row["market_index"] == 65_535
    payment.market_index = 2**16
    with pytest.raises(CodecError, match="market_index 65536"):
        tape_rows.funding_row(payment)


def test_a_creation_and_a_migration():
    creation = tape_pb2.Creation(mint="m", name="n", decimals=0)
    row = row_of(rows.CREATIONS, tape_rows.creation_row(creation))
    assert (row["mint"], row["name"], row["decimals"], row["supply_raw"]) == ("m", "n", 0, None)
    with pytest.raises(CodecError, match="decimals 999"):
        tape_rows.creation_row(tape_pb2.Creation(decimals=999))
    migration = tape_pb2.Migration(mint="m", from_pool="f", quote_amount_raw=5)
    row = row_of(rows.MIGRATIONS, tape_rows.migration_row(migration))
    assert (row["from_pool"], row["amount_raw"], row["quote_amount_raw"]) == ("f", None, 5)


def test_a_slot():
    batch = tape_pb2.SlotBatch(slot=9, block_time_ms=5, sol_usd="150.123456789", transactions=4)
    batch.outcomes.unknown = 3
    row = row_of(rows.SLOTS, tape_rows.slot_row(batch))
    assert row["sol_usd"] == Decimal("150.123456789")
    assert (row["parent"], row["complete"], row["unknown"]) == (None, False, 3)
    batch.parent, batch.sol_usd = 0, ""
    row = row_of(rows.SLOTS, tape_rows.slot_row(batch))
    assert (row["parent"], row["sol_usd"]) == (0, None)


def test_what_a_slot_has_of_each_venue():
    batch = tape_pb2.SlotBatch(slot=9, block_time_ms=5)
    assert tape_rows.outcome_rows(batch) == []
    batch.venues.add(dex="a", swaps=4).outcomes.decoded = 3
    batch.venues.add(dex="b").outcomes.malformed = 1
    rows_of_it = [row_of(rows.OUTCOMES, row) for row in tape_rows.outcome_rows(batch)]
    assert rows_of_it == [
        {**of_it, "slot": 9, "block_time": 5, "unknown": 0}
        for of_it in (
            {"dex": "a", "swaps": 4, "decoded": 3, "malformed": 0},
            {"dex": "b", "swaps": 0, "decoded": 0, "malformed": 1},
        )
    ]


@pytest.mark.parametrize("price", ["much", "NaN", "Infinity", "-1", "1e30"])
def test_a_slot_with_a_price_that_is_none_is_refused(price):
    with pytest.raises(CodecError, match="sol_usd"):
        tape_rows.slot_row(tape_pb2.SlotBatch(sol_usd=price))


def test_a_gap():
    gap = tape_pb2.SlotGap(
        first_slot=5, last_slot=5, reason="r", detected_ms=8, wallets=["w"], lost_by="g 3"
    )
    assert tape_rows.gap_row(gap) == (5, 5, "r", 8, ["w"], "g 3")
    with pytest.raises(CodecError, match="from 5 to 4"):
        tape_rows.gap_row(tape_pb2.SlotGap(first_slot=5, last_slot=4))
