"""The settled lanes of a new count: they begin with the last slots of the old ones.

Ingest continues after the last slot of its lanes, and looks through the last ones for what may
still be rolled back: of the lanes of a new count it finds the same as it would have of the old.
Agents apply none of these slots: their books have them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from infra.kafka import topics
from infra.settings import Settings
from pipeline.ingest.lane_producer import LaneLost, LaneProducer, PublishFailed
from pipeline.ingest.log_tail import UNFINAL_SLOTS
from pipeline.ingest.publisher import LANE
from pipeline.partitions.refile import parts
from schemas.codec import parse
from schemas.proto.tape_pb2 import SlotBatch, TapeEvent
from schemas.topics import LIVE, SETTLED, Topic

_ACKED_WITHIN_S: Final = 60.0
_LOOK_S: Final = 0.01


class LanesNotReady(Exception):
    """The lanes do not end as a raise needs it; the text says what to do."""


async def live_silence_s(settings: Settings) -> float:
    """Return for how long ingest has written nothing; infinite where it never did."""
    last = await topics.last_records(settings, LIVE)
    newest_ms = max((record.timestamp for record in last.values()), default=0)
    return time.time() - newest_ms / 1000 if newest_ms else float("inf")


async def last_slot(settings: Settings, count: int) -> int:
    """Return the slot that all partitions of both lanes end on; raises LanesNotReady."""
    ends: dict[str, int] = {}
    for lane in SETTLED:
        old = lane.with_partitions(count)
        records = await topics.last_records(settings, old)
        for partition in range(count):
            place = f"{old.name}[{partition}]"
            if partition not in records:
                raise LanesNotReady(f"{place} has no record any more: run ingest for some slots")
            ends[place] = _batch(old, records[partition].value).slot
    if len({*ends.values()}) > 1:
        low, high = min(ends, key=ends.__getitem__), max(ends, key=ends.__getitem__)
        raise LanesNotReady(
            f"the lanes do not end on one slot ({low} on {ends[low]}, {high} on {ends[high]}): "
            "run ingest for some slots, and stop it with SIGTERM"
        )
    return next(iter(ends.values()))


@asynccontextmanager
async def fenced(settings: Settings) -> AsyncIterator[LaneProducer]:
    """Give the lanes' producer: ingest, or another raise, cannot write any more.

    Raises PublishFailed.
    """
    producer = LaneProducer(settings, LANE)
    await producer.take_over()
    try:
        yield producer
    finally:
        await producer.close(_ACKED_WITHIN_S)


async def begin(
    settings: Settings, producer: LaneProducer, old_count: int, count: int, slot: int
) -> None:
    """Make the lanes of a count and write the last slots of the old ones to them, up to `slot`.

    With the first record of the last partition the new lanes are those of the tape. May be called
    again after it was interrupted. Raises LanesNotReady, PublishFailed, TopicsWrong.
    """
    await topics.create(settings, [lane.with_partitions(count) for lane in SETTLED])
    if await last_slot(settings, old_count) != slot:
        raise LanesNotReady(f"ingest has written after slot {slot}: stop it, run this again")
    lacking: list[tuple[str, int, list[SlotBatch]]] = []
    for lane in SETTLED:
        new = lane.with_partitions(count)
        found = await _lacking(settings, lane.with_partitions(old_count), new)
        lacking += ((new.name, part, batches) for part, batches in found.items())
    for some in (lacking[:-1], lacking[-1:]):  # the last partition makes them the tape's
        _produce(producer, some)
        await _acked(producer)


async def _lacking(settings: Settings, old: Topic, new: Topic) -> dict[int, list[SlotBatch]]:
    """Return the last slots of each new partition that it does not have, ascending."""
    written = {
        part: _batch(new, record.value).slot
        for part, record in (await topics.last_records(settings, new)).items()
    }
    found: dict[int, list[SlotBatch]] = {part: [] for part in range(new.partitions)}
    # Of an earlier attempt there may be some: then all that follow them.
    for partition, batches in (
        await _newest(settings, old, min(written.values(), default=None))
    ).items():
        for batch in batches:
            for part in parts(old, partition, new):
                if batch.slot > written.get(part, 0):
                    found[part].append(part_of(batch, new, part))
    return found


async def _newest(settings: Settings, lane: Topic, after: int | None) -> dict[int, list[SlotBatch]]:
    """Return the last slots of each partition, ascending, and as many more as are after a slot."""
    most = 2 * UNFINAL_SLOTS  # offsets: transactions' markers take some
    while True:
        found = {
            partition: [_batch(lane, record.value) for record in records]
            for partition, records in (await topics.newest_records(settings, lane, most)).items()
        }
        oldest = max((batches[0].slot for batches in found.values() if batches), default=0)
        whole = await _all_offsets(settings, lane) <= most
        if after is None or oldest <= after or whole:
            break
        most *= 4
    return {
        partition: [
            batch
            for at, batch in enumerate(batches)
            if at >= len(batches) - UNFINAL_SLOTS or (after is not None and batch.slot > after)
        ]
        for partition, batches in found.items()
    }


async def _all_offsets(settings: Settings, lane: Topic) -> int:
    return max((await topics.end_offsets(settings, lane)).values())


def part_of(batch: SlotBatch, new: Topic, part: int) -> SlotBatch:
    """Return what a slot of an old partition has of a new one."""
    made = SlotBatch()
    made.CopyFrom(batch)
    by_mint = new.key == "mint"
    del made.events[:], made.balances[:], made.movements[:]
    del made.funding_payments[:], made.perp_changes[:], made.perp_gaps[:]
    made.events.extend(
        event for event in batch.events if new.partition(_key(event, by_mint=by_mint)) == part
    )
    made.balances.extend(
        each
        for each in batch.balances
        if new.partition(each.mint if by_mint else each.owner) == part
    )
    for name in ("movements", "funding_payments", "perp_changes", "perp_gaps"):
        of_wallets = getattr(batch, name)
        getattr(made, name).extend(
            each for each in of_wallets if new.partition(each.wallet) == part
        )
    return made


def _key(event: TapeEvent, *, by_mint: bool) -> str:
    if not by_mint:
        return event.swap.wallet
    kind = event.WhichOneof("event")
    assert kind is not None
    mint: str = getattr(event, kind).mint
    return mint


def _batch(topic: Topic, value: bytes) -> SlotBatch:
    batch = parse(topic, value)
    assert isinstance(batch, SlotBatch)
    return batch


def _produce(producer: LaneProducer, lacking: list[tuple[str, int, list[SlotBatch]]]) -> None:
    for name, part, batches in lacking:
        for batch in batches:
            producer.produce(name, part, batch.SerializeToString(), lambda: None)


async def _acked(producer: LaneProducer) -> None:
    deadline = time.monotonic() + _ACKED_WITHIN_S
    while True:
        try:
            producer.poll()
        except LaneLost as lost:
            raise LanesNotReady(
                f"ingest, or another raise, has taken the lanes over: stop it ({lost})"
            ) from None
        if not len(producer):
            return
        if time.monotonic() > deadline:
            raise PublishFailed(f"Kafka has not acknowledged the lanes in {_ACKED_WITHIN_S:g} s")
        await asyncio.sleep(_LOOK_S)
