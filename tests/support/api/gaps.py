"""Gaps of the tape, and a tape without any for readers that are tested without stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from api.stores.gaps import GapReader
from infra.clickhouse.client import connect_async
from infra.settings import Settings
from pipeline.agents.settled.lost import LOG_LACKS, because
from pipeline.ingest.finality import ROLLED_BACK
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.proto.tape_pb2 import SlotGap
from schemas.rows import GAPS
from schemas.tape_rows import gap_row


class _Stores:
    async def query(self, sql: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return []


def no_gaps() -> GapReader:
    """Return a reader that finds no gaps."""
    return GapReader(_Stores(), 60.0)  # type: ignore[arg-type]


async def insert_gaps(settings: Settings, *gaps: SlotGap) -> None:
    """Write gaps as agent `store` does."""
    sink = ClickHouseSink(settings)
    try:
        await sink.insert(GAPS.name, [gap_row(gap) for gap in gaps], uuid4().hex)
    finally:
        await sink.close()


async def clear_gaps(settings: Settings) -> None:
    """Empty the table."""
    client = await connect_async(settings)
    try:
        await client.command(f"TRUNCATE TABLE {GAPS.name}")
    finally:
        await client.close()


def missing(first_slot: int, last_slot: int) -> SlotGap:
    """Return slots that no node had."""
    return SlotGap(first_slot=first_slot, last_slot=last_slot, reason="no node has them")


def lost(first_slot: int, last_slot: int, by: str) -> SlotGap:
    """Return slots that a partition of an agent group, "pnl 3" say, lost."""
    reason = because([LOG_LACKS])
    return SlotGap(first_slot=first_slot, last_slot=last_slot, reason=reason, lost_by=by)


def rolled_back(first_slot: int, last_slot: int, *wallets: str) -> SlotGap:
    """Return slots that were rolled back after they were settled; no wallets: not known."""
    return SlotGap(
        first_slot=first_slot, last_slot=last_slot, reason=ROLLED_BACK, wallets=sorted(wallets)
    )
