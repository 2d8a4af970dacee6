"""One value of a wallet that cannot be read, while tokens and wallets come and go: others exact."""

from __future__ import annotations

from random import Random

import orjson
import pytest

from pipeline.agents.settled.quarantine import Quarantine
from schemas.positions import COLD_MARK
from schemas.rows import COLD_POSITIONS, COLD_WALLETS
from schemas.solana.base58 import decode

HOUR_MS = 3_600_000
TAG = "{w3}"


async def play(player, batches, random):
    """Apply slots in flushes of some."""
    at = 0
    while at < len(batches):
        count = random.choice([2, 8, 16])
        await player.apply(batches[at : at + count])
        at += count
        await player.flush()


def of_others(state, wallet):
    """What Redis has of each wallet alone, without one of them."""
    found = {}
    for key, value in state.items():
        family = key.partition(":")[0]
        if family in ("pos", "bal", "lots") and wallet not in key:
            found[key] = value
        elif family in ("wallets", "due", "days", "top"):
            found[key] = {
                name: each
                for name, each in value.items()
                if name not in (decode(wallet), COLD_MARK)  # the mark is about all who are away
            }
    return {key: value for key, value in found.items() if value}


def rows_of_others(rows, wallet):
    return {key: row for key, row in rows.items() if wallet not in row}


async def spoil(player, family, random):
    """Cut one value of some wallet short; return the wallet and its key."""
    key = random.choice(sorted(await player.redis.keys(f"{family}:{TAG}:*")))
    wallet = key.decode().split(":")[2]
    if family == "lots":
        await player.redis.set(key, b"cut")
    else:
        fields = await player.redis.hkeys(key)
        for field in fields:
            if field != COLD_MARK:
                await player.redis.hset(key, field, b"cut")
    return wallet, key.decode()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["pos", "lots", "bal"])
async def test_others_come_and_go_exactly(player, market, family):
    seed = {"pos": 51, "lots": 52, "bal": 53}[family]
    tape = market(seed, wallets=9)
    wallets = tape.wallets
    mints = 1 if family == "lots" else 4  # few: a full chunk is sixteen lots of one
    before = [tape.one(HOUR_MS // 8, mints=mints, busy=12) for _ in range(60)]
    tape.wallets = wallets[:4]
    pause = [tape.one(2 * HOUR_MS, mints=2) for _ in range(24)]  # other tokens and wallets rest
    tape.wallets = wallets
    after = [tape.one(HOUR_MS // 8, busy=9) for _ in range(30)]
    rest = {"cold_after_h": 24, "traded_h": 30, "received_h": 30, "clickhouse": True}
    wanted = await player(**rest)
    await play(wanted, before, Random(seed))  # cut alike: what passes by leaves no rows
    wanted.books = None
    await play(wanted, [*pause, *after], Random(seed))
    state, rows = await wanted.state(), wanted.rows
    assert any(table == COLD_WALLETS.name for table, *_ in rows)
    found = await player(**rest, recent=5)
    await play(found, before, Random(seed))
    wallet, key = await spoil(found, family, Random(seed))
    found.books = None
    await play(found, [*pause, *after], Random(seed))
    records = await found.redis.hgetall(f"quarantine:{TAG}:pnl")
    assert records.keys() == {wallet.encode()}
    assert orjson.loads(records[wallet.encode()])["place"].startswith(key)
    assert of_others(await found.state(), wallet) == of_others(state, wallet)
    assert rows_of_others(found.rows, wallet) == rows_of_others(rows, wallet)


@pytest.mark.parametrize("table", [COLD_POSITIONS.name, COLD_WALLETS.name])
async def test_a_row_of_clickhouse_that_cannot_be_read_is_left_out(player, market, table):
    tape = market(55, wallets=6)
    before = [tape.one(HOUR_MS // 8, busy=9) for _ in range(40)]
    after_h = {COLD_POSITIONS.name: (24, 10**6), COLD_WALLETS.name: (10**6, 24)}[table]
    books = await player(clickhouse=True, cold_after_h=after_h[0], traded_h=after_h[1])
    await play(books, before, Random(1))
    await play(books, [tape.one(40 * HOUR_MS, busy=0) for _ in range(2)], Random(1))
    put_away = {key: row for key, row in books.rows.items() if key[0] == table}
    wallet = tape.wallets[0]
    bad = [row for row in put_away.values() if wallet in row]
    assert bad
    assert len(put_away) > len(bad)
    spoiled = [tuple(b"cut" if isinstance(each, bytes) else each for each in row) for row in bad]
    client = await books.sink.client()
    await client.command(f"ALTER TABLE {table} DELETE WHERE wallet = '{wallet}'",
                         settings={"mutations_sync": 2})  # fmt: skip
    await books.sink.insert(table, spoiled, f"{books.token} spoiled")
    books.books = None
    after = [tape.one(HOUR_MS // 8, busy=9) for _ in range(20)]
    await play(books, after, Random(2))
    records = await books.redis.hgetall(f"quarantine:{TAG}:pnl")
    assert records.keys() == {wallet.encode()}
    assert orjson.loads(records[wallet.encode()])["place"].startswith(table)
    assert isinstance(books.books.quarantine, Quarantine)
    assert wallet in books.books.quarantine
