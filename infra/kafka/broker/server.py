"""The broker's socket: length-prefixed frames in, answers out in the order of their requests.

A client announces a request's size and may then send nothing. So each request has a time to arrive
in, a size by what it is and who sends it, and a share of a memory that all connections have
together: a large one takes it before it is read, and gives it back once it is answered. Small ones
have a memory of their own, so that announcements of large ones hold up no heartbeat.
"""

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
from infra.kafka.broker.room import Room
from infra.kafka.broker.store import Store

log = structlog.get_logger(__name__)

MAX_FRAME: Final = 32 << 20  # of a Produce request; ours are of 16 MiB at most
MAX_SMALL_FRAME: Final = 256 << 10  # of any other request
MAX_LOGIN_FRAME: Final = 8 << 10  # of somebody we do not know yet
LARGE_ROOM: Final = 128 << 20  # for all requests that are larger than small ones
SMALL_ROOM: Final = 32 << 20
REQUEST_S: Final = 20.0  # from a request's size to its last byte
ANSWER_S: Final = 60.0  # for a client to read an answer, but for what the system holds of it
MAX_CONNECTIONS: Final = 1_024
READ_AHEAD: Final = 64 << 10  # twice as much is held of a connection whose request is answered
LOGIN_S: Final = 10.0  # for all of a login
MAX_STRANGERS: Final = 256  # connections without a login; beyond it the oldest ends
LINGER_S: Final = 1.0  # for a client to read the last answer
TICK_S: Final = 0.1
RETAIN_S: Final = 10.0
_LONGEST_CAUSE: Final = 200
_SIZE: Final = Struct(">i")
_KEY: Final = Struct(">h")


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
    rooms = Room(SMALL_ROOM), Room(LARGE_ROOM)

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(connections) >= MAX_CONNECTIONS:
            log.warning("connection refused", reason=f"{MAX_CONNECTIONS} are open")
            writer.transport.abort()
            return
        login = Login(user)
        task = asyncio.create_task(_Connection(broker, login, reader, writer, rooms).run())
        connections[task] = login

        def ended(task: asyncio.Task[None]) -> None:
            del connections[task]
            writer.transport.abort()  # it may have been ended before it began

        task.add_done_callback(ended)
        # One that was ended takes a turn of the loop to go, in which many more may come.
        strangers = [
            task
            for task, login in connections.items()
            if not (login.done or task.cancelling() or task.done())
        ]
        if len(strangers) > MAX_STRANGERS:
            strangers[0].cancel()

    server = await asyncio.start_server(connected, host, port, limit=READ_AHEAD)
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
        rooms: tuple[Room, Room],
    ) -> None:
        """`rooms` are those of small and of large requests."""
        self._broker = broker
        self._login = login
        self._reader = reader
        self._writer = writer
        self._rooms = rooms
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
            reason = "no login in time"
            if self._login.done:
                reason = "a request did not arrive, or its answer was not read, in time"
            log.warning("connection closed", client=self._host, reason=reason)
        except asyncio.CancelledError:  # it is in the way of others: no time to read an answer
            self._writer.transport.abort()
        except (asyncio.IncompleteReadError, ConnectionError):
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

    async def _answer_next(self, max_size: int) -> None:
        size = _SIZE.unpack(await self._reader.readexactly(4))[0]
        if not 8 <= size <= max_size:
            raise frames.BadFrame(f"a frame of {size} bytes, 8 to {max_size} are taken")
        if size > MAX_SMALL_FRAME:
            answer = await self._answer_large(size)
        else:
            async with self._rooms[0].taken(size):
                frame = await self._read(size)
            answer = await self._answer(frame)
        if answer is not None:
            self._writer.write(_SIZE.pack(len(answer)) + answer)
            async with asyncio.timeout(ANSWER_S):
                await self._writer.drain()

    async def _answer_large(self, size: int) -> bytes | None:
        async with self._rooms[1].taken(size):
            frame = await self._read(size)
            if (api_key := _KEY.unpack_from(frame)[0]) != PRODUCE:
                raise frames.BadFrame(
                    f"{size} bytes of request {api_key}, {MAX_SMALL_FRAME} are taken"
                )
            return await self._answer(frame)  # at once: it waits for nothing

    async def _read(self, size: int) -> bytes:
        async with asyncio.timeout(REQUEST_S):
            return await self._reader.readexactly(size)

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
        try:
            entity, _ = entity_reader(schema)(frame, cursor.at)
        except Exception as error:  # kio's own kinds, and others where a value is out of range
            why = repr(error)[:_LONGEST_CAUSE]
            raise frames.BadFrame(f"request {api_key} version {version}: {why}") from None
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
