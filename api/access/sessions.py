"""Browsers that a one-time link let in, known by a cookie; and tickets for their WebSockets.

A request with the cookie has the grant of the demo key, and nothing else in the request counts
towards that: a proxy can write any header and have any address, but it does not know the cookie.
`api.access.cookies` says on whose behalf. Cookies that were made up count as keys that were made up
(`api.access.failures`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from starlette.responses import Response

from api.access import cookies, passes
from api.access.failures import Failures
from api.access.keys import key_id, parse
from api.access.script import Asks
from api.access.store import store
from schemas.redis_keys import API_LINK, API_SESSION, API_TICKET


class Sessions:
    """The sessions of one demo key. Every method raises Problem while Redis is away."""

    def __init__(self, redis: Asks, demo_key: str, failures: Failures) -> None:
        self._redis = redis
        self._failures = failures
        # Browsers send a cookie to all ports of a host: two stacks on one need two names.
        self.cookie = f"soltape-{key_id(parse(demo_key))}"
        self._prefix = f"{self.cookie}=".encode()

    async def begin(self, token: str, response: Response, address: str) -> bool:
        """Spend the token of a link and set the cookie; return False if the link is not valid.

        Raises Problem where too much from the address was refused: a guess counts as a key does.
        """
        if not passes.is_secret(token):
            return False
        spend = partial(passes.spend, self._redis, API_LINK, token)
        with store():
            fingerprint = await self._failures.link(address, passes.digest(token), spend)
            if fingerprint is None:
                return False
            secret = await passes.issue(self._redis, API_SESSION, fingerprint)
        self._failures.found(passes.digest(secret))
        response.set_cookie(
            self.cookie,
            secret,
            max_age=API_SESSION.ttl_s,
            path="/",
            httponly=True,
            samesite="strict",
        )
        return True

    async def holder(self, headers: Iterable[tuple[bytes, bytes]], address: str) -> str | None:
        """Return the fingerprint of the key of a request's session, or None."""
        secret = cookies.secret_of(headers, self._prefix)
        if secret is None or not passes.is_secret(secret):
            return None
        look = partial(passes.holder, self._redis, API_SESSION, secret)
        with store():
            return await self._failures.session(address, passes.digest(secret), look)


async def ticket(redis: Asks, fingerprint: str, session: str | None = None) -> str:
    """Return a text that the gateway accepts once in place of a key; raises Problem.

    What it opens lasts no longer than a user's session, where that one's digest is given.
    """
    holder = fingerprint if session is None else f"{fingerprint}.{session}"
    with store():
        return passes.TICKET + await passes.issue(redis, API_TICKET, holder)
