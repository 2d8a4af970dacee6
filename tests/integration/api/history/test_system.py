"""What /api/system says of the newest hour of the tape, by the tape's own clock."""

from __future__ import annotations

import pytest

from schemas.rows import OUTCOMES, SLOTS

NEWEST = 400_000_000
NEWEST_MS = 1_785_499_140_400
HOUR_MS = 3_600_000


def slot(number, before_ms, *, transactions=10, unknown=0, malformed=0):
    time_ms = NEWEST_MS - before_ms
    return number, number - 1, "hash", time_ms, transactions, 9, unknown, malformed, True, None


def outcome(number, before_ms, dex, swaps, decoded, unknown=0, malformed=0):
    return number, dex, NEWEST_MS - before_ms, swaps, decoded, unknown, malformed


@pytest.fixture
def tape(store):
    """The tables, emptied before and after; `tape(slots, outcomes)` writes them."""

    def write(slots, outcomes):
        store.insert(SLOTS.name, slots)
        store.insert(OUTCOMES.name, outcomes)

    def empty():
        for table in (SLOTS, OUTCOMES):
            store.clickhouse.command(f"TRUNCATE TABLE {table.name}")

    empty()
    yield write
    empty()


async def test_an_empty_tape(tape, ask):
    system = await ask.get("/api/system")
    assert system == {
        "as_of_slot": None, "as_of_ms": None, "rates": None, "minutes": [], "venues": [],
    }  # fmt: skip


async def test_a_single_block_gives_no_rates(tape, ask):
    tape([slot(NEWEST, 0)], [])
    system = await ask.get("/api/system")
    assert (system["as_of_slot"], system["as_of_ms"]) == (NEWEST, NEWEST_MS)
    assert system["rates"] is None
    assert [minute["slots"] for minute in system["minutes"]] == [1]


async def test_what_is_written_twice_counts_once_and_what_is_older_not_at_all(tape, ask):
    slots = [
        slot(NEWEST, 0),
        slot(NEWEST - 1, 400),
        slot(NEWEST - 150, 59_999, unknown=2),
        slot(NEWEST - 151, 60_000, malformed=1),
        slot(NEWEST - 9_000, HOUR_MS - 1),
        slot(NEWEST - 9_001, HOUR_MS, transactions=1_000),
        slot(NEWEST - 40_000, 1, transactions=1_000),  # too far for a slot of this hour
    ]
    outcomes = [
        outcome(NEWEST, 0, "pump-swap", 5, 4),
        outcome(NEWEST, 0, "orca-whirlpool", 1, 1),
        outcome(NEWEST - 150, 59_999, "pump-swap", 7, 7, unknown=2),
        outcome(NEWEST - 151, 60_000, "", 0, 0, malformed=1),
        outcome(NEWEST - 9_000, HOUR_MS - 1, "moonit", 3, 3),
        outcome(NEWEST - 9_001, HOUR_MS, "moonit", 500, 500),
    ]
    for _ in range(2):
        tape(slots, outcomes)
    system = await ask.get("/api/system")
    assert system["rates"] == {
        "window_s": 60,
        "slots_per_s": 3 / 60,
        "transactions_per_s": 30 / 60,
        "swaps_per_s": 13 / 60,
    }
    assert system["minutes"] == [
        {"start_ms": NEWEST_MS - before_ms, "slots": slots, "transactions": 10 * slots,
         "swaps": swaps, "unknown": unknown, "malformed": malformed}
        for before_ms, slots, swaps, unknown, malformed in (
            (HOUR_MS, 1, 3, 0, 0), (120_000, 1, 0, 0, 1), (60_000, 3, 13, 2, 0),
        )
    ]  # fmt: skip
    assert [tuple(venue.values()) for venue in system["venues"]] == [
        ("pump-swap", 12, 11, 2, 0),
        ("moonit", 3, 3, 0, 0),
        (None, 0, 0, 0, 1),
        ("orca-whirlpool", 1, 1, 0, 0),
    ]


async def test_rates_of_a_young_tape_are_of_what_there_is(tape, ask):
    tape([slot(NEWEST, 0), slot(NEWEST - 10, 4_000)], [outcome(NEWEST, 0, "pump-swap", 8, 8)])
    rates = (await ask.get("/api/system"))["rates"]
    assert (rates["window_s"], rates["slots_per_s"], rates["swaps_per_s"]) == (4, 0.5, 2)
