"""How long swaps are kept: CLICKHOUSE_SWAPS_DAYS, brought to the table whenever it changes."""

from __future__ import annotations

from typing import Final

from clickhouse_connect.driver.client import Client

from infra.settings import Settings

# Counted from when a row was written: a chain replayed from a recording has times of long ago.
_TTL: Final = "written_at + toIntervalDay({days})"
_ENGINE: Final = (
    "SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = 'swaps'"
)


def apply_retention(client: Client, settings: Settings) -> None:
    """Set the TTL of `swaps` if the table is there with another one. Raises ClickHouseError."""
    days = settings.clickhouse_swaps_days
    wanted = _TTL.format(days=days)
    for (engine,) in client.query(_ENGINE).result_rows:
        if days and f" TTL {wanted} " not in engine:
            client.command(f"ALTER TABLE swaps MODIFY TTL {wanted}")
        elif not days and " TTL " in engine:
            client.command("ALTER TABLE swaps REMOVE TTL")
