"""How long swaps are kept: CLICKHOUSE_SWAPS_DAYS, brought to the table whenever it changes."""

from __future__ import annotations

from typing import Final

from clickhouse_connect.driver.client import Client

from infra.settings import Settings

# Counted from when a row was written: a chain replayed from a recording has times of long ago.
_TTL: Final = "written_at + toIntervalDay({days})"


def apply_retention(client: Client, settings: Settings) -> None:
    """Set the TTL of `swaps` if it is another one. Raises ClickHouseError."""
    days = settings.clickhouse_swaps_days
    table = client.command("SELECT engine_full FROM system.tables WHERE database = "
                           "currentDatabase() AND name = 'swaps'")  # fmt: skip
    assert isinstance(table, str)
    if days and f" TTL {_TTL.format(days=days)}" not in table:
        client.command(f"ALTER TABLE swaps MODIFY TTL {_TTL.format(days=days)}")
    elif not days and " TTL " in table:
        client.command("ALTER TABLE swaps REMOVE TTL")
