"""What the embedded engine grants to its one user, given to the engine itself as it opens.

Without a configuration of users the engine grants files, addresses and programs to everybody. The
fence reads statements; what is granted here holds where it cannot look too: expressions in the data
of an INSERT, in the columns that a table function takes as a string, in the value of a setting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from xml.sax.saxutils import escape

CURRENT_DATABASE: Final = "scratch"
"""Where a statement works that names no database."""

# No SOURCES (READ and WRITE of files and addresses), BACKUP, dictionaries or named collections.
_GRANTS: Final = (
    "SHOW, SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, "
    "CREATE TEMPORARY TABLE, CREATE FUNCTION, DROP, DROP FUNCTION, UNDROP TABLE, TRUNCATE, "
    "OPTIMIZE, CHECK, KILL QUERY, SYSTEM MERGES, SYSTEM TTL MERGES, SYSTEM VIEWS, SYSTEM FLUSH"
)
_MERGES: Final = (
    *("", "Aggregating", "Coalescing", "Collapsing", "Graphite", "Replacing", "Summing"),
    "VersionedCollapsing",
)
# Every query begins with them.
_NEVER_DROPPED: Final = (
    f"DROP DATABASE ON {CURRENT_DATABASE}.*",
    *(f"DROP ON {name}.*" for name in ("system", "information_schema", "INFORMATION_SCHEMA")),
)
ENGINES: Final = (
    *(f"{kind}MergeTree" for kind in _MERGES),
    *("Memory", "Null", "View", "MaterializedView"),
    *("Log", "TinyLog", "StripeLog", "Set", "Join", "Buffer"),
)
"""Table engines that keep their rows in the data directory or in memory."""
# Python objects ask for no grant either; and the fence reads one language only.
_FIXED_SETTINGS: Final = {"allow_python_table_function": "0", "dialect": "clickhouse"}

# The scalar function of that name asks for no grant. A function of the user's takes its place, and
# the engine drops none that has the name of one of its own.
_NO_FILE: Final = (
    "CREATE FUNCTION file AS (path) -> "
    "toString(throwIf(1, 'file: the embedded engine reaches its own tables only'))\n"
)


KEEP_FREE_BYTES: Final = 1024**3
"""What inserts and merges leave of the disk; below that they are refused.

The engine does not notice a write that fails half-way: the part is cut short, and a merge replaces
whole ones by it. So the disk must not become full while it writes, whatever else fills it.
"""
_KEEP_FREE: Final = (
    "<storage_configuration><disks><default>"
    f"<keep_free_space_bytes>{KEEP_FREE_BYTES}</keep_free_space_bytes>"
    "</default></disks></storage_configuration>"
)

# How often the engine looks at the memory of its process. At 50 ms, the default, this is half of
# the CPU that it takes while nobody asks.
_LOOKS_AT_MEMORY: Final = "<memory_worker_period_ms>1000</memory_worker_period_ms>"

_OF_BACKUPS: Final = ("GRANT BACKUP ON *.*", "GRANT READ, WRITE ON FILE")


@contextmanager
def configuration(data: Path, backups: Path | None = None) -> Iterator[Path]:
    """Prepare `data` and yield the configuration to open it with, which is read only then.

    With `backups` the engine may write backups to that folder and read them. It may then read and
    write other files as well: that is for an engine without a server in front of it.
    """
    functions = data / "user_defined"
    functions.mkdir(exist_ok=True)
    (functions / "function_file.sql").write_text(_NO_FILE)
    with TemporaryDirectory() as folder:
        users = Path(folder, "users.xml")
        users.write_text(_users(_OF_BACKUPS if backups else ()))
        config = Path(folder, "config.xml")
        allowed = f"<allowed_path>{escape(str(backups))}</allowed_path>" if backups else ""
        config.write_text(
            f"<clickhouse><users_config>{escape(str(users))}</users_config>"
            f"<backups>{allowed}</backups>{_KEEP_FREE}{_LOOKS_AT_MEMORY}</clickhouse>"
        )
        yield config


def _users(also: Sequence[str]) -> str:
    grants = [f"GRANT {_GRANTS} ON *.*", *also]
    grants += [f"GRANT TABLE ENGINE ON {engine}" for engine in ENGINES]
    grants += [f"REVOKE {right}" for right in _NEVER_DROPPED]
    queries = "".join(f"<query>{grant}</query>" for grant in grants)
    return (
        f"<clickhouse><profiles><default>{_profile()}</default></profiles>"
        "<quotas><default/></quotas>"
        "<users><default><password/><networks><ip>::/0</ip></networks>"
        "<profile>default</profile><quota>default</quota>"
        f"<grants>{queries}</grants></default></users></clickhouse>"
    )


def _profile() -> str:
    values = "".join(f"<{name}>{value}</{name}>" for name, value in _FIXED_SETTINGS.items())
    fixed = "".join(f"<{name}><const/></{name}>" for name in _FIXED_SETTINGS)
    return f"{values}<constraints>{fixed}</constraints>"
