"""`soltape agents`: runs groups of Faust agents."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from typing import Final

import click
import structlog
import uvloop
from aiokafka.errors import KafkaError

from infra import memory
from infra.clickhouse.client import ClickHouseError
from infra.clickhouse.migrations import MigrationError, migrate
from infra.kafka import topics
from infra.kafka.client import KafkaUnreachable
from infra.redis import client as redis_client
from infra.redis import partitions
from infra.redis.client import RedisError
from infra.settings import Settings, load
from infra.telemetry import configure_logging, serve_metrics
from pipeline.agents import library_logs, store, worker
from pipeline.agents.accounts import agent as accounts
from pipeline.agents.context import Attach
from pipeline.agents.live import agent as live
from pipeline.agents.market import agent as market
from pipeline.agents.pnl import agent as pnl
from pipeline.agents.settled.restore import require_checkpoints

log = structlog.get_logger(__name__)

# Collections by generation. Most of what a group makes is in its books for a while: at Python's
# 700 new objects the collector walked it all the time, for a third of what a swap cost. Next to
# nothing of it is garbage: many times few, so that no pause is long, and seldom all.
GC_THRESHOLDS: Final = (20_000, 10, 100)

GROUPS: Final[dict[str, Attach]] = {
    module.GROUP: module.attach for module in (live, pnl, market, store, accounts)
}


def _known(_: click.Context, __: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    if unknown := sorted({*names} - {*GROUPS}):
        raise click.BadParameter(
            f"no group is called {', '.join(unknown)}; there are: {', '.join(sorted(GROUPS))}"
        )
    return names or tuple(GROUPS)


@click.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]...", callback=_known)
def agents(groups: tuple[str, ...]) -> None:
    """Turn the internal lanes into what users read; GROUPs are agents, all of them if
    none is named.

    \b
      live   tape-live -> solana-dex-swaps, solana-token-creations, solana-token-prices,
             solana-slot-status: Protobuf, keyed by mint (by slot), within milliseconds;
             last prices and live:* streams of JSON frames in Redis
      pnl    tape-settled-by-wallet -> FIFO lots, realized PnL, days and leaderboards
      market tape-settled-by-mint -> candles, 24 h figures, trending, holders, tokens
      store  tape-settled-by-mint, tape-gaps -> the rows of the tape in ClickHouse
      accounts
             tape-settled-accounts -> the last version of each account, what finds it

    A message of a lane that cannot be read goes to tape-undecoded with the reason, and the rest
    goes on. `live` delivers at least once: after a crash events may come again, none is lost; a
    swap's identity is (signature, event_index). The others keep their state in Redis beside the
    last slot applied, and apply each slot once. While Redis or ClickHouse is away they wait;
    `live` goes on, and writes to Redis what it has held when it is back.

    \b
    Examples:
      soltape agents                 every group in this process
      soltape agents pnl market      these; start them again elsewhere to share partitions
      soltape tail solana-dex-swaps  see what comes out

    Each group is the consumer group soltape-<name> on KAFKA_BOOTSTRAP; a process that dies hands
    its partitions to the others within twice KAFKA_SESSION_TIMEOUT_S. Topics that are missing are
    created, and ClickHouse is brought up to date. Metrics are on METRICS_HOST:METRICS_PORT_AGENTS,
    without `live` on METRICS_PORT_BOOKS: /metrics, and /ready, which answers 200 once all groups
    have caught up. Ctrl-C stops within three seconds; status 70 says that a group could not go
    on, and the log why.
    """
    memory.settle(*GC_THRESHOLDS)
    settings = load()
    configure_logging(settings, "agents")
    library_logs.quieten()
    readiness = worker.Readiness(groups)
    serve_metrics(settings, "agents" if live.GROUP in groups else "books", readiness.lacking)
    try:
        uvloop.run(_run(settings, groups, readiness))
    except (
        *(KafkaUnreachable, KafkaError, topics.TopicsWrong, partitions.PartitionsWrong),
        *(MigrationError, ClickHouseError, TimeoutError),
    ) as error:
        log.error("not started", cause=type(error).__name__, detail=str(error))
        sys.exit(1)


async def _run(settings: Settings, groups: tuple[str, ...], readiness: worker.Readiness) -> None:
    log.info("starting", groups=", ".join(groups), kafka=settings.kafka_bootstrap)
    await topics.create(settings)
    if set(groups) - {live.GROUP}:
        await asyncio.to_thread(migrate, settings)
        await asyncio.to_thread(require_checkpoints, settings)
    redis = redis_client.connect(settings, retries=0)
    with suppress(RedisError, OSError, TimeoutError):  # groups wait for a Redis that is away
        await partitions.require(partial(redis_client.ask, redis), claim=True)
    await redis.aclose()
    await worker.run(settings, {name: GROUPS[name] for name in groups}, readiness)
