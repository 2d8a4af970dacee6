from __future__ import annotations

from infra.chain.replay import ReplayLog
from infra.chain.source import ChainTransaction
from infra.chain.updates import TransactionUpdate


def update(slot: int, size: int = 100) -> TransactionUpdate:
    return TransactionUpdate(
        slot, ChainTransaction(bytes(64), 0, b"x" * size, frozenset(), False, False), b""
    )


def filled(
    slots: range, each: int = 3, max_slots: int = 100, max_bytes: int = 1 << 20
) -> ReplayLog:
    log = ReplayLog(max_slots, max_bytes)
    for slot in slots:
        log.start(slot)
        log.extend([update(slot)] * each)
    return log


def test_reading_goes_by_position() -> None:
    log = filled(range(10, 13))
    assert (log.base, log.head) == (0, 9)
    assert [item.slot for item in log.read(2, 3)] == [10, 11, 11]
    assert log.read(9, 3) == []


def test_old_slots_are_forgotten() -> None:
    log = filled(range(10, 30), max_slots=4)
    assert (log.first_slot, log.slots, log.base, log.head) == (26, 4, 48, 60)
    assert [item.slot for item in log.read(48, 2)] == [26, 26]


def test_the_memory_limit_forgets_slots_too() -> None:
    log = filled(range(10, 30), max_bytes=1000)
    assert log.first_slot == 26
    assert log.base == 48


def test_one_slot_is_kept_whatever_its_size() -> None:
    log = filled(range(10, 12), max_bytes=10)
    assert log.first_slot == 11


def test_where_a_replay_starts() -> None:
    log = filled(range(10, 20, 2), max_slots=4)
    assert log.position_of(12) == 3
    assert log.position_of(13) == 6, "a skipped slot starts with the next one"
    assert log.position_of(11) is None
    assert log.position_of(99) == log.head
    assert ReplayLog(4, 1000).position_of(1) is None


class Reader:
    def __init__(self, log: ReplayLog) -> None:
        self.log = log
        self.woken = 0
        self.position = log.head

    def wake(self) -> None:
        self.woken += 1

    def behind(self) -> int:
        return self.log.head - self.position


def test_readers_hear_of_updates_until_they_leave() -> None:
    log = filled(range(10, 11))
    reader = Reader(log)
    log.join(reader)
    log.extend([update(10)] * 3)
    log.leave(reader)
    log.extend([update(10)])
    assert reader.woken == 1


def test_only_those_close_behind_are_waited_for() -> None:
    log = filled(range(10, 11))
    reader = Reader(log)
    log.join(reader)
    assert not log.is_awaited(within=5)
    log.extend([update(10)] * 4)
    assert log.is_awaited(within=5)
    log.extend([update(10)])
    assert not log.is_awaited(within=5)
    reader.position = log.head
    assert not log.is_awaited(within=5)
