"""A real Valkey and a real ClickHouse, and a player of slots through the books of a partition."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from infra.clickhouse.client import connect_async
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.pnl.agent import GROUP
from pipeline.agents.pnl.books import PnlBooks
from pipeline.agents.pnl.cold_rows import ColdTables
from pipeline.agents.pnl.memory import Rest
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.quarantine import read_quarantine
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, commit, read_watermark
from schemas.proto.tape_pb2 import BUY, SELL, SlotBatch
from schemas.redis_keys import tag_of_wallets
from schemas.rows import PERP_HISTORIES, TABLES
from schemas.solana.base58 import encode
from tests.support.agents.nothing_cold import NothingCold
from tests.support.systems import running_stores

PARTITION = 3
WATERMARK = "wm:{w3}:pnl"
SOL = "So11111111111111111111111111111111111111112"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
T0_MS = 1_763_700_000_000
FOR_EVER_H = 10**6


@pytest.fixture(scope="package")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to both, the tables made."""
    with running_stores(tmp_path_factory.mktemp("pnl")) as settings:
        yield settings


class Player:
    """Plays slots through the books of one partition into the stores, as the frame does."""

    def __init__(
        self,
        redis: Redis,
        sink: ClickHouseSink | None,
        cold_after_h: int = FOR_EVER_H,
        traded_h: int = FOR_EVER_H,
        received_h: int = FOR_EVER_H,
        recent: int = 8_000,
    ) -> None:
        self.redis = redis
        self.sink = sink
        self.cold_after_h = cold_after_h
        self.rest = Rest(traded_h, received_h)
        self.recent = recent
        self.rows: dict[tuple[str, ...], tuple[Any, ...]] = {}  # as merged, by identity
        self.watermark: Watermark | None = None
        self.books: PnlBooks | None = None
        self.last_slot = 0
        self.flushes = 0
        self.token = uuid4().hex  # two inserts under one token are one

    async def open(self) -> None:
        store = Store(self.redis, PARTITION)
        clock_ms = await store.read_clock_ms()
        left_out = await read_quarantine(self.redis, GROUP, tag_of_wallets(PARTITION))
        rows = ColdTables(self.sink, PARTITION, left_out) if self.sink else NothingCold()
        self.books = PnlBooks(
            store, PARTITION, rows, self.cold_after_h, self.rest, clock_ms, left_out, self.recent
        )
        self.watermark = await read_watermark(self.redis, WATERMARK)

    async def apply(self, batches: Sequence[SlotBatch]) -> None:
        if self.books is None:
            await self.open()
        assert self.books
        done = self.watermark.slot if self.watermark else 0
        batches = [batch for batch in batches if batch.slot > done]
        if batches:
            await self.books.load(batches)
            for batch in batches:
                self.books.apply(batch)
            self.last_slot = batches[-1].slot

    async def insert(self, writes: Writes) -> None:
        for table, rows in writes.rows.items():
            for row in rows:
                key = identity(table, row)
                if table == PERP_HISTORIES.name:  # the least is kept
                    row = min(row, self.rows.get(key, row))
                self.rows[key] = row
            if self.sink:
                self.flushes += 1
                await self.sink.insert(table, rows, f"{self.token}/{self.flushes}")

    async def commit(self, writes: Writes) -> None:
        new = Watermark(self.last_slot, self.last_slot, 0)
        await commit(self.redis, WATERMARK, self.watermark, new, writes.commands)
        self.watermark = new

    async def flush(self) -> None:
        assert self.books
        writes = self.books.take()
        await self.insert(writes)
        await self.commit(writes)
        self.books.written()

    async def state(self) -> dict[str, Any]:
        """All keys of the books."""
        return {
            key.decode(): await read_key(self.redis, key)
            for key in await self.redis.keys("*")
            if key.decode() != WATERMARK
        }


async def read_key(redis: Redis, key: bytes) -> Any:
    match await redis.type(key):
        case b"hash":
            return await redis.hgetall(key)
        case b"zset":
            return dict(await redis.zrange(key, 0, -1, withscores=True))
        case b"set":
            return await redis.smembers(key)
        case _:
            return await redis.get(key)


IDENTITY = {
    "lot_matches": ("wallet", "mint", "slot", "tx_index", "kind", "lot_number"),
    "positions": ("mint", "wallet", "day"),
    "wallet_days": ("wallet", "day"),
    "cold_positions": ("mint", "partition", "wallet"),
    "cold_wallets": ("wallet", "slot"),
    "funding_payments": ("signature", "event_index", "log_index"),
    "perp_changes": ("signature", "event_index"),
    "perp_gaps": ("signature", "event_index", "wallet"),
    "perp_histories": ("dex", "partition"),
}


def identity(table: str, row: tuple[Any, ...]) -> tuple[str, ...]:
    names = list(TABLES[table].columns)
    return (table, *(row[names.index(name)] for name in IDENTITY[table]))


@pytest.fixture
async def player(stores: Settings) -> AsyncIterator[Callable[..., Player]]:
    """Make players on the one Redis; each begins with an empty one."""
    redis = connect(stores)
    sink = ClickHouseSink(stores)
    client = await connect_async(stores)

    async def make(*, clickhouse: bool = False, **options: Any) -> Player:
        await redis.flushall()
        if clickhouse:
            for table in IDENTITY:
                await client.command(f"TRUNCATE TABLE {table}")
        return Player(redis, sink if clickhouse else None, **options)

    yield make
    await client.close()
    await sink.close()
    await redis.aclose()


class Market:
    """A seeded tape of one partition's wallets, with everything that a transaction can do."""

    def __init__(self, seed: int, wallets: int = 12, mints: int = 6) -> None:
        self.random = Random(seed)
        self.random_of_perps = Random(f"perps {seed}")
        self.wallets = [self.address() for _ in range(wallets)]
        self.mints = [self.address() for _ in range(mints)]
        self.slot = 1000
        self.time_ms = T0_MS

    def address(self) -> str:
        return encode(self.random.randbytes(32))

    def slots(self, count: int, step_ms: int = 400, mints: int | None = None) -> list[SlotBatch]:
        return [self.one(step_ms, mints) for _ in range(count)]

    def one(self, step_ms: int = 400, mints: int | None = None, busy: int = 5) -> SlotBatch:
        """The next slot; only the first `mints` trade in it."""
        random = self.random
        self.slot += random.randint(1, 3)
        self.time_ms += step_ms
        batch = SlotBatch(slot=self.slot, block_time_ms=self.time_ms, complete=True)
        batch.perp_dexes.extend(["drift", "jupiter-perps"])
        for tx_index in sorted(random.sample(range(1000), random.randint(0, busy))):
            self.transaction(batch, tx_index, self.mints[:mints])
        return batch

    def transaction(self, batch: SlotBatch, tx_index: int, mints: list[str]) -> None:
        random = self.random
        wallet = random.choice(self.wallets)
        signature = encode(random.randbytes(64))
        fee_payer = wallet if random.random() < 0.8 else self.address()
        legs = [wallet] * random.choice([0, 1, 1, 1, 1, 2, 3])
        if len(legs) > 1 and random.random() < 0.2:
            legs[-1] = random.choice(self.wallets)
        for event_index, owner in enumerate(legs):
            mint = random.choice(mints)
            quote = random.choice([SOL, SOL, SOL, USDC, random.choice(mints)])
            if quote == mint:
                quote = SOL
            amount_raw, quote_raw = random.randrange(1, 10**6), random.randrange(1, 10**9)
            swap = batch.events.add().swap
            swap.signature, swap.slot, swap.tx_index = signature, batch.slot, tx_index
            swap.event_index, swap.block_time_ms = event_index, batch.block_time_ms
            swap.wallet, swap.fee_payer, swap.mint, swap.quote_mint = owner, fee_payer, mint, quote
            swap.side = BUY if random.random() < 0.55 else SELL
            swap.amount_raw, swap.wallet_amount_raw = amount_raw, amount_raw - amount_raw // 100
            swap.quote_amount_raw, swap.wallet_quote_amount_raw = quote_raw, quote_raw * 101 // 100
            swap.fee_lamports, swap.priority_fee_lamports, swap.tip_lamports = 5100, 100, 1000
            if random.random() < 0.95:
                swap.sol_value_lamports = quote_raw
            if random.random() < 0.95:
                swap.usd_value_micros = quote_raw // 6
        if random.random() < 0.3:
            moved = batch.movements.add(
                signature=signature, tx_index=tx_index, wallet=wallet, mint=random.choice(mints)
            )
            field = random.choice(["received_raw", "sent_raw", "burned_raw"])
            setattr(moved, field, random.randrange(1, 10**6))
        self.perps(batch, signature, tx_index, wallet)
        batch.balances.add(
            account=self.random.choice([b"a", b"b", b"c"]) * 32,
            owner=wallet,
            mint=random.choice([*mints, SOL]),
            decimals=6,
            amount_raw=random.choice([0, 5, 10**12]),
            tx_index=tx_index,
        )

    def perps(self, batch: SlotBatch, signature: str, tx_index: int, wallet: str) -> None:
        """Pay funding in some markets, change a position, or leave a gap; mostly nothing."""
        random = self.random_of_perps
        place = {
            "signature": signature,
            "slot": batch.slot,
            "tx_index": tx_index,
            "block_time_ms": batch.block_time_ms,
            "wallet": wallet,
        }
        for log_index in range(random.choice([0, 0, 0, 1, 3])):
            batch.funding_payments.add(
                **place,
                event_index=7,
                log_index=log_index,
                dex="drift",
                market_index=random.randrange(2**16),
                payment_raw=random.randrange(-(10**9), 10**9),
                cumulative_funding_long=str(random.randrange(-(2**127), 2**127)),
                cumulative_funding_short="0",
            )
        if random.random() < 0.2:
            change = random.choice(["increase", "decrease", "liquidate"])
            batch.perp_changes.add(
                **place,
                event_index=8,
                dex="jupiter-perps",
                change=change,
                is_long=random.random() < 0.5,
                pnl_usd_micros=None if change == "increase" else random.randrange(-99, 99),
            )
        if random.random() < 0.1:
            batch.perp_gaps.add(**place, event_index=9, dex="drift", reason="log truncated")


@pytest.fixture
def market() -> Callable[..., Market]:
    return Market
