"""The gateway as a process: its parts put together, run until a signal, ended in order."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import structlog
import uvloop

from api.access import register
from infra import listening, memory
from infra.hosts import Hosts
from infra.proxies import Proxies
from infra.redis import partitions
from infra.redis.asks import Pipelined, connect_pipelined
from infra.redis.client import connect
from infra.settings import Settings
from infra.telemetry import serve_metrics
from schemas import channels
from stream_gateway import messages
from stream_gateway.admission import Admission
from stream_gateway.batches import Batch
from stream_gateway.connection import Connection
from stream_gateway.fanout import Fanout
from stream_gateway.limits import Limits
from stream_gateway.metrics import DELAY, Traffic
from stream_gateway.quiet import QUIET, QUIET_TEXT, PipelineWatch
from stream_gateway.recent import Recent
from stream_gateway.replay import Replay
from stream_gateway.server import Server, listen
from stream_gateway.session import Sessions
from stream_gateway.snapshots import Snapshots
from stream_gateway.source import AWAY, AWAY_TEXT, Source
from stream_gateway.tracking import Tracking
from stream_gateway.vocabulary import Vocabulary

log = structlog.get_logger(__name__)

# Most of what a delivery makes is gone when it ends, so collections find little.
_GC_THRESHOLDS: Final = (50_000, 20, 50)
_OPEN_WITHIN_S: Final = 5.0
_STATUS: Final = channels.STATUS
_DELAYS: Final = {channel: DELAY.labels(channel.channel) for channel in channels.ALL}


def serve(settings: Settings) -> None:
    """Serve WebSocket clients until asked to stop; raises PortInUse, SettingsError."""
    with listen(settings) as listener:
        limits = Limits.of(settings)
        # Without a file for the next connection uvloop closes the listener, for good.
        listening.allow_connections(limits.connections + limits.handshakes + limits.lingering)
        gateway = Gateway(settings)
        serve_metrics(settings, "gateway", gateway.lacking)
        host, port = listener.getsockname()[:2]
        log.info("serving", address=f"ws://{host}:{port}/ws")
        memory.settle(*_GC_THRESHOLDS)
        uvloop.run(gateway.run(listener))
    log.info("stopped")


class Gateway:
    """One process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._traffic = Traffic()
        self._traffic.register()
        self._parts: Parts | None = None
        self._is_stopping = False

    async def run(self, listener: socket.socket) -> None:
        """Serve until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        settings = self._settings
        streams = connect(settings, retries=0)
        store = connect_pipelined(settings)
        keys = register.connect(settings)
        try:
            await self._run(listener, stop, Parts(settings, streams, store, keys, self._traffic))
        finally:
            await streams.aclose()
            await store.aclose()
            await keys.aclose()

    def lacking(self) -> dict[str, str]:
        """Return what keeps clients from being sent here; for the thread that serves /ready."""
        parts = self._parts
        if self._is_stopping:
            return {"gateway": "is stopping"}
        if parts is None or not parts.server.is_serving:
            return {"gateway": "is starting"}
        source = parts.source
        if source.is_away:
            return {"redis": "does not answer"}
        if not source.ready.is_set():
            return {"gateway": "has not read the streams yet"}
        return {}

    async def _run(self, listener: socket.socket, stop: asyncio.Event, parts: Parts) -> None:
        self._parts = parts
        running = [
            asyncio.create_task(each, name=name)
            for name, each in {**parts.run(), "server": _open(listener, parts)}.items()
        ]
        stopping = asyncio.create_task(stop.wait())
        try:
            ended, _ = await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
            for task in ended - {stopping}:
                log.error("a part ended", part=task.get_name())
                await task  # raises what ended it
        finally:
            self._is_stopping = True
            await parts.server.stop()
            for task in (*running, stopping):
                task.cancel()
            await asyncio.gather(*running, stopping, return_exceptions=True)
            await parts.admission.aclose()


async def _open(listener: socket.socket, parts: Parts) -> None:
    """Serve clients once the source is ready, or after some seconds, to answer that it is not.

    So a process that waits for the port, as `soltape up` does, can connect once it is open.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_OPEN_WITHIN_S):
            await parts.source.ready.wait()
    await parts.server.serve(listener)


class Parts:
    """The parts of a gateway, and what one passes to another."""

    def __init__(
        self, settings: Settings, streams: Any, store: Pipelined, keys: Pipelined, traffic: Traffic
    ) -> None:
        self._store = store
        self._fanout = Fanout()
        self._vocabulary = Vocabulary(store)
        self._watch = PipelineWatch(self._notice)
        self.source = Source(
            streams,
            publish=self._publish,
            gap=self._fanout.gap,
            notice=self._notice,
            recent=Recent(),
        )
        replay = Replay(self.source, self._fanout)
        self._tracking = Tracking(
            store,
            settings,
            lambda: sessions.watched(),
            lambda state: sessions.announce(state),
        )
        sessions = Sessions(
            self._fanout,
            Snapshots(store),
            lambda: self._vocabulary.slugs,
            replay.catch_up,
            self._tracking.follow,
        )
        self.server = Server(
            Limits.of(settings),
            Hosts(settings.gateway_host, settings.allowed_hosts),
            Proxies(settings.trusted_proxies),
            traffic,
            is_ready=self.source.ready.is_set,
            entered=self._greet,
            hear=sessions.hear,
            left=sessions.left,
        )
        self.admission = Admission(
            keys, self.server.revoked, self.server.replanned, self.server.suspended
        )
        self.server.admission = self.admission

    def run(self) -> dict[str, Coroutine[Any, Any, Any]]:
        """Return what is to run, by name."""
        return {
            "source": self.source.run(),
            "vocabulary": self._vocabulary.run(),
            "tracking": self._tracking.run(),
            "watch": self._watch.run(lambda: self.source.is_away),
            "admission": self.admission.run(),
            "partitions": partitions.watch(self._store.ask),
        }

    def _publish(self, batch: Batch) -> None:
        self._fanout.publish(batch)
        if batch.channel is _STATUS:
            self._watch.heard()
        delay_ms = time.time() * 1000 - int(batch.entry_id.partition("-")[0])
        _DELAYS[batch.channel].observe(max(0.0, delay_ms))

    def _notice(self, code: str, text: str) -> None:
        self.server.announce(messages.notice(code, text))

    def _greet(self, connection: Connection) -> None:
        """Send a new connection the notices that are in effect."""
        if self.source.is_away:
            connection.send(messages.notice(AWAY, AWAY_TEXT))
        if self._watch.is_quiet:
            connection.send(messages.notice(QUIET, QUIET_TEXT))
