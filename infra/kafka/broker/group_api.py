"""The requests about consumer groups: who is a member, and how far a group has come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode

from infra.kafka.broker.answers import Client, answer
from infra.kafka.broker.groups import Groups, Member
from infra.kafka.broker.store import Store


class GroupApi:
    """Answers them; the broker itself is the coordinator of every group."""

    def __init__(self, groups: Groups, store: Store, node: Mapping[str, Any]) -> None:
        self._groups = groups
        self._store = store
        self._node: Final = node  # node_id, host, port
        self.handlers: Mapping[int, Callable[[Any, Client], Awaitable[Any]]] = {
            8: self._offset_commit,
            9: self._offset_fetch,
            10: self._find_coordinator,
            11: self._join_group,
            12: self._heartbeat,
            13: self._leave_group,
            14: self._sync_group,
            15: self._describe_groups,
            16: self._list_groups,
        }

    async def _find_coordinator(self, request: Any, client: Client) -> Any:
        return answer(
            request,
            "FindCoordinatorResponse",
            error_code=ErrorCode.none,
            error_message=None,
            **self._node,
        )

    async def _join_group(self, request: Any, client: Client) -> Any:
        session_s = request.session_timeout.total_seconds()
        rebalance = getattr(request, "rebalance_timeout", None)
        member = Member(
            id=request.member_id,
            client_id=client.id,
            client_host=client.host,
            session_timeout_s=session_s,
            rebalance_timeout_s=rebalance.total_seconds() if rebalance else session_s,
            protocol_type=request.protocol_type,
            protocols=[(each.name, each.metadata) for each in request.protocols],
        )
        joined = await self._groups.join(
            request.group_id, member, needs_id=request.__version__ >= 4
        )
        return answer(
            request,
            "JoinGroupResponse",
            error_code=joined.error,
            generation_id=joined.generation,
            protocol_name=joined.protocol,
            leader=joined.leader,
            member_id=joined.member_id,
            members=tuple(
                answer(request, "JoinGroupResponseMember", member_id=name, metadata=metadata)
                for name, metadata in joined.members
            ),
        )

    async def _sync_group(self, request: Any, client: Client) -> Any:
        assignments = {each.member_id: each.assignment for each in request.assignments}
        synced = await self._groups.sync(
            request.group_id, request.member_id, request.generation_id, assignments
        )
        return answer(
            request,
            "SyncGroupResponse",
            error_code=synced.error,
            assignment=synced.assignment,
        )

    async def _heartbeat(self, request: Any, client: Client) -> Any:
        error = self._groups.heartbeat(request.group_id, request.member_id, request.generation_id)
        return answer(request, "HeartbeatResponse", error_code=error)

    async def _leave_group(self, request: Any, client: Client) -> Any:
        if request.__version__ < 3:
            error = self._groups.leave(request.group_id, request.member_id)
            return answer(request, "LeaveGroupResponse", error_code=error)
        members = tuple(
            answer(
                request,
                "MemberResponse",
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=self._groups.leave(request.group_id, member.member_id),
            )
            for member in request.members
        )
        return answer(request, "LeaveGroupResponse", error_code=ErrorCode.none, members=members)

    async def _offset_commit(self, request: Any, client: Client) -> Any:
        error = ErrorCode.none
        generation = getattr(request, "generation_id_or_member_epoch", -1)
        if generation >= 0:
            error = self._groups.group(request.group_id).check(request.member_id, generation)
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                partition_error = error
                if (topic.name, each.partition_index) not in self._store.logs:
                    partition_error = ErrorCode.unknown_topic_or_partition
                if partition_error is ErrorCode.none:
                    note = each.committed_metadata or ""
                    self._store.commit(
                        request.group_id,
                        topic.name,
                        each.partition_index,
                        each.committed_offset,
                        note,
                    )
                partitions.append(
                    answer(
                        request,
                        "OffsetCommitResponsePartition",
                        partition_index=each.partition_index,
                        error_code=partition_error,
                    )
                )
            topics.append(
                answer(
                    request,
                    "OffsetCommitResponseTopic",
                    name=topic.name,
                    partitions=tuple(partitions),
                )
            )
        return answer(request, "OffsetCommitResponse", topics=tuple(topics))

    async def _offset_fetch(self, request: Any, client: Client) -> Any:
        group = request.group_id
        wanted: dict[str, Iterable[int]]
        if request.topics is None:
            wanted = {}
            for topic, partition in self._store.committed_partitions(group):
                wanted.setdefault(topic, []).append(partition)  # type: ignore[attr-defined]
        else:
            wanted = {topic.name: topic.partition_indexes for topic in request.topics}
        topics = tuple(
            answer(
                request,
                "OffsetFetchResponseTopic",
                name=topic,
                partitions=tuple(
                    self._committed(request, group, topic, partition) for partition in partitions
                ),
            )
            for topic, partitions in wanted.items()
        )
        return answer(request, "OffsetFetchResponse", topics=topics, error_code=ErrorCode.none)

    def _committed(self, request: Any, group: str, topic: str, partition: int) -> Any:
        offset, note = self._store.committed(group, topic, partition)
        return answer(
            request,
            "OffsetFetchResponsePartition",
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=-1,
            metadata=note,
            error_code=ErrorCode.none,
        )

    async def _describe_groups(self, request: Any, client: Client) -> Any:
        groups = []
        for name in request.groups:
            group = self._groups.by_name.get(name)
            members: tuple[Any, ...] = ()
            if group is not None:
                members = tuple(
                    answer(
                        request,
                        "DescribedGroupMember",
                        member_id=member.id,
                        group_instance_id=None,
                        client_id=member.client_id,
                        client_host=member.client_host,
                        member_metadata=dict(member.protocols).get(group.protocol, b""),
                        member_assignment=member.assignment,
                    )
                    for member in group.members.values()
                )
            groups.append(
                answer(
                    request,
                    "DescribedGroup",
                    error_code=ErrorCode.none,
                    group_id=name,
                    group_state=group.state.value if group else "Dead",
                    protocol_type=group.protocol_type if group else "",
                    protocol_data=group.protocol if group else "",
                    members=members,
                )
            )
        return answer(request, "DescribeGroupsResponse", groups=tuple(groups))

    async def _list_groups(self, request: Any, client: Client) -> Any:
        known = self._groups.by_name
        names = sorted({*known, *self._store.groups()})
        groups = tuple(
            answer(
                request,
                "ListedGroup",
                group_id=name,
                protocol_type=group.protocol_type if (group := known.get(name)) else "",
            )
            for name in names
        )
        return answer(request, "ListGroupsResponse", error_code=ErrorCode.none, groups=groups)
