"""A real Valkey, and seeded tapes of a market with truths of their own kept beside."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.market.books import MarketBooks, open_books
from pipeline.agents.market.cold_rows import ColdRows
from pipeline.agents.market.registry import Known, Registry
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark, commit, read_watermark
from schemas.codec import add_event
from schemas.events import Creation, Migration, Side, Swap
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import COLD_MARKETS
from schemas.solana import base58
from tests.support.systems import running_valkey

WSOL = "So11111111111111111111111111111111111111112"
T0_MS = 1_763_700_000_000
SUPPLY = 10**15


@pytest.fixture(scope="package")
def valkey_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_valkey(tmp_path_factory.mktemp("valkey")) as port:
        yield f"redis://127.0.0.1:{port}/0"


@pytest.fixture
async def redis(valkey_url: str) -> AsyncIterator[Redis]:
    client = connect(Settings(_env_file=None, redis_url=valkey_url))
    await client.flushall()
    yield client
    await client.aclose()


class NoClickHouse:
    """Nothing is inserted where there is no RPC to answer."""

    async def insert(self, table: str, rows: Sequence[Any], token: str) -> None:
        raise AssertionError("nothing to insert")


def quiet_registry(redis: Redis) -> Registry:
    return Registry(Settings(_env_file=None, rpc_endpoint=None), redis, NoClickHouse())


def address(rng: random.Random) -> str:
    return base58.encode(rng.randbytes(32))


@dataclass
class Tape:
    """Slots of some mints, and what is true of them."""

    slots: list[SlotBatch] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    balances: dict[str, dict[bytes, tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    vaults: dict[str, set[bytes]] = field(default_factory=lambda: defaultdict(set))
    pools: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    creators: dict[str, str] = field(default_factory=dict)


def make_tape(
    seed: int,
    slots: int,
    *,
    mints: int = 12,
    wallets: int = 40,
    step_ms: int = 400,
    pause_at: int | None = None,
    pause_ms: int = 0,
    unit: int = 1,
) -> Tape:
    """Return a tape: constant-product pools, wallets with one or two accounts, migrations."""
    rng = random.Random(seed)
    tape = Tape()
    people = [address(rng) for _ in range(wallets)]
    books: dict[str, dict[str, Any]] = {}
    names = [address(rng) for _ in range(mints)]
    holding: dict[tuple[str, str], bytes] = {}
    time_ms = T0_MS
    for at in range(slots):
        slot = 1000 + at
        time_ms += rng.choice((0, step_ms, 2 * step_ms, 1000, 9000 if rng.random() < 0.1 else 0))
        time_ms += pause_ms if at == pause_at else 0
        batch = SlotBatch(slot=slot, block_time_ms=time_ms, complete=True)
        if rng.random() < 0.95:
            batch.sol_usd = f"{150 + rng.random() * 10:.4f}"
        changed: dict[tuple[str, bytes], int] = {}
        for tx in range(rng.randint(0, 6)):
            mint = rng.choice(names)
            signature = base58.encode(rng.randbytes(64))
            if mint not in books:
                pool, creator = address(rng), rng.choice(people)
                vault = rng.randbytes(32)
                launched = rng.random() < 0.7
                books[mint] = {
                    "pool": pool, "vault": vault, "dex": "pump-fun" if launched else "orca",
                    "token": 793_100_000_000_000 * unit, "sol": 30_000_000_000,
                    "launched": launched, "vault_owner": pool,
                }  # fmt: skip
                if rng.random() < 0.5:  # else it is known by its owner alone
                    tape.vaults[mint].add(vault)
                    books[mint]["vault_owner"] = address(rng)
                tape.pools[mint].add(pool)
                if launched:
                    tape.creators[mint] = creator
                    add_event(
                        batch.events,
                        Creation(
                            signature, slot, tx, 0, time_ms, mint, f"Coin {mint[:4]}", mint[:4],
                            "ipfs://x", creator, "pump-fun", "pump-fun", pool, WSOL, 6, SUPPLY,
                            "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
                        ),
                    )  # fmt: skip
            book = books[mint]
            wallet = rng.choice(people)
            account = holding.setdefault(
                (wallet, mint) if rng.random() < 0.9 else (wallet + "2", mint), rng.randbytes(32)
            )
            held = tape.balances[mint].get(account, (wallet, 0))[1]
            if held and rng.random() < 0.45:
                amount = held if rng.random() < 0.5 else rng.randint(1, held)
                paid = amount * book["sol"] // (book["token"] + amount)
                side, held = Side.SELL, held - amount
                book["token"] += amount
                book["sol"] -= paid
            else:
                paid = rng.randint(10_000, 3_000_000_000)
                amount = paid * book["token"] // (book["sol"] + paid)
                side, held = Side.BUY, held + amount
                book["token"] -= amount
                book["sol"] += paid
            lamports = paid if rng.random() < 0.97 else None
            swap = Swap(
                signature, slot, tx, 1, time_ms, book["dex"], address(rng), book["pool"], wallet,
                wallet, mint, WSOL, side, amount, 6, paid, 9, amount, paid, None, "", 5000, 0, 0,
                "", "pump-fun" if book["launched"] else "", book["token"], book["sol"], None, None,
                sol_value_lamports=lamports,
                usd_value_micros=None if lamports is None else lamports * 155 // 1000,
            )  # fmt: skip
            add_event(batch.events, swap)
            tape.swaps.append(swap)
            tape.balances[mint][account] = (wallet, held)
            tape.balances[mint][book["vault"]] = (book["vault_owner"], book["token"])
            changed[mint, account] = tx
            changed[mint, book["vault"]] = tx
            if book["launched"] and book["dex"] == "pump-fun" and rng.random() < 0.03:
                add_event(batch.events, migrate(rng, tape, mint, book, batch, tx))
        mint = rng.choice(names)  # or one leaves its curve in a slot without a trade of it
        leaves = rng.random() < 0.05 and not any(of == mint for of, _ in changed)
        book = books.get(mint)
        if leaves and book and book["launched"] and book["dex"] == "pump-fun":
            add_event(batch.events, migrate(rng, tape, mint, book, batch, 9))
        for (mint, account), tx in changed.items():
            owner, amount = tape.balances[mint][account]
            batch.balances.add(
                account=account, owner=owner, mint=mint, decimals=6, amount_raw=amount,
                is_vault=account in tape.vaults[mint], is_token_2022=False, tx_index=tx,
            )  # fmt: skip
        tape.slots.append(SlotBatch.FromString(batch.SerializeToString()))
    return tape


def migrate(
    rng: random.Random, tape: Tape, mint: str, book: dict[str, Any], batch: SlotBatch, tx: int
) -> Migration:
    """Let a token leave its curve."""
    before = book["pool"]
    book["dex"], book["pool"] = "pump-swap", address(rng)
    tape.pools[mint].add(book["pool"])
    return Migration(
        base58.encode(rng.randbytes(64)), batch.slot, tx, 2, batch.block_time_ms, mint, "pump-fun",
        "pump-fun", before, "pump-swap", book["pool"], WSOL, None, None,
    )  # fmt: skip


async def write(
    redis: Redis,
    books: MarketBooks,
    rows: dict[str, list[Any]],
    sink: ClickHouseSink | None = None,
) -> None:
    """Write what the books have, as the frame does; markets that are put away to ClickHouse too."""
    writes = books.take()
    for table, more in writes.rows.items():
        rows.setdefault(table, []).extend(more)
    if sink is not None and (away := writes.rows.get(COLD_MARKETS.name)):
        await sink.insert(COLD_MARKETS.name, away, uuid4().hex)
    believed = await read_watermark(redis, "wm")
    after = Watermark(believed.slot + 1 if believed else 1, 0, 0)
    await commit(redis, "wm", believed, after, writes.commands)
    books.written()


class ColdOf:
    """What is cold is among rows that were written."""

    def __init__(self, rows: dict[str, list[Any]]) -> None:
        self._rows = rows

    async def markets(self, mints: Sequence[str], slot: int) -> dict[str, bytes]:
        rows = [row for row in self._rows.get("cold_markets", ()) if row[0] in mints]
        before = sorted((row for row in rows if row[2] < slot), key=lambda row: row[2])
        return {mint: packed for mint, packed, *_ in before}

    async def metadata(self, mints: Sequence[str]) -> dict[str, Known]:
        return {}


async def opened(
    redis: Redis,
    rows: dict[str, list[Any]],
    partition: int = 0,
    cold_after_days: int = 2,
    cold: ColdRows | None = None,
    registry: Registry | None = None,
) -> MarketBooks:
    """Open books whose cold markets are among `rows`, or where `cold` reads them."""
    registry = registry or quiet_registry(redis)
    return await open_books(redis, partition, registry, cold or ColdOf(rows), cold_after_days)


async def run(
    redis: Redis,
    slots: Sequence[SlotBatch],
    *,
    flush: Callable[[], int],
    reopen: float = 0.0,
    partition: int = 0,
) -> dict[str, list[Any]]:
    """Run books over slots; `flush()` says how many slots go into each, `reopen` how often anew."""
    rng = random.Random(1)
    rows: dict[str, list[Any]] = {}
    books = await opened(redis, rows, partition)
    at = 0
    while at < len(slots):
        part = slots[at : at + flush()]
        at += len(part)
        await books.load(part)
        for batch in part:
            books.apply(batch)
        await write(redis, books, rows)
        if rng.random() < reopen:
            books = await opened(redis, rows, partition)
    return rows


def holders_of(tape: Tape, mint: str) -> dict[str, int]:
    """Naive: balances by owner, vaults and pools left out."""
    sums: dict[str, int] = defaultdict(int)
    for account, (owner, amount) in tape.balances[mint].items():
        if account not in tape.vaults[mint] and owner not in tape.pools[mint]:
            sums[owner] += amount
    return {owner: amount for owner, amount in sums.items() if amount}


async def dump(redis: Redis) -> dict[str, Any]:
    """Return all of Redis."""
    found: dict[str, Any] = {}
    for key in await redis.keys("*"):
        if key == b"wm":
            continue
        kind = (await redis.type(key)).decode()
        if kind == "hash":
            found[key.decode()] = await redis.hgetall(key)
        elif kind == "zset":
            found[key.decode()] = dict(await redis.zrange(key, 0, -1, withscores=True))
        else:
            assert kind == "string"
            found[key.decode()] = await redis.get(key)
    return found


@pytest.fixture
def lab() -> Any:
    """The tools above: conftest modules cannot be imported."""
    return SimpleNamespace(
        make_tape=make_tape,
        run=run,
        dump=dump,
        write=write,
        opened=opened,
        holders_of=holders_of,
        SUPPLY=SUPPLY,
        T0_MS=T0_MS,
    )
