"""Days over the API: those of ClickHouse against Redis's records and against the positions."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from infra.clickhouse.client import connect
from pipeline.agents.pnl import memory as pnl_memory
from schemas.positions import unpack_wallet_day
from schemas.redis_keys import WALLET_DAYS, wallet_tag
from schemas.rows import WALLET_DAYS as WALLET_DAYS_TABLE
from schemas.solana.base58 import decode, encode
from schemas.times import DAY_MS

COUNTS = ("buys", "sells", "wins", "losses")
MONEY = tuple(
    f"{name}_{unit}"
    for name in ("bought", "sold", "matched_cost", "realized")
    for unit in ("lamports", "usd_micros")
)
FEES = ("fee_lamports", "priority_fee_lamports", "tip_lamports")
MOVED = ("bought_raw", "sold_raw", "received_raw", "sent_raw", "burned_raw", "unmatched_raw")


@pytest.fixture
async def played(make_books, tape, monkeypatch):
    """Books of some forty days, few slots a day; each position changes on some of them."""
    monkeypatch.setattr(pnl_memory, "DAYS_KEPT", 99)  # Redis is what answers are compared with
    tape = tape(21, wallets=4, mints=3)
    books = await make_books()
    for _ in range(8):
        await books.play(tape.slots(40, step_ms=3 * 3_600_000))
    return tape, books


def total(days, names):
    found = Counter()
    for day in days:
        for name in names:
            found[name] += int(day[name] or 0)
    return {name: found[name] for name in names}


def whole(figures, names):
    return {name: int(figures[name] or 0) for name in names}


async def test_days_of_wallets_are_those_of_the_books(played, ask):
    tape, books = played
    today = tape.time_ms // DAY_MS
    seen = 0
    for wallet in tape.wallets:
        raw = decode(wallet)
        expected = {}
        for day in range(today - 29, today + 1):
            key = WALLET_DAYS.make(tag=wallet_tag(wallet), day=day)
            if packed := await books.redis.hget(key, raw):
                expected[day * DAY_MS] = unpack_wallet_day(packed)
        answer = await ask.get(f"/api/wallets/{wallet}/pnl/daily")
        volumes = await ask.get(f"/api/wallets/{wallet}/trades/daily")
        assert answer["as_of_slot"] == volumes["as_of_slot"] == tape.slot
        assert [day["from_ms"] for day in answer["days"]] == sorted(expected)
        assert [day["day"] for day in volumes["days"]] == [day["day"] for day in answer["days"]]
        for day, volume in zip(answer["days"], volumes["days"], strict=True):
            record = expected[day["from_ms"]]
            seen += 1
            for name in (*COUNTS, *MONEY, *FEES, "unmatched_sales"):
                assert int(day[name] or 0) == getattr(record, name), name
            for name in (*COUNTS, "bought_sol", "sold_usd", *FEES, "fee_sol", "tip_sol"):
                assert volume[name] == day[name], name
            assert volume["trades"] == record.buys + record.sells
            for unit in ("lamports", "usd_micros"):
                both = getattr(record, f"bought_{unit}") + getattr(record, f"sold_{unit}")
                assert volume[f"volume_{unit}"] == str(both)
            assert volume["volume_usd"] == int(volume["volume_usd_micros"]) / 10**6
        names = (*COUNTS, *MONEY, *FEES, "unmatched_sales")
        assert whole(answer["total"], names) == total(answer["days"], names)
        assert volumes["total"]["trades"] == sum(day["trades"] for day in volumes["days"])
    assert seen > 60


async def test_days_of_tokens_add_up_to_position_and_day(played, ask):
    tape, _ = played
    first = {"from": "2025-01-01", "to": "2025-12-31"}
    for wallet in tape.wallets:
        of_wallet = await ask.get(f"/api/wallets/{wallet}/pnl/daily", **first)
        by_day = Counter()
        for mint in tape.mints:
            answer = await ask.get(f"/api/wallets/{wallet}/pnl/{mint}/daily", **first)
            days = answer["days"]
            position = await ask.get(f"/api/wallets/{wallet}/{mint}")
            names = (*COUNTS, *MONEY, *FEES, *MOVED)
            assert total(days, names) == whole(position, names)
            assert whole(answer["total"], names) == whole(position, names)
            assert days[-1]["held_raw"] == position["held_raw"]
            assert [day["day"] for day in days] == sorted({day["day"] for day in days})
            for day in days:
                changed = [int(day[name]) for name in MOVED]
                assert any(changed) or int(day["fee_lamports"])
                for name in (*COUNTS, *MONEY):
                    by_day[day["day"], name] += int(day[name] or 0)
        for day in of_wallet["days"]:
            for name in (*COUNTS, *MONEY):
                assert by_day[day["day"], name] == int(day[name] or 0), name


async def test_a_range_begins_with_the_difference_to_the_day_before_it(played, ask):
    tape, books = played
    wallet, mint = tape.wallets[0], tape.mints[0]
    await books.market(mint, 1e-6)
    path = f"/api/wallets/{wallet}/pnl/{mint}/daily"
    every = (await ask.get(path, **{"from": "2025-01-01", "to": "2025-12-31"}))["days"]
    assert len(every) > 15
    for at in (0, 3, 9, len(every) - 1):
        span = {"from": every[at]["day"], "to": every[-1]["day"]}
        answer = await ask.get(path, **span)
        assert answer["days"] == every[at:]
        assert (answer["from_day"], answer["to_day"]) == (span["from"], span["to"])
        assert whole(answer["total"], MOVED) == total(every[at:], MOVED)
        alone = await ask.get(path, **{"from": every[at]["day"], "to": every[at]["day"]})
        assert alone["days"] == [every[at]]
        assert alone["decimals"] == 6
        assert alone["days"][0]["bought"] == int(every[at]["bought_raw"]) / 10**6
    before = await ask.get(path, **{"from": "2025-01-01", "to": "2025-01-31"})
    assert before["days"] == []
    assert set(whole(before["total"], MOVED).values()) == {0}
    assert before["total"]["realized_usd"] is None


async def test_a_row_that_was_written_again_counts_once(played, ask, settings):
    tape, _ = played
    wallet = tape.wallets[0]
    before = await ask.get(f"/api/wallets/{wallet}/pnl/daily")
    names = list(WALLET_DAYS_TABLE.columns)
    with connect(settings) as client:
        rows = client.query(f"SELECT {', '.join(names)} FROM wallet_days").result_rows
        slot = names.index("slot")
        older = [(*row[:slot], 1, *row[slot + 1 :]) for row in rows]
        for again in (rows, older):
            client.insert("wallet_days", again, names, settings={"insert_deduplicate": 0})
    assert await ask.get(f"/api/wallets/{wallet}/pnl/daily") == before


async def test_sums_beyond_64_bits(make_books, ask, settings, tape):
    tape = tape(22, wallets=1)
    await make_books()
    (wallet,) = tape.wallets
    row = dict.fromkeys(WALLET_DAYS_TABLE.columns, 0)
    row |= {"wallet": wallet, "day": 20_000, "slot": 7, "buys": 1, "bought_lamports_low": 5}
    row["overflow"] = [3, 0, 0, 0, 0, 0, 0, 0]
    with connect(settings) as client:
        client.insert(
            "wallet_days",
            [[*row.values()]],
            list(row),
            column_type_names=[*WALLET_DAYS_TABLE.columns.values()],
        )
    answer = await ask.get(f"/api/wallets/{wallet}/pnl/daily", to="2024-10-04")
    assert answer["days"][0]["day"] == "2024-10-04"
    assert answer["days"][0]["bought_lamports"] == str(3 * 2**64 + 5)
    assert answer["total"]["bought_lamports"] == str(3 * 2**64 + 5)


async def test_an_unknown_wallet_and_what_is_refused(make_books, ask):
    books = await make_books()
    nobody = encode(Random("nobody").randbytes(32))
    for path in (f"{nobody}/pnl/daily", f"{nobody}/trades/daily"):
        answer = await ask.get(f"/api/wallets/{path}")
        assert answer["days"] == []
        assert answer["total"]["buys"] == 0
        assert answer["to_day"] == "1970-01-01"  # the chain has not begun
    refused = await ask.get(f"/api/wallets/{nobody}/pnl/{nobody}/daily", 404)
    assert refused["code"] == "unknown_token"
    await books.market(nobody, 1e-6)
    assert (await ask.get(f"/api/wallets/{nobody}/pnl/{nobody}/daily"))["days"] == []
    paths = (f"{nobody}/pnl/daily", f"{nobody}/trades/daily", f"{nobody}/pnl/{nobody}/daily")
    for query, says in (
        ({"from": "2025-02-30"}, "YYYY-MM-DD"),
        ({"from": "yesterday"}, "YYYY-MM-DD"),
        ({"from": "2025-W31-5"}, "YYYY-MM-DD"),
        ({"to": "'; DROP TABLE wallet_days --"}, "YYYY-MM-DD"),
        ({"to": "9999-12-31"}, "1970-01-01 to 2149-06-06"),
        (
            {"from": "2025-03-02", "to": "2025-03-01"},
            "before the end of the range, 2025-03-02",
        ),
        ({"from": "2024-01-01", "to": "2025-01-01"}, "at most 366"),
    ):
        for path in paths:
            refused = await ask.get(f"/api/wallets/{path}", 422, **query)
            assert refused["code"] == "invalid_parameter"
            assert says in refused["detail"]
    for path in paths:
        whole_year = {"from": "2024-01-01", "to": "2024-12-31"}
        assert (await ask.get(f"/api/wallets/{path}", **whole_year))["days"] == []
    for path in ("x/pnl/daily", f"{nobody}/pnl/x/daily", "' OR 1=1/trades/daily"):
        assert (await ask.get(f"/api/wallets/{path}", 422))["code"] == "invalid_address"
