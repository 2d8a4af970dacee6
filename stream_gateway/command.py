"""`soltape gateway`: serves the live streams to WebSocket clients."""

from __future__ import annotations

import sys

import click
import structlog

from infra.redis.partitions import PartitionsWrong
from infra.settings import load
from infra.telemetry import configure_logging
from stream_gateway.app import serve

log = structlog.get_logger(__name__)


@click.command()
def gateway() -> None:
    """Serve live swaps, creations, prices, slots and alerts over WebSocket, until Ctrl-C.

    Events come from the Redis Streams that the agent `live` and `soltape watch` write: `soltape up`
    runs all of it.
    A connection wants a key, as ?api_key= or in the header x-api-key: `soltape keys create` makes
    one, and `soltape up` leaves one in SOLTAPE_DATA/demo-key.

    \b
      /ws                  channels swaps, creations, prices, status, positions
      /ws/trending-pairs   the trending list of launch platforms
      /health/live         200 while the process lives; no key, no WebSocket

    \b
    Examples:
      soltape gateway
      GATEWAY_PORT=8080 soltape gateway

    \b
    What to send, as JSON:
      {"action": "subscribe", "channel": "swaps", "dex": "pump-swap"}
      {"action": "ping"}

    It listens on GATEWAY_HOST:GATEWAY_PORT. One process uses one core: start more with
    GATEWAY_REUSE_PORT=true and a METRICS_PORT_GATEWAY of its own each, and the system spreads
    connections over them; a key's connections are counted over all of them. Metrics are on
    METRICS_HOST:METRICS_PORT_GATEWAY: /metrics, and /ready, which answers 200 while Redis does.
    Ctrl-C closes all connections with 1001, which asks clients to connect again, and ends it
    within three seconds. stream_gateway/PROTOCOL.md describes all messages.
    """
    settings = load()
    configure_logging(settings, "gateway")
    try:
        serve(settings)
    except PartitionsWrong as error:
        log.error("stopped", cause=type(error).__name__, detail=str(error))
        sys.exit(1)
