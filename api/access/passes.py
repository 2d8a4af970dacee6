"""Passes: random secrets that lead to an API key for a while, each for one purpose.

A link is opened once and becomes the session of a browser; a ticket opens one WebSocket. Redis
keeps the SHA-256 of a secret and which key it leads to, until its TTL ends. So every process
sees the same passes, they outlive its restart, and none can be had from what Redis keeps. Secrets
are looked up by their hash and never compared, which rules out timing attacks on a guess.
"""

from __future__ import annotations

import re
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

from api.access.script import Asks
from schemas.redis_keys import Key

TICKET: Final = "ticket_"
"""Prefix of a ticket where a key may be sent as well."""
_BYTES: Final = 32
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")  # of so many bytes


async def issue(redis: Asks, kind: Key, holder: str) -> str:
    """Return a new secret that leads to a holder, mostly a fingerprint; raises RedisError."""
    secret = token_urlsafe(_BYTES)
    await redis.ask([("SET", _name(kind, secret), holder, "EX", kind.ttl_s)])
    return secret


async def spend(redis: Asks, kind: Key, secret: str) -> str | None:
    """Return the holder that a secret leads to, this one time; None if it leads nowhere.

    Raises RedisError, after which the secret may be spent.
    """
    return await _ask(redis, "GETDEL", kind, secret)


async def holder(redis: Asks, kind: Key, secret: str) -> str | None:
    """Return the fingerprint that a secret leads to, or None; raises RedisError."""
    return await _ask(redis, "GET", kind, secret)


def is_secret(text: str) -> bool:
    """Return whether a text has the form of a pass's secret."""
    return _SECRET.fullmatch(text) is not None


def digest(secret: str) -> str:
    """Return what a secret is known by."""
    return sha256(secret.encode()).hexdigest()


async def _ask(redis: Asks, command: str, kind: Key, secret: str) -> str | None:
    if not is_secret(secret):
        return None
    [found] = await redis.ask([(command, _name(kind, secret))])
    return None if found is None else found.decode()


def _name(kind: Key, secret: str) -> str:
    return kind.make(hash=digest(secret))
