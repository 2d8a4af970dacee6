"""A client of one server of Redis or Valkey, and raw answers over its connections."""

from __future__ import annotations

import asyncio
import builtins
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import redis.asyncio as redis
from hiredis import pack_command
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ResponseError, TimeoutError  # noqa: A004

CONNECT_TIMEOUT_S: Final = 5.0
ANSWER_TIMEOUT_S: Final = 10.0


def connect_node(url: str, *, answer_timeout_s: float, retries: int) -> redis.Redis:
    """Return a client; it connects on first use, and again when a connection is lost."""
    keepalive = {} if url.startswith("unix:") else {"socket_keepalive": True}
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=min(CONNECT_TIMEOUT_S, answer_timeout_s),
        socket_timeout=answer_timeout_s,
        **keepalive,
        health_check_interval=30,
        retry=Retry(ExponentialWithJitterBackoff(base=0.1, cap=2.0), retries=retries),
        client_name="soltape",
    )


@asynccontextmanager
async def lend(client: redis.Redis) -> AsyncIterator[Any]:
    """Lend a connection of a client; it is closed where the block raises. Raises RedisError."""
    connection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
    clean = False
    try:
        yield connection
        clean = True
    finally:
        if not clean:
            await connection.disconnect(nowait=True)  # answers to it may be on their way
        await client.connection_pool.release(connection)


async def answers(
    client: redis.Redis, commands: Sequence[tuple[Any, ...]], within_s: float = ANSWER_TIMEOUT_S
) -> list[Any]:
    """Return the answers to many commands in one trip, refusals among them; raises RedisError."""
    task = asyncio.current_task()
    cancelling = task.cancelling() if task else 0
    try:
        return await _answers(client, commands, within_s)
    finally:
        if task and task.cancelling() > cancelling:
            # The client connects and sends within asyncio.wait_for, which before Python 3.12
            # forgets a cancellation that comes while it ends, with an error or without.
            raise asyncio.CancelledError


async def _answers(
    client: redis.Redis, commands: Sequence[tuple[Any, ...]], within_s: float
) -> list[Any]:
    found: list[Any] = []
    async with lend(client) as connection:
        await connection.send_packed_command(b"".join([pack_command(each) for each in commands]))
        try:
            async with asyncio.timeout(within_s):
                for _ in commands:
                    try:
                        found.append(await connection.read_response(timeout=math.inf))
                    except ResponseError as refusal:
                        found.append(refusal)
        except builtins.TimeoutError:
            raise TimeoutError(f"no answer within {within_s:g} s") from None
    return found
