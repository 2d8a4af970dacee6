"""Perp events on a real ClickHouse: each once whatever is killed, none of a slot that is bad."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infra.clickhouse.client import connect
from infra.settings import Settings
from pipeline.agents.pnl.perps import PerpRows
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import TABLES
from schemas.tape_rows import funding_row, perp_change_row, perp_gap_row
from tests.integration.agents.pnl.conftest import PARTITION

MADE = {
    "funding_payments": ("funding_payments", funding_row),
    "perp_changes": ("perp_changes", perp_change_row),
    "perp_gaps": ("perp_gaps", perp_gap_row),
}


def stored(settings: Settings, table: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(
        f"toUnixTimestamp64Milli({name})" if "DateTime" in kind else name
        for name, kind in TABLES[table].columns.items()
    )
    with connect(settings) as client:
        found = client.query(f"SELECT {columns} FROM {table} FINAL")
    return sorted(tuple(row) for row in found.result_rows)


def expected(batches: list[SlotBatch], table: str) -> list[tuple[Any, ...]]:
    field, row = MADE[table]
    return sorted(row(each) for batch in batches for each in getattr(batch, field))


async def test_rows_are_there_once_after_a_kill_before_the_watermark(
    stores: Settings, player: Callable[..., Any], market: Callable[..., Any]
) -> None:
    batches = market(3).slots(120)
    playing = await player(clickhouse=True)
    await playing.apply(batches[:40])
    await playing.flush()
    await playing.apply(batches[40:90])
    await playing.insert(playing.books.take())  # and is killed: Redis has slot 40
    playing.books = None
    await playing.apply(batches)
    await playing.flush()
    for table in MADE:
        wanted = expected(batches, table)
        assert len(wanted) > 5
        assert stored(stores, table) == wanted, table
    assert stored(stores, "perp_histories") == [
        ("drift", PARTITION, batches[0].slot),
        ("jupiter-perps", PARTITION, batches[0].slot),
    ]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda batch: batch.perp_changes.add(change="moved"),
        lambda batch: batch.funding_payments.add(market_index=2**16),
        lambda batch: batch.funding_payments.add(cumulative_funding_long="much"),
        lambda batch: batch.funding_payments.add(cumulative_funding_long=str(2**127)),
    ],
)
def test_of_a_slot_that_is_bad_no_row_is_kept(spoil: Callable[[SlotBatch], None]) -> None:
    rows = PerpRows(17)
    batch = SlotBatch(slot=5, perp_dexes=["drift"])
    batch.perp_gaps.add(slot=5)
    spoil(batch)
    with pytest.raises(CodecError):
        rows.apply(batch)
    assert rows.take() == {}
    rows.apply(SlotBatch(slot=6, perp_dexes=["drift"]))
    assert rows.take() == {"perp_histories": [("drift", 17, 6)]}
