"""The shape of our database: numbered files of SQL, each applied once and remembered.

`migrations/NNNN_name.sql` are applied in the order of their numbers to CLICKHOUSE_DATABASE and
recorded there, with a checksum, in `schema_migrations`. There is no lock to be left behind by a
process that dies: every statement may run twice, so two processes at once, or one that was stopped
half-way, come to the same end. A file that was applied is never changed; a change is a new file.
What no ALTER changes is the exception: then the file names the checksum that it had before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from typing import Final

from clickhouse_connect.driver.client import Client

from infra.clickhouse.client import ClickHouseError, connect
from infra.clickhouse.replication import replicated
from infra.clickhouse.retention import apply_retention
from infra.clickhouse.statement import split
from infra.settings import Settings
from infra.telemetry import host_of

# The first one in which projections of _part_offset alone spare all granules that do not match.
LEAST_SERVER: Final = (25, 11)

_FILE: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_EARLIER: Final = re.compile(r"^-- earlier: ([0-9a-f]{64})$", re.MULTILINE)
# What may run twice. CREATE OR REPLACE is for views: it would empty a table.
_REPEATABLE: Final = re.compile(
    r"""CREATE\ (TABLE|VIEW|MATERIALIZED\ VIEW)\ IF\ NOT\ EXISTS\b
      | CREATE\ OR\ REPLACE\ VIEW\b
      | DROP\ (TABLE|VIEW)\ IF\ EXISTS\b
      | ALTER\ TABLE\ \w+\ (
            (ADD\ (COLUMN|INDEX|PROJECTION)\ IF\ NOT\ EXISTS\b)
          | (DROP\ (COLUMN|INDEX|PROJECTION)\ IF\ EXISTS\b)
          | ((MODIFY|COMMENT)\ COLUMN\ IF\ EXISTS\b)
          | (MODIFY\ (SETTING|COMMENT)\b)
          | (MATERIALIZE\ (INDEX|PROJECTION)\b)
        )""",
    re.VERBOSE,
)
_RECORDS: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations
(
    number UInt32 COMMENT 'of the file',
    name String COMMENT 'of the file, without its number',
    checksum String COMMENT 'SHA-256 of its text',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it was done',
    applied_by String COMMENT 'version of Soltape that did it'
)
ENGINE = ReplacingMergeTree(applied_at)
ORDER BY number
COMMENT 'Migrations that were applied to this database'
"""


# ClickHouse Cloud makes shared tables of all.
_PLAIN: Final = """
SELECT name FROM system.tables
WHERE database = currentDatabase() AND engine LIKE '%MergeTree'
    AND NOT startsWith(engine, 'Replicated') AND NOT startsWith(engine, 'Shared')
ORDER BY name
"""


class MigrationError(Exception):
    """The database and this version of Soltape do not fit; the text says why and what to do."""


@dataclass(frozen=True)
class Migration:
    """One file."""

    number: int
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"

    @cached_property
    def checksum(self) -> str:
        """SHA-256 of the text."""
        return sha256(self.text.encode()).hexdigest()

    @cached_property
    def checksums(self) -> frozenset[str]:
        """Of the text and of those before it: a database that any of them made is up to date."""
        return frozenset({self.checksum, *_EARLIER.findall(self.text)})

    @cached_property
    def statements(self) -> list[str]:
        """The statements, in order. Raises MigrationError for one that may not run twice."""
        statements = [statement.decode() for statement in split(self.text.encode())]
        for statement in statements:
            words = " ".join(statement.split())
            if not _REPEATABLE.match(words):
                raise MigrationError(f"{self}.sql: may not run twice: {words[:60]} ...")
        return statements


def known() -> list[Migration]:
    """Return the migrations of this version, by number. Raises MigrationError."""
    found: dict[int, Migration] = {}
    for file in files("infra.clickhouse").joinpath("migrations").iterdir():
        if not file.name.endswith(".sql"):
            continue
        if not (parts := _FILE.fullmatch(file.name)):
            raise MigrationError(f"{file.name}: a migration is called NNNN_name.sql")
        migration = Migration(int(parts[1]), parts[2], file.read_text(encoding="utf-8"))
        if other := found.get(migration.number):
            raise MigrationError(f"{other} and {migration} have one number")
        found[migration.number] = migration
    return [found[number] for number in sorted(found)]


def migrate(settings: Settings, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Bring the database to this version and return what was applied, often nothing.

    Blocks for as long as the server takes. Raises MigrationError, ClickHouseError.
    """
    migrations = known() if migrations is None else migrations
    _create_database(settings)
    with connect(settings) as client:
        if settings.clickhouse_replicated:
            _check_replicated(settings, client)
        client.command(_here(settings, _RECORDS))
        pending = _pending(settings, client, migrations)
        for migration in pending:
            for statement in migration.statements:
                try:
                    client.command(_here(settings, statement))
                except ClickHouseError as error:
                    raise MigrationError(f"{migration} is refused: {error}") from None
            client.insert(
                "schema_migrations",
                [(migration.number, migration.name, migration.checksum, version("soltape"))],
                ["number", "name", "checksum", "applied_by"],
            )
        apply_retention(client, settings)
    return list(pending)


def pending(settings: Settings, migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Return what `migrate` would apply. Raises MigrationError, ClickHouseError."""
    migrations = known() if migrations is None else migrations
    with connect(settings, "default") as client:
        _check_server(settings, client)
        database = settings.clickhouse_database
        if not client.command(f"EXISTS TABLE {database}.schema_migrations"):
            return list(migrations)
    with connect(settings) as client:
        return _pending(settings, client, migrations)


def _create_database(settings: Settings) -> None:
    with connect(settings, "default") as client:
        _check_server(settings, client)
        # Asked first: a user may own a database without the right to create one.
        if not client.command(f"EXISTS DATABASE {settings.clickhouse_database}"):
            made = f"CREATE DATABASE IF NOT EXISTS {settings.clickhouse_database}"
            client.command(_here(settings, made))


def _here(settings: Settings, statement: str) -> str:
    """Return a statement for tables as the settings want them."""
    if not settings.clickhouse_replicated:
        return statement
    return replicated(statement, settings.clickhouse_cluster)


def _check_replicated(settings: Settings, client: Client) -> None:
    plain = client.query(_PLAIN).result_rows
    if plain:
        raise MigrationError(
            f"database {settings.clickhouse_database} has tables that are not replicated "
            f"({', '.join(name for (name,) in plain[:3])}, ...): name another CLICKHOUSE_DATABASE, "
            "make them so (ATTACH TABLE ... AS REPLICATED), or set CLICKHOUSE_REPLICATED=false"
        )


def _check_server(settings: Settings, client: Client) -> None:
    found = tuple(int(part) for part in (client.server_version or "0").split(".")[:2])
    if found < LEAST_SERVER:
        raise MigrationError(
            f"ClickHouse at {host_of(settings.clickhouse_url)} is {client.server_version}: "
            f"{'.'.join(map(str, LEAST_SERVER))} or newer is needed"
        )


def _pending(
    settings: Settings, client: Client, migrations: Sequence[Migration]
) -> list[Migration]:
    rows = client.query("SELECT number, name, checksum FROM schema_migrations FINAL").result_rows
    applied: Mapping[int, tuple[str, str]] = {number: (name, sum_) for number, name, sum_ in rows}
    where = f"database {settings.clickhouse_database} at {host_of(settings.clickhouse_url)}"
    ours = {migration.number for migration in migrations}
    if newer := [f"{number:04}_{applied[number][0]}" for number in sorted({*applied} - ours)]:
        raise MigrationError(
            f"{where} has {', '.join(newer)}, which this version of Soltape does not know: "
            "update Soltape, or name another CLICKHOUSE_DATABASE"
        )
    for migration in migrations:
        name, checksum = applied.get(migration.number, (migration.name, migration.checksum))
        if checksum not in migration.checksums:
            raise MigrationError(
                f"{migration}.sql is not the {migration.number:04}_{name}.sql that was applied to "
                f"{where}: restore it and put the change into a new file"
            )
    return [migration for migration in migrations if migration.number not in applied]
