"""A Redis Cluster of three Valkeys on loopback, without replicas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import redis

from infra.local.process import free_port
from infra.redis.embedded import valkey
from infra.redis.slots import SLOTS
from tests.support.systems import running
from tests.support.waiting import eventually

NODES = 3


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
    with ExitStack() as stack:
        ports = []
        for number in range(NODES):
            port, bus = free_port(), free_port()
            process = valkey(folder / f"valkey{number}", "127.0.0.1", port)
            options = {
                "cluster-enabled": "yes",
                "cluster-port": str(bus),
                "cluster-node-timeout": "30000",  # a busy machine is slow: no node is given up
            }
            command = [
                *process.command,
                *(part for k, v in options.items() for part in (f"--{k}", v)),
            ]
            named = replace(process, name=f"valkey{number}", command=command)
            stack.enter_context(running(named, folder))
            ports.append((port, bus))
        cluster = ValkeyCluster([port for port, _ in ports])
        stack.callback(cluster.close)
        bounds = [SLOTS * number // NODES for number in range(NODES + 1)]
        for number, node in enumerate(cluster.nodes):
            first, last = bounds[number], bounds[number + 1] - 1
            node.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
            node.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for port, bus in ports[1:]:
            cluster.nodes[0].execute_command("CLUSTER MEET", "127.0.0.1", port, bus)
        eventually(lambda: all(map(_is_whole, cluster.nodes)), lambda: "the nodes have not met")
        yield cluster


def _is_whole(node: Any) -> bool:
    said = node.execute_command("CLUSTER INFO")
    return said["cluster_state"] == "ok" and int(said["cluster_size"]) == NODES
