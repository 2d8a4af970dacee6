"""Room for paid answers: so many bytes of Redis for all payments of all processes together.

An answer that is paid for is kept until its payer has it, or its time is over; nothing makes room
for another one. So a sale whose answer has no room is refused before its payment is settled.

A call costs little, and who does not fetch what was paid for keeps its room: one caller has a share
of it, and the first answer however large.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from time import monotonic
from typing import Any, Final, Literal

import structlog
from redis.exceptions import RedisError

from api.access.script import Asks, load
from api.pay import metrics
from schemas.redis_keys import PAYMENT_ENDS, PAYMENT_SIZES

log = structlog.get_logger(__name__)

FULL_S: Final = 2.0
"""How long a process sells nothing after there was no room: an answer is work."""
SHARE: Final = 8
"""One caller has at most one in so many of the bytes."""
_TAKER_DIGITS: Final = 16
_ROOM: Final = load("room", __package__)
_NAMES: Final = (PAYMENT_SIZES.make(), PAYMENT_ENDS.make())
_LONGEST_MS: Final = (PAYMENT_SIZES.ttl_s or 0) * 1000


class NoRoom(Exception):
    """As many paid answers are kept as may be, of all or of one caller."""


class Room:
    """The room that all processes share."""

    def __init__(
        self, redis: Asks, most_bytes: int, now_s: Callable[[], float] = monotonic
    ) -> None:
        self._redis = redis
        self._most = most_bytes
        self._now_s = now_s
        self._full_until_s = 0.0

    def check(self) -> None:
        """Raise NoRoom where there was none a moment ago."""
        if self._now_s() < self._full_until_s:
            raise NoRoom

    async def take(self, payment: str, size: int, within_s: float, caller: str = "") -> None:
        """Take room of a caller's share for an answer that is kept so long.

        Without a caller it is of nobody's share. Raises NoRoom, RedisError.
        """
        taker = sha256(caller.encode()).hexdigest()[:_TAKER_DIGITS] if caller else ""
        outcome = await self._run(payment, "take", within_s, size, taker)
        if outcome == 0:
            self._full_until_s = self._now_s() + FULL_S
        if outcome != 1:
            raise NoRoom

    async def keep(self, payment: str, within_s: float) -> None:
        """Note how long an answer is kept from now on."""
        await self._try(payment, "keep", within_s)

    async def leave(self, payment: str) -> None:
        """Give the room of an answer back."""
        await self._try(payment, "leave")

    async def _try(self, payment: str, what: Literal["keep", "leave"], within_s: float = 0) -> None:
        try:
            await self._run(payment, what, within_s)
        except (RedisError, OSError) as error:  # it leaves at the end of its time
            log.warning("room of an answer was not given back", reason=str(error))

    async def _run(
        self, payment: str, what: str, within_s: float, size: int = 0, taker: str = ""
    ) -> int:
        arguments: tuple[Any, ...] = (payment, what, int(within_s * 1000), size, self._most)
        arguments += (_LONGEST_MS, taker, self._most // SHARE)
        outcome, all_ = await _ROOM.run(self._redis, _NAMES, arguments)
        metrics.ANSWER_BYTES.set(all_)
        return int(outcome)
