"""The consumer under a group whose partitions are withdrawn while it is asked about them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError

from pipeline.agents.consumer import GroupConsumer

TP = TopicPartition("lane", 0)


# private `_subscription`: of aiokafka, where alone it says that a reassignment is under way.
class Withdrawn:
    """An aiokafka consumer whose partition goes to another member during every wait."""

    def __init__(self) -> None:
        self.assigned = {TP}
        self._subscription = SimpleNamespace(reassignment_in_progress=False)

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.assigned)

    def highwater(self, tp: TopicPartition) -> int:
        return 9

    async def position(self, tp: TopicPartition) -> int:
        self.assigned.clear()
        raise IllegalStateError(f"Partition {tp} is not assigned")

    async def beginning_offsets(self, tps: list[TopicPartition]) -> dict[TopicPartition, int]:
        self.assigned.clear()
        return dict.fromkeys(tps, 0)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        raise IllegalStateError(f"No current assignment for partition {tp}")


def of(consumer: Withdrawn) -> GroupConsumer:
    async def call_thread(work: Any) -> Any:
        return await work()

    thread = SimpleNamespace(call_thread=call_thread, _ensure_consumer=lambda: consumer)
    app: Any = SimpleNamespace(consumer=SimpleNamespace(_thread=thread))
    return GroupConsumer(app)


async def test_a_partition_withdrawn_meanwhile_is_not_ours_and_no_error() -> None:
    assert await of(Withdrawn()).position(TP) is None
    assert await of(Withdrawn()).seek(TP, 5) is None
    assert await of(Withdrawn()).ends() == {}


async def test_while_the_group_shares_them_out_no_partition_is_ours() -> None:
    consumer = Withdrawn()
    assert await of(consumer).ours() == {TP}
    consumer._subscription.reassignment_in_progress = True
    assert await of(consumer).ours() is None
