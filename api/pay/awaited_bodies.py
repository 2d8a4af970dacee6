"""The bodies of requests with a payment: few are awaited at once, and none for long.

A payment without money is signed as well as one with it, so anybody can send the head of a request
and withhold the body. While one is awaited it takes none of the places of payments, and few of the
process's. What comes with its head is not awaited: no one who withholds bodies is in its way.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.types import Receive

from api.access.in_flight import InFlight
from api.http import bodies
from api.http.errors import BUSY, CONCURRENCY_EXCEEDED, REQUEST_TIMED_OUT, Problem

WITHIN_S: Final = 2.0
AT_ONCE: Final = 32  # of a process
OF_ONE: Final = 8  # of an address: clients may send head and body one after the other
_SHARE: Final = 4  # of the places of payments, one in so many
_RETRY_AFTER: Final = {"Retry-After": "2"}
_ALL: Final = ""
TURNS: Final = 2  # of the loop, in which what is here already is read


class NoPlace(Problem):
    """As many bodies are awaited as may be."""


class AwaitedBodies:
    """Reads them for one process, which takes `most_in_flight` payments at once."""

    def __init__(self, most_in_flight: int) -> None:
        self._all = InFlight(max(1, min(AT_ONCE, most_in_flight // _SHARE)))
        self._of_one = InFlight(OF_ONE)

    async def read(self, caller: str, receive: Receive) -> tuple[bytes, bool]:
        """Return a whole body, and whether it was awaited.

        Raises NoPlace where it is not here and there is no place to wait for it, and what the
        function `read` raises.
        """
        reading = asyncio.ensure_future(read(receive))
        is_awaited = False
        try:
            for _ in range(TURNS):
                await asyncio.sleep(0)
            if not reading.done():
                self._enter(caller)
                is_awaited = True
            return await reading, is_awaited
        finally:
            reading.cancel()
            if is_awaited:
                self._leave(caller)

    def _enter(self, caller: str) -> None:
        if not self._of_one.enter(caller):
            raise NoPlace(
                CONCURRENCY_EXCEEDED,
                f"At most {OF_ONE} bodies of paid requests from one address are awaited at once; "
                "send each with its head",
                headers=_RETRY_AFTER,
            )
        if not self._all.enter(_ALL):
            self._of_one.leave(caller)
            raise NoPlace(
                BUSY,
                "As many bodies of paid requests as this server awaits at once are on their way; "
                "retry in 2 s",
                headers=_RETRY_AFTER,
            )

    def _leave(self, caller: str) -> None:
        self._all.leave(_ALL)
        self._of_one.leave(caller)


async def read(receive: Receive) -> bytes:
    """Return a whole body; raises ClientDisconnect, and Problem where it is late or too large."""
    try:
        async with asyncio.timeout(WITHIN_S):
            return await bodies.read(receive)
    except TimeoutError:
        raise Problem(
            REQUEST_TIMED_OUT,
            f"The body of a paid request did not arrive within {WITHIN_S:g} s; send it with the "
            "head. Nothing was paid",
            headers={"connection": "close"},
        ) from None
