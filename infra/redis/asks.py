"""Who answers the commands of one event loop: one server by one connection, or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from infra.redis.nodes import Command, Nodes, is_cluster
from infra.redis.pipelined import PipelinedNode, first_refusal
from infra.settings import Settings


class Pipelined(Protocol):
    """Asks over connections that are made when they are first needed."""

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands, in one trip: bytes, and the other forms of RESP3.

        In a cluster commands of different slots have no order among them. Raises RedisError:
        ConnectionError or TimeoutError without an answer; when all are answered, the first refusal
        among them or within an EXEC's answer: NoScriptError for an unknown script, else
        ResponseError.
        """
        ...

    async def servers(self) -> Sequence[Pipelined]:
        """Return the servers that have keys, one by one; raises RedisError."""
        ...

    async def aclose(self) -> None:
        """Close the connections; what is in flight fails."""
        ...


def connect_pipelined(settings: Settings, *, answer_timeout_s: float = 5.0) -> Pipelined:
    """Return who answers for the server or the cluster of REDIS_URL."""
    make = PipelinedCluster if is_cluster(settings.redis_url) else PipelinedNode
    return make(settings.redis_url, answer_timeout_s=answer_timeout_s)


class PipelinedCluster:
    """A connection to each node of a cluster."""

    def __init__(self, url: str, *, answer_timeout_s: float = 5.0) -> None:
        self._nodes = Nodes(
            url, partial(PipelinedNode, answer_timeout_s=answer_timeout_s), PipelinedNode.answers
        )

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands, divided among the nodes."""
        answers = await self._nodes.ask(commands)
        if (refusal := first_refusal(answers)) is not None:
            raise refusal
        return answers

    async def servers(self) -> Sequence[PipelinedNode]:
        """Return the nodes that have slots; raises RedisError."""
        return await self._nodes.primaries()

    async def aclose(self) -> None:
        """Close the connections; what is in flight fails."""
        for node in self._nodes.close():
            await node.aclose()
