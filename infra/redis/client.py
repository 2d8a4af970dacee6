"""Connections to Redis or Valkey, one server or a cluster, with a limit on every wait."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError, RedisError, ResponseError  # noqa: A004

from infra.redis.cluster import Cluster
from infra.redis.node import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, answers, connect_node, lend
from infra.redis.nodes import is_cluster, node_url
from infra.settings import Settings

__all__ = [
    "ANSWER_TIMEOUT_S",
    "CONNECT_TIMEOUT_S",
    "RedisError",
    "ask",
    "check",
    "connect",
    "connection_to",
]


def connect(
    settings: Settings, *, answer_timeout_s: float = ANSWER_TIMEOUT_S, retries: int = 2
) -> redis.Redis:
    """Return a client; it connects on first use, and again when a connection is lost.

    A command raises RedisError after three attempts. Repeating is safe for state that is written
    in MULTI blocks of absolute values; who sends anything else asks for no retries.
    """
    url = settings.redis_url
    make = Cluster if is_cluster(url) else connect_node
    return make(url, answer_timeout_s=answer_timeout_s, retries=retries)


async def ask(client: redis.Redis, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the answers to many commands, in one trip; raises RedisError.

    As a pipeline of the client would, in a third of its time. No command may have an effect that
    must not come twice. In a cluster commands of different slots have no order among them.
    """
    if isinstance(client, Cluster):
        found = await client.nodes.ask(commands)
    else:
        found = await answers(client, commands)
    for answer in found:
        if isinstance(answer, ResponseError):
            raise answer
    return found


@asynccontextmanager
async def connection_to(client: redis.Redis, key: str) -> AsyncIterator[Any]:
    """Lend a connection to the server that has a key; it is closed where the block raises.

    Raises RedisError.
    """
    if not isinstance(client, Cluster):
        async with lend(client) as connection:
            yield connection
        return
    try:
        async with lend(await client.nodes.of_key(key)) as connection:
            yield connection
    except (RedisError, OSError):
        client.nodes.forget()  # it may be another's by now
        raise


async def check(url: str, timeout_s: float = 2.0) -> str:
    """Ask a server once who it is, without retries, and return its name and version.

    Raises RedisError, also while the server is still loading its data.
    """
    async with _once(node_url(url), timeout_s) as client:
        await client.ping()
        info = await client.info("server")
        nodes = await _nodes(client) if is_cluster(url) else ""
    if version := info.get("valkey_version"):
        return f"Valkey {version}{nodes}"
    return f"Redis {info['redis_version']}{nodes}"


async def _nodes(client: redis.Redis) -> str:
    """Return how many nodes the cluster of a server has; raises RedisError."""
    said = await client.execute_command("CLUSTER INFO")  # type: ignore[no-untyped-call]
    if said["cluster_state"] != "ok":
        raise ConnectionError(f"the cluster is not whole: its state is {said['cluster_state']}")
    return f", a cluster of {said['cluster_size']} nodes"


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
