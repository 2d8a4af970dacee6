"""The user for analysts and the API: reads our database and nothing else, within limits.

A ClickHouse server keeps such a user itself: `create_on_server` creates it. The embedded engine has
one user for everything, so the front asks `allow` about each statement of the reader and runs it
in read-only mode. What reaches outside the tables is refused to the writer as well: see `fence`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from clickhouse_connect.driver.client import Client

from infra.clickhouse.errors import Code, refusal
from infra.clickhouse.statement import Statement
from infra.settings import Settings

LIMITS: Final = {
    "max_execution_time": 60,
    "max_memory_usage": 2 * 1024**3,
    "max_result_rows": 1_000_000,
    "max_threads": 2,
}
# Of all queries of the user together, which a server counts; the embedded engine has one user, and
# bounds of its own (`front`, `engine`).
TOGETHER: Final = {
    "max_concurrent_queries_for_user": 100,
    "max_memory_usage_for_user": 8 * 1024**3,
}
# Of a minute. Far above what the API asks: it ends what runs away, and is over soon.
QUOTA: Final = {"queries": 60_000, "execution_time": 1_200, "read_rows": 50_000_000_000}
READING: Final = {"readonly": "1"} | {name: str(limit) for name, limit in LIMITS.items()}

_VERBS: Final = frozenset(
    {"SELECT", "WITH", "FROM", "SHOW", "DESCRIBE", "DESC", "EXISTS", "EXPLAIN", "USE"}
)


def as_reader(settings: Settings) -> Settings:
    """Return settings that connect as the reader."""
    return settings.model_copy(
        update={
            "clickhouse_user": settings.clickhouse_reader_user,
            "clickhouse_password": settings.clickhouse_reader_password,
        }
    )


def create_on_server(client: Client, settings: Settings) -> bool:
    """Make role and user on a server if a password for the reader is set; return whether.

    Also brings role, limits and password up to date. Raises ClickHouseError, where the client's
    user may not manage access for one.
    """
    password = settings.clickhouse_reader_password
    if password is None or _is_embedded(client):
        return False
    for statement in server_statements(settings):
        client.command(statement, {"password": password.get_secret_value()})
    return True


def server_statements(settings: Settings) -> list[str]:
    """Return what makes the reader on a server; `%(password)s` is the password's place."""
    role = f"{settings.clickhouse_database}_reader"
    user = settings.clickhouse_reader_user
    # From 1: to ClickHouse 0 is no limit at all. readonly = 2: settings may be changed otherwise.
    bounds = (LIMITS | TOGETHER).items()
    limits = ", ".join(f"{name} = {limit} MIN 1 MAX {limit}" for name, limit in bounds)
    quota = ", ".join(f"{name} = {most}" for name, most in QUOTA.items())
    return [
        f"CREATE ROLE IF NOT EXISTS {role}",
        f"CREATE QUOTA IF NOT EXISTS {role} KEYED BY user_name",
        f"ALTER QUOTA {role} KEYED BY user_name FOR INTERVAL 1 minute MAX {quota} TO {role}",
        f"ALTER ROLE {role} SETTINGS readonly = 2, {limits}",
        f"GRANT SELECT ON {settings.clickhouse_database}.* TO {role}",
        # How full the server is, for the API's health: of parts it sees those of our tables.
        f"GRANT SELECT ON system.parts TO {role}",
        f"GRANT SELECT(name, free_space, total_space) ON system.disks TO {role}",
        f"CREATE USER IF NOT EXISTS {user} IDENTIFIED WITH sha256_password BY %(password)s",
        f"ALTER USER {user} IDENTIFIED WITH sha256_password BY %(password)s",
        f"GRANT {role} TO {user}",
        f"ALTER USER {user} DEFAULT ROLE {role}",
    ]


def _is_embedded(client: Client) -> bool:
    # The engine's own mark: a table function that reads Python objects.
    found = client.command(
        "SELECT count() FROM system.table_functions WHERE lower(name) = 'python'"
    )
    return bool(found)


def allow(statement: Statement, settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the reader's statement runs with, without `READING`'s.

    Raises QueryError for what the engine would let through in read-only mode though it writes or
    stops others' queries; and, as a server does, for a limit that is set higher.
    """
    if statement.verb not in _VERBS:
        raise refusal(Code.READONLY, "Cannot execute query in readonly mode")
    for name, limit in LIMITS.items():
        value = settings.get(name, "1")
        if not value.isdecimal() or not 1 <= int(value) <= limit:
            raise refusal(
                Code.SETTING_CONSTRAINT_VIOLATION,
                f"Setting {name} is {value}: from 1 to {limit} is accepted",
            )
    return {name: value for name, value in settings.items() if name != "readonly"}
