"""A Redis Cluster of three Valkeys on loopback, without replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import redis

from infra.redis import embedded_cluster
from infra.redis.embedded_cluster import NODES
from tests.support.systems import running
from tests.support.waiting import WITHIN_S

HOST = "127.0.0.1"


class ValkeyCluster:
    """A running cluster; `url` leads to one of its nodes."""

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.url = f"redis+cluster://127.0.0.1:{ports[0]}"
        self.nodes = [redis.Redis(port=port) for port in ports]
        self.ids = [node.execute_command("CLUSTER MYID").decode() for node in self.nodes]

    def close(self) -> None:
        for node in self.nodes:
            node.close()

    def flush(self) -> None:
        """Remove all keys."""
        for node in self.nodes:
            node.flushall()

    def owner(self, slot: int) -> int:
        """Return the number of the node that has a slot."""
        for first, last, (_, port, *_), *_ in self.nodes[0].execute_command("CLUSTER SLOTS"):
            if first <= slot <= last:
                return self.ports.index(port)
        raise AssertionError(f"no node has slot {slot}")

    def begin_move(self, slot: int) -> tuple[int, int]:
        """Put a slot between its node and the next; return the numbers of both."""
        source = self.owner(slot)
        target = (source + 1) % NODES
        self.nodes[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.ids[source])
        self.nodes[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.ids[target])
        return source, target

    def move_keys(self, slot: int, source: int, target: int, most: int = 1_000_000) -> int:
        """Move keys of a slot that is between two nodes; return how many."""
        node = self.nodes[source]
        keys: list[Any] = node.execute_command("CLUSTER GETKEYSINSLOT", slot, most)
        if keys:
            node.execute_command(
                *("MIGRATE", "127.0.0.1", self.ports[target], "", 0, 60_000, "KEYS", *keys)
            )
        return len(keys)

    def end_move(self, slot: int, target: int) -> None:
        """Give a slot to the node that has its keys, and let the others hear of it."""
        for number in (target, *(each for each in range(NODES) if each != target)):
            self.nodes[number].execute_command("CLUSTER SETSLOT", slot, "NODE", self.ids[target])


@contextmanager
def running_cluster(folder: Path) -> Iterator[ValkeyCluster]:
    """Run three Valkeys that share the slots, each a third."""
    nodes = embedded_cluster.free_nodes()
    with ExitStack() as stack:
        for process in embedded_cluster.processes(folder, HOST, nodes):
            stack.enter_context(running(process, folder))
        cluster = ValkeyCluster([node.port for node in nodes])
        stack.callback(cluster.close)
        asyncio.run(embedded_cluster.join(HOST, nodes, WITHIN_S))
        yield cluster
