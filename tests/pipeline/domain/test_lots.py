"""FIFO lots: what is conserved, what a cut changes (nothing), what is never a gain."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.lots import Holding, Kind, LotsMissing, Match
from schemas.positions import CHUNK_LOTS, Lot, full_chunks, unpack_lots, unpack_position
from tests.support.exploring import SLOW, examples

U64 = 2**64 - 1
AMOUNT = st.one_of(st.integers(1, 20), st.integers(1, U64))
VALUE = st.one_of(st.integers(0, 20), st.integers(0, U64))
KNOWN = st.tuples(VALUE, VALUE)
WORTH = st.one_of(st.none(), KNOWN, KNOWN, KNOWN)


class Op(NamedTuple):
    what: str
    quantity: int
    worth: tuple[int, int] | None = None


ANY_OP = st.one_of(
    st.builds(Op, st.just("buy"), AMOUNT, WORTH),
    st.builds(Op, st.just("buy"), AMOUNT, WORTH),
    st.builds(Op, st.just("sell"), AMOUNT, WORTH),
    st.builds(Op, st.sampled_from(["receive", "send", "burn"]), AMOUNT, st.none()),
)
OPS = st.lists(ANY_OP, max_size=60)


def do(holding: Holding, op: Op, slot: int) -> list[Match]:
    matches: list[Match] = []
    lamports, usd_micros = op.worth or (None, None)
    if op.what == "buy":
        holding.buy(op.quantity, lamports, usd_micros, slot, 7, slot * 400)
    elif op.what == "sell":
        holding.sell(op.quantity, lamports, usd_micros, slot, slot * 400, matches)
    elif op.what == "receive":
        holding.receive(op.quantity, slot, 7, slot * 400)
    elif op.what == "send":
        holding.send(op.quantity, slot, matches)
    else:
        holding.burn(op.quantity, slot, matches)
    return matches


def play(ops: list[Op]) -> tuple[Holding, list[Match]]:
    holding = Holding.empty()
    return holding, [match for slot, op in enumerate(ops, 1) for match in do(holding, op, slot)]


class OracleLot:
    def __init__(self, quantity: int, worth: tuple[int, int] | None, slot: int) -> None:
        self.quantity, self.worth, self.slot, self.taken = quantity, worth, slot, 0

    def take(self, wanted: int) -> tuple[int, tuple[int, int] | None]:
        piece = min(wanted, self.quantity - self.taken)
        cost = self.worth and tuple(
            floor(Fraction(c, self.quantity) * (self.taken + piece))
            - floor(Fraction(c, self.quantity) * self.taken)
            for c in self.worth
        )
        self.taken += piece
        return piece, cost  # type: ignore[return-value]


def oracle(ops: list[Op]) -> dict[str, int]:
    """The same, slow and plain: a list of lots, fractions, sums at the end."""
    lots: list[OracleLot] = []
    total = dict.fromkeys(
        ("unmatched", "proceeds", "cost", "proceeds_usd", "cost_usd", "held", "held_cost"), 0
    )
    for slot, op in enumerate(ops, 1):
        if op.what in ("buy", "receive"):
            lots.append(OracleLot(op.quantity, op.worth, slot))
            continue
        worth = {"sell": op.worth, "burn": (0, 0), "send": None}[op.what]
        done = 0
        for lot in lots:
            piece, cost = lot.take(op.quantity - done)
            if op.what != "send" and worth and cost:
                for name, part in (("", 0), ("_usd", 1)):
                    share = Fraction(worth[part], op.quantity)
                    total["proceeds" + name] += floor(share * (done + piece)) - floor(share * done)
                    total["cost" + name] += cost[part]
            elif op.what != "send":
                total["unmatched"] += piece
            done += piece
        if op.what != "send":
            total["unmatched"] += op.quantity - done
    total["held"] = sum(lot.quantity - lot.taken for lot in lots)
    total["held_cost"] = sum(
        lot.worth[0] - floor(Fraction(lot.worth[0], lot.quantity) * lot.taken)
        for lot in lots
        if lot.worth
    )
    return total


@given(OPS)
def test_it_is_what_a_slow_and_plain_account_says(ops: list[Op]) -> None:
    position = play(ops)[0].position
    assert oracle(ops) == {
        "unmatched": position.unmatched_raw,
        "proceeds": position.matched_proceeds_lamports,
        "proceeds_usd": position.matched_proceeds_usd_micros,
        "cost": position.matched_cost_lamports,
        "cost_usd": position.matched_cost_usd_micros,
        "held": position.held_raw,
        "held_cost": position.held_cost_lamports,
    }


@given(OPS)
def test_quantity_and_cost_are_conserved_to_the_last_unit(ops: list[Op]) -> None:
    holding, matches = play(ops)
    position = holding.position
    from_lots = sum(match.quantity_raw for match in matches if match.lot_number is not None)
    assert position.held_raw == position.bought_raw + position.received_raw - from_lots
    gone = [match for match in matches if match.cost_lamports is not None]
    assert position.bought_lamports == position.held_cost_lamports + sum(
        match.cost_lamports or 0 for match in gone
    )
    assert position.bought_usd_micros == position.held_cost_usd_micros + sum(
        match.cost_usd_micros or 0 for match in gone
    )
    sold = [match for match in matches if match.kind is Kind.SALE]
    assert position.sold_raw == sum(match.quantity_raw for match in sold)
    assert position.sold_lamports == sum(match.proceeds_lamports or 0 for match in sold)
    assert position.realized_lamports == sum(
        match.proceeds_lamports - match.cost_lamports
        for match in matches
        if match.proceeds_lamports is not None and match.cost_lamports is not None
    )


@given(st.lists(st.builds(Op, st.just("buy"), AMOUNT, KNOWN), min_size=1, max_size=40), KNOWN)
def test_a_closed_position_realizes_proceeds_minus_cost(
    ops: list[Op], worth: tuple[int, int]
) -> None:
    held = sum(op.quantity for op in ops)
    position = play([*ops, Op("sell", held, worth)])[0].position
    assert position.held_raw == position.held_cost_lamports == position.held_cost_usd_micros == 0
    assert position.realized_lamports == worth[0] - sum(op.worth[0] for op in ops if op.worth)
    assert position.realized_usd_micros == worth[1] - sum(op.worth[1] for op in ops if op.worth)
    assert position.lots_opened == position.lots_closed == len(ops)


@given(OPS, st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 1000))
@examples(fuzz_factor=SLOW)
def test_one_sale_of_n_equals_n_sales(ops: list[Op], parts: list[int], each: int) -> None:
    whole, cut = play(ops)[0], play(ops)[0]
    do(whole, Op("sell", sum(parts), (each * sum(parts), 3 * each * sum(parts))), 99)
    for part in parts:
        do(cut, Op("sell", part, (each * part, 3 * each * part)), 99)
    for name in ("sells", "wins", "losses", "first_trade_slot", "first_trade_ms"):
        setattr(whole.position, name, 0)
        setattr(cut.position, name, 0)
    assert whole.pack() == cut.pack()


@given(OPS, st.lists(st.booleans(), min_size=60, max_size=60))
def test_packing_in_between_changes_nothing(ops: list[Op], stops: list[bool]) -> None:
    straight, wanted = play(ops)
    holding, stored, matches = Holding.empty(), {}, []
    for slot, (op, stop) in enumerate(zip(ops, stops, strict=False), 1):
        if stop:
            filled, emptied = holding.changed_chunks()
            stored.update(filled)
            for number in emptied:
                stored.pop(number, None)
            holding = Holding.unpack(holding.pack())
        if op.what in ("sell", "send", "burn"):
            while (number := holding.missing_chunk(op.quantity)) is not None:
                holding.add(number, stored[number])
        matches += do(holding, op, slot)
    assert matches == wanted
    assert holding.pack() == straight.pack()
    filled, emptied = holding.changed_chunks()
    stored.update(filled)
    for number in emptied:
        stored.pop(number, None)
    assert stored == {
        number: chunk
        for number, chunk in straight.chunks.items()
        if number in full_chunks(straight.position)
    }
    assert [*full_chunks(straight.position)] == sorted(stored)


def test_unmatched_is_never_a_gain() -> None:
    holding = Holding.empty()
    do(holding, Op("receive", 10), 1)
    do(holding, Op("buy", 10, None), 2)
    matches = do(holding, Op("sell", 25, (1000, 2000)), 3)
    position = holding.position
    assert [(match.lot_number, match.quantity_raw) for match in matches] == [
        (0, 10),
        (1, 10),
        (None, 5),
    ]
    assert [match.proceeds_lamports for match in matches] == [400, 400, 200]
    assert all(match.cost_lamports is None for match in matches)
    assert position.unmatched_raw == 25
    assert position.realized_lamports == position.realized_usd_micros == 0
    assert position.wins == position.losses == 0
    assert position.sold_lamports == 1000


def test_a_sale_at_an_unknown_value_uses_up_lots_without_gain_or_loss() -> None:
    holding, matches = play([Op("buy", 10, (100, 200)), Op("sell", 4, None)])
    assert matches == [Match(Kind.SALE, 0, 1, 7, 400, 4, 40, 80, None, None)]
    position = holding.position
    assert (position.held_raw, position.held_cost_lamports) == (6, 60)
    assert position.unmatched_raw == 4
    assert position.realized_lamports == position.sold_lamports == 0


def test_what_is_sent_takes_its_cost_along_and_gains_nothing() -> None:
    holding, matches = play([Op("buy", 10, (100, 200)), Op("buy", 10, (300, 500)), Op("send", 15)])
    assert [(m.kind, m.quantity_raw, m.cost_lamports, m.proceeds_lamports) for m in matches] == [
        (Kind.TRANSFER, 10, 100, None),
        (Kind.TRANSFER, 5, 150, None),
    ]
    lots = [(m.lot_number, m.lot_slot, m.lot_tx_index, m.lot_time_ms) for m in matches]
    assert lots == [(0, 1, 7, 400), (1, 2, 7, 800)]
    position = holding.position
    assert (position.held_raw, position.held_cost_lamports, position.held_cost_usd_micros) == (
        5,
        150,
        250,
    )
    assert position.realized_lamports == position.unmatched_raw == 0


def test_what_is_burned_is_sold_for_nothing() -> None:
    holding, matches = play([Op("buy", 10, (100, 200)), Op("burn", 4)])
    assert [(m.kind, m.cost_lamports, m.proceeds_lamports) for m in matches] == [(Kind.BURN, 40, 0)]
    position = holding.position
    assert (position.realized_lamports, position.realized_usd_micros) == (-40, -80)
    assert (position.burned_raw, position.sold_raw, position.sells, position.losses) == (4, 0, 0, 0)


def test_a_sale_beyond_what_was_read_is_refused() -> None:
    holding, _ = play([Op("buy", 1, (1, 1))] * (CHUNK_LOTS + 1))
    holding = Holding.unpack(holding.pack())
    with pytest.raises(LotsMissing):
        do(holding, Op("sell", 1, (1, 1)), 99)


def test_of_a_hundred_thousand_lots_a_sale_reads_one_chunk() -> None:
    holding, _ = play([Op("buy", 2, (3, 3))] * 100_000)
    chunks = holding.changed_chunks()[0]
    packed = holding.pack()
    assert len(packed) < 1000
    holding = Holding.unpack(packed)
    read = []
    while (number := holding.missing_chunk(5)) is not None:
        read.append(number)
        holding.add(number, chunks[number])
    assert read == [0]
    assert [match.cost_lamports for match in do(holding, Op("sell", 5, (9, 9)), 1)] == [3, 3, 1]


def reading(holding: Holding, quantity: int, stored: dict[int, bytes]) -> list[int]:
    """Read what a disposal needs, as the agent does; return the chunks."""
    read = []
    while (number := holding.missing_chunk(quantity)) is not None:
        holding.add(number, stored[number])
        read.append(number)
    return read


def test_lots_of_many_chunks_are_taken_in_their_order_and_emptied_chunks_are_named() -> None:
    lots = 4 * CHUNK_LOTS + 3
    holding, _ = play([Op("buy", 2, (number + 1, 2 * number)) for number in range(lots)])
    stored, emptied = holding.changed_chunks()
    assert ([*stored], emptied) == ([0, 1, 2, 3], [])
    assert holding.changed_chunks() == ({}, [])
    for number in range(lots):
        holding = Holding.unpack(holding.pack())
        chunk = number // CHUNK_LOTS
        assert reading(holding, 2, stored) == ([chunk] if chunk in stored else [])
        [match] = do(holding, Op("sell", 2, (9, 9)), 500)
        assert (match.lot_number, match.lot_slot) == (number, number + 1)
        assert (match.cost_lamports, match.cost_usd_micros) == (number + 1, 2 * number)
        is_last = chunk < 4 and number % CHUNK_LOTS == CHUNK_LOTS - 1
        assert holding.changed_chunks() == ({}, [chunk] if is_last else [])


def test_only_chunks_that_a_disposal_reaches_are_read() -> None:
    holding, _ = play([Op("buy", 10, (1, 1))] * (3 * CHUNK_LOTS))
    stored, _ = holding.changed_chunks()
    per_chunk = 10 * CHUNK_LOTS
    for quantity, wanted in ((1, [0]), (per_chunk, [0]), (2 * per_chunk, [0, 1])):
        assert reading(Holding.unpack(holding.pack()), quantity, stored) == wanted
    part = Holding.unpack(holding.pack())
    reading(part, 15, stored)
    do(part, Op("sell", 15, (9, 9)), 99)  # a lot and a half
    part = Holding.unpack(part.pack())
    assert reading(part, per_chunk - 15, stored) == [0]
    part = Holding.unpack(part.pack())
    assert reading(part, per_chunk - 14, stored) == [0, 1]


def test_a_chunk_holds_the_lots_that_were_open_when_it_was_full() -> None:
    """The first two are sold before: the last lot ends the chunk, the oldest begins it."""
    holding, _ = play([Op("buy", 2, (3, 3)), Op("buy", 2, (4, 4)), Op("sell", 4, (9, 9))])
    for number in range(2, 2 * CHUNK_LOTS):
        do(holding, Op("buy", 2, (number, number)), 10 + number)
    stored, _ = holding.changed_chunks()
    holding = Holding.unpack(holding.pack())
    in_the_first = 2 * (CHUNK_LOTS - 2)
    assert reading(holding, in_the_first, stored) == [0]
    assert reading(holding, in_the_first + 1, stored) == [1]
    matches = do(holding, Op("sell", in_the_first + 1, (9, 9)), 99)
    assert [match.lot_number for match in matches] == [*range(2, CHUNK_LOTS + 1)]


def test_chunks_that_are_not_written_yet_are_not_forgotten() -> None:
    holding, _ = play([Op("buy", 1, (1, 1))] * (5 * CHUNK_LOTS))
    holding.forget_chunks(1)
    assert [*holding.chunks] == [0, 1, 2, 3, 4]
    holding.changed_chunks()
    holding.forget_chunks(2)
    assert [*holding.chunks] == [0, 1]
    do(holding, Op("sell", CHUNK_LOTS, (1, 1)), 9)  # the first open lot is in chunk 1 now
    holding.add(2, b"")
    holding.add(3, b"")
    holding.forget_chunks(2)
    assert [*holding.chunks] == [1, 2]


def test_a_lot_without_a_cost_holds_none() -> None:
    holding, _ = play([Op("receive", 5), Op("buy", 6, None), Op("buy", 7, (8, 9))])
    _, tail = unpack_position(holding.pack())
    assert [*unpack_lots(tail)] == [
        Lot(5, 0, 0, 1, 400, 7, 0),
        Lot(6, 0, 0, 2, 800, 7, 0),
        Lot(7, 8, 9, 3, 1200, 7, 1),
    ]


def test_what_a_position_counts() -> None:
    ops = [
        Op("receive", 5),  # slot 1
        Op("buy", 10, (100, 1000)),
        Op("buy", 10, None),
        Op("sell", 10, (80, 900)),  # of it 5 without a cost: 450 for 500
        Op("sell", 5, (60, 501)),  # 501 for 500
        Op("sell", 4, (8, 8)),  # of unknown cost
        Op("burn", 1),
        Op("send", 2),
        Op("sell", 9, None),
        Op("buy", 1, (7, 50)),
        Op("sell", 1, (7, 50)),  # slot 11: neither gain nor loss
    ]
    holding, _ = play(ops)
    holding.pay(1, 2, 3)
    holding.pay(10, 20, 30)
    position = holding.position
    assert (position.buys, position.sells, position.wins, position.losses) == (3, 5, 1, 1)
    assert (position.bought_raw, position.received_raw) == (21, 5)
    assert (position.sold_raw, position.burned_raw, position.sent_raw) == (29, 1, 2)
    assert (position.bought_lamports, position.bought_usd_micros) == (107, 1050)
    assert (position.sold_lamports, position.sold_usd_micros) == (155, 1459)
    assert position.unmatched_raw == 5 + 4 + 1 + 9
    assert (position.matched_proceeds_usd_micros, position.matched_cost_usd_micros) == (1001, 1050)
    assert (position.matched_proceeds_lamports, position.matched_cost_lamports) == (107, 107)
    assert position.held_raw == position.held_known_raw == position.held_cost_lamports == 0
    assert (position.first_trade_slot, position.first_trade_ms) == (2, 800)
    assert (position.last_trade_slot, position.last_trade_ms) == (11, 4400)
    assert (position.fee_lamports, position.priority_fee_lamports) == (11, 22)
    assert (position.tip_lamports, position.changed_slot) == (33, 11)
    do(holding, Op("receive", 1), 12)
    assert position.changed_slot == 12
    do(holding, Op("send", 1), 13)
    assert position.changed_slot == 13
    do(holding, Op("burn", 1), 14)
    assert (position.changed_slot, position.last_trade_slot) == (14, 11)


@pytest.mark.parametrize(("lamports", "usd_micros"), [(10, None), (None, 10)])
def test_a_value_known_in_one_currency_alone_is_unknown(
    lamports: int | None, usd_micros: int | None
) -> None:
    holding = Holding.empty()
    holding.buy(5, lamports, usd_micros, 1, 7, 400)
    holding.buy(5, 50, 60, 2, 7, 800)
    matches: list[Match] = []
    holding.sell(7, lamports, usd_micros, 3, 1200, matches)
    position = holding.position
    assert (position.bought_raw, position.bought_lamports, position.bought_usd_micros) == (
        10,
        50,
        60,
    )
    assert (position.sold_lamports, position.sold_usd_micros, position.unmatched_raw) == (0, 0, 7)
    assert [(match.cost_lamports, match.proceeds_lamports) for match in matches] == [
        (None, None),
        (20, None),
    ]
