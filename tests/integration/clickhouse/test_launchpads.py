"""Launch platforms as agent `store` reads them back from ClickHouse."""

from __future__ import annotations

from typing import Any

from infra.clickhouse.migrations import migrate
from infra.settings import Settings
from pipeline.agents.launchpads import reader
from pipeline.domain.launchpad import Launchpad
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.proto.tape_pb2 import Creation, Migration
from schemas.rows import CREATIONS, MIGRATIONS
from schemas.tape_rows import creation_row, migration_row


def at(slot: int, event_index: int) -> dict[str, Any]:
    signature = f"{slot}-{event_index}"
    return {"slot": slot, "event_index": event_index, "signature": signature,
            "block_time_ms": 1_785_500_000_000 + slot * 400}  # fmt: skip


async def test_the_first_that_names_one_before_a_slot_counts(embedded: Any) -> None:
    settings = Settings(
        _env_file=None, clickhouse_url=embedded.url, clickhouse_database="launchpads"
    )
    migrate(settings)
    sink = ClickHouseSink(settings)
    created = [
        Creation(mint="coin", platform="", **at(5, 1)),
        Creation(mint="coin", platform="bags", **at(5, 3)),
        Creation(mint="coin", platform="later", **at(5, 4)),
        Creation(mint="other", platform="pump-fun", **at(9, 1)),
        Creation(mint="plain", platform="", **at(4, 1)),
    ]
    moved = [
        Migration(mint="coin", platform="moved", **at(7, 1)),
        Migration(mint="coin", platform="again", **at(8, 1)),
    ]
    try:
        for round_ in range(2):  # a row may be there twice
            rows = [creation_row(each) for each in created]
            await sink.insert(CREATIONS.name, rows, f"creations {round_}")
            rows = [migration_row(each) for each in moved]
            await sink.insert(MIGRATIONS.name, rows, f"migrations {round_}")
        read = reader(sink)
        mints = ["coin", "other", "plain", "unheard of"]
        assert await read(mints, 5) == {}
        assert await read(mints, 6) == {"coin": Launchpad("bags", "")}
        assert await read(mints, 9) == {"coin": Launchpad("bags", "moved")}
        assert await read(mints, 10) == {
            "coin": Launchpad("bags", "moved"),
            "other": Launchpad("pump-fun", ""),
        }
        assert await read(["other"], 100) == {"other": Launchpad("pump-fun", "")}
    finally:
        await sink.close()
