"""`soltape agents`: runs groups of Faust agents."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

import click
import structlog

from infra.kafka import topics
from infra.kafka.client import KafkaUnreachable
from infra.settings import Settings, load
from infra.telemetry import configure_logging, serve_metrics
from pipeline.agents import library_logs, live, worker
from pipeline.agents.context import Attach

log = structlog.get_logger(__name__)

GROUPS: Final[dict[str, Attach]] = {live.GROUP: live.attach}


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
      live   tape-live -> solana-dex-swaps, solana-token-creations, solana-slot-status:
             one Protobuf message an event, keyed by mint (by slot), within milliseconds

    A message of a lane that cannot be read goes to tape-undecoded with the reason, and the rest
    goes on. Delivery is at least once: after a crash events may come again, none is lost; a
    swap's identity is (signature, event_index).

    \b
    Examples:
      soltape agents                 every group in this process
      soltape agents live            this one; start it again elsewhere to share its partitions
      soltape tail solana-dex-swaps  see what comes out

    Each group is the consumer group soltape-<name> on KAFKA_BOOTSTRAP; a process that dies hands
    its partitions to the others within twice KAFKA_SESSION_TIMEOUT_S. Topics that are missing are
    created. Metrics are on METRICS_HOST:METRICS_PORT_AGENTS/metrics. Ctrl-C stops within three
    seconds; status 70 says that a group could not go on, and the log why.
    """
    settings = load()
    configure_logging(settings, "agents")
    library_logs.quieten()
    serve_metrics(settings, "agents")
    try:
        asyncio.run(_run(settings, groups))
    except (KafkaUnreachable, topics.TopicsWrong) as error:
        log.error("not started", cause=type(error).__name__, detail=str(error))
        sys.exit(1)


async def _run(settings: Settings, groups: tuple[str, ...]) -> None:
    log.info("starting", groups=", ".join(groups), kafka=settings.kafka_bootstrap)
    await topics.create(settings)
    await worker.run(settings, {name: GROUPS[name] for name in groups})
