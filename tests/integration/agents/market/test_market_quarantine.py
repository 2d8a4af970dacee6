"""A value of a market that cannot be read: its mint is left out, all others go on exactly."""

from __future__ import annotations

from collections import Counter
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis

from schemas.redis_keys import ACCOUNTS, MARKET, QUARANTINE, TRENDING
from schemas.times import DAY_MS

TAG = "{m0}"
RECORD = QUARANTINE.make(tag=TAG, group="market")
SPOILED_AT = 100


def busiest(slots: Any) -> str:
    """The mint with most trades."""
    count = Counter(e.swap.mint for b in slots for e in b.events if e.HasField("swap"))
    return count.most_common(1)[0][0]


def of_others(found: dict[str, Any], mint: str) -> dict[str, Any]:
    """What Redis has, without a mint."""
    others: dict[str, Any] = {}
    for key, value in found.items():
        if mint in key or key.startswith("quarantine:"):
            continue
        if key.startswith(("trending:", "markets:")) and isinstance(value, dict):
            value = {name: each for name, each in value.items() if name != mint.encode()}
        others[key] = value
    return others


def rows_of_others(rows: dict[str, list[Any]], mint: str) -> dict[str, list[Any]]:
    return {table: [row for row in each if row[0] != mint] for table, each in rows.items()}


async def play(lab: Any, redis: Redis, slots: Any, rows: dict[str, list[Any]]) -> None:
    books = await lab.opened(redis, rows)
    for at in range(0, len(slots), 7):
        part = slots[at : at + 7]
        await books.load(part)
        for batch in part:
            books.apply(batch)
        await lab.write(redis, books, rows)


async def spoil(redis: Redis, what: str, mint: str) -> str:
    """Cut a value short; return its key."""
    key = (ACCOUNTS if what == "account" else MARKET).make(tag=TAG, mint=mint)
    values = await redis.hgetall(key)
    if what == "account":
        for field in values:
            await redis.hset(key, field, b"cut")
    else:
        field = next(field for field in sorted(values) if field.startswith(what.encode()))
        await redis.hset(key, field, values[field][:5])
    return key


@pytest.mark.parametrize("what", ["head", "token", "candles", "quarters", "pool:", "account"])
async def test_one_bad_value_holds_up_its_mint_alone(lab: Any, redis: Redis, what: str) -> None:
    tape = lab.make_tape(3, 200)
    wanted_rows: dict[str, list[Any]] = {}
    await play(lab, redis, tape.slots[:SPOILED_AT], wanted_rows)
    await play(lab, redis, tape.slots[SPOILED_AT:], wanted_rows)
    wanted = await lab.dump(redis)
    await redis.flushall()
    rows: dict[str, list[Any]] = {}
    await play(lab, redis, tape.slots[:SPOILED_AT], rows)
    mint = busiest(tape.slots[SPOILED_AT:])
    key = await spoil(redis, what, mint)
    await play(lab, redis, tape.slots[SPOILED_AT:], rows)
    records = await redis.hgetall(RECORD)
    assert records.keys() == {mint.encode()}
    record = orjson.loads(records[mint.encode()])
    assert record["place"] == key
    assert record["slot"] > tape.slots[SPOILED_AT - 1].slot
    found = await lab.dump(redis)
    assert of_others(found, mint) == of_others(wanted, mint)
    assert rows_of_others(rows, mint) == rows_of_others(wanted_rows, mint)
    assert await redis.zscore(TRENDING.make(tag=TAG), mint) is None
    # It stays left out when the books are opened again.
    books = await lab.opened(redis, rows)
    assert mint in books.quarantine


async def test_a_mint_that_moves_when_it_is_due_to_be_put_away(lab: Any, redis: Redis) -> None:
    tape = lab.make_tape(6, 130, mints=40, pause_at=115, pause_ms=5 * DAY_MS)
    rows: dict[str, list[Any]] = {}
    books = await lab.opened(redis, rows)
    for batch in tape.slots[:115]:
        await books.load([batch])
        books.apply(batch)
        await lab.write(redis, books, rows)
    turn = tape.slots[115]
    assert turn.block_time_ms - tape.slots[114].block_time_ms > 2 * DAY_MS
    books = await lab.opened(redis, rows)
    # private `_markets`: finds a mint that is not in memory.
    event = next(
        event
        for batch in tape.slots[:115]
        for event in batch.events
        if event.HasField("swap") and event.swap.mint not in books._markets
    )
    mint = event.swap.mint
    turn.events.add().CopyFrom(event)
    await spoil(redis, "head", mint)
    await books.load([turn])
    books.apply(turn)
    await lab.write(redis, books, rows)
    assert (await redis.hgetall(RECORD)).keys() == {mint.encode()}
    assert mint not in {each for each, *_ in rows["cold_markets"]}
