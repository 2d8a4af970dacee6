"""One process that serves the application, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Generator
from typing import Final

import structlog
import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.http.protocol import bounded
from api.services import Services
from api.system.health import lacking
from infra import listening, memory
from infra.settings import Settings
from infra.telemetry import serve_metrics

log = structlog.get_logger(__name__)

BACKLOG: Final = 2_048
KEEP_ALIVE_S: Final = 75  # longer than proxies keep theirs: they, not we, end a connection
STOP_WITHIN_S: Final = 2  # for requests in flight
_READY_WITHIN_S: Final = 3.0
# Most of what a request makes is gone when it ends, so collections find little.
_GC_THRESHOLDS: Final = (50_000, 20, 50)


def serve(settings: Settings, demo_key: str | None = None) -> None:
    """Serve the API until a signal ends it.

    Raises PortInUse, which names the setting, and SettingsError where there is no such address.
    """
    listener = listen(settings)
    app = create_app(settings, demo_key)
    server = server_of(app, settings)
    logging.getLogger("uvicorn").setLevel(logging.ERROR)  # its warnings are callers' mistakes
    listening.allow_connections(settings.api_max_connections)
    serve_metrics(settings, "api", _Readiness(server, app.state.services).lacking)
    host, port = listener.getsockname()[:2]
    log.info("serving", address=f"http://{host}:{port}")
    with listener:
        run(server, listener)
    log.info("stopped")


def server_of(app: FastAPI, settings: Settings) -> _Server:
    """Return the server of an application, as the API is served."""
    config = uvicorn.Config(
        app,
        loop="uvloop",
        http=bounded(settings.api_max_connections),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_WITHIN_S,
    )
    return _Server(config)


def run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Run a server until a signal."""
    memory.settle(*_GC_THRESHOLDS)
    server.run(sockets=[listener])


def listen(settings: Settings) -> socket.socket:
    """Return the socket, bound; raises PortInUse, SettingsError."""
    return listening.listen(
        "api", settings.api_host, settings.api_port, reuse_port=settings.api_reuse_port
    )


class _Readiness:
    """What keeps the process from being sent requests, for the thread that serves /ready."""

    def __init__(self, server: _Server, services: Services) -> None:
        self._server = server
        self._system = services.system

    def lacking(self) -> dict[str, str]:
        """Return what is lacking, by name."""
        loop = self._server.loop
        if loop is None or not self._server.started:
            return {"api": "is starting"}
        if self._server.should_exit:
            return {"api": "is stopping"}
        looking = asyncio.run_coroutine_threadsafe(self._system.health(), loop)
        try:
            found = looking.result(_READY_WITHIN_S)
        except TimeoutError:
            return {"api": f"did not answer within {_READY_WITHIN_S:g} s"}
        return lacking(found["dependencies"])


class _Server(uvicorn.Server):
    """Uvicorn's server, which ends quietly: a signal that it has heeded is not raised again."""

    loop: asyncio.AbstractEventLoop | None = None

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Let SIGINT and SIGTERM end the server; a second SIGINT at once."""
        loop = self.loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)
