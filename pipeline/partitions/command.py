"""`soltape partitions`: how many partitions the settled lanes have, and more of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Final

import click
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException

from infra.bench import progress
from infra.clickhouse.client import ClickHouseError, ClickHouseUnavailable, check, connect
from infra.clickhouse.migrations import MigrationError, migrate
from infra.kafka import topics
from infra.kafka.client import KafkaUnreachable
from infra.kafka.topics import TopicsWrong
from infra.local.folder_lock import FolderInUse, hold
from infra.redis.client import RedisError
from infra.redis.client import connect as connect_redis
from infra.settings import Settings, load
from pipeline.agents.settled.restore import Overtaken
from pipeline.ingest.lane_producer import PublishFailed
from pipeline.partitions import raising
from pipeline.partitions.lanes import LanesNotReady
from pipeline.partitions.raising import CannotRaise
from pipeline.partitions.refile import CannotSplit
from pipeline.sinks.clickhouse import ClickHouseSink, RowsRefused
from schemas.codec import CodecError
from schemas.topics import SETTLED_COUNTS

UNTIL_S: Final = 3_600  # an answer of ClickHouse: it rewrites parts
REACHED_WITHIN_S: Final = 10.0
_FAILURES: Final = (
    *(CannotRaise, LanesNotReady, CannotSplit, Overtaken, PublishFailed, RowsRefused, CodecError),
    *(ClickHouseUnavailable, ClickHouseError, MigrationError, RedisError, KafkaUnreachable),
    *(KafkaError, TopicsWrong, KafkaException, FolderInUse, TimeoutError, OSError),
)


@click.group()
def partitions() -> None:
    """Look at and raise the partitions of the settled lanes.

    \b
    A group of agents shares its work among at most as many processes as there are partitions.
    SETTLED_PARTITIONS has their number, 8 at first; a role that finds another one on the broker,
    in Redis or in ClickHouse refuses to start.
    """


@partitions.command()
def show() -> None:
    """Print how many partitions the tape has."""
    settings = load()
    try:
        found = asyncio.run(topics.settled_partitions(settings))
    except _FAILURES as error:
        _fail("not known", error)
    click.echo("no tape yet" if found is None else str(found))


@partitions.command("raise")
@click.argument("count", type=click.Choice([str(each) for each in SETTLED_COUNTS[1:]]))
@click.option("--dry-run", is_flag=True, help="Only say whether it can be done now.")
def raise_(count: str, dry_run: bool) -> None:
    """Give the settled lanes COUNT partitions, without losing anything.

    \b
      1. stop ingest (SIGTERM), its standby first
      2. wait until `soltape status` shows no lag, then stop the agents, the API and the gateway
      3. soltape partitions raise 16
      4. set SETTLED_PARTITIONS=16 for every role, and start them

    The books of each partition are split in ClickHouse; then the lanes of the new count begin with
    the last slots of the old ones, and Redis is filled anew. Redis needs 8 MiB more for each
    new partition, ClickHouse the space of another checkpoint (table book_checkpoints).

    It may be interrupted at any moment. Until it says that there are COUNT partitions the roles can
    be started as they were, and nothing has happened; from then on it has to be run to its end.
    Running it again goes on where that is needed. Run one at a time.

    There is no way back to fewer partitions. `soltape rebuild --from-log` needs --accept-loss
    from then on: the log of the new partitions begins at the raise.
    """
    settings = load()
    try:
        with hold(settings.soltape_data / "partitions" / "lock"):
            asyncio.run(_raise(settings, int(count), dry_run=dry_run))
    except _FAILURES as error:
        _fail("not raised", error)


async def _raise(settings: Settings, count: int, *, dry_run: bool) -> None:
    await check(settings, REACHED_WITHIN_S)
    if not dry_run:
        await asyncio.to_thread(migrate, settings)
    async with _stores(settings) as stores:
        found, slot, is_done = await raising.plan(stores, count)
        if is_done:
            click.echo(f"the settled lanes have {count} partitions")
            return
        if dry_run:
            at = "raised, to be completed" if slot is None else f"can be raised at slot {slot}"
            click.echo(f"{found} partitions: {at}")
            return
        if slot is not None:
            await raising.prepare(stores, found, count, slot, progress)
        await raising.complete(stores, count, progress)
    click.echo(
        f"the settled lanes have {count} partitions: set SETTLED_PARTITIONS={count} for every "
        "role, and start them"
    )


@asynccontextmanager
async def _stores(settings: Settings) -> AsyncIterator[raising.Stores]:
    redis, sink = connect_redis(settings), ClickHouseSink(settings)
    client = await asyncio.to_thread(connect, settings, answer_timeout_s=UNTIL_S)
    try:
        with closing(client):
            yield raising.Stores(settings, redis, client, sink)
    finally:
        await redis.aclose()
        await sink.close()


def _fail(what: str, error: Exception) -> None:
    click.echo(f"soltape: {what}: {error or type(error).__name__}", err=True)
    sys.exit(1)
