"""`soltape agents`: runs groups of Faust agents."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final

import click
import faust
import structlog

from infra.kafka.client import confluent_producer
from infra.settings import load
from infra.telemetry import configure_logging, serve_metrics
from pipeline.agents import live
from pipeline.agents.app import create_app
from pipeline.sinks.kafka import KafkaSink

log = structlog.get_logger(__name__)

Attach = Callable[[faust.App, KafkaSink, Callable[[str], None]], None]
GROUPS: Final[dict[str, Attach]] = {"live": live.attach}
_EXIT_LOST: Final = 70  # EX_SOFTWARE: stop before a commit that would lose events


@click.command()
@click.argument("groups", nargs=-1, type=click.Choice(sorted(GROUPS)))
def agents(groups: tuple[str, ...]) -> None:
    """Run agents; GROUPS are their names, without any all of them run.

    \b
    live    events of the live lane -> solana-dex-swaps, solana-token-creations,
            solana-slot-status: one message an event, keyed by mint

    Start more processes of a group to share its partitions. Stop with Ctrl-C.
    """
    settings = load()
    configure_logging(settings, "agents")
    serve_metrics(settings, "agents")
    sink = KafkaSink(confluent_producer(settings))
    apps = []
    for group in groups or tuple(GROUPS):
        app = create_app(settings, group)
        GROUPS[group](app, sink, _die)
        apps.append(app)
        log.info("starting", group=group, broker=settings.kafka_bootstrap)
    worker = faust.Worker(*apps, override_logging=False, redirect_stdouts=False, quiet=True)
    try:
        worker.execute_from_commandline()  # stops on SIGINT and SIGTERM, and ends the process
    finally:
        sink.close()
        log.info("stopped")


def _die(reason: str) -> None:
    log.error("stopping before a commit", reason=reason)
    os._exit(_EXIT_LOST)
