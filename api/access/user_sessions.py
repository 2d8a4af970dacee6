"""Browsers of users who signed in, known by a cookie.

The cookie names the user and a secret, whose SHA-256 is among the user's sessions in Redis: so they
are counted, and ended, all at once. A session has the grant of its user. Every sign-in begins a new
one; a secret that was there before is worth nothing after it. Cookies that were made up count as
keys that were made up (`api.access.failures`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Final, Literal, cast
from urllib.parse import urlsplit

from starlette.responses import Response

from api.access import cookies, register
from api.access.failures import Failures
from api.access.script import Asks, load
from api.access.store import store
from schemas.redis_keys import API_KEY, USER_SESSIONS, USER_SIGN_INS, tag_of_key

SESSIONS: Final = 10
"""Sessions of a user at once; a further one ends the oldest."""
_SECRET_BYTES: Final = 32
_VALUE: Final = re.compile(r"([0-9a-f]{64})\.([A-Za-z0-9_-]{43})")
_BEGIN: Final = load("begin_session")
_TTL_S: Final = USER_SESSIONS.ttl_s or 0
LOOKS_AT_ONCE: Final = 1_000
SIGN_INS: Final = 100
"""Sign-ins of a user that are finished within the time that they are noted for."""
_NOTED_MS: Final = (USER_SIGN_INS.ttl_s or 0) * 1000  # longer than a sign-in may take

NotBegun = Literal["suspended", "finished", "often"]
"""Why no session begins: of the user, of the sign-in, of too many of the user."""

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class UserSession:
    """A browser's session."""

    user: str  # fingerprint
    secret: str

    @property
    def digest(self) -> str:
        """What Redis keeps of the secret."""
        return _digest(self.secret)

    @property
    def name(self) -> str:
        """What a process knows it by; somebody else's user with it is another one."""
        return f"{self.user}.{self.digest}"

    @property
    def csrf(self) -> str:
        """What a request that changes something proves that it comes from our page with."""
        return sha256(f"csrf:{self.secret}".encode()).hexdigest()

    def has_sent(self, token: str) -> bool:
        """Return whether a token is that of this session."""
        return compare_digest(self.csrf.encode(), token.encode("utf-8", "replace"))


class UserSessions:
    """The sessions of users at one address. Every method raises Problem while Redis is away."""

    def __init__(self, redis: Asks, base_url: str, failures: Failures) -> None:
        self._redis = redis
        self._failures = failures
        self._is_secure = urlsplit(base_url).scheme == "https"
        # Browsers send a cookie to all ports of a host: two services on one need two names.
        name = f"soltape-user-{sha256(base_url.encode()).hexdigest()[:8]}"
        self.cookie = f"__Host-{name}" if self._is_secure else name
        self._prefix = f"{self.cookie}=".encode()

    async def begin(self, user: str, sign_in: str, response: Response) -> NotBegun | None:
        """Begin the session of a sign-in, by its name, and set its cookie; or return why not."""
        secret = token_urlsafe(_SECRET_BYTES)
        tag = tag_of_key(user)
        kinds = (API_KEY, USER_SESSIONS, USER_SIGN_INS)
        with store():
            outcome = await _BEGIN.run(
                self._redis,
                [kind.make(tag=tag) for kind in kinds],
                (_digest(secret), _TTL_S * 1000, SESSIONS, sign_in, _NOTED_MS, SIGN_INS),
            )
        if outcome != b"begun":
            return cast("NotBegun", outcome.decode())
        self._failures.found(UserSession(user, secret).name)
        response.set_cookie(
            self.cookie,
            f"{user}.{secret}",
            max_age=_TTL_S,
            path="/",
            secure=self._is_secure,
            httponly=True,
            samesite="strict",
        )
        return None

    async def end(self, user: str, digest: str) -> None:
        """End a session."""
        with store():
            await self._redis.ask([("ZREM", _name(user), digest)])

    def forget(self, response: Response) -> None:
        """Remove the cookie from the browser of a response."""
        response.delete_cookie(
            self.cookie, path="/", secure=self._is_secure, httponly=True, samesite="strict"
        )

    async def of(self, headers: Headers, address: str) -> UserSession | None:
        """Return the session that a request comes with, None without a valid one."""
        session = self.named(headers)
        if session is None:
            return None
        look = partial(self._look, session)
        with store():
            return await self._failures.session(address, session.name, look)

    async def _look(self, session: UserSession) -> UserSession | None:
        [ends_ms] = await self._redis.ask([("ZSCORE", _name(session.user), session.digest)])
        if ends_ms is None or float(ends_ms) <= await register.now_ms(self._redis):
            return None
        return session

    async def holder(self, headers: Headers, address: str) -> str | None:
        """Return the fingerprint of the user of a request's session, or None."""
        session = await self.of(headers, address)
        return None if session is None else session.user

    def named(self, headers: Headers) -> UserSession | None:
        """Return the session that a cookie names, valid or not."""
        value = cookies.secret_of(headers, self._prefix)
        match = _VALUE.fullmatch(value) if value is not None else None
        return None if match is None else UserSession(match[1], match[2])


async def ended(redis: Asks, sessions: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return those of some sessions, by user and digest, that have ended; raises RedisError.

    Many are one trip: this is for streams, which outlive the request that opened them.
    """
    found = set()
    every = [*sessions]
    for start in range(0, len(every), LOOKS_AT_ONCE):
        some = every[start : start + LOOKS_AT_ONCE]
        names = [(_name(user), digest) for user, digest in some]
        now_ms = await register.now_ms(redis)
        ends_ms = await redis.ask([("ZSCORE", *each) for each in names])
        for each, end_ms in zip(some, ends_ms, strict=True):
            if end_ms is None or float(end_ms) <= now_ms:
                found.add(each)
    return found


def _name(user: str) -> str:
    return USER_SESSIONS.make(tag=tag_of_key(user))


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
