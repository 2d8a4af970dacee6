"""The mints that traded last, as agent `market` lists them: they are kept like mints asked for."""

from __future__ import annotations

import time
from typing import Final

import structlog
from redis.asyncio import Redis

from infra.redis.client import ask
from schemas.redis_keys import ACTIVE, mint_tags
from schemas.solana.addresses import key

log = structlog.get_logger(__name__)

LOOK_S: Final = 5.0
NEWEST: Final = 200  # mints of a partition that one look sees, the last traded of it
LOOKS_TO_FILL: Final = 12_500
"""Looks that fill ACCOUNT_TRACKED_MAX: by the default one adds 4 mints, and 17 hours fill it.

Anybody can trade thousands of mints for little, and must not soon drive out those that users asked
for; 69,000 a day are more than are launched.
"""


class TradedMints:
    """Looks at what traded since the last look."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        # By partition: the newest block time seen, and what traded then.
        self._newest: dict[str, tuple[float, frozenset[bytes]]] = {}

    async def look(self) -> dict[bytes, int]:
        """Return raw mints and when it was seen that they traded, least recent first.

        Raises RedisError. Block times are whole seconds: the newest second is looked at again.
        """
        tags = mint_tags()
        before = [self._newest.get(tag, (0.0, frozenset())) for tag in tags]
        answers = await ask(
            self._redis,
            [
                (
                    *("ZRANGE", ACTIVE.make(tag=tag), "+inf", since_ms),
                    *("BYSCORE", "REV", "LIMIT", 0, NEWEST, "WITHSCORES"),
                )
                for tag, (since_ms, _) in zip(tags, before, strict=True)
            ],
        )
        found: list[tuple[float, bytes]] = []
        for tag, (since_ms, seen), listed in zip(tags, before, answers, strict=True):
            if not listed:
                continue
            newest_ms = float(listed[0][1])
            at_newest = {mint for mint, ms in listed if float(ms) == newest_ms}
            found += [
                (float(ms), mint) for mint, ms in listed if float(ms) > since_ms or mint not in seen
            ]
            known = seen if newest_ms == since_ms else frozenset()
            self._newest[tag] = newest_ms, known.union(at_newest)
        now_ms = time.time_ns() // 1_000_000
        mints: dict[bytes, int] = {}
        for _, mint in sorted(found):
            try:
                mints[key(mint.decode())] = now_ms
            except ValueError as error:
                log.warning("a traded mint is no address", mint=mint, reason=str(error))
        return mints
