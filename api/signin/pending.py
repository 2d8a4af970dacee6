"""Sign-ins under way: begun here, finished once, by the same browser, within ten minutes.

What a sign-in needs to go on is sealed in a cookie of the browser that began it: nothing is stored,
so other sign-ins cannot evict it, and a caller that knows only the state can neither continue it
nor end it. Its single use is noted with the session that it begins
(`api.access.user_sessions`), where the provider has said who it is.

The seal is Fernet's: AES-CBC and HMAC-SHA256, with a time. Its secrets are in the Redis of the
keys, the same for all processes. A new one is made every day, and the one before it still opens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Final

import orjson
from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from api.access.script import Asks, load
from schemas.redis_keys import SIGN_IN_SECRETS
from schemas.times import DAY_S

WITHIN_S: Final = 600
SEALS_S: Final = DAY_S
"""How long a secret seals; it opens as long again."""
_READ_EVERY_S: Final = 60.0  # the secrets, in case another process has made a new one
_AGAIN_S: Final = 2.0  # after a seal that none of them opens: any caller can send such a one
_SECRET_BYTES: Final = 32
_LONGEST: Final = 2_000  # of what a caller sends as sealed; ours have some 600
_SECRETS: Final = load("secrets", __package__)


@dataclass(frozen=True, slots=True)
class Begun:
    """What a sign-in needs to go on."""

    state: str
    nonce: str
    verifier: str
    old_user: str = ""  # of the session that the browser had before
    old_digest: str = ""

    @property
    def name(self) -> str:
        """What it is known by once it is finished."""
        return sha256(self.state.encode()).hexdigest()


def begin(old_user: str = "", old_digest: str = "") -> Begun:
    """Return a sign-in that begins."""
    return Begun(secret(), secret(), secret(), old_user, old_digest)


def secret() -> str:
    """Return a new secret, of 43 characters that may be in addresses."""
    return token_urlsafe(_SECRET_BYTES)


class Seals:
    """Seals and opens what browsers keep. Every method raises RedisError."""

    def __init__(self, redis: Asks, now_s: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._now_s = now_s
        self._read_s = -_READ_EVERY_S
        self._fernet: MultiFernet | None = None

    async def seal(self, begun: Begun) -> str:
        """Return a sign-in as its browser keeps it."""
        fernet = await self._secrets(_READ_EVERY_S)
        return fernet.encrypt(orjson.dumps(asdict(begun))).decode()

    async def open(self, sealed: str, state: str) -> Begun | None:
        """Return the sign-in of a browser, None where it is not of this state, or over."""
        if len(sealed) > _LONGEST or not sealed.isascii():
            return None
        for max_age_s in (_READ_EVERY_S, _AGAIN_S):  # it may be sealed with a secret that is new
            fernet = await self._secrets(max_age_s)
            try:
                found = orjson.loads(fernet.decrypt(sealed.encode(), WITHIN_S))
            except InvalidToken:
                continue
            begun = Begun(**found)
            is_same = compare_digest(begun.state.encode(), state.encode("utf-8", "replace"))
            return begun if is_same else None
        return None

    async def _secrets(self, max_age_s: float) -> MultiFernet:
        if self._fernet is None or self._now_s() - self._read_s >= max_age_s:
            arguments = (Fernet.generate_key(), SEALS_S * 1000)
            found = await _SECRETS.run(self._redis, [SIGN_IN_SECRETS.make()], arguments)
            self._fernet = MultiFernet([Fernet(each) for each in found if each is not None])
            self._read_s = self._now_s()
        return self._fernet
