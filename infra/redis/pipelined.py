"""One connection to Redis that all requests of a process share: what they ask leaves together.

The commands of one turn of the event loop go out in one write, answers come back in the order of
the questions. An ask's commands stay in a row, so MULTI .. EXEC of one is never cut by another's.
The answers of a caller that stops waiting are read and dropped.

Limits: commands in flight (`MAX_IN_FLIGHT`); and the wait for an answer: when the oldest ask has
waited for so long, the connection is given up; time in which the loop was held up does not count.
Then, and when it breaks, all that is in flight raises RedisError, and none of it is sent again; the
next ask connects. While that fails, asks fail at once with the reason, until a pause is over that
grows to a second.

Six commands to an idle Valkey cost a process 4.7 us of CPU an ask with 64 askers, 7.8 with eight,
29.6 with one; `client.ask`, a connection of a pool for each, 30.4, 32.3 and 56.3.
"""

from __future__ import annotations

import asyncio
import socket
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Final, cast, overload

import structlog
from hiredis import PushNotification, Reader, pack_command
from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.exceptions import (
    ConnectionError,  # noqa: A004 - the client's own
    InvalidResponse,
    NoScriptError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004
)

from infra.backoff import Backoff
from infra.redis.node import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, connect_node

MAX_IN_FLIGHT: Final = 100_000
"""Commands that were not answered yet; asks beyond are refused."""

_BACKOFF_S: Final = (0.05, 1.0)
_STALL_S: Final = 0.1
"""A timer that comes later than this says that the loop was held up, not that Redis was."""
_CLOSED: Final = "the connection was closed"
_MISSING: Final = object()  # the rest of an answer is still to come
_WORD: Final = "\0"  # in place of each character of a word; no command has it otherwise

log = structlog.get_logger(__name__)

Command = tuple[Any, ...]


class Repeated(tuple[Any, ...]):
    """A command that is sent over and over; it is packed once."""

    @cached_property
    def packed(self) -> bytes:
        """Return its bytes."""
        return cast(bytes, pack_command(self))


class Form:
    """Commands that have the same word in them, as the end of a key, and else never differ."""

    def __init__(self, make: Callable[[str], Sequence[Command]]) -> None:
        self.make = make
        self.count = len(make(_WORD))
        self._around: dict[int, list[bytes]] = {}  # by the word's length, which is in the bytes

    def packed(self, word: str) -> bytes:
        """Return the bytes of the commands with a word, which is ASCII."""
        size = len(word)
        if (around := self._around.get(size)) is None:
            blank = _WORD * size
            blob = b"".join(map(pack_command, self.make(blank)))
            around = self._around[size] = blob.split(blank.encode())
        return word.encode("ascii").join(around)


class Packable(Sequence[Command], ABC):
    """Commands that are packed together; a command is built only when it is accessed."""

    @property
    @abstractmethod
    def packed(self) -> bytes:
        """Return the bytes of all of them."""

    @abstractmethod
    def __iter__(self) -> Iterator[Command]: ...

    @overload
    def __getitem__(self, at: int) -> Command: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Command]: ...
    def __getitem__(self, at: int | slice) -> Command | Sequence[Command]:
        return [*self][at]


class ForEach(Packable):
    """The commands of a form for each of some words."""

    def __init__(self, form: Form, words: Sequence[str]) -> None:
        self._form = form
        self._words = words

    @property
    def packed(self) -> bytes:
        """Return the bytes of all of them, without building a command."""
        return b"".join(map(self._form.packed, self._words))

    def __len__(self) -> int:
        return self._form.count * len(self._words)

    def __iter__(self) -> Iterator[Command]:
        for word in self._words:
            yield from self._form.make(word)


class Chained(Packable):
    """Several sequences of commands, one after the other."""

    def __init__(self, parts: Sequence[Sequence[Command]]) -> None:
        self._parts = parts

    @property
    def packed(self) -> bytes:
        """Return the bytes of all of them, part by part."""
        return b"".join(map(_packed, self._parts))

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[Command]:
        return chain.from_iterable(self._parts)


class PipelinedNode:
    """One connection to one server."""

    def __init__(self, url: str, *, answer_timeout_s: float = 5.0) -> None:
        pool = connect_node(url, answer_timeout_s=ANSWER_TIMEOUT_S, retries=0).connection_pool
        # Never connected itself: it knows how to read an address, with all its options.
        self._address: Any = pool.make_connection()  # type: ignore[no-untyped-call]
        self._answer_timeout_s = answer_timeout_s
        self._link: _Link | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._backoff = Backoff(*_BACKOFF_S)
        self._again_at = 0.0  # of the loop's clock
        self._reason = ""
        self._closed = False

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands, in one trip: bytes, and the other forms of RESP3.

        Raises RedisError: ConnectionError or TimeoutError without an answer; when all are
        answered, the first refusal among them or within an EXEC's answer: NoScriptError for an
        unknown script, else ResponseError.
        """
        link = self._link
        if link is None or link.lost is not None:
            link = await self._connected()
        return await link.ask(commands)

    async def answers(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands, refusals among them; raises RedisError without one."""
        link = self._link
        if link is None or link.lost is not None:
            link = await self._connected()
        return await link.ask(commands, with_refusals=True)

    async def servers(self) -> Sequence[PipelinedNode]:
        """Return this one."""
        return [self]

    async def aclose(self) -> None:
        """Close the connection; what is in flight fails."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._link is not None:
            self._link.give_up(ConnectionError(_CLOSED))

    async def _connected(self) -> _Link:
        if self._closed:
            raise ConnectionError(_CLOSED)
        if self._connecting is None:
            loop = asyncio.get_running_loop()
            if loop.time() < self._again_at:
                raise ConnectionError(self._reason)
            self._connecting = loop.create_task(self._connect(loop))
        # One attempt for all who wait; who leaves does not end it.
        await asyncio.shield(self._connecting)
        if self._link is None:
            raise ConnectionError(self._reason)
        return self._link

    async def _connect(self, loop: asyncio.AbstractEventLoop) -> None:
        self._link = None
        try:
            link = await self._greeted(loop)
        except (RedisError, OSError) as error:  # a timeout of asyncio is an OSError
            self._reason = f"Redis cannot be reached: {str(error) or 'no answer in time'}"
            self._again_at = loop.time() + self._backoff.next_s()
        except asyncio.CancelledError:  # closed meanwhile; those who wait get that error
            self._reason = _CLOSED
        else:
            self._backoff.reset()
            self._link = link
        finally:
            self._connecting = None

    async def _greeted(self, loop: asyncio.AbstractEventLoop) -> _Link:
        """Return a connection that may be used; raises RedisError, OSError.

        What ran out of time while the loop was held up is tried again: Redis was not asked.
        """
        while True:
            due = loop.time() + min(CONNECT_TIMEOUT_S, self._answer_timeout_s)
            link = None
            try:
                async with asyncio.timeout_at(due):
                    link = await self._open(loop)
                    await link.ask(self._greeting())
            except asyncio.CancelledError:
                if link is not None:
                    link.give_up(ConnectionError(_CLOSED))
                raise
            except (RedisError, OSError) as error:
                if link is not None:
                    link.give_up(ConnectionError("the greeting failed"))
                is_late = loop.time() >= due + _STALL_S
                if not (is_late and isinstance(error, asyncio.TimeoutError)):
                    raise
            else:
                return link

    async def _open(self, loop: asyncio.AbstractEventLoop) -> _Link:
        address = self._address

        def made() -> _Link:
            return _Link(loop, self._answer_timeout_s)

        if isinstance(address, UnixDomainSocketConnection):
            _, link = await loop.create_unix_connection(made, address.path)
        else:
            assert isinstance(address, Connection)
            tls = address.ssl_context.get() if isinstance(address, SSLConnection) else None
            transport, link = await loop.create_connection(
                made, address.host, address.port, ssl=tls
            )
            plain: socket.socket = transport.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return link

    def _greeting(self) -> list[Command]:
        address = self._address
        hello: list[Any] = ["HELLO", 3]
        if address.password:
            hello += ("AUTH", address.username or "default", address.password)
        commands: list[Command] = [(*hello, "SETNAME", "soltape")]
        if int(address.db or 0):
            commands.append(("SELECT", address.db))
        return commands


class _Ask:
    """Who waits for how many answers, and those that have come."""

    __slots__ = ("answers", "count", "future", "since", "with_refusals")

    def __init__(
        self, future: asyncio.Future[list[Any]], count: int, since: float, with_refusals: bool
    ) -> None:
        self.future = future
        self.count = count
        self.since = since
        self.with_refusals = with_refusals
        self.answers: list[Any] = []


class _Link(asyncio.Protocol):
    """A connection from its beginning to its end; `lost` says why it ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self.lost: RedisError | None = None
        self._loop = loop
        self._timeout_s = timeout_s
        self._transport: asyncio.Transport | None = None
        self._reader = Reader(
            protocolError=InvalidResponse, replyError=self._refused, notEnoughData=_MISSING
        )
        self._asks: deque[_Ask] = deque()  # in the order of their commands
        self._in_flight = 0  # commands
        self._unsent: list[bytes] = []
        self._flushes = False  # at the end of this turn of the loop
        self._paused = False
        self._has_refusal = False  # among the answers to the first ask
        self._timer: asyncio.TimerHandle | None = None

    def ask(
        self, commands: Sequence[Command], *, with_refusals: bool = False
    ) -> asyncio.Future[list[Any]]:
        """Send commands with all others of this turn; the future has their answers.

        A refusal is the future's error, unless it is asked for as an answer.
        """
        loop = self._loop
        future: asyncio.Future[list[Any]] = loop.create_future()
        count = len(commands)
        if not count:
            future.set_result([])
        elif self.lost is not None:
            future.set_exception(_again(self.lost))
        elif self._in_flight + count > MAX_IN_FLIGHT:
            future.set_exception(
                ConnectionError(f"{self._in_flight} commands wait for their answers already")
            )
        else:
            self._unsent.append(_packed(commands))
            self._in_flight += count
            now = loop.time()
            self._asks.append(_Ask(future, count, now, with_refusals))
            if self._timer is None:
                self._timer = loop.call_at(now + self._timeout_s, self._look)
            if not self._flushes:
                self._flushes = True
                loop.call_soon(self._flush)
        return future

    def give_up(self, why: RedisError) -> None:
        """End the connection and fail what is in flight."""
        if self.lost is not None:
            return
        self.lost = why
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        asks, self._asks = self._asks, deque()
        self._unsent.clear()
        for each in asks:
            if not each.future.done():
                each.future.set_exception(_again(why))
        if str(why) != _CLOSED:
            log.warning("connection to Redis ended", reason=str(why), unanswered=len(asks))

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        reader, asks = self._reader, self._asks
        reader.feed(data)
        gets = reader.gets
        left = 0  # of the first ask's answers
        try:
            while (answer := gets()) is not _MISSING:
                if type(answer) is PushNotification:
                    continue  # pushed unasked, such as that a node is about to move
                if not left:
                    ask = asks[0]
                    append, left = ask.answers.append, ask.count - len(ask.answers)
                append(answer)
                left -= 1
                if not left:
                    asks.popleft()
                    self._answered(ask)
        except (InvalidResponse, IndexError):
            self.give_up(ConnectionError("what answers speaks no Redis"))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.give_up(ConnectionError(f"Redis ended the connection{f': {error}' if error else ''}"))

    def _answered(self, ask: _Ask) -> None:
        self._in_flight -= ask.count
        refusal = None
        if self._has_refusal:
            self._has_refusal = False
            refusal = first_refusal(ask.answers)
        if ask.future.done():
            return
        if refusal is None or ask.with_refusals:
            ask.future.set_result(ask.answers)
        else:
            ask.future.set_exception(refusal)

    def _refused(self, text: str) -> ResponseError:
        # The parser calls this; it looks at one answer at a time, which is the first ask's.
        self._has_refusal = True
        return NoScriptError(text) if text.startswith("NOSCRIPT") else ResponseError(text)

    def _flush(self) -> None:
        self._flushes = False
        if self._unsent and not self._paused and self._transport is not None:
            data = b"".join(self._unsent)
            self._unsent.clear()
            self._transport.write(data)

    def _look(self) -> None:
        self._timer = None
        if not self._asks:
            return
        until = self._asks[0].since + self._timeout_s
        now = self._loop.time()
        if now >= until + _STALL_S:
            # The loop was held up: answers may be unread, and asks unsent.
            for each in self._asks:
                each.since = now
            self._timer = self._loop.call_at(now + self._timeout_s, self._look)
        elif now >= until:
            self.give_up(TimeoutError(f"Redis did not answer within {self._timeout_s:g} s"))
        else:
            self._timer = self._loop.call_at(until, self._look)


def _packed(commands: Sequence[Command]) -> bytes:
    if isinstance(commands, Packable):
        return commands.packed
    return b"".join(
        [each.packed if type(each) is Repeated else pack_command(each) for each in commands]
    )


def first_refusal(answers: Sequence[Any]) -> ResponseError | None:
    """Return the first refusal among answers or within that of an EXEC."""
    for answer in answers:
        if isinstance(answer, ResponseError):
            return answer
        if isinstance(answer, list) and (found := first_refusal(answer)):
            return found
    return None


def _again(error: RedisError) -> RedisError:
    """Return an error of the same kind: each that waits gets its own."""
    return type(error)(*error.args)
