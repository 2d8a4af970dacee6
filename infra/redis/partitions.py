"""How many partitions the settled lanes have whose books are in Redis, for who reads them.

A process of another count would look for wallets and tokens where they are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from redis.exceptions import RedisError

from infra.partitions import why_wrong
from schemas.redis_keys import SETTLED_PARTITIONS
from schemas.topics import SETTLED_BY_MINT

LOOK_EVERY_S: Final = 5.0
_KEY: Final = SETTLED_PARTITIONS.make()

Ask = Callable[[Sequence[tuple[Any, ...]]], Awaitable[list[Any]]]
"""Sends commands and returns their answers; raises RedisError or OSError."""


class PartitionsWrong(Exception):
    """The books in Redis are of another count; the text says what to do."""


async def require(ask: Ask, *, claim: bool = False) -> None:
    """Raise PartitionsWrong where Redis has the books of another count than this process.

    With `claim` the count of an empty Redis becomes that of this process. Raises as `ask` does.
    """
    if claim:
        await ask([("SET", _KEY, SETTLED_BY_MINT.partitions, "NX")])
    [found] = await ask([("GET", _KEY)])
    if found is None:
        return
    if not found.isdigit():
        raise PartitionsWrong(
            f"the Redis of the books is {found.decode()}: run `soltape partitions raise` to its end"
        )
    if why := why_wrong(int(found), "the Redis of the books"):
        raise PartitionsWrong(why)


async def watch(ask: Ask, *, claim: bool = False) -> None:
    """Look every few seconds; raises PartitionsWrong. A Redis that is away is looked at later."""
    while True:
        with suppress(RedisError, OSError, TimeoutError):
            await require(ask, claim=claim)
        await asyncio.sleep(LOOK_EVERY_S)
