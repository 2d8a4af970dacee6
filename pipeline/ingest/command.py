"""`soltape ingest`: run the ingest role."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import click
import structlog
import uvloop
from aiokafka.errors import KafkaError

from infra import memory
from infra import settings as soltape_settings
from infra.kafka.client import KafkaUnreachable
from infra.kafka.topics import TopicsWrong
from infra.local.process import PortInUse
from infra.settings import Settings
from infra.telemetry import configure_logging, host_of, serve_metrics
from pipeline.ingest import service
from pipeline.ingest.accounts import service as accounts_service
from pipeline.ingest.accounts.publisher import LANE as ACCOUNTS_LANE
from pipeline.ingest.lane_producer import PublishFailed
from pipeline.ingest.log_tail import LogUnreadable
from pipeline.ingest.publisher import LANE

log = structlog.get_logger(__name__)


@click.group(invoke_without_command=True)
@click.pass_context
def ingest(context: click.Context) -> None:
    """Decode a Yellowstone stream into Kafka.

    Subscribes to GEYSER_ENDPOINT at commitment processed, decodes the transactions of all
    known venues, and writes to KAFKA_BOOTSTRAP:

    \b
      tape-live               events at once, and what becomes of each slot
      tape-settled-by-mint    confirmed slots in order, each once
      tape-settled-by-wallet  the same, swaps only
      tape-undecoded          what no decoder could read, and why
      tape-gaps               slots that could not be had

    Topics that are missing are created. There is no state to keep: after a stop or a crash,
    ingest reads the end of the settled topics and resumes with the next slot, from the node's
    replay buffer or by getBlock from RPC_ENDPOINT.

    One ingest per Kafka cluster writes; another one that is started is a warm standby. It takes
    over when the first has been silent for INGEST_TAKEOVER_S, and Kafka refuses from then on
    what the first may still send; that one becomes the standby.

    Metrics are on METRICS_HOST:METRICS_PORT_INGEST/metrics; /ready beside it answers 503 while
    this one is a standby. Ctrl-C stops within five seconds.

    `soltape ingest accounts` writes the lane of accounts, with streams of its own.
    """
    if context.invoked_subcommand is not None:
        return
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what it would say, the client logs
    memory.settle()
    settings = soltape_settings.load()
    configure_logging(settings, "ingest")
    _serve(settings, "ingest", LANE, service.run)


@ingest.command()
def accounts() -> None:
    """Write what the accounts of the chain hold, slot by slot, into Kafka.

    Subscribes to GEYSER_ENDPOINT at commitment confirmed for the accounts that the protocol files
    (schemas/protocols) name, and writes to KAFKA_BOOTSTRAP:

    \b
      tape-settled-accounts   accounts at the end of confirmed slots, in order, each slot once

    Token accounts and mints are kept for wallets and mints that somebody asked the API for; these
    requests and what is tracked are in REDIS_URL. What the stream does not have is asked of
    RPC_ENDPOINT: a wallet that is new, all accounts of a program (`soltape accounts bootstrap`),
    what changed in slots that were missed.

    A node that allows few filters needs ACCOUNT_FILTERS=owner, or more connections
    (ACCOUNT_STREAMS). One process a Kafka cluster writes, another is a warm standby.

    Metrics are on METRICS_HOST:METRICS_PORT_INGEST_ACCOUNTS/metrics. Ctrl-C stops within five
    seconds; a restart goes on where the log ends.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    memory.settle()
    settings = soltape_settings.load()
    configure_logging(settings, "ingest_accounts")
    _serve(settings, "ingest_accounts", ACCOUNTS_LANE, accounts_service.run)


def _serve(
    settings: Settings,
    role: Literal["ingest", "ingest_accounts"],
    lane: str,
    run: Callable[[Settings, asyncio.Event, dict[str, str]], Coroutine[Any, Any, None]],
) -> None:
    try:
        lacking = {lane: "starting"}
        serve_metrics(settings, role, lambda: dict(lacking))
        uvloop.run(_run(settings, lacking, run))
    except (
        *(KafkaUnreachable, KafkaError, TopicsWrong, LogUnreadable),
        *(PublishFailed, PortInUse, TimeoutError),
    ) as error:
        log.error("stopped by a failure", cause=type(error).__name__, detail=str(error))
        sys.exit(1)


async def _run(
    settings: Settings,
    lacking: dict[str, str],
    run: Callable[[Settings, asyncio.Event, dict[str, str]], Coroutine[Any, Any, None]],
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    log.info(
        "starting",
        geyser=host_of(settings.geyser_endpoint),
        kafka=settings.kafka_bootstrap,
        rpc=host_of(settings.rpc_endpoint) if settings.rpc_endpoint else None,
    )
    await run(settings, stop, lacking)
