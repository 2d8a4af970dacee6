"""A chain by hand: slots of trades, creations and balances through the real books, and the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import orjson
import pytest
from redis.asyncio import Redis

from infra.clickhouse.client import connect_async
from infra.redis.client import ask, connect
from infra.settings import Settings
from pipeline.agents.market.books import MarketBooks, open_books
from pipeline.agents.market.cold_rows import ColdTables as ColdMarkets
from pipeline.agents.market.registry import Registry
from pipeline.agents.pnl.books import PnlBooks
from pipeline.agents.pnl.cold_rows import ColdTables
from pipeline.agents.pnl.memory import Rest
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.quarantine import Quarantine
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, commit, read_watermark
from schemas.codec import add_event
from schemas.events import Creation, Migration, Side, Swap
from schemas.money import WSOL
from schemas.prices import LastPrice, add_close
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import (
    METADATA,
    PRICE,
    WATERMARK,
    mint_tag,
    tag_of_mints,
    tag_of_wallets,
)
from schemas.rows import TOKEN_METADATA
from schemas.solana import base58
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET

T0_MS = 1_763_700_000_000
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
COLD_AFTER_DAYS = 2
SOL_USD = 150
SUPPLY_RAW = 10**15
DATABASE = 6  # of the Valkey that API tests share
NUMBERS = count(1)


class Chain:
    """Slots, applied to the books of all partitions; `settle` writes what they come to."""

    def __init__(self, redis: Redis, sink: ClickHouseSink, settings: Settings) -> None:
        self.redis = redis
        number = next(NUMBERS)  # what is kept of one chain must not fit another one
        self.slot = 1_000_000 * number
        self.time_ms = T0_MS
        self.wallets_rest_h = 10**6
        self._sink = sink
        self._settings = settings
        self._random = Random(number)
        self._events: list[Swap | Creation | Migration] = []
        self._balances: list[dict[str, Any]] = []
        self._slots: list[tuple[int, int, list[Any], list[Any]]] = []
        self._markets: list[MarketBooks] = []
        self._wallets: list[PnlBooks] = []
        self._token = uuid4().hex

    # What happens.

    def address(self) -> str:
        """Return an address that nobody has."""
        return base58.encode(self._random.randbytes(32))

    def create(self, mint: str, **given: Any) -> None:
        """Create a token."""
        values: dict[str, Any] = {
            "name": "Coin", "symbol": "CN", "uri": "ipfs://x", "creator": self.address(),
            "platform": "pump-fun", "dex": "pump-fun", "pool": self.address(),
            "quote_mint": WSOL, "decimals": 6, "supply_raw": SUPPLY_RAW,
            "token_program": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", **given,
        }  # fmt: skip
        self._events.append(Creation(*self._place(), mint=mint, **values))

    def migrate(self, mint: str, pool: str, to_pool: str) -> None:
        """Let a token leave its curve."""
        moved = Migration(
            *self._place(), mint, "pump-fun", "pump-fun", pool, "pump-swap", to_pool, WSOL,
            None, None,
        )  # fmt: skip
        self._events.append(moved)

    def trade(
        self, mint: str, wallet: str, side: Side, amount_raw: int, lamports: int, **given: Any
    ) -> None:
        """Trade a token for SOL."""
        values: dict[str, Any] = {
            "dex": "pump-fun", "program_id": "p", "pool": "", "wallet": wallet,
            "fee_payer": wallet, "mint": mint, "quote_mint": WSOL, "side": side,
            "amount_raw": amount_raw, "decimals": 6, "quote_amount_raw": lamports,
            "quote_decimals": 9, "wallet_amount_raw": amount_raw,
            "wallet_quote_amount_raw": lamports, "pool_fee_raw": None, "pool_fee_mint": "",
            "fee_lamports": 5_000, "priority_fee_lamports": 0, "tip_lamports": 0, "router": "",
            "platform": "", "reserve_raw": None, "quote_reserve_raw": None, "liquidity": None,
            "sqrt_price_x64": None, "sol_value_lamports": lamports,
            "usd_value_micros": lamports * SOL_USD // 1000, **given,
        }  # fmt: skip
        values["pool"] = values["pool"] or self.address()
        self._events.append(Swap(*self._place(), **values))

    def hold(self, mint: str, owner: str, amount_raw: int, **given: Any) -> None:
        """Let an owner's account hold so much from here on."""
        account = self._random.randbytes(32)
        values = {"account": account, "is_vault": False, "decimals": 6, **given}
        self._balances.append({"mint": mint, "owner": owner, "amount_raw": amount_raw, **values})

    def pass_time(self, ms: int) -> None:
        """End the slot; the next one is that much later."""
        self._slots.append((self.slot, self.time_ms, self._events, self._balances))
        self._events, self._balances = [], []
        self.slot += 1
        self.time_ms += ms

    # What is written.

    async def settle(self) -> None:
        """End the slot and write all that has happened."""
        self.pass_time(400)
        if not self._markets:
            await self._open()
        rows: defaultdict[str, list[Any]] = defaultdict(list)
        commands: list[tuple[str, list[tuple[Any, ...]]]] = []
        for lane, (group, all_books) in enumerate(
            (("market", self._markets), ("pnl", self._wallets))
        ):
            for partition, books in enumerate(all_books):
                batches = [self._batch(lane, partition, *slot) for slot in self._slots]
                await books.load(batches)
                for batch in batches:
                    books.apply(batch)
                writes = books.take()
                for table, more in writes.rows.items():
                    rows[table] += more
                tag = (tag_of_mints, tag_of_wallets)[lane](partition)
                commands.append((WATERMARK.make(tag=tag, group=group), writes.commands))
        for table, found in rows.items():
            await self._sink.insert(table, found, f"{self._token}/{self.slot}/{table}")
        last_slot, last_ms, *_ = self._slots[-1]
        for key, written in commands:
            before = await read_watermark(self.redis, key)
            await commit(self.redis, key, before, Watermark(last_slot, 0, 0), written)
            await self.redis.hset(key, "time_ms", last_ms)
        each: Any
        for each in (*self._markets, *self._wallets):
            each.written()
        self._slots = []

    async def publish(self, mint: str, *prices: tuple[int, float, float | None]) -> None:
        """Write prices as agent `live` does: time in ms, SOL, dollars."""
        closes, last = b"", None
        for time_ms, sol, usd in prices:
            if last is not None:
                closes = add_close(closes, last)
            last = LastPrice(sol, usd, time_ms, 900, "pool")
        assert last is not None
        fields = [part for item in last.to_hash().items() for part in item]
        key = PRICE.make(tag=mint_tag(mint), mint=mint)
        await ask(self.redis, [("HSET", key, *fields, "closes", closes)])

    async def put_metadata(self, mint: str, **known: Any) -> None:
        """Write what RPC said of a token."""
        values = {
            "name": "", "symbol": "", "uri": "", "decimals": None, "supply_raw": None,
            "token_program": "", "status": "found", "asked_ms": T0_MS + 5, **known,
        }  # fmt: skip
        key = METADATA.make(tag=mint_tag(mint), mint=mint)
        await ask(self.redis, [("SET", key, orjson.dumps(values))])
        if values["status"] == "found":
            row = {**values, "mint": mint, "asked_at": values["asked_ms"]}
            columns = TOKEN_METADATA.columns
            await self._sink.insert(
                TOKEN_METADATA.name, [tuple(row[name] for name in columns)], f"metadata/{mint}"
            )

    def _place(self) -> tuple[str, int, int, int, int]:
        signature = base58.encode(self._random.randbytes(64))
        return signature, self.slot, len(self._events), 0, self.time_ms

    async def _open(self) -> None:
        registry = Registry(self._settings, self.redis, self._sink)
        for partition in range(SETTLED_BY_MINT.partitions):
            tables = ColdMarkets(self._sink)
            self._markets.append(
                await open_books(self.redis, partition, registry, tables, COLD_AFTER_DAYS)
            )
        for partition in range(SETTLED_BY_WALLET.partitions):
            store = Store(self.redis, partition)
            left_out = Quarantine("pnl", tag_of_wallets(partition))
            cold = ColdTables(self._sink, partition, left_out)
            hours = COLD_AFTER_DAYS * 24
            self._wallets.append(
                PnlBooks(
                    store, partition, cold, hours, Rest(self.wallets_rest_h, hours), 0, left_out
                )
            )

    def _batch(
        self, lane: int, partition: int, slot: int, time_ms: int, events: Any, balances: Any
    ) -> SlotBatch:
        batch = SlotBatch(slot=slot, block_time_ms=time_ms, complete=True, sol_usd=str(SOL_USD))
        for event in events:
            if lane == 0:
                is_here = SETTLED_BY_MINT.partition(event.mint) == partition
            else:
                is_here = (
                    isinstance(event, Swap)
                    and SETTLED_BY_WALLET.partition(event.wallet) == partition
                )
            if is_here:
                add_event(batch.events, event)
        for balance in balances:
            if lane == 0 and SETTLED_BY_MINT.partition(balance["mint"]) == partition:
                batch.balances.add(**balance)
        return SlotBatch.FromString(batch.SerializeToString())


@pytest.fixture(scope="package")
def token_settings(stores: Settings) -> Settings:
    """Settings that lead to a database of our own; keys stay where they are."""
    url = stores.redis_url.rpartition("/")[0]
    return stores.model_copy(
        update={"redis_url": f"{url}/{DATABASE}", "access_redis_url": stores.redis_url}
    )


@pytest.fixture(scope="package")
def served(token_settings: Settings, serve: Callable[..., Any]) -> Iterator[Any]:
    """The API over that database."""
    with serve(
        redis_url=token_settings.redis_url, access_redis_url=token_settings.access_redis_url
    ) as running:
        yield running


@pytest.fixture
async def client(served: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A caller with a key."""
    async with httpx.AsyncClient(base_url=served.url, headers={"x-api-key": served.key}) as caller:
        yield caller


@pytest.fixture
async def chain(token_settings: Settings) -> AsyncIterator[Chain]:
    """A chain of which nothing is known yet."""
    redis = connect(token_settings)
    await redis.flushdb()
    sink = ClickHouseSink(token_settings)
    clickhouse = await connect_async(token_settings)
    for table in ("cold_markets", "cold_positions", "cold_wallets", "positions", "token_metadata"):
        await clickhouse.command(f"TRUNCATE TABLE {table}")
    yield Chain(redis, sink, token_settings.model_copy(update={"rpc_endpoint": None}))
    await clickhouse.close()
    await sink.close()
    await redis.aclose()
