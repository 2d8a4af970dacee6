"""Consumer groups: who is a member, who leads, who owns which partitions.

The classic protocol: members join, the leader assigns, members sync and send heartbeats.
A member that is silent for its session timeout, or does not rejoin in time, is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from time import monotonic
from typing import Any, Final

from kio.schema.errors import ErrorCode

INITIAL_DELAY_S: Final = 0.1  # others may join before the first assignment
MIN_SESSION_S: Final = 0.5
MAX_SESSION_S: Final = 600.0


class State(Enum):
    """Where a group is in its rebalance, in Kafka's words."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@dataclass(slots=True)
class Member:
    """A consumer of a group."""

    id: str
    client_id: str
    client_host: str
    session_timeout_s: float
    rebalance_timeout_s: float
    protocol_type: str
    protocols: Sequence[tuple[str, bytes]]
    seen_at: float = 0.0
    assignment: bytes = b""
    join: asyncio.Future[Joined] | None = None
    sync: asyncio.Future[Synced] | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join; the leader also gets the members' metadata."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: Sequence[tuple[str, bytes]] = ()


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a sync."""

    error: ErrorCode
    assignment: bytes = b""


@dataclass(slots=True)
class Group:
    """One consumer group."""

    name: str
    state: State = State.EMPTY
    generation: int = 0
    protocol: str = ""
    protocol_type: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)  # ids given out, not used yet
    deadline: float = 0.0  # of a rebalance under way
    _gathering: bool = False  # the first members are awaited

    def check(self, member_id: str, generation: int) -> ErrorCode:
        """Return the error of a request of a member, `none` where it is in order."""
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.unknown_member_id
        member.seen_at = monotonic()
        if generation != self.generation:
            return ErrorCode.illegal_generation
        return ErrorCode.none

    def begin(self) -> None:
        """Ask everyone to join again."""
        self._gathering = self.state is State.EMPTY
        self.state = State.PREPARING
        longest = max((m.rebalance_timeout_s for m in self.members.values()), default=0.0)
        self.deadline = monotonic() + (INITIAL_DELAY_S if self._gathering else longest)
        for member in self.members.values():
            if member.sync is not None:
                _answer(member.sync, Synced(ErrorCode.rebalance_in_progress))
                member.sync = None

    def settle(self) -> None:
        """Close the joining phase if all have joined or the time is up.

        A group that had nobody waits the whole of its short first delay: members that start
        together are assigned together.
        """
        if self.state is not State.PREPARING:
            return
        waiting = [member for member in self.members.values() if member.join is None]
        if monotonic() < self.deadline and (waiting or self._gathering):
            return
        self._gathering = False
        for member in waiting:
            del self.members[member.id]
        if not self.members:
            self.state = State.EMPTY
            self.leader = self.protocol = ""
            return
        self.generation += 1
        self.protocol = self._common_protocol()
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.state = State.COMPLETING
        everyone = [
            (member.id, dict(member.protocols).get(self.protocol, b""))
            for member in self.members.values()
        ]
        for member in self.members.values():
            member.seen_at = monotonic()
            join, member.join = member.join, None
            members = everyone if member.id == self.leader else ()
            _answer(
                join,
                Joined(
                    ErrorCode.none,
                    member.id,
                    self.generation,
                    self.protocol,
                    self.leader,
                    members,
                ),
            )

    def _common_protocol(self) -> str:
        names = [name for name, _ in next(iter(self.members.values())).protocols]
        for name in names:
            if all(name in dict(member.protocols) for member in self.members.values()):
                return name
        return names[0] if names else ""

    def drop(self, member_id: str) -> None:
        """Remove a member; the others rebalance."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        _answer(member.join, Joined(ErrorCode.unknown_member_id))
        _answer(member.sync, Synced(ErrorCode.unknown_member_id))
        if not self.members:
            self.state = State.EMPTY
            self.leader = self.protocol = ""
        elif self.state is not State.PREPARING:
            self.begin()

    def expire(self) -> None:
        """Drop the members that have been silent for too long."""
        now = monotonic()
        for member in list(self.members.values()):
            silent_s = now - member.seen_at
            waits = member.join is not None or member.sync is not None
            if not waits and silent_s > member.session_timeout_s:
                self.drop(member.id)


class Groups:
    """All consumer groups of the broker."""

    def __init__(self) -> None:
        self.by_name: dict[str, Group] = {}
        self._numbers = count(1)

    def group(self, name: str) -> Group:
        """Return a group, a new one where there is none."""
        return self.by_name.setdefault(name, Group(name))

    async def join(self, name: str, candidate: Member, *, needs_id: bool) -> Joined:
        """Join a group and wait for its rebalance."""
        group = self.group(name)
        if not name:
            return Joined(ErrorCode.invalid_group_id)
        if not MIN_SESSION_S <= candidate.session_timeout_s <= MAX_SESSION_S:
            return Joined(ErrorCode.invalid_session_timeout)
        if group.members and (
            candidate.protocol_type != group.protocol_type
            or not any(
                all(protocol in dict(member.protocols) for member in group.members.values())
                for protocol, _ in candidate.protocols
            )
        ):
            return Joined(ErrorCode.inconsistent_group_protocol)
        if not candidate.id:
            candidate.id = f"{candidate.client_id}-{next(self._numbers)}-{monotonic():.6f}"
            if needs_id:
                group.pending.add(candidate.id)
                return Joined(ErrorCode.member_id_required, candidate.id)
        elif candidate.id not in group.members and candidate.id not in group.pending:
            return Joined(ErrorCode.unknown_member_id, candidate.id)
        group.pending.discard(candidate.id)
        group.protocol_type = candidate.protocol_type
        known = group.members.get(candidate.id)
        if known is not None:
            _answer(known.join, Joined(ErrorCode.rebalance_in_progress))
        candidate.seen_at = monotonic()
        candidate.join = asyncio.get_running_loop().create_future()
        answer = candidate.join
        group.members[candidate.id] = candidate
        if group.state is not State.PREPARING:
            group.begin()
        group.settle()
        return await answer

    async def sync(
        self, name: str, member_id: str, generation: int, assignments: Mapping[str, bytes]
    ) -> Synced:
        """Give (as leader) or await (as member) the assignment of a generation."""
        group = self.group(name)
        error = group.check(member_id, generation)
        if error is not ErrorCode.none:
            return Synced(error)
        member = group.members[member_id]
        if group.state is State.STABLE:
            return Synced(ErrorCode.none, member.assignment)
        if group.state is not State.COMPLETING:
            return Synced(ErrorCode.rebalance_in_progress)
        if member_id == group.leader:
            group.state = State.STABLE
            for each in group.members.values():
                each.assignment = assignments.get(each.id, b"")
                sync, each.sync = each.sync, None
                _answer(sync, Synced(ErrorCode.none, each.assignment))
            return Synced(ErrorCode.none, member.assignment)
        member.sync = asyncio.get_running_loop().create_future()
        return await member.sync

    def heartbeat(self, name: str, member_id: str, generation: int) -> ErrorCode:
        """Note that a member lives; the answer says whether a rebalance is under way."""
        group = self.group(name)
        error = group.check(member_id, generation)
        if error is ErrorCode.none and group.state is State.PREPARING:
            return ErrorCode.rebalance_in_progress
        return error

    def leave(self, name: str, member_id: str) -> ErrorCode:
        """Remove a member at its own wish."""
        group = self.group(name)
        if member_id not in group.members:
            return ErrorCode.unknown_member_id
        group.drop(member_id)
        group.settle()
        return ErrorCode.none

    def tick(self) -> None:
        """Drop silent members, end rebalances whose time is up; called several times a second."""
        for group in self.by_name.values():
            group.expire()
            group.settle()


def _answer(future: asyncio.Future[Any] | None, answer: Joined | Synced) -> None:
    if future is not None and not future.done():
        future.set_result(answer)
