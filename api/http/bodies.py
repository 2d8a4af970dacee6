"""A body that is read before the route reads it."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive


async def read(receive: Receive) -> bytes:
    """Return a whole body; raises ClientDisconnect where the caller leaves before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def again(body: bytes, receive: Receive) -> Receive:
    """Return what gives a body that was read, once, and then what comes after it."""
    pending = [body]

    async def replay() -> Message:
        if pending:
            return {"type": "http.request", "body": pending.pop(), "more_body": False}
        return await receive()

    return replay
