"""The limits of the user that writes, on a ClickHouse server.

The pipeline inserts, reads back what it put away and rebuilds; nothing of it needs a server's whole
memory, and what runs away ends before readers notice. The limits are a settings profile that is
assigned to the user: it also reaches one that the server's files define, as `infra/compose.yaml`
has it, which ALTER USER does not. What goes beyond a limit is refused, waits and is sent again
(`pipeline.sinks.clickhouse`). The embedded engine has bounds of its own (`engine`).
"""

from __future__ import annotations

from typing import Final

from clickhouse_connect.driver.client import Client

from infra.settings import Settings

LIMITS: Final = {
    # An insert a table of each process, and what agents read as they open their books.
    "max_concurrent_queries_for_user": 200,
    # Beside the reader's 8 GiB within the 16 GB of `infra/compose.yaml`.
    "max_memory_usage_for_user": 6 * 1024**3,
    # A migration or rebuild that reads a whole table takes minutes.
    "max_execution_time": 3_600,
}


def limit_on_server(client: Client, settings: Settings) -> None:
    """Give the writer its limits, or bring them up to date.

    Raises ClickHouseError, where the client's user may not manage access for one.
    """
    for statement in server_statements(settings):
        client.command(statement)


def server_statements(settings: Settings) -> list[str]:
    """Return what limits the writer on a server."""
    profile = f"{settings.clickhouse_database}_writer"
    limits = ", ".join(f"{name} = {most}" for name, most in LIMITS.items())
    user = settings.clickhouse_user.replace("\\", "\\\\").replace("`", "\\`")
    return [
        f"CREATE SETTINGS PROFILE IF NOT EXISTS {profile}",
        f"ALTER SETTINGS PROFILE {profile} SETTINGS {limits} TO `{user}`",
    ]
