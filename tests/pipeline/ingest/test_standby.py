"""When a standby takes over, and what it has kept of the stream by then."""

from __future__ import annotations

import asyncio

import pytest

from infra.settings import Settings
from pipeline.ingest import standby as module
from pipeline.ingest.intake import Connected, Intake
from pipeline.ingest.standby import Standby
from schemas.proto.geyser_pb2 import SubscribeUpdate, SubscribeUpdateBlockMeta
from schemas.topics import LIVE
from tests.support.waiting import eventually_async


def meta(slot: int) -> bytes:
    return SubscribeUpdate(block_meta=SubscribeUpdateBlockMeta(slot=slot)).SerializeToString()


async def kept(items: list[bytes | Connected]) -> tuple[Standby, Intake]:
    """A standby that has taken items off the stream."""
    intake = Intake(1000)
    standby = Standby(Settings(_env_file=None), LIVE, intake)
    for item in items:
        await intake.put(item)
    # private `_keep`: the loop that keeps updates, without Redis and its lease.
    keeping = asyncio.create_task(standby._keep())
    await eventually_async(lambda: not len(intake))
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    return standby, intake


async def test_what_covers_the_next_slot_is_handed_over_before_what_comes() -> None:
    updates = [meta(slot) for slot in range(100, 110)]
    standby, intake = await kept([Connected(None), *updates])
    await intake.put(b"next")
    assert standby.hand_over(105)
    assert await intake.take(100) == [Connected(106), *updates, b"next"]
    assert intake.bytes == 0


async def test_a_stream_that_began_too_late_is_not_handed_over() -> None:
    standby, intake = await kept([Connected(None), *(meta(slot) for slot in range(100, 110))])
    assert not standby.hand_over(102)
    assert not standby.hand_over(None)
    assert len(intake) == 0


async def test_only_the_last_connection_counts() -> None:
    early = [meta(slot) for slot in range(100, 110)]
    late = [meta(slot) for slot in range(120, 125)]
    standby, intake = await kept([Connected(None), *early, Connected(None), *late, b"garbage"])
    assert not standby.hand_over(119)
    assert standby.hand_over(123)
    assert await intake.take(100) == [Connected(124), *late, b"garbage"]


async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_BYTES", 5 * len(meta(200)))
    standby, intake = await kept([Connected(None), *(meta(slot) for slot in range(200, 300))])
    assert standby.hand_over(298)
    assert await intake.take(100) == [Connected(299), *(meta(slot) for slot in range(295, 300))]


def test_only_silence_while_the_chain_goes_on_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module.time, "monotonic", lambda: now)
    standby = Standby(Settings(_env_file=None), LIVE, Intake(10))
    # private `_look`, `_alone_since`: one look at the lanes' ends, which a task takes by the clock.
    assert not standby._look({0: 5})
    now += 60
    assert not standby._look({0: 5}), "the chain is silent as well"
    standby._alone_since = now  # an update came
    now += 4.9
    assert not standby._look({0: 5})
    now += 0.2
    assert standby._look({0: 5})
    assert not standby._look({0: 6}), "it lives"
    assert not standby._look({0: 6})
