"""The books of both agents and the oracle agree on a short chain, through a real Valkey.

Differences are found: one thing of each kind is spoilt, and the comparison reports it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.market.books import open_books as open_market
from pipeline.agents.pnl.books import PnlBooks
from pipeline.agents.pnl.memory import Rest
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.books import Books
from pipeline.agents.settled.quarantine import Quarantine
from pipeline.chaos import stores
from pipeline.chaos.compare import Oracle, books, markets
from pipeline.chaos.differences import Differences
from pipeline.chaos.stores import Stored
from schemas.redis_keys import tag_of_wallets
from schemas.rows import TABLES
from tests.support.agents.nothing_cold import NothingCold
from tests.support.systems import running_valkey

# What makes a row another one's successor.
IDENTITY = {
    "lot_matches": ("wallet", "mint", "slot", "tx_index", "kind", "lot_number"),
    "positions": ("wallet", "mint", "day"),
    "wallet_days": ("wallet", "day"),
    "candles": ("mint", "interval_s", "start"),
    "tokens": ("mint",),
    "holder_snapshots": ("mint", "block_time"),
    "funding_payments": ("wallet", "dex", "slot", "tx_index", "event_index", "log_index"),
    "perp_changes": ("wallet", "dex", "slot", "tx_index", "event_index"),
    "perp_gaps": ("dex", "wallet", "slot", "tx_index", "event_index"),
    "perp_histories": ("dex", "partition"),
}
NEVER = 10**6

Open = Callable[[Redis, int], Awaitable[Books]]


class NoRegistry:
    """Nobody asks the RPC."""

    def ask(self, mint: str) -> None:
        """Do not."""

    def known(self, mint: str) -> None:
        """Nothing is."""


async def no_cold(*_: Any) -> Any:
    raise AssertionError("nothing is cold")


async def pnl(redis: Redis, partition: int) -> Books:
    store = Store(redis, partition)
    clock_ms = await store.read_clock_ms()
    left_out = Quarantine("pnl", tag_of_wallets(partition))
    return PnlBooks(store, partition, NothingCold(), NEVER, Rest(NEVER, NEVER), clock_ms, left_out)


async def market(redis: Redis, partition: int) -> Books:
    registry: Any = NoRegistry()
    return await open_market(redis, partition, registry, no_cold, NEVER)


@pytest.fixture
def settings(tmp_path: Any) -> Iterator[Settings]:
    with running_valkey(tmp_path) as port:
        yield Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0")


async def play(
    redis: Redis, open_books: Open, lane: Any, rows: Any, slots_at_once: int, reopen_every: int
) -> None:
    """Let the books of all partitions take a lane, cut into flushes.

    After every so many flushes they are opened again: then they are what the store has.
    """
    slots = sorted(lane)
    for partition in range(len(lane[slots[0]])):
        opened = await open_books(redis, partition)
        for flush, start in enumerate(range(0, len(slots), slots_at_once), start=1):
            batches = [lane[slot][partition] for slot in slots[start : start + slots_at_once]]
            await opened.load(batches)
            for batch in batches:
                opened.apply(batch)
            writes = opened.take()
            pipe = redis.pipeline(transaction=True)
            for command in writes.commands:
                pipe.execute_command(*command)
            await pipe.execute()
            for table, written in writes.rows.items():
                for row in written:
                    named = dict(zip(TABLES[table].columns, row, strict=True))
                    identity = tuple(named[name] for name in IDENTITY[table])
                    if table == "perp_histories" and (before := rows[table].get(identity)):
                        named["first_slot"] = min(named["first_slot"], before["first_slot"])
                    rows[table][identity] = named
            opened.written()
            if flush % reopen_every == 0:
                opened = await open_books(redis, partition)


def differences(oracle: Oracle, stored: Stored) -> Differences:
    found = Differences()
    books(oracle.books, stored, found)
    markets(oracle.markets, stored, found)
    return found


@pytest.mark.slow
async def test_books_are_those_of_the_oracle(chain, settings):
    rows: Any = defaultdict(dict)
    redis = connect(settings)
    try:
        await play(redis, pnl, chain.by_wallet, rows, 7, 5)
        await play(redis, market, chain.by_mint, rows, 7, 5)
        stored = Stored(rows={table: list(rows[table].values()) for table in TABLES})
        await stores.read_redis(redis, stored)
    finally:
        await redis.aclose()
    oracle = Oracle(chain.truth)
    found = differences(oracle, stored)
    assert not found.total, found.examples
    assert found.compared["match"] > 500
    assert found.compared["position"] > 1_500
    assert found.compared["holder"] > 1_500
    assert found.compared["trending"] > 30
    assert found.compared["chunk of lots"] >= 1
    assert found.compared["snapshot of holders"] > 10
    wrong = spoil(stored)
    assert wrong <= differences(oracle, stored).counts.keys()


@pytest.mark.slow
async def test_cuts_and_restarts_change_no_byte(chain, settings):
    """Opened again after every slot, and never, with other flushes."""
    redis = connect(settings)
    written = []
    try:
        for slots_at_once, reopen_every in ((1, 1), (11, NEVER)):
            await redis.flushall()
            rows: Any = defaultdict(dict)
            await play(redis, pnl, chain.by_wallet, rows, slots_at_once, reopen_every)
            await play(redis, market, chain.by_mint, rows, slots_at_once, reopen_every)
            written.append((await stores.contents(redis), rows))
    finally:
        await redis.aclose()
    (once, once_rows), (again, again_rows) = written
    assert once.keys() == again.keys()
    assert not [key for key in once if once[key] != again[key]]
    assert once_rows == again_rows
    assert len(once) > 5_000


def spoil(stored: Stored) -> set[str]:
    """Make one thing of each kind wrong; return the kinds."""
    for records, field in (
        (stored.positions, "bought_lamports"),
        (stored.days, "buys"),
        (stored.totals, "tip_lamports"),
        (stored.heads, "holder_count"),
        (stored.candles, "usd_micros"),
    ):
        record: Any = next(iter(records.values()))
        setattr(record, field, getattr(record, field) + 1)
    for entries in (
        stored.balances,
        stored.holders,
        stored.accounts,
        stored.traders,
        stored.trending,
        stored.top_of_mint,
        stored.chunks,
    ):
        entries.pop(next(iter(entries)))
    for table in ("lot_matches", "positions", "wallet_days", "tokens", "holder_snapshots"):
        del stored.rows[table][0]
    return {
        *("position", "day", "wallet", "holder count"),
        *("balance", "holder", "account", "trader", "trending", "top of mint"),
        *("chunk of lots", "candle", "match", "positions row", "wallet_days row", "token"),
        "snapshot of holders",
    }
