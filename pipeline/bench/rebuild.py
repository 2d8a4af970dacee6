"""`soltape bench rebuild`: how long a Redis that lost its books takes to be filled again."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any, Final

import click
from aiokafka import TopicPartition
from redis.asyncio import Redis

from infra.bench import progress, report
from infra.bench.stores import embedded_stores
from infra.clickhouse.client import connect as connect_clickhouse
from infra.redis.client import ask
from infra.redis.client import connect as connect_redis
from infra.settings import Settings
from pipeline.agents.settled import restore
from pipeline.agents.settled.checkpoints import Checkpoints
from pipeline.agents.settled.partition_work import PartitionWork
from pipeline.sinks.clickhouse import ClickHouseSink
from pipeline.sinks.redis import Watermark
from schemas.positions import LOT, Position, WalletDay, pack_position, pack_wallet_day
from schemas.redis_keys import POSITIONS, TOP_OF_MINT, WALLET_TOTALS, tag_of_wallets
from schemas.solana.base58 import encode
from schemas.topics import SETTLED_BY_WALLET

GROUP: Final = "pnl"
PARTITION: Final = 0
POSITIONS_PER_WALLET: Final = 4
MINTS: Final = 20_000
COMMANDS_AT_ONCE: Final = 5_000
MARK: Final = Watermark(341_204_118, 12_345, 1_790_000_000_000)


async def fill(redis: Redis, positions: int) -> None:
    """Write that many positions of one open lot, with what else Redis has of their wallets."""
    random = Random(1)  # noqa: S311 - figures to be had again
    tag = tag_of_wallets(PARTITION)
    mints = [random.randbytes(32) for _ in range(MINTS)]
    names = [encode(mint) for mint in mints]
    commands: list[tuple[Any, ...]] = []
    for _ in range(positions // POSITIONS_PER_WALLET):
        wallet_raw = random.randbytes(32)
        wallet = encode(wallet_raw)
        fields: list[bytes] = []
        for place in random.sample(range(MINTS), POSITIONS_PER_WALLET):
            held, lamports = random.randrange(2**40), random.randrange(10**11)
            lot = LOT.pack(held, lamports, lamports // 6, MARK.slot, MARK.time_ms, 7, 1)
            position = Position(held_raw=held, held_known_raw=held, bought_raw=held, lots_opened=1)
            fields += (mints[place], pack_position(position, lot))
            commands.append(("ZADD", TOP_OF_MINT.make(tag=tag, mint=names[place]), 0, wallet_raw))
        commands.append(("HSET", POSITIONS.make(tag=tag, wallet=wallet), *fields))
        day = pack_wallet_day(WalletDay(buys=POSITIONS_PER_WALLET))
        commands.append(("HSET", WALLET_TOTALS.make(tag=tag), wallet_raw, day))
        if len(commands) >= COMMANDS_AT_ONCE:
            await ask(redis, commands)
            commands = []
    if commands:
        await ask(redis, commands)


async def measure(settings: Settings, positions: int) -> dict[str, Any]:
    """Fill, write a checkpoint, empty Redis, restore; raises AssertionError where one differs."""
    redis, sink = connect_redis(settings), ClickHouseSink(settings)
    client = connect_clickhouse(settings)
    books = restore.Books.of(GROUP, SETTLED_BY_WALLET, PARTITION)
    no_log: Any = None
    work = PartitionWork(
        TopicPartition(SETTLED_BY_WALLET.name, PARTITION),
        books.watermark,
        books.changed,
        consumer=no_log,
        made_room=lambda: None,
        first_from=no_log,
        none_between=no_log,
    )
    checkpoints = Checkpoints(
        GROUP, redis, sink, 3_600, asyncio.Lock(), lambda: [work], SETTLED_BY_WALLET
    )
    progress(f"filling Redis with {positions:,} positions")
    await fill(redis, positions)
    mark = [part for pair in MARK._asdict().items() for part in pair]
    await redis.hset(books.watermark, items=mark)
    work.written = MARK
    size, used = await redis.dbsize(), (await redis.info("memory"))["used_memory"]
    progress("writing a checkpoint of all of it")
    begun = time.perf_counter()
    assert await checkpoints.take(work) == MARK.slot
    checkpoint_s = time.perf_counter() - begun
    await redis.flushdb()
    begun = time.perf_counter()
    found = await asyncio.to_thread(restore.checkpoint_of, client, books)
    assert found == MARK
    claimed = await restore.claim(redis, books)
    values = await restore.restore(
        redis, client, books, claimed, lambda so_far: progress(f"{so_far:,}")
    )
    await restore.finish(redis, books, claimed, found, 0)
    rebuild_s = time.perf_counter() - begun
    assert abs(await redis.dbsize() - size) <= 1  # what is about checkpoints
    stored = client.query(
        "SELECT sum(bytes_on_disk) FROM system.parts WHERE database = currentDatabase() "
        "AND table = 'book_checkpoints' AND active"
    ).result_rows[0][0]
    await redis.aclose()
    await sink.close()
    client.close()
    return {
        "rebuild_s": rebuild_s,
        "positions": positions,
        "values": values,
        "whole_checkpoint_s_per_million_positions": round(checkpoint_s / positions * 1e6, 1),
        "clickhouse_bytes_per_position": round(stored / positions, 1),
        "redis_bytes_per_position": round(used / positions, 1),
    }


@click.command()
@click.option("--quick", is_flag=True, help="50,000 positions: rougher figures within a minute.")
@click.option("--positions", type=click.IntRange(1_000), help="How many.  [default: 500000]")
def rebuild(quick: bool, positions: int | None) -> None:
    """Measure `soltape rebuild`: seconds per million positions, from ClickHouse to Redis.

    Positions of one open lot, four a wallet, with the figures and leaderboards that go with them,
    are written to an embedded Valkey; a checkpoint of all of it goes to an embedded ClickHouse,
    Redis is emptied and filled again. One partition, one process: partitions are independent.
    """
    wanted = positions or (50_000 if quick else 500_000)
    with embedded_stores() as settings:
        figures = asyncio.run(measure(settings, wanted))
    value = round(figures.pop("rebuild_s") / wanted * 1e6, 1)
    report("rebuild", value, "s per million positions", **figures)
