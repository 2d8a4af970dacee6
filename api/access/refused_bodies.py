"""The bodies of requests whose key was refused: where they call a tool, the tool says so.

Who sends them pays for nothing, so they are read only while they are few and short, and at once.
"""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from api.http import bodies
from api.http.errors import Problem

MOST_BYTES: Final = 16 << 10
WITHIN_S: Final = 1.0
AT_ONCE: Final = 16  # of a process


class RefusedBodies:
    """Reads them for one process."""

    def __init__(self) -> None:
        self._reading = 0

    async def read(self, scope: Scope, receive: Receive) -> Receive | None:
        """Return what gives a body again, None where it is not read."""
        if self._reading >= AT_ONCE or not _is_short(scope):
            return None
        self._reading += 1
        try:
            async with asyncio.timeout(WITHIN_S):
                body = await bodies.read(receive)
        except (TimeoutError, ClientDisconnect, Problem):
            return None
        finally:
            self._reading -= 1
        return bodies.again(body, receive)


def _is_short(scope: Scope) -> bool:
    """Return whether a request says that its body is short; one in chunks does not."""
    sizes = [value for name, value in scope["headers"] if name == b"content-length"]
    return (
        len(sizes) == 1
        and sizes[0].isdigit()
        and len(sizes[0]) < 9
        and (0 < int(sizes[0]) <= MOST_BYTES)
    )
