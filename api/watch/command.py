"""`soltape watch`: watches tracked wallets."""

from __future__ import annotations

import asyncio
import signal
import sys

import click
import structlog
import uvloop

from api.watch import service
from infra import memory
from infra.local.process import PortInUse
from infra.redis import partitions
from infra.settings import Settings, load
from infra.telemetry import configure_logging, serve_metrics

log = structlog.get_logger(__name__)


@click.command()
def watch() -> None:
    """Watch tracked wallets, until Ctrl-C: net worth by the hour, and alerts of positions.

    Wallets are those that `soltape ingest accounts` follows because somebody asked for them, the
    last asked first, WATCH_WALLETS_MAX at most. Each is read every WATCH_EVERY_S or later, at most
    WATCH_WALLETS_PER_S of them a second, as the API's /analyze reads it. It writes

    \b
      net_worth_snapshots    in ClickHouse: a row an hour, kept for 400 days; the API's /networth
      {live}:positions       in Redis: alerts where the health of a loan falls, liquidity leaves its
                             range, a lock ends; the gateway's channel `positions`

    One process watches, by a lease in Redis; others are standbys, which begin within eight seconds
    of its end. An alert is written in one step with what it was found from, so none is lost or
    comes twice when a process is killed.

    Metrics are on METRICS_HOST:METRICS_PORT_WATCH: /metrics, and /ready, which answers 503 while
    this one is a standby. Ctrl-C stops within three seconds.
    """
    settings = load()
    configure_logging(settings, "watch")
    memory.settle()
    try:
        lacking = {"lease": "starting"}
        serve_metrics(settings, "watch", lambda: dict(lacking))
        uvloop.run(_run(settings, lacking))
    except (PortInUse, partitions.PartitionsWrong) as error:
        log.error("stopped", cause=type(error).__name__, detail=str(error))
        sys.exit(1)


async def _run(settings: Settings, lacking: dict[str, str]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await service.run(settings, stop, lacking)
