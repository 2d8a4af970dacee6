"""The audit trail over the API: its sums are the position's, its matches the books' rows."""

from __future__ import annotations

from random import Random

import pytest

from api.history.lots import MOST
from infra.clickhouse.client import connect
from schemas.positions import CHUNK_LOTS
from schemas.proto.tape_pb2 import BUY, SELL
from schemas.rows import LOT_MATCHES
from schemas.solana.base58 import encode
from schemas.topics import SETTLED_BY_WALLET

HOUR_MS = 3_600_000
UNITS = ("lamports", "usd_micros")


async def pages_of(ask, wallet, mint, limit):
    """All pages of a position's lots, as one answer."""
    query = {"limit": limit}
    lots, matches = [], []
    while True:
        answer = await ask.get(f"/api/wallets/{wallet}/{mint}/lots", **query)
        assert len(answer["open_lots"]) <= limit
        assert len(answer["matches"]) <= limit
        lots += answer["open_lots"]
        matches += answer["matches"]
        if not answer["page"]["has_more"]:
            assert answer["page"]["next_cursor"] is None
            return answer | {"open_lots": lots, "matches": matches}
        query["cursor"] = answer["page"]["next_cursor"]


def sum_of(rows, name):
    return sum(int(row[name]) for row in rows if row[name] is not None)


def check_sums(answer):
    """What is held is what the lots hold; what was gained, sold and sent is what matches say."""
    position, lots, matches = answer["position"], answer["open_lots"], answer["matches"]
    assert position["mint"] == answer["mint"]
    assert sum_of(lots, "quantity_raw") == int(position["held_raw"])
    assert position["open_lots"] == len(lots)
    unknown = [lot for lot in lots if lot["cost_lamports"] is None]
    assert sum_of(unknown, "quantity_raw") == int(position["unknown_cost_raw"])
    for unit in UNITS:
        assert sum_of(lots, f"cost_{unit}") == int(position[f"held_cost_{unit}"])
        gains = [match for match in matches if match[f"realized_{unit}"] is not None]
        assert sum_of(gains, f"realized_{unit}") == int(position[f"realized_{unit}"] or 0)
        assert sum_of(gains, f"cost_{unit}") == int(position[f"matched_cost_{unit}"])
        for match in gains:
            assert match["kind"] != "transfer"
            gain = int(match[f"proceeds_{unit}"]) - int(match[f"cost_{unit}"])
            assert int(match[f"realized_{unit}"]) == gain
        assert bool(gains) == (position[f"realized_{unit}"] is not None)
    sold = [match for match in matches if match["kind"] == "sale"]
    assert sum_of(sold, "quantity_raw") == int(position["sold_raw"])
    burned = [match for match in matches if match["kind"] == "burn"]
    assert sum_of(burned, "quantity_raw") == int(position["burned_raw"])
    unmatched = [each for each in (*sold, *burned) if each["realized_lamports"] is None]
    assert sum_of(unmatched, "quantity_raw") == int(position["unmatched_raw"])


async def test_sums_are_the_positions(make_books, ask, tape):
    tape = tape(11, wallets=4, mints=3)
    books = await make_books()
    await books.play(tape.slots(300))
    await books.market(tape.mints[0], 3e-5)
    seen = 0
    for wallet in tape.wallets:
        for mint in tape.mints:
            answer = await pages_of(ask, wallet, mint, 7)
            assert (answer["as_of_slot"], answer["as_of_ms"]) == (tape.slot, tape.time_ms)
            assert answer == await pages_of(ask, wallet, mint, MOST)
            check_sums(answer)
            one = await ask.get(f"/api/wallets/{wallet}/{mint}")
            assert answer["position"].items() <= one.items()
            numbers = [lot["number"] for lot in answer["open_lots"]]
            assert numbers == [*range(numbers[0], numbers[0] + len(numbers))] if numbers else True
            seen += len(answer["matches"])
            if mint == tape.mints[0]:
                for each in (*answer["open_lots"], *answer["matches"]):
                    assert each["quantity"] == int(each["quantity_raw"]) / 10**6
    assert seen > 300


async def test_matches_are_the_rows_newest_first_whatever_was_written_twice(
    make_books, ask, tape, settings
):
    tape = tape(12, wallets=2, mints=1)
    books = await make_books()
    await books.play(tape.slots(200))
    names = list(LOT_MATCHES.columns)
    with connect(settings) as client:
        client.command("SYSTEM STOP MERGES lot_matches")
        rows = client.query(f"SELECT {', '.join(names)} FROM lot_matches").result_rows
        for _ in range(2):
            client.insert("lot_matches", rows, names, settings={"insert_deduplicate": 0})
        # Beyond the watermark: not yet.
        ahead = [(*row[:3], tape.slot + 1, *row[4:]) for row in rows[:5]]
        client.insert("lot_matches", ahead, names, settings={"insert_deduplicate": 0})
        try:
            for wallet in tape.wallets:
                answer = await pages_of(ask, wallet, tape.mints[0], 5)
                check_sums(answer)
                shown = [
                    (m["slot"], m["tx_index"], m["kind"], m["lot_number"])
                    for m in answer["matches"]
                ]
                expected = {
                    (row["slot"], row["tx_index"], row["kind"], row["lot_number"])
                    for row in (dict(zip(names, row, strict=True)) for row in rows)
                    if row["wallet"] == wallet
                }
                assert len(shown) == len(expected) > 20
                assert set(shown) == expected
                times = [(m["time_ms"], m["slot"], m["tx_index"]) for m in answer["matches"]]
                assert times == sorted(times, reverse=True)
        finally:
            client.command("SYSTEM START MERGES lot_matches")


@pytest.mark.parametrize("opened", [1, 16, 17, 50])
async def test_lots_across_chunks(make_books, ask, tape, opened):
    """Some of the lots are closed again, the oldest one left in part."""
    tape = tape(13 + opened, wallets=1, mints=1)
    (wallet,), (mint,) = tape.wallets, tape.mints
    books = await make_books()

    async def trade(*sides):
        slots = [tape.empty() for _ in sides]
        for batches, side in zip(slots, sides, strict=True):
            tape.trade(batches[SETTLED_BY_WALLET.partition(wallet)], wallet, mint, 0, side=side)
        await books.play(slots)
        traded = [each.events[0].swap for b in slots for each in b.values() if each.events]
        return [swap.amount_raw for swap in traded]

    bought = await trade(*[BUY] * opened)
    left_raw = sum(bought)
    for sales in (0, 1, opened // 3, opened // 3):
        left_raw = max(0, left_raw - sum(await trade(*[SELL] * sales))) if sales else left_raw
        for limit in (3, 16, 1000):
            answer = await pages_of(ask, wallet, mint, limit)
            check_sums(answer)
            shown = [(lot["number"], lot["opened_raw"]) for lot in answer["open_lots"]]
            first = opened - len(shown)
            assert shown == [(n, str(bought[n])) for n in range(first, opened)]
            assert sum_of(answer["open_lots"], "quantity_raw") == left_raw
    assert CHUNK_LOTS == 16


async def test_a_dead_token_has_its_lots_still(make_books, ask, tape):
    tape = tape(14, wallets=2, mints=2)
    books = await make_books(cold_after_h=3)
    await books.play(tape.slots(150))
    hot = {
        (wallet, mint): await pages_of(ask, wallet, mint, 6)
        for wallet in tape.wallets
        for mint in tape.mints
    }
    for _ in range(5):
        await books.play([tape.empty(HOUR_MS)])
    for (wallet, mint), before in hot.items():
        assert mint in await books.cold(wallet)
        for limit in (6, 1000):
            after = await pages_of(ask, wallet, mint, limit)
            assert after["as_of_slot"] == tape.slot > before["as_of_slot"]
            assert after["open_lots"] == before["open_lots"]
            assert after["matches"] == before["matches"]
            check_sums(after)


async def test_what_there_is_not(ask, tape, make_books):
    await make_books()
    nobody = encode(Random("nobody").randbytes(32))
    refused = await ask.get(f"/api/wallets/{nobody}/{nobody}/lots", 404)
    assert refused["code"] == "no_position"
    for query in ({"limit": 0}, {"limit": 1001}, {"cursor": "x" * 201}):
        refused = await ask.get(f"/api/wallets/{nobody}/{nobody}/lots", 422, **query)
        assert refused["code"] == "invalid_parameter"
    for cursor in ("", "AAAA", "' OR 1=1 --"):
        refused = await ask.get(f"/api/wallets/{nobody}/{nobody}/lots", 422, cursor=cursor)
        assert refused["code"] == "invalid_cursor"
    for path in (f"x/{nobody}/lots", f"{nobody}/'; DROP TABLE lot_matches --/lots"):
        assert (await ask.get(f"/api/wallets/{path}", 422))["code"] == "invalid_address"
