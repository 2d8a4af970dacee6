"""The nodes of a Redis Cluster, and commands on their way to those that have their keys.

What `ask` promises: commands of one slot are executed in their order; what is between MULTI and
EXEC is of one slot and executed as a whole. Commands of different slots are executed in any order
and at different moments: a caller that needs an order among them asks twice.

A node that no longer has a slot refuses what it was sent without executing it (MOVED, ASK,
TRYAGAIN). From the first refusal on the commands of that slot are sent again, to the node that has
it; those behind the refused one, which may have been executed, too: a command whose effect must not
come twice is sent alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,  # noqa: A004 - the client's own
    MovedError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004
    TryAgainError,
)

from infra.redis.slots import SLOTS, slot_of

CLUSTER: Final = "+cluster"
"""What ends the scheme of an address that leads to a cluster: redis+cluster, rediss+cluster."""

TRIES: Final = 8  # of a slot that moves; then its refusal is the answer
PAUSE_S: Final = 0.05  # before a slot that is between two nodes is tried again

Command = tuple[Any, ...]
Address = tuple[str, int]
N = TypeVar("N")


def is_cluster(url: str) -> bool:
    """Return whether an address leads to a cluster."""
    return urlsplit(url).scheme.endswith(CLUSTER)


def node_url(url: str, address: Address | None = None) -> str:
    """Return the address of one node: the one that a cluster's address names, or another."""
    parts = urlsplit(url)
    place = parts.netloc
    if address is not None:
        host, port = address
        login, at, _ = place.rpartition("@")
        place = f"{login}{at}{f'[{host}]' if ':' in host else host}:{port}"
    return parts._replace(scheme=parts.scheme.removesuffix(CLUSTER), netloc=place).geturl()


class _Redirection(NamedTuple):
    kind: str  # MOVED, ASK, or "" for a slot that is between two nodes
    address: Address


@dataclass(slots=True)
class _Step:
    """A command, or all from MULTI to EXEC."""

    commands: list[Command]
    slot: int | None = None
    answers: list[Any] = field(default_factory=list)

    @property
    def redirection(self) -> _Redirection | None:
        """Where a refusal among the answers leads."""
        for answer in self.answers:
            if isinstance(answer, ResponseError) and (found := _redirection(answer)) is not None:
                return found
        return None


class Nodes(Generic[N]):
    """The nodes of one cluster, each as what `make` returns for its address.

    `send` asks a node and returns its answers, with refusals among them as ResponseError.
    """

    def __init__(
        self,
        url: str,
        make: Callable[[str], N],
        send: Callable[[N, Sequence[Command]], Awaitable[list[Any]]],
    ) -> None:
        parts = urlsplit(url)
        self._url = url
        self._make = make
        self._send = send
        self._entry: Address = (parts.hostname or "", parts.port or 6379)
        self._nodes: dict[Address, N] = {}
        self._slots: list[Address] | None = None  # None: to be read before the next command
        self._reading = asyncio.Lock()
        self._is_closed = False

    def close(self) -> list[N]:
        """Make no more; return all that were made, for the caller to close."""
        self._is_closed = True
        return list(self._nodes.values())

    async def primaries(self) -> list[N]:
        """Return the nodes that have slots; raises RedisError."""
        slots = await self._known_slots()
        return [self._at(address) for address in dict.fromkeys(slots)]

    async def of_key(self, key: str) -> N:
        """Return the node that has a key; raises RedisError."""
        return await self._of_slot(slot_of(("GET", key)))

    async def ask(self, commands: Sequence[Command]) -> list[Any]:
        """Return the answers to commands, refusals among them; raises RedisError without one.

        A command without a key goes where the one before it goes, else the one behind it.
        """
        steps = _steps(commands)
        left, tries = steps, TRIES
        while left and tries:
            before, left = left, await self._send_on(left)
            # A step less each time may go on for as long as it takes.
            tries = TRIES if len(left) < len(before) else tries - 1
        return [answer for step in steps for answer in step.answers]

    def forget(self) -> None:
        """Read anew who has which slot, before the next command."""
        self._slots = None

    async def _send_on(self, steps: list[_Step]) -> list[_Step]:
        """Send steps to the nodes that have their slots; return those to be sent again."""
        by_node: dict[int, tuple[N, list[_Step]]] = {}
        for step in steps:
            node = await self._of_slot(step.slot)
            by_node.setdefault(id(node), (node, []))[1].append(step)
        if len(by_node) == 1:
            [(node, _)] = by_node.values()
            return await self._ask_node(node, steps)
        sent = (self._ask_node(node, some) for node, some in by_node.values())
        again: list[_Step] = []
        failure: BaseException | None = None
        # None is left running when another fails: the caller may ask the same again.
        for found in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(found, BaseException):
                failure = failure or found
            else:
                again += found
        if failure is not None:
            raise failure
        return again

    async def _ask_node(self, node: N, steps: list[_Step]) -> list[_Step]:
        """Send steps to a node; return those to be sent again, in their order."""
        try:
            await self._fill(node, steps)
        except (ConnectionError, TimeoutError, OSError):
            self._put_last(node)
            self.forget()  # another may have taken over
            raise
        again: list[_Step] = []
        redirected: dict[int | None, _Redirection] = {}
        for step in steps:
            if step.slot in redirected:
                again.append(step)
            elif (found := step.redirection) is not None:
                redirected[step.slot] = found
                again.append(step)
        if not again:
            return again
        first = redirected[again[0].slot]
        if first.kind == "ASK":
            return await self._ask_other(first, again)
        if first.kind:
            self._move(redirected)
        else:
            await asyncio.sleep(PAUSE_S)
            self.forget()
        return again

    def _move(self, redirected: dict[int | None, _Redirection]) -> None:
        """Note where slots are now, as the nodes that had them say."""
        if self._slots is None:
            return
        for slot, found in redirected.items():
            if slot is not None and found.kind == "MOVED":
                host, port = found.address
                self._slots[slot] = (host or self._entry[0], port)

    def _put_last(self, node: N) -> None:
        """Ask a node that did not answer last, when somebody must say who has which slot."""
        for address, each in list(self._nodes.items()):
            if each is node:
                self._nodes[address] = self._nodes.pop(address)

    async def _ask_other(self, to: _Redirection, steps: list[_Step]) -> list[_Step]:
        """Send the first steps, as far as their keys have moved, to the node that takes a slot.

        Those behind them may still be where they were: they are among what is returned.
        """
        moved = list(takewhile(lambda step: step.redirection == to, steps))
        target = self._at((to.address[0] or self._entry[0], to.address[1]))
        answers = await self._send(
            target, [each for step in moved for each in (("ASKING",), *step.commands)]
        )
        at = 0
        for step in moved:
            step.answers = answers[at + 1 : at + 1 + len(step.commands)]
            at += 1 + len(step.commands)
        refused = next((n for n, step in enumerate(moved) if step.redirection), None)
        if refused is None:
            return steps[len(moved) :]
        await asyncio.sleep(PAUSE_S)
        return steps[refused:]

    async def _fill(self, node: N, steps: list[_Step]) -> None:
        answers = await self._send(node, [command for step in steps for command in step.commands])
        at = 0
        for step in steps:
            step.answers = answers[at : at + len(step.commands)]
            at += len(step.commands)

    async def _of_slot(self, slot: int | None) -> N:
        slots = self._slots or await self._known_slots()
        return self._at(slots[slot or 0])

    def _at(self, address: Address) -> N:
        if self._is_closed:
            raise ConnectionError("the connection was closed")
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = self._make(node_url(self._url, address))
        return node

    async def _known_slots(self) -> list[Address]:
        async with self._reading:
            if self._slots is None:
                self._slots = await self._read_slots()
            return self._slots

    async def _read_slots(self) -> list[Address]:
        """Ask one node after the other who has which slot, until one answers."""
        failure: Exception | None = None
        for address in dict.fromkeys([*self._nodes, self._entry]):
            try:
                [answer] = await self._send(self._at(address), [("CLUSTER", "SLOTS")])
            except (RedisError, OSError) as error:
                failure = error
                continue
            if isinstance(answer, ResponseError):
                failure = answer
                continue
            return _slots(answer, address[0])
        assert failure is not None
        raise failure


def _slots(answer: Sequence[Any], host: str) -> list[Address]:
    """Return who has each slot by the answer to CLUSTER SLOTS from a host."""
    slots: list[Address | None] = [None] * SLOTS
    for first, last, (named, port, *_), *_ in answer:
        name = named.decode() if isinstance(named, bytes) else named
        slots[first : last + 1] = [(name if name and name != "?" else host, port)] * (
            last + 1 - first
        )
    found = [each for each in slots if each is not None]
    if len(found) < SLOTS:
        raise ClusterDownError(f"CLUSTERDOWN {SLOTS - len(found)} slots have no node")
    return found


def _steps(commands: Sequence[Command]) -> list[_Step]:
    """Return the steps of a question, each with its slot."""
    steps: list[_Step] = []
    is_open = False
    for command in commands:
        if is_open:
            step = steps[-1]
            step.commands.append(command)
            is_open = command[0] != "EXEC"
        else:
            step = _Step([command])
            steps.append(step)
            is_open = command[0] == "MULTI"
        if step.slot is None:
            step.slot = slot_of(command)
    slot = next((step.slot for step in steps if step.slot is not None), None)
    for step in steps:
        slot = step.slot = slot if step.slot is None else step.slot
    return steps


def _redirection(refusal: ResponseError) -> _Redirection | None:
    """Return where a refusal leads, None for one that is final."""
    # The client's own parser cuts the first word off, ours does not.
    if isinstance(refusal, TryAgainError | ClusterDownError):
        return _Redirection("", ("", 0))
    text = str(refusal)
    if isinstance(refusal, MovedError | AskError):
        text = f"{'MOVED' if isinstance(refusal, MovedError) else 'ASK'} {text}"
    kind, _, rest = text.partition(" ")
    if kind in ("TRYAGAIN", "CLUSTERDOWN"):
        return _Redirection("", ("", 0))
    if kind not in ("MOVED", "ASK"):
        return None
    host, _, port = rest.rpartition(" ")[2].rpartition(":")
    return _Redirection(kind, (host, int(port)))
