"""The broker's socket: length-prefixed frames in, answers out in the order of their requests."""

from __future__ import annotations

import asyncio
import io
import signal
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from struct import Struct
from typing import Any, Final

import structlog
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from infra.kafka.broker import frames
from infra.kafka.broker.answers import Client
from infra.kafka.broker.api import API_VERSIONS, FETCH, PRODUCE, VERSIONS, Broker
from infra.kafka.broker.login import AUTHENTICATE, HANDSHAKE, Login, User
from infra.kafka.broker.store import Store

log = structlog.get_logger(__name__)

MAX_FRAME: Final = 64 << 20
MAX_LOGIN_FRAME: Final = 64 << 10  # of somebody we do not know yet
LOGIN_S: Final = 10.0  # for all of a login
MAX_STRANGERS: Final = 256  # connections without a login; beyond it the oldest ends
LINGER_S: Final = 1.0  # for a client to read the last answer
TICK_S: Final = 0.1
RETAIN_S: Final = 10.0
_SIZE: Final = Struct(">i")


async def serve(
    host: str,
    port: int,
    folder: Path,
    max_partition_bytes: int,
    cluster: str,
    user: User | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT: that user alone, or everybody where there is none."""
    store = Store(folder, max_partition_bytes)
    broker = Broker(store, host, port, cluster)
    connections: dict[asyncio.Task[None], Login] = {}

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        login = Login(user)
        task = asyncio.create_task(_Connection(broker, login, reader, writer).run())
        connections[task] = login
        task.add_done_callback(connections.pop)
        strangers = [task for task, login in connections.items() if not login.done]
        if len(strangers) > MAX_STRANGERS:
            strangers[0].cancel()

    server = await asyncio.start_server(connected, host, port, limit=1 << 20)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, stopping.set)
    log.info("broker serves", address=f"{host}:{port}", topics=len(store.shapes))
    clock = asyncio.create_task(_clock(broker))
    await stopping.wait()
    server.close()
    for task in (clock, *connections):
        task.cancel()
    await asyncio.gather(clock, *connections, return_exceptions=True)
    store.close()
    log.info("broker stopped")


async def _clock(broker: Broker) -> None:
    """Let time pass for groups and retention."""
    retained_at = 0.0
    while True:
        await asyncio.sleep(TICK_S)
        broker.groups.tick()
        if time.monotonic() - retained_at > RETAIN_S:
            retained_at = time.monotonic()
            broker.store.retain(int(time.time() * 1000))


class _Connection:
    """One client's connection."""

    def __init__(
        self,
        broker: Broker,
        login: Login,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._broker = broker
        self._login = login
        self._reader = reader
        self._writer = writer
        peer = writer.get_extra_info("peername")
        self._host = str(peer[0]) if peer else ""

    async def run(self) -> None:
        """Answer requests until the client goes."""
        try:
            async with asyncio.timeout(LOGIN_S):
                while not self._login.done and not self._login.refused:
                    await self._answer_next(MAX_LOGIN_FRAME)
            while not self._login.refused:
                await self._answer_next(MAX_FRAME)
        except TimeoutError:
            log.warning("connection closed", client=self._host, reason="no login in time")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except (frames.BadFrame, ValueError) as error:
            log.warning("connection closed", client=self._host, reason=str(error))
        except Exception:
            log.exception("connection closed", client=self._host)
        finally:
            with suppress(OSError, RuntimeError):
                self._writer.close()
                async with asyncio.timeout(LINGER_S):
                    await self._writer.wait_closed()
            self._writer.transport.abort()

    async def _answer_next(self, max_size: int) -> None:
        size = _SIZE.unpack(await self._reader.readexactly(4))[0]
        if not 8 <= size <= max_size:
            raise frames.BadFrame(f"a frame of {size} bytes, 8 to {max_size} are taken")
        answer = await self._answer(await self._reader.readexactly(size))
        if answer is not None:
            self._writer.write(_SIZE.pack(len(answer)) + answer)
            await self._writer.drain()

    async def _answer(self, frame: bytes) -> bytes | None:
        cursor = frames.Cursor(frame)
        api_key, version, correlation = cursor.i16(), cursor.i16(), cursor.i32()
        head = _SIZE.pack(correlation)
        known = VERSIONS.get(api_key)
        if known is None or not known[0] <= version <= known[1]:
            if api_key != API_VERSIONS:
                raise frames.BadFrame(f"request {api_key} version {version} is not served")
            # A newer client asks first in its own version and is answered in the oldest.
            refused = self._broker.api_versions(0, ErrorCode.unsupported_version)
            return head + _write(refused)
        if not self._login.done and api_key not in (API_VERSIONS, HANDSHAKE, AUTHENTICATE):
            raise frames.BadFrame(f"request {api_key} before a login with SASL/PLAIN")
        client = Client(cursor.text(), self._host)
        if api_key == PRODUCE:
            request = frames.read_produce(frame, cursor.at, version)
            produced = self._broker.produce(request)
            if request.acks == 0:
                return None
            return head + frames.write_produce(produced, version)
        if api_key == FETCH:
            fetched = await self._broker.fetch(frames.read_fetch(frame, cursor.at, version))
            return head + frames.write_fetch(fetched, version)
        schema = _request_schema(api_key, version)
        if schema.__flexible__:
            cursor.take(1)  # the header's tagged fields; clients send none
        entity, _ = entity_reader(schema)(frame, cursor.at)
        if api_key == HANDSHAKE:
            return head + _write(self._login.handshake(entity))
        if api_key == AUTHENTICATE:
            answer = self._login.authenticate(entity)
            if self._login.refused:
                log.warning("login refused", client=self._host, reason=answer.error_message)
            return head + _write(answer)
        return head + _write(await self._broker.handle(api_key, entity, client))


@cache
def _request_schema(api_key: int, version: int) -> Any:
    module = load_payload_module(api_key, version, EntityType.request)
    return next(
        value
        for value in vars(module).values()
        if getattr(value, "__type__", None) is EntityType.request
    )


def _write(entity: Any) -> bytes:
    """Serialize an answer, and before it the tagged fields of a flexible header: none."""
    out = io.BytesIO(b"\0" if entity.__header_schema__.__flexible__ else b"")
    out.seek(0, io.SEEK_END)
    entity_writer(type(entity))(out, entity)
    return out.getvalue()
