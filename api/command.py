"""`soltape api`: serves the REST API."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
import structlog
from redis.exceptions import RedisError

from api.access import demo, register
from api.server import serve
from infra.redis import partitions
from infra.redis.client import ask, connect
from infra.settings import Settings, load
from infra.telemetry import configure_logging

log = structlog.get_logger(__name__)


@click.command()
@click.option(
    "--demo-key",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Make a key for trying things out, and leave it in this file. `soltape keys link` then "
    "lets a browser use it.",
)
def api(demo_key: Path | None) -> None:
    """Serve the REST API, until Ctrl-C.

    Answers come from Redis and ClickHouse, which the agents keep: `soltape up` runs all of it.
    Every path below /api/ wants a key in the header x-api-key: `soltape keys create` makes one,
    and `soltape up` leaves one in SOLTAPE_DATA/demo-key. /docs describes all paths, / is a page
    to look at what happens (API_DASHBOARD=false: none); both work without the Internet.

    \b
    Examples:
      soltape api
      API_PORT=8080 soltape api
      curl localhost:8000/api/health
      sed 's/^/x-api-key: /' .soltape/demo-key | curl -H @- \\
        localhost:8000/api/tokens/So11111111111111111111111111111111111111112/price

    It listens on API_HOST:API_PORT. One process uses one core: start more with API_REUSE_PORT=true
    and a METRICS_PORT_API of its own each, and the system spreads connections over them. Metrics
    are on METRICS_HOST:METRICS_PORT_API: /metrics, and /ready, which answers 200 while Redis and
    ClickHouse do. Ctrl-C ends it once the requests in flight are answered, within three seconds.
    """
    settings = load()
    configure_logging(settings, "api")
    try:
        asyncio.run(_require_partitions(settings))
    except partitions.PartitionsWrong as error:
        log.error("not started", cause=type(error).__name__, detail=str(error))
        sys.exit(1)
    text = asyncio.run(_leave_key(settings, demo_key)) if demo_key is not None else None
    serve(settings, text)


async def _require_partitions(settings: Settings) -> None:
    redis = connect(settings, retries=0)
    try:
        with suppress(RedisError, OSError, TimeoutError):  # served all the same, without answers
            await partitions.require(partial(ask, redis))
    finally:
        await redis.aclose()


async def _leave_key(settings: Settings, file: Path) -> str | None:
    """Return the demo key, made if need be; without it everything else serves all the same."""
    redis = register.connect(settings)
    try:
        return await demo.ensure(redis, file)
    except (RedisError, OSError, demo.DemoKeyUnusable) as error:
        log.warning("there is no demo key", file=str(file), reason=str(error))
        return None
    finally:
        await redis.aclose()
