"""A client of a Redis Cluster with the methods of one of a single server.

redis-py has a client of its own for clusters. It starts a thread and an event loop for each command
of a transaction, and some of its errors are no RedisError. This one sends every command, pipeline
and transaction by way of `Nodes`, to an ordinary client for each node.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import redis.asyncio as redis
from redis.asyncio.client import Pipeline
from redis.exceptions import ConnectionError, ResponseError, TimeoutError  # noqa: A004

from infra.backoff import Backoff
from infra.redis.node import answers, connect_node
from infra.redis.nodes import Command, Nodes, node_url

_BACKOFF_S: Final = (0.1, 2.0)
_OF_EVERY_NODE: Final = frozenset({"SCRIPT", "FLUSHALL"})


class Cluster(redis.Redis):
    """A client of all nodes; what a command, pipeline or script asks for has to be of one slot,
    unless it is a pipeline without a transaction.
    """

    def __init__(self, url: str, *, answer_timeout_s: float, retries: int) -> None:
        node = partial(connect_node, answer_timeout_s=answer_timeout_s, retries=retries)
        # Never connected itself: names of commands, forms of answers.
        super().__init__(connection_pool=node(node_url(url)).connection_pool)
        self.nodes: Nodes[redis.Redis] = Nodes(
            url, node, partial(answers, within_s=answer_timeout_s)
        )
        self._retries = retries

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Return the answer to one command; raises RedisError."""
        command = _split(args)
        if command[0] in _OF_EVERY_NODE:
            for node in await self.nodes.primaries():
                answer = await node.execute_command(*args, **options)  # type: ignore[no-untyped-call]
            return answer
        [answer] = await self.exchange([command])
        if isinstance(answer, ResponseError):
            raise answer
        return await self.formed(args, options, answer)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Return a pipeline; with a transaction all of it has to be of one slot."""
        return _Pipeline(self, transaction, shard_hint)

    async def scan_iter(self, *args: Any, **options: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        """Yield the names of keys of all nodes."""
        for node in await self.nodes.primaries():
            async for name in node.scan_iter(*args, **options):
                yield name

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close the connections to all nodes."""
        for node in self.nodes.close():
            await node.aclose(close_connection_pool)
        await super().aclose(close_connection_pool)

    async def exchange(self, commands: Sequence[Command]) -> list[Any]:
        """Return answers as they come, refusals among them; raises RedisError.

        Asks again, as often as the client was made to, where a node does not answer.
        """
        backoff = Backoff(*_BACKOFF_S)
        for _ in range(self._retries):
            try:
                return await self.nodes.ask(commands)
            except (ConnectionError, TimeoutError):
                await backoff.wait()
        return await self.nodes.ask(commands)

    async def formed(self, args: Sequence[Any], options: Mapping[str, Any], answer: Any) -> Any:
        """Return an answer in the form that the methods of the client promise."""
        form = self.response_callbacks.get(args[0])
        if form is None:
            return answer
        made = form(answer, **{name: value for name, value in options.items() if name != "keys"})
        return await made if inspect.isawaitable(made) else made


class _Pipeline(Pipeline):
    """Commands that leave together."""

    def __init__(self, cluster: Cluster, transaction: bool, shard_hint: str | None) -> None:
        super().__init__(
            cluster.connection_pool, cluster.response_callbacks, transaction, shard_hint
        )
        self._cluster = cluster

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Return the answers; raises RedisError, for a refusal as well where it is asked to."""
        stack, self.command_stack = self.command_stack, []
        if not stack:
            return []
        for script in self.scripts:  # it is asked for by its hash
            await self._cluster.script_load(script.script)
        commands = [_split(args) for args, _ in stack]
        if self.is_transaction:
            found = await self._cluster.exchange([("MULTI",), *commands, ("EXEC",)])
            for answer in found:  # the first says why, that of EXEC only that
                if isinstance(answer, ResponseError):
                    raise answer
            found = found[-1]
        else:
            found = await self._cluster.exchange(commands)
        made = []
        for (args, options), answer in zip(stack, found, strict=True):
            if isinstance(answer, ResponseError):
                if raise_on_error:
                    raise answer
                made.append(answer)
            else:
                made.append(await self._cluster.formed(args, options, answer))
        return made


def _split(args: Sequence[Any]) -> Command:
    """Return a command without the two words that the client makes one of, as "XINFO STREAM"."""
    return (*args[0].split(" "), *args[1:]) if " " in args[0] else tuple(args)
