"""A transaction's legs as one trade per wallet and token, and what moved beside them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.domain.netting import BUY, NO_TOKEN, SELL, Flow, flows
from schemas.proto import tape_pb2
from schemas.proto.tape_pb2 import SlotBatch

SOL = "So11111111111111111111111111111111111111112"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


def slot() -> SlotBatch:
    return SlotBatch(slot=5, block_time_ms=1000)


def leg(batch: SlotBatch, side: int, quantity: int, worth: int | None, **what: Any) -> None:
    swap = batch.events.add().swap
    swap.signature, swap.tx_index, swap.event_index = "tx", 1, len(batch.events)
    swap.wallet, swap.fee_payer, swap.mint, swap.quote_mint = "w", "w", "A", SOL
    swap.side, swap.amount_raw, swap.wallet_amount_raw = side, quantity, quantity
    swap.quote_amount_raw = swap.wallet_quote_amount_raw = worth or 0
    swap.fee_lamports, swap.priority_fee_lamports, swap.tip_lamports = 5100, 100, 7
    if worth is not None:
        swap.sol_value_lamports, swap.usd_value_micros = worth, 2 * worth
    for name, value in what.items():
        setattr(swap, name, value)


def trades(batch: SlotBatch) -> list[tuple[Any, ...]]:
    return [
        (flow.wallet, flow.mint, flow.side, flow.quantity_raw, flow.lamports, flow.usd_micros)
        for flow in flows(batch)
    ]


def fees(batch: SlotBatch) -> list[tuple[str, str, int]]:
    return [
        (flow.wallet, flow.mint, flow.fee_lamports) for flow in flows(batch) if flow.fee_lamports
    ]


def test_one_leg_is_a_trade_at_what_the_wallet_paid() -> None:
    batch = slot()
    leg(batch, BUY, 100, 1000, wallet_amount_raw=99, wallet_quote_amount_raw=1013)
    (flow,) = flows(batch)
    assert flow == Flow(
        tx_index=1,
        event_index=1,
        signature="tx",
        wallet="w",
        mint="A",
        side=BUY,
        quantity_raw=99,
        lamports=1013,
        usd_micros=2026,
        fee_lamports=5100,
        priority_fee_lamports=100,
        tip_lamports=7,
    )
    assert (flow.received_raw, flow.sent_raw, flow.burned_raw) == (0, 0, 0)


def test_a_route_over_a_token_is_a_sale_of_its_first_and_a_purchase_of_its_last() -> None:
    batch = slot()
    leg(batch, SELL, 100, 1000, mint="A", quote_mint=SOL)
    leg(batch, BUY, 50, 1000, mint="B", quote_mint=SOL)
    leg(batch, SELL, 50, 1000, mint="B", quote_mint="C", wallet_quote_amount_raw=1000)
    assert trades(batch) == [("w", "A", SELL, 100, 1000, 2000), ("w", "C", BUY, 1000, 1000, 2000)]


def test_more_in_than_out_is_a_purchase_of_the_difference_at_the_price_of_what_came_in() -> None:
    batch = slot()
    leg(batch, BUY, 100, 1001)
    leg(batch, SELL, 30, 900)
    assert trades(batch) == [("w", "A", BUY, 70, 700, 1401)]


def test_as_much_out_as_in_is_no_trade_but_its_fee_is_paid() -> None:
    batch = slot()
    leg(batch, BUY, 100, 1000)
    leg(batch, SELL, 100, 1100)
    assert trades(batch) == [("w", NO_TOKEN, 0, 0, None, None)]
    assert fees(batch) == [("w", NO_TOKEN, 5100)]


def test_a_fee_on_the_way_is_part_of_what_was_paid_in_all() -> None:
    """SOL for X, of which the venue takes a fee beside the pool; X for Y."""
    batch = slot()
    leg(batch, BUY, 50, 1000, mint="X", wallet_quote_amount_raw=1013)
    leg(batch, BUY, 7, 1000, mint="Y", quote_mint="X", quote_amount_raw=50)
    batch.events[1].swap.wallet_quote_amount_raw = 50
    assert trades(batch) == [("w", "Y", BUY, 7, 1013, 2026)]


def test_a_fee_of_the_last_leg_is_taken_off_what_the_sale_brought() -> None:
    batch = slot()
    leg(batch, SELL, 7, 1000, mint="Y", quote_mint="X", quote_amount_raw=50)
    batch.events[0].swap.wallet_quote_amount_raw = 50
    leg(batch, SELL, 50, 1000, mint="X", wallet_quote_amount_raw=987)
    assert trades(batch) == [("w", "Y", SELL, 7, 987, 1974)]


def test_money_that_is_changed_on_the_way_brings_what_the_wallet_received() -> None:
    """A for SOL, which is changed into dollars of which a keeper takes a part."""
    batch = slot()
    leg(batch, SELL, 7, 1000)
    leg(batch, SELL, 1000, 2000, mint=SOL, quote_mint=USDC, wallet_quote_amount_raw=1960)
    batch.events[1].swap.sol_value_lamports, batch.events[1].swap.usd_value_micros = 1000, 2000
    assert trades(batch) == [("w", "A", SELL, 7, 980, 1960)]


def test_the_one_purchase_bears_what_was_lost_after_a_sale() -> None:
    batch = slot()
    leg(batch, SELL, 100, 1000)
    leg(batch, BUY, 50, 1000, mint="X", wallet_quote_amount_raw=1013)
    leg(batch, BUY, 7, 1000, mint="Y", quote_mint="X", quote_amount_raw=50)
    batch.events[2].swap.wallet_quote_amount_raw = 50
    assert trades(batch) == [("w", "A", SELL, 100, 1000, 2000), ("w", "Y", BUY, 7, 1013, 2026)]


def test_of_two_purchases_none_bears_what_was_lost() -> None:
    batch = slot()
    leg(batch, BUY, 50, 1000, mint="X", wallet_quote_amount_raw=1013)
    leg(batch, BUY, 7, 500, mint="Y", quote_mint="X", quote_amount_raw=25)
    leg(batch, BUY, 7, 500, mint="Z", quote_mint="X", quote_amount_raw=25)
    for event in batch.events[1:]:
        event.swap.wallet_quote_amount_raw = 25
    assert [trade[4] for trade in trades(batch)] == [500, 500]


def test_what_has_nothing_to_do_with_a_purchase_is_not_borne_by_it() -> None:
    batch = slot()
    leg(batch, BUY, 50, 1000, mint="X")
    leg(batch, SELL, 50, 3000, mint="X", quote_mint=USDC)
    leg(batch, BUY, 7, 500, mint="Y")
    assert trades(batch) == [("w", "Y", BUY, 7, 500, 1000)]


def test_a_purchase_that_came_to_nothing_is_no_route() -> None:
    batch = slot()
    leg(batch, SELL, 100, 1000)
    leg(batch, BUY, 50, 1000, mint="Y", wallet_amount_raw=0)
    assert trades(batch) == [("w", "A", SELL, 100, 1000, 2000)]


@pytest.mark.parametrize("brought", [900, 3000])
def test_what_is_bought_and_sold_back_is_no_route(brought: int) -> None:
    batch = slot()
    leg(batch, SELL, 50, brought, mint="X")
    leg(batch, BUY, 50, 1000, mint="X")
    leg(batch, BUY, 7, 500, mint="Y")
    assert trades(batch) == [("w", "Y", BUY, 7, 500, 1000)]


def test_changing_money_into_money_is_no_trade() -> None:
    batch = slot()
    leg(batch, BUY, 100, 1000, mint=USDC)
    assert fees(batch) == [("w", NO_TOKEN, 5100)]
    assert [flow.side for flow in flows(batch)] == [0]


def test_both_sides_of_a_pool_of_two_tokens_take_part() -> None:
    batch = slot()
    leg(batch, BUY, 100, 1000, quote_mint="Q", quote_amount_raw=40, wallet_quote_amount_raw=44)
    assert trades(batch) == [("w", "A", BUY, 100, 1100, 2200), ("w", "Q", SELL, 44, 1100, 2200)]


@pytest.mark.parametrize("missing", ["sol_value_lamports", "usd_value_micros"])
def test_a_value_unknown_in_one_currency_is_unknown(missing: str) -> None:
    batch = slot()
    leg(batch, BUY, 100, 1000)
    batch.events[0].swap.ClearField(missing)
    leg(batch, BUY, 10, 100)
    leg(batch, SELL, 20, 300)
    assert trades(batch) == [("w", "A", BUY, 90, None, None)]
    only = slot()
    leg(only, SELL, 100, None)
    assert trades(only) == [("w", "A", SELL, 100, None, None)]


def test_a_value_of_zero_is_known() -> None:
    batch = slot()
    leg(batch, BUY, 5, 0)
    assert trades(batch) == [("w", "A", BUY, 5, 0, 0)]


def test_the_payer_pays_once_whoever_else_trades() -> None:
    batch = slot()
    leg(batch, BUY, 1, 10, wallet="x")
    leg(batch, BUY, 1, 10, wallet="w", mint="B")
    leg(batch, BUY, 1, 10, wallet="w", mint="C")
    assert fees(batch) == [("w", "B", 5100)]


def test_a_sponsored_wallet_has_paid_nothing() -> None:
    batch = slot()
    leg(batch, BUY, 1, 10, fee_payer="sponsor")
    assert fees(batch) == []
    leg(batch, BUY, 1, 10, fee_payer="sponsor", mint="B")
    assert fees(batch) == []


def test_transactions_are_kept_apart_and_in_order() -> None:
    batch = slot()
    leg(batch, BUY, 1, 10, tx_index=1, signature="one")
    leg(batch, SELL, 1, 10, tx_index=4, signature="two")
    assert [(flow.signature, flow.side) for flow in flows(batch)] == [("one", BUY), ("two", SELL)]


def test_movements_join_the_trade_of_their_token_or_stand_alone_in_their_place() -> None:
    batch = slot()
    leg(batch, SELL, 10, 10, tx_index=3)
    batch.movements.add(signature="m", tx_index=1, wallet="w", mint="A", sent_raw=4)
    batch.movements.add(signature="tx", tx_index=3, wallet="w", mint="A", received_raw=5)
    batch.movements.add(signature="tx", tx_index=3, wallet="w", mint="B", burned_raw=6)
    assert [
        (flow.tx_index, flow.mint, flow.side, flow.received_raw, flow.sent_raw, flow.burned_raw)
        for flow in flows(batch)
    ] == [(1, "A", 0, 0, 4, 0), (3, "A", SELL, 5, 0, 0), (3, "B", 0, 0, 0, 6)]


def test_what_no_supply_can_be_is_no_trade_and_what_no_lot_can_hold_has_no_value() -> None:
    most = 2**64 - 1
    batch = slot()
    leg(batch, BUY, most, 10)
    leg(batch, BUY, most, 10)
    assert [flow.mint for flow in flows(batch)] == [NO_TOKEN]
    dear = slot()
    leg(dear, BUY, 1, 2**62, quote_amount_raw=1, wallet_quote_amount_raw=4)
    assert trades(dear) == [("w", "A", BUY, 1, None, None)]


def test_the_most_that_a_lot_can_hold_is_a_trade_with_a_value() -> None:
    most = 2**64 - 1
    batch = slot()
    leg(batch, BUY, most - 1, 10)
    leg(batch, BUY, 1, 10)
    assert trades(batch) == [("w", "A", BUY, most, 20, 40)]
    dear = slot()
    leg(dear, BUY, 1, 2**62, quote_amount_raw=2, wallet_quote_amount_raw=3, usd_value_micros=1)
    assert trades(dear) == [("w", "A", BUY, 1, 3 * 2**61, 1)]


def test_a_fee_without_a_trade_has_the_place_of_the_first_leg() -> None:
    batch = slot()
    leg(batch, BUY, 100, 1000, event_index=3)
    leg(batch, SELL, 100, 1100, event_index=5)
    assert [(flow.mint, flow.event_index) for flow in flows(batch)] == [(NO_TOKEN, 3)]


@pytest.mark.parametrize("dear", ["sol_value_lamports", "usd_value_micros"])
def test_a_sum_that_no_lot_can_hold_in_one_currency_has_no_value(dear: str) -> None:
    batch = slot()
    for _ in range(2):
        leg(batch, BUY, 1, 10, **{dear: 2**63})
    assert trades(batch) == [("w", "A", BUY, 2, None, None)]
    single = slot()
    leg(single, BUY, 1, 10, **{dear: 2**63}, wallet_quote_amount_raw=20)
    assert trades(single) == [("w", "A", BUY, 1, None, None)]


def test_sides_are_those_of_the_tape() -> None:
    assert (BUY, SELL) == (tape_pb2.BUY, tape_pb2.SELL) == (1, 2)
    for side in (1, 2):
        batch = slot()
        leg(batch, side, 100, 1000)
        assert [flow.side for flow in flows(batch)] == [side]
