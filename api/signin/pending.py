"""Sign-ins under way: begun here, finished once, by the same browser, within ten minutes.

A sign-in is known by the SHA-256 of its state, which the provider sends back, and of a secret in a
cookie of the browser that began it. Neither alone finds it, so who knows the state of somebody
else's can neither go on with it nor end it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final

import orjson

from api.access.script import Asks, load
from schemas.redis_keys import SIGN_INS, SIGN_INS_TOLD

MOST: Final = 10_000
"""Sign-ins under way; further ones end the oldest."""
WITHIN_S: Final = SIGN_INS.ttl_s or 0
_SECRET_BYTES: Final = 32
_LONGEST: Final = 100  # of what a caller sends as state or secret
_BEGIN: Final = load("begin", __package__)
_TAKE: Final = load("take", __package__)
_NAMES: Final = (SIGN_INS.make(), SIGN_INS_TOLD.make())


@dataclass(frozen=True, slots=True)
class Begun:
    """What a sign-in needs to go on."""

    nonce: str
    verifier: str
    old_user: str = ""  # of the session that the browser had before
    old_digest: str = ""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a sign-in is known by."""

    state: str
    browser: str

    @property
    def hash(self) -> str:
        """What Redis keeps of them."""
        return sha256(f"{self.state}.{self.browser}".encode()).hexdigest()


def secret() -> str:
    """Return a new secret, of 43 characters that may be in addresses."""
    return token_urlsafe(_SECRET_BYTES)


async def begin(redis: Asks, begun: Begun) -> Secrets:
    """Note a sign-in that begins, and return what it is known by; raises RedisError."""
    secrets = Secrets(secret(), secret())
    told = orjson.dumps(asdict(begun))
    await _BEGIN.run(redis, _NAMES, (secrets.hash, told, WITHIN_S * 1000, MOST))
    return secrets


async def take(redis: Asks, state: str, browser: str) -> Begun | None:
    """Return what a sign-in needs, this one time; None if there is none. Raises RedisError."""
    if max(len(state), len(browser)) > _LONGEST:
        return None
    told = await _TAKE.run(redis, _NAMES, (Secrets(state, browser).hash,))
    return None if told is None else Begun(**orjson.loads(told))
