"""Valkeys on this machine that share the slots of a Redis Cluster, without replicas."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from redis.exceptions import ConnectionError  # noqa: A004

from infra.local.process import Process, free_port
from infra.redis.client import RedisError
from infra.redis.embedded import valkey
from infra.redis.node import connect_node
from infra.redis.slots import SLOTS

NODES: Final = 3  # fewer cannot agree that one is gone
_NODE_TIMEOUT_MS: Final = 30_000  # a busy machine is slow: no node is given up
_LOOK_EVERY_S: Final = 0.1


class Node(NamedTuple):
    """The ports of a node: for clients, and for the other nodes."""

    port: int
    bus: int


def free_nodes() -> tuple[Node, ...]:
    """Return the nodes of a cluster, at ports that are free now."""
    return tuple(Node(free_port(), free_port()) for _ in range(NODES))


def url(host: str, nodes: Sequence[Node]) -> str:
    """Return the address of a cluster."""
    return f"redis+cluster://{host}:{nodes[0].port}"


def processes(data: Path, host: str, nodes: Sequence[Node]) -> list[Process]:
    """Return the servers, each with a folder in `data`: redis, redis-2, redis-3.

    When all of them serve for the first time they are strangers: `join` makes them a cluster. Each
    keeps on disk what it knows of the others.

    Raises ModuleNotFoundError without `soltape[embedded]`.
    """
    made = []
    for number, node in enumerate(nodes, 1):
        name = f"redis-{number}" if number > 1 else "redis"
        process = valkey(data / name, host, node.port)
        command = [*process.command, "--cluster-enabled", "yes", "--cluster-port", str(node.bus)]
        command += ["--cluster-node-timeout", str(_NODE_TIMEOUT_MS)]
        made.append(replace(process, name=name, command=command))
    return made


async def join(host: str, nodes: Sequence[Node], within_s: float) -> None:
    """Make new servers a cluster: each has its share of the slots, and all know it.

    Raises RedisError.
    """
    async with AsyncExitStack() as stack:
        clients: list[Any] = []
        for node in nodes:
            client = connect_node(f"redis://{host}:{node.port}", answer_timeout_s=10.0, retries=0)
            stack.push_async_callback(client.aclose)
            clients.append(client)
        bounds = [SLOTS * number // len(nodes) for number in range(len(nodes) + 1)]
        for number, client in enumerate(clients):
            first, last = bounds[number], bounds[number + 1] - 1
            await client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
            await client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            await clients[0].execute_command("CLUSTER MEET", host, node.port, node.bus)
        until_s = time.monotonic() + within_s
        while not all([await _is_whole(client, len(nodes)) for client in clients]):
            if time.monotonic() > until_s:
                raise ConnectionError(f"the nodes have not met within {within_s:.0f} s")
            await asyncio.sleep(_LOOK_EVERY_S)


async def _is_whole(client: Any, nodes: int) -> bool:
    try:
        said = await client.execute_command("CLUSTER INFO")
    except RedisError:
        return False
    return said["cluster_state"] == "ok" and int(said["cluster_size"]) == nodes
