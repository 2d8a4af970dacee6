"""Connections to Redis or Valkey, with a limit on every wait."""

from __future__ import annotations

import asyncio
import builtins
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis.asyncio as redis
from hiredis import pack_command
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError, ResponseError, TimeoutError  # noqa: A004

from infra.settings import Settings

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0

__all__ = ["RedisError", "ask", "check", "connect"]


def connect(
    settings: Settings, *, answer_timeout_s: float = ANSWER_TIMEOUT_S, retries: int = 2
) -> redis.Redis:
    """Return a client; it connects on first use, and again when a connection is lost.

    A command raises RedisError after three attempts. Repeating is safe for state that is written
    in MULTI blocks of absolute values; who sends anything else asks for no retries.
    """
    url = settings.redis_url
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


async def ask(client: redis.Redis, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the answers to many commands, in one trip; raises RedisError.

    As a pipeline of the client would, in a third of its time. No command may have an effect that
    must not come twice.
    """
    task = asyncio.current_task()
    cancelling = task.cancelling() if task else 0
    try:
        return await _ask(client, commands)
    finally:
        if task and task.cancelling() > cancelling:
            # The client connects and sends within asyncio.wait_for, which before Python 3.12
            # forgets a cancellation that comes while it ends, with an error or without.
            raise asyncio.CancelledError


async def _ask(client: redis.Redis, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    connection = await client.connection_pool.get_connection()  # type: ignore[no-untyped-call]
    clean = False
    try:
        await connection.send_packed_command(b"".join([pack_command(each) for each in commands]))
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                answers = [await connection.read_response(timeout=math.inf) for _ in commands]
        except builtins.TimeoutError:
            raise TimeoutError(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
        clean = True
        return answers
    finally:
        if not clean:
            await connection.disconnect(nowait=True)  # answers of ours may be on their way
        await client.connection_pool.release(connection)


async def check(url: str, timeout_s: float = 2.0) -> str:
    """Ask a server once who it is, without retries, and return its name and version.

    Raises RedisError, which also tells that the server is still loading its data.
    """
    async with _once(url, timeout_s) as client:
        await client.ping()
        info = await client.info("server")
    if version := info.get("valkey_version"):
        return f"Valkey {version}"
    return f"Redis {info['redis_version']}"


async def empty(url: str, timeout_s: float = 2.0) -> None:
    """Empty the database of an address, on disk as well; raises RedisError."""
    async with _once(url, timeout_s) as client:
        await client.flushdb(asynchronous=True)
        with suppress(ResponseError):  # it keeps no file, or is at it already
            await client.bgrewriteaof()


def _once(url: str, timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=timeout_s,
        socket_timeout=timeout_s,
        retry=Retry(ExponentialWithJitterBackoff(), retries=0),
    )
