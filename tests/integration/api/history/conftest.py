"""The API over a database of its own in the stores of API tests, and swaps to fill it with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import httpx
import orjson
import pytest
import redis as sync_redis
from clickhouse_connect.driver.client import Client

from infra.clickhouse.client import connect
from infra.clickhouse.migrations import migrate
from infra.settings import Settings
from schemas.money import WSOL
from schemas.proto.tape_pb2 import BUY, CONFIRMED, SELL, Swap
from schemas.redis_keys import METADATA, WATERMARK, mint_tag, tag_of_mints
from schemas.rows import SWAPS, TABLES, Row
from schemas.solana.base58 import encode
from schemas.tape_rows import swap_row
from schemas.topics import SETTLED_BY_MINT
from tests.support.api.in_process import asked, new_key

DAY_MS = 86_400_000
NOW_MS = 1_785_499_140_000
NOW_SLOT = 400_000_000


class Store:
    """Both stores, written as the agents do it, but row by row."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.redis = sync_redis.Redis.from_url(settings.redis_url)
        self.clickhouse: Client = connect(settings)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows as a part of their own; the same ones again make it twice."""
        columns = TABLES[table].columns
        self.clickhouse.insert(
            table,
            rows,
            list(columns),
            column_type_names=list(columns.values()),
            settings={"insert_deduplicate": 0},
        )

    def swaps(self, swaps: Sequence[Swap]) -> None:
        """Insert swaps."""
        self.insert(SWAPS.name, [swap_row(swap) for swap in swaps])

    def settle(self, slot: int, time_ms: int, group: str = "store") -> None:
        """Say how far a group has come on all partitions by mint."""
        for partition in range(SETTLED_BY_MINT.partitions):
            self.settle_one(tag_of_mints(partition), slot, time_ms, group)

    def settle_one(self, tag: str, slot: int, time_ms: int, group: str) -> None:
        """Say how far a group has come on one partition."""
        key = WATERMARK.make(tag=tag, group=group)
        self.redis.hset(key, mapping={"slot": slot, "offset": 1, "time_ms": time_ms})

    def token(self, mint: str, decimals: int = 6) -> None:
        """Make a token known."""
        about = {"status": "found", "asked_ms": 1, "name": "Coin", "symbol": "CN", "uri": ""}
        record = {**about, "decimals": decimals, "supply_raw": None, "token_program": ""}
        self.redis.set(METADATA.make(tag=mint_tag(mint), mint=mint), orjson.dumps(record))

    def close(self) -> None:
        """Give the connections back."""
        self.redis.close()
        self.clickhouse.close()


@pytest.fixture(scope="package")
def store(stores: Settings) -> Iterator[Store]:
    """A database and a Redis of these tests alone; merges of swaps are stopped."""
    address = stores.redis_url.rpartition("/")[0]
    settings = stores.model_copy(
        update={"clickhouse_database": "history", "redis_url": f"{address}/7"}
    )
    migrate(settings)
    store = Store(settings)
    store.clickhouse.command("SYSTEM STOP MERGES swaps")
    store.settle(NOW_SLOT, NOW_MS)
    yield store
    store.close()


@dataclass(frozen=True)
class Asking:
    """A client of the application, with a key."""

    client: httpx.AsyncClient

    async def get(self, path: str, status: int = 200, **query: Any) -> Any:
        """Return the JSON of an answer."""
        answer = await self.client.get(path, params=query)
        assert answer.status_code == status, (path, query, answer.status_code, answer.text)
        return answer.json()

    async def pages(self, path: str, **query: Any) -> list[Any]:
        """Return all pages of a list."""
        found = []
        while True:
            answer = await self.get(path, **query)
            found.append(answer)
            page = answer["page"]
            assert page["has_more"] == (page["next_cursor"] is not None)
            if not page["has_more"]:
                return found
            assert len(found) < 1_000
            query["cursor"] = page["next_cursor"]


@pytest.fixture
async def ask(store: Store) -> AsyncIterator[Asking]:
    """The whole application over the stores."""
    async with asked(store.settings, await new_key(store.settings)) as (client, _):
        yield Asking(client)


def address(random: Random) -> str:
    return encode(random.randbytes(32))


def make_swap(random: Random, **fixed: Any) -> Swap:
    """Return a swap with every kind of field known or not."""

    def perhaps(most: int) -> int | None:
        return random.choice([None, 0, random.randrange(most)])

    amount_raw = random.choice([0, random.randrange(1, 2**64)])
    quote_amount_raw = random.randrange(2**40)
    values: dict[str, Any] = {
        "signature": encode(random.randbytes(64)),
        "slot": NOW_SLOT - 1,
        "tx_index": random.randrange(1000),
        "event_index": random.randrange(5),
        "block_time_ms": NOW_MS,
        "dex": random.choice(["pump-swap", "orca-whirlpool"]),
        "program_id": address(random),
        "pool": address(random),
        "wallet": address(random),
        "fee_payer": address(random),
        "keeper": random.choice(["", address(random)]),
        "mint": address(random),
        "quote_mint": random.choice([WSOL, address(random)]),
        "side": random.choice([BUY, SELL]),
        "amount_raw": amount_raw,
        "decimals": random.choice([0, 6, 9, 40]),
        "quote_amount_raw": quote_amount_raw,
        "quote_decimals": 9,
        "wallet_amount_raw": amount_raw - amount_raw // 100,
        "wallet_quote_amount_raw": quote_amount_raw + 17,
        "pool_fee_raw": perhaps(2**64),
        "pool_fee_mint": random.choice(["", WSOL]),
        "fee_lamports": 105_000,
        "priority_fee_lamports": 100_000,
        "tip_lamports": random.choice([0, 10**6]),
        "router": random.choice(["", "jupiter"]),
        "platform": random.choice(["", "pump-fun"]),
        "commitment": CONFIRMED,
        "reserve_raw": perhaps(2**64),
        "quote_reserve_raw": perhaps(2**64),
        "liquidity": random.choice(["", str(2**128 - 1)]),
        "sqrt_price_x64": random.choice(["", str(random.randrange(2**128))]),
        "usd_value_micros": perhaps(2**50),
        **fixed,
    }
    if values["quote_mint"] == WSOL:  # the table keeps the quote alone
        values["sol_value_lamports"] = values["quote_amount_raw"]
    else:
        values["sol_value_lamports"] = perhaps(2**50)
    swap = Swap(**{name: value for name, value in values.items() if value is not None})
    swap.price = 0.0
    if amount_raw:
        places = swap.decimals - swap.quote_decimals
        swap.price = quote_amount_raw / amount_raw * 10.0**places
    return swap


@pytest.fixture(scope="package")
def new_swap() -> Callable[..., Swap]:
    return make_swap


@pytest.fixture(scope="package")
def new_address() -> Callable[[Random], str]:
    return address
