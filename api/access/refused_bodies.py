"""The bodies of requests whose key was refused: where they call a tool, the tool says so.

Who sends them pays for nothing, so they are read only while they are few and short, and at once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from api.access.in_flight import InFlight
from api.http import bodies
from api.http.errors import Problem

MOST_BYTES: Final = 16 << 10
WITHIN_S: Final = 1.0
AT_ONCE: Final = 16  # of a process
OF_ONE: Final = 2  # a refused key takes turns of its user, who may have a good one
_SHARE: Final = 8  # of the places of a process, and of a holder's, one in so many
_DIGITS: Final = 8
_ALL: Final = ""


class RefusedBodies:
    """Reads them for one process, in which one holder may have `most_in_flight` requests."""

    def __init__(self, most_in_flight: int) -> None:
        self._all = InFlight(max(1, min(AT_ONCE, most_in_flight // _SHARE)))
        self._of_one = InFlight(OF_ONE)

    async def read(self, scope: Scope, receive: Receive, holder: str) -> Receive | None:
        """Return what gives a body again, None where it is not read."""
        if scope["method"] != "POST" or not _is_short(scope):
            return None
        if not self._of_one.enter(holder):
            return None
        try:
            if not self._all.enter(_ALL):
                return None
            try:
                async with asyncio.timeout(WITHIN_S):
                    body = await bodies.read(receive)
            except (TimeoutError, ClientDisconnect, Problem):
                return None
            finally:
                self._all.leave(_ALL)
        finally:
            self._of_one.leave(holder)
        return bodies.again(body, receive)


def _is_short(scope: Scope) -> bool:
    """Return whether a request says that its body is short; one in chunks does not."""
    sizes = [value for name, value in scope["headers"] if name == b"content-length"]
    if len(sizes) != 1 or not sizes[0].isdigit() or len(sizes[0]) > _DIGITS:
        return False
    return 0 < int(sizes[0]) <= MOST_BYTES
