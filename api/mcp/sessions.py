"""Sessions over SSE: the process that holds a stream sends on what any process answers.

A session is a stream of answers and nothing more. A message to it is answered by the process it
came to, as one over streamable HTTP is, without a session's state; the answer then goes to the
process that holds the stream, by a list in Redis that this process waits for. So any number of
processes, on any number of machines, serve one address, and a proxy needs no sticky sessions.

The first half of a session's id names the process, the second half is a secret of 128 bits. Redis
has the fingerprint of the key that opened it: for any other key it does not exist. A key that is
revoked, or whose user is suspended, loses its streams within some seconds, as its WebSockets; so
does a browser that is signed out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from secrets import token_hex
from typing import Final

import structlog
from prometheus_client import Gauge
from redis.exceptions import RedisError

from api.access import register, user_sessions
from api.access.charge import STORE
from api.access.keys import key_id
from api.http.errors import Problem
from api.mcp.problem_kinds import NO_SESSION, TOO_MANY_SESSIONS
from api.stores.clients import unavailable
from infra.redis.asks import Pipelined
from infra.settings import Settings
from schemas.redis_keys import MCP_ANSWERS, MCP_SESSIONS

log = structlog.get_logger(__name__)

SESSIONS: Final = Gauge("soltape_api_mcp_sessions", "Sessions of MCP over SSE that are open.")

PROCESS_DIGITS: Final = 16
SECRET_DIGITS: Final = 32
WAIT_S: Final = 1  # for an answer in Redis, less than half of how long Redis may take
RETRY_S: Final = 1.0
MOST_WAITING: Final = 64  # answers that a client does not read
AT_ONCE: Final = 100  # answers read in one trip
LOOK_EVERY_S: Final = 2.0  # at keys that have streams, as the gateway does

Refused = Callable[[Iterable[str]], Awaitable[Collection[str]]]
"""Returns those of some keys that are good no more; raises RedisError."""


class Session:
    """One open stream."""

    def __init__(
        self, name: str, fingerprint: str, payer: str, now_s: float, browser: str | None = None
    ) -> None:
        self.name = name
        self.fingerprint = fingerprint  # of the key that opened it; of a browser the user's
        self.browser = browser  # digest of the user's session that opened it, None if a key did
        self.payer = payer
        self.used_s = now_s  # by the loop's clock
        self.wake = asyncio.Event()
        self.is_ended = False
        self._answers: deque[bytes] = deque()

    def put(self, answer: bytes, now_s: float) -> None:
        """Add an answer; ends the session where its client does not read them."""
        self.used_s = now_s
        if len(self._answers) >= MOST_WAITING:
            self.end()
            return
        self._answers.append(answer)
        self.wake.set()

    def take(self) -> bytes | None:
        """Return the next answer, None where there is none."""
        if self._answers:
            return self._answers.popleft()
        self.wake.clear()
        return None

    def end(self) -> None:
        """Have the stream ended by its task."""
        self.is_ended = True
        self.wake.set()


class Sessions:
    """The sessions of one process, and the way to those of all others."""

    def __init__(
        self, settings: Settings, redis: Pipelined, now_s: Callable[[], float] | None = None
    ) -> None:
        """`redis` is where the keys are; `now_s` is a clock, the loop's if it is not given."""
        self._settings = settings
        self._redis = redis
        self._now_s = now_s or (lambda: asyncio.get_running_loop().time())
        self._process = token_hex(PROCESS_DIGITS // 2)
        self._open: dict[str, Session] = {}
        self._is_any_open = asyncio.Event()

    @property
    def count(self) -> int:
        """How many this process holds."""
        return len(self._open)

    async def open(self, fingerprint: str, payer: str, browser: str | None = None) -> Session:
        """Open a session of a key; raises Problem where the key, or its user, has too many.

        `browser` is the digest of the user's session that opens it, if it is no key: it lasts no
        longer than that.
        Where the process has too many, the one that was silent for longest ends.
        """
        most = self._settings.mcp_max_sessions_per_key
        if sum(each.payer == payer for each in self._open.values()) >= most:
            raise Problem(
                TOO_MANY_SESSIONS,
                f"At most {most} sessions of one API key, or of all keys of one user, are open at "
                "once; close one, or use /mcp, which needs none",
                headers={"Retry-After": "1"},
            )
        if len(self._open) >= self._settings.mcp_max_sessions:
            oldest = min(self._open.values(), key=lambda each: each.used_s)
            self._remove(oldest)
            oldest.end()
        name = self._process + token_hex(SECRET_DIGITS // 2)
        session = Session(name, fingerprint, payer, self._now_s(), browser)
        self._open[session.name] = session
        SESSIONS.set(len(self._open))
        key = _sessions_key(self._process)
        try:
            await self._redis.ask(
                [("HSET", key, session.name, fingerprint), ("EXPIRE", key, MCP_SESSIONS.ttl_s)]
            )
        except BaseException as error:
            self._remove(session)
            if isinstance(error, (RedisError, OSError)):
                raise unavailable(STORE, error) from None
            raise
        self._is_any_open.set()
        return session

    async def close(self, session: Session) -> None:
        """Forget a session. What Redis could not be asked to forget ends with the key's time."""
        self._remove(session)
        try:
            await self._redis.ask([("HDEL", _sessions_key(self._process), session.name)])
        except (RedisError, OSError) as error:
            log.warning("a session was not forgotten", reason=str(error))

    async def check(self, name: str, fingerprint: str) -> None:
        """Raise Problem if a session is not open, or another key's."""
        if (session := self._open.get(name)) is not None:
            owner: bytes | None = session.fingerprint.encode()
        elif _is_name(name):
            key = _sessions_key(name[:PROCESS_DIGITS])
            try:
                [owner] = await self._redis.ask([("HGET", key, name)])
            except (RedisError, OSError) as error:
                raise unavailable(STORE, error) from None
        else:
            owner = None
        if owner != fingerprint.encode():
            raise Problem(
                NO_SESSION, "No such session of this API key is open; open one with GET /mcp/sse"
            )

    async def answer(self, name: str, answer: bytes) -> None:
        """Send an answer on to a session that was checked; raises Problem."""
        if (session := self._open.get(name)) is not None:
            session.put(answer, self._now_s())
            return
        key = MCP_ANSWERS.make(tag=f"{{{name[:PROCESS_DIGITS]}}}")
        try:
            await self._redis.ask(
                [("RPUSH", key, name.encode() + answer), ("EXPIRE", key, MCP_ANSWERS.ttl_s)]
            )
        except (RedisError, OSError) as error:
            raise unavailable(STORE, error) from None

    async def deliver(self) -> None:
        """Hand out what other processes answer, for as long as this one runs."""
        connection = register.connect(self._settings)  # its own: it waits for Redis
        try:
            while True:
                await self._is_any_open.wait()
                try:
                    await self._deliver(connection)
                except (RedisError, OSError) as error:
                    # Answers may be lost: who waits for one must see that, and connect again.
                    log.warning("sessions of MCP end", reason=str(error))
                    self._end_all()
                    await asyncio.sleep(RETRY_S)
                if not self._open:
                    self._is_any_open.clear()
        finally:
            await connection.aclose()

    async def watch(self, refused: Refused) -> None:
        """End the streams of keys and browsers that are good no more, while this process runs."""
        while True:
            await self._is_any_open.wait()
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                ended = await refused({each.fingerprint for each in self._open.values()})
                browsers = {
                    (each.fingerprint, each.browser)
                    for each in self._open.values()
                    if each.browser is not None
                }
                left = await user_sessions.ended(self._redis, browsers)
            except (RedisError, OSError) as error:
                log.warning("keys of MCP's sessions are not looked at", reason=str(error))
                continue
            for session in [*self._open.values()]:
                is_left = (session.fingerprint, session.browser) in left
                if session.fingerprint in ended or is_left:
                    event = "user has signed out" if is_left else "key was revoked"
                    log.info(event, key_id=key_id(session.fingerprint))
                    self._remove(session)
                    session.end()

    async def _deliver(self, connection: Pipelined) -> None:
        sessions = _sessions_key(self._process)
        answers = MCP_ANSWERS.make(tag=f"{{{self._process}}}")
        [is_known, first, rest] = await connection.ask(
            [
                ("EXPIRE", sessions, MCP_SESSIONS.ttl_s),
                ("BLPOP", answers, WAIT_S),
                ("LPOP", answers, AT_ONCE),
            ]
        )
        if not is_known and self._open:  # Redis lost them
            self._end_all()
        for found in ([] if first is None else [first[1]]) + (rest or []):
            name = found[: PROCESS_DIGITS + SECRET_DIGITS].decode()
            if (session := self._open.get(name)) is not None:
                session.put(found[len(name) :], self._now_s())

    def _end_all(self) -> None:
        for session in [*self._open.values()]:
            self._remove(session)
            session.end()

    def _remove(self, session: Session) -> None:
        self._open.pop(session.name, None)
        SESSIONS.set(len(self._open))


def _sessions_key(process: str) -> str:
    return MCP_SESSIONS.make(tag=f"{{{process}}}")


def _is_name(text: str) -> bool:
    return len(text) == PROCESS_DIGITS + SECRET_DIGITS and all(
        each in "0123456789abcdef" for each in text
    )
