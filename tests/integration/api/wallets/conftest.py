"""The API over a real Valkey and a real ClickHouse that the real books of wallets have filled."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest
from redis.asyncio import Redis

from api.stores.clients import Stores
from infra.clickhouse.client import connect_async
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.pnl.books import PnlBooks
from pipeline.agents.pnl.cold_rows import ColdTables
from pipeline.agents.pnl.memory import Rest
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.quarantine import read_quarantine
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, commit, read_watermark
from schemas.markets import BUCKET, Head, PoolFacts, pack_head, pack_pool
from schemas.money import USDC, WSOL
from schemas.prices import LastPrice
from schemas.proto.tape_pb2 import BUY, SELL, SlotBatch
from schemas.redis_keys import (
    MARKET,
    MARKETS,
    METADATA,
    PRICE,
    TRADED,
    WATERMARK,
    mint_tag,
    tag_of_wallets,
    wallet_tag,
)
from schemas.rows import (
    COLD_POSITIONS,
    COLD_WALLETS,
    GAPS,
    LOT_MATCHES,
    POSITIONS,
    SLOTS,
    WALLET_DAYS,
)
from schemas.solana.base58 import encode
from schemas.topics import SETTLED_BY_WALLET
from tests.support.api.in_process import asked, new_key
from tests.support.systems import running_stores

PARTITIONS = (2, 5)
T0_MS = 1_763_700_000_000
SOL_USD = 150
FOR_EVER_H = 10**6


@pytest.fixture(scope="package")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to both stores, the tables made."""
    with running_stores(tmp_path_factory.mktemp("wallets")) as settings:
        yield settings


class Tape:
    """A seeded tape of some wallets of some partitions, one batch a slot and partition."""

    def __init__(self, seed: int, wallets: int = 8, mints: int = 12) -> None:
        self.random = Random(seed)
        self.wallets = [self.wallet(PARTITIONS[n % len(PARTITIONS)]) for n in range(wallets)]
        self.mints = [self.address() for _ in range(mints)]
        self.slot = 1000
        self.time_ms = T0_MS

    def address(self) -> str:
        return encode(self.random.randbytes(32))

    def wallet(self, partition: int) -> str:
        while SETTLED_BY_WALLET.partition(wallet := self.address()) != partition:
            pass
        return wallet

    def empty(self, step_ms: int = 400) -> dict[int, SlotBatch]:
        """The next slot without anything in it."""
        self.slot += self.random.randint(1, 3)
        self.time_ms += step_ms
        return {
            partition: SlotBatch(slot=self.slot, block_time_ms=self.time_ms, complete=True)
            for partition in PARTITIONS
        }

    def slots(
        self, count: int, step_ms: int = 400, mints: Sequence[str] = ()
    ) -> list[dict[int, SlotBatch]]:
        """The next slots, in which wallets trade and move tokens."""
        found = []
        for _ in range(count):
            batches = self.empty(step_ms)
            for tx_index in range(self.random.randint(0, 6)):
                wallet = self.random.choice(self.wallets)
                mint = self.random.choice(mints or self.mints)
                if self.random.random() < 0.05:
                    mint = USDC  # no position, and yet a fee
                batch = batches[SETTLED_BY_WALLET.partition(wallet)]
                if mint != USDC and self.random.random() < 0.2:
                    self.move(batch, wallet, mint, tx_index)
                else:
                    self.trade(batch, wallet, mint, tx_index)
            found.append(batches)
        return found

    def move(self, batch: SlotBatch, wallet: str, mint: str, tx_index: int) -> None:
        """Let a token come in, go out or burn."""
        moved = batch.movements.add(
            signature=encode(self.random.randbytes(64)),
            tx_index=tx_index,
            wallet=wallet,
            mint=mint,
        )
        field = self.random.choice(["received_raw", "sent_raw", "burned_raw"])
        setattr(moved, field, self.random.randrange(1, 10**6))

    def trade(
        self,
        batch: SlotBatch,
        wallet: str,
        mint: str,
        tx_index: int,
        *,
        side: int | None = None,
    ) -> None:
        """Trade a token, now and then at an unknown value."""
        random = self.random
        swap = batch.events.add().swap
        swap.signature, swap.slot, swap.tx_index = (
            encode(random.randbytes(64)),
            batch.slot,
            tx_index,
        )
        swap.block_time_ms = batch.block_time_ms
        swap.wallet = swap.fee_payer = wallet
        swap.mint, swap.quote_mint = mint, WSOL
        swap.side = side or (BUY if random.random() < 0.6 else SELL)
        swap.amount_raw = swap.wallet_amount_raw = random.randrange(1, 10**6)
        lamports = random.randrange(1, 10**9)
        swap.quote_amount_raw = swap.wallet_quote_amount_raw = lamports
        swap.fee_lamports, swap.priority_fee_lamports, swap.tip_lamports = 5100, 100, 1000
        if random.random() < 0.9:
            swap.sol_value_lamports = lamports
            swap.usd_value_micros = lamports * SOL_USD // 1000


class Books:
    """Plays slots through the books of our partitions into the stores, as the agent does."""

    def __init__(
        self, redis: Redis, sink: ClickHouseSink, cold_after_h: int, wallets_rest: Rest
    ) -> None:
        self.redis = redis
        self.sink = sink
        self.cold_after_h = cold_after_h
        self.wallets_rest = wallets_rest
        self.token = uuid4().hex
        self.books: dict[int, tuple[PnlBooks, Watermark | None]] = {}

    async def play(self, slots: Sequence[dict[int, SlotBatch]]) -> None:
        """Apply slots and write what they made."""
        for partition in PARTITIONS:
            books, before = await self._open(partition)
            batches = [slot[partition] for slot in slots]
            await books.load(batches)
            for batch in batches:
                books.apply(batch)
            writes = books.take()
            last = batches[-1]
            for table, rows in writes.rows.items():
                await self.sink.insert(table, rows, f"{self.token}/{partition}/{last.slot}/{table}")
            watermark = Watermark(last.slot, last.slot, last.block_time_ms)
            key = _watermark(partition)
            await commit(self.redis, key, before, watermark, writes.commands)
            books.written()
            self.books[partition] = books, watermark

    async def _open(self, partition: int) -> tuple[PnlBooks, Watermark | None]:
        if partition not in self.books:
            store = Store(self.redis, partition)
            clock_ms = await store.read_clock_ms()
            left_out = await read_quarantine(self.redis, "pnl", tag_of_wallets(partition))
            rows = ColdTables(self.sink, partition, left_out)
            rest = self.wallets_rest
            books = PnlBooks(store, partition, rows, self.cold_after_h, rest, clock_ms, left_out)
            watermark = await read_watermark(self.redis, _watermark(partition))
            self.books[partition] = books, watermark
        return self.books[partition]

    async def cold(self, wallet: str) -> set[str]:
        """The tokens that are put away in a wallet's partition."""
        here = await self.redis.zrange(TRADED.make(tag=wallet_tag(wallet)), 0, -1)
        client = await self.sink.client()
        found = await client.query(
            "SELECT DISTINCT mint FROM cold_positions WHERE partition = {partition:UInt8}",
            parameters={"partition": SETTLED_BY_WALLET.partition(wallet)},
        )
        return {mint for (mint,) in found.result_rows} - set(map(encode, here))

    async def market(
        self,
        mint: str,
        price_sol: float | None,
        *,
        name: str = "Coin",
        liquidity_sol: int | None = 1_000,
        volume_sol: int = 1,
        volume_in_tokens_sol: int = 0,
        now_ms: int = T0_MS,
        time_ms: int | None = None,
    ) -> None:
        """Store what is known of a token: name, 6 decimals, its price and the pool of that.

        Beside the pool quoted in SOL there is one quoted in another token.
        """
        tag, pool = mint_tag(mint), encode(b"p" * 32)
        about = {
            "status": "found",
            "asked_ms": 1,
            "name": name,
            "symbol": name[:4],
            "uri": "",
            "decimals": 6,
            "supply_raw": None,
            "token_program": "",
        }
        await self.redis.set(METADATA.make(tag=tag, mint=mint), orjson.dumps(about))
        await self.redis.hset(
            MARKETS.make(tag=tag),
            mapping={"slot": 5000, "time_ms": now_ms, "sol_usd": f"{SOL_USD}/1"},
        )
        if price_sol is not None:
            price = LastPrice(price_sol, price_sol * SOL_USD, time_ms or now_ms, 4990, pool)
            await self.redis.hset(PRICE.make(tag=tag, mint=mint), mapping=price.to_hash())
            head = Head(liquidity_lamports=liquidity_sol and liquidity_sol * 10**9)
            volumes = {pool: volume_sol, encode(b"q" * 32): volume_in_tokens_sol}
            series = {of: _half_an_hour_ago(now_ms, sol) for of, sol in volumes.items()}
            market = {"head": pack_head(head, [])}
            market["quarters"] = _half_an_hour_ago(now_ms, sum(volumes.values()))
            for of, quote in zip(volumes, (WSOL, encode(b"Q" * 32)), strict=True):
                facts = PoolFacts("pumpswap", quote_mint=quote)
                market[f"pool:{of}"] = pack_pool(facts, series[of])
            await self.redis.hset(MARKET.make(tag=tag, mint=mint), mapping=market)


def _half_an_hour_ago(now_ms: int, sol: int) -> bytes:
    return BUCKET.pack(now_ms // 60_000 - 30, 1, 0, 1, 0, sol * 10**9, *(0,) * 7)


def _watermark(partition: int) -> str:
    return WATERMARK.make(tag=tag_of_wallets(partition), group="pnl")


@pytest.fixture
async def make_books(settings: Settings) -> AsyncIterator[Any]:
    """Make books over stores that are emptied first."""
    redis = connect(settings)
    sink = ClickHouseSink(settings)
    client = await connect_async(settings)

    async def make(cold_after_h: int = FOR_EVER_H, wallets_rest: Rest | None = None) -> Books:
        await redis.flushdb()
        tables = (LOT_MATCHES, POSITIONS, WALLET_DAYS, COLD_POSITIONS, COLD_WALLETS, SLOTS, GAPS)
        for table in tables:
            await client.command(f"TRUNCATE TABLE {table.name}")
        return Books(redis, sink, cold_after_h, wallets_rest or Rest(FOR_EVER_H, FOR_EVER_H))

    yield make
    await client.close()
    await sink.close()
    await redis.aclose()


class Asking:
    """A client of the API with a key."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        answer = await self.client.get(path, params=query or None)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.json()

    async def post(self, path: str, body: Any, status: int = 200) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code == status, (path, answer.status_code, answer.text)
        return answer.json()

    async def all_pages(self, wallet: str, limit: int) -> list[Any]:
        """All positions of a wallet, by the page."""
        found: list[Any] = []
        query: dict[str, Any] = {"limit": limit}
        while True:
            answer = await self.get(f"/api/wallets/{wallet}", **query)
            assert len(answer["positions"]) <= limit
            found += answer["positions"]
            if not answer["page"]["has_more"]:
                assert answer["page"]["next_cursor"] is None
                return found
            assert len(answer["positions"]) == limit
            query["cursor"] = answer["page"]["next_cursor"]


@pytest.fixture
async def ask(settings: Settings) -> AsyncIterator[Asking]:
    """The whole application, asked with an enterprise key."""
    async with asked(settings, await new_key(settings)) as (client, _):
        yield Asking(client)


@pytest.fixture
async def stores(settings: Settings) -> AsyncIterator[Stores]:
    stores = Stores(settings)
    yield stores
    await stores.close()


@pytest.fixture
def tape() -> type[Tape]:
    return Tape
