"""What a running role reports: structured log lines on stderr and Prometheus metrics on loopback.

Metric names start with `soltape_<role>_`, base units are in the name (`_ms`, `_bytes`, `_slots`)
and counters end in `_total`. Labels have few values: a venue, an outcome, a topic; never a mint, a
wallet or a signature. Memory, CPU and open files come with prometheus_client's own collectors.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
from collections.abc import Callable
from io import TextIOBase
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any, Final, Literal
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import orjson
import structlog
from prometheus_client import make_wsgi_app
from structlog.typing import EventDict, Processor, WrappedLogger

from infra.credentials import HIDDEN, hide
from infra.hosts import Hosts
from infra.local.process import PortInUse
from infra.settings import Settings, SettingsError

MetricsRole = Literal[
    "ingest", "ingest_accounts", "agents", "books", "chain", "api", "gateway", "watch"
]
Lacking = Callable[[], dict[str, str]]  # what is not ready yet -> why

_SECRET_KEYS: Final = frozenset(
    {"token", "password", "secret", "authorization", "cookie", "api_key", "apikey", "x_api_key"}
)
_SECRET_ENDINGS: Final = ("_password", "_secret", "_api_key", "x_token", "auth_token")


def configure_logging(settings: Settings, role: str, stream: TextIOBase | None = None) -> None:
    """Send this process's log lines, those of libraries included, to stderr in one format.

    Libraries are heard from `warning` on, unless `log_level` is `debug`: their `info` is chatter.
    """

    def add_role(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event.setdefault("role", role)
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        add_role,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        hide_secrets,
    ]
    render: list[Processor]
    if settings.log_format == "json":
        render = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        render = [
            structlog.dev.ConsoleRenderer(
                colors=(stream or sys.stderr).isatty(),
                pad_event_to=0,
                exception_formatter=structlog.dev.plain_traceback,
            )
        ]
    level = getattr(logging, settings.log_level.upper())
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *render],
        )
    )
    logging.basicConfig(handlers=[handler], force=True)
    for package in ("infra", "pipeline", "schemas", "api", "stream_gateway"):
        logging.getLogger(package).setLevel(level)
    logging.getLogger().setLevel(level if level == logging.DEBUG else logging.WARNING)


def hide_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Replace the values of secret keys, and credentials inside addresses (structlog processor)."""
    for key, value in event.items():
        name = key.lower().replace("-", "_")
        if name in _SECRET_KEYS or name.endswith(_SECRET_ENDINGS):
            event[key] = HIDDEN
        elif isinstance(value, str):
            event[key] = hide(value)
    return event


def host_of(address: str) -> str:
    """Return the part of an address that is safe to show: providers put keys into the path."""
    parts = urlsplit(address)
    if not parts.netloc:
        return address
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def serve_metrics(settings: Settings, role: MetricsRole, lacking: Lacking | None = None) -> None:
    """Serve /metrics of this process in a thread of its own, and /ready where `lacking` is given.

    /ready answers 200 when nothing is lacking, else 503 and what is, by name. Raises PortInUse,
    which names the setting `METRICS_PORT_<ROLE>`, and SettingsError where this machine has no such
    address or does not grant the port.
    """
    setting = f"metrics_port_{role}"
    port: int = getattr(settings, setting)
    application = _application(make_wsgi_app(), Hosts(settings.metrics_host), lacking)
    try:
        server = _server(settings.metrics_host, port, application)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(settings.metrics_host, port, setting.upper()) from None
        raise SettingsError(
            f"METRICS_HOST={settings.metrics_host!r}, {setting.upper()}={port}: "
            f"/metrics cannot be served there ({error.strerror})"
        ) from None
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def _server(host: str, port: int, application: Any) -> WSGIServer:
    """Return a server, bound. prometheus_client's answers /ready with 200 until it has ours."""
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]

    class OfFamily(_Threads):
        address_family = family

    return make_server(str(address[0]), port, application, OfFamily, _Quiet)


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Log nothing."""


def _application(metrics: Any, hosts: Hosts, lacking: Lacking | None) -> Any:
    def app(environ: dict[str, Any], start_response: Any) -> Any:
        host = environ.get("HTTP_HOST", "")
        if host and not hosts.accepts(host):
            start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"/metrics answers to this machine's own names\n"]
        if lacking is None or environ["PATH_INFO"] != "/ready":
            return metrics(environ, start_response)
        missing = lacking()
        start_response(
            "503 Service Unavailable" if missing else "200 OK",
            [("Content-Type", "application/json")],
        )
        return [orjson.dumps({"ready": not missing, "lacking": missing})]

    return app
