"""The ClickHouse engine inside this process: chDB on one data directory.

Every query runs on a connection of its own. One opens in 0.2 ms, connections work in parallel, and
closing it takes away whatever the query set: exactly the isolation of ClickHouse's HTTP requests.
Importing this module loads the engine (0.6 s, 230 MB) and its handlers for crash signals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from chdb.state.sqlitelike import Connection, StreamingInserter, StreamingResult

from infra.clickhouse.access import CURRENT_DATABASE, configuration
from infra.clickhouse.errors import Code, QueryError, from_engine, refusal
from infra.clickhouse.failures import Before, Failures
from infra.clickhouse.fence import FILES_DATABASE, Fence

# The defaults take 90 % of the machine's memory and caches of 5 GB.
_OPTIONS: Final = {
    "max_server_memory_usage": 2 * 1024**3,
    "mark_cache_size": 64 * 1024**2,
    "primary_index_cache_size": 64 * 1024**2,
    "index_mark_cache_size": 32 * 1024**2,
}
_COMPILED_AFTER: Final = "100"
_DEFAULT_SETTINGS: Final = {
    "max_execution_time": "300",
    # By default only parts of a million rows are searched by their projections. With 90 days of
    # smaller ones an analyst's question about a wallet would read every wallet there is; the API
    # asks for it by itself.
    "min_table_rows_to_use_projection_index": "0",
    # To compile an expression takes some 36 ms of CPU: by default the third query has it compiled.
    "min_count_to_compile_expression": _COMPILED_AFTER,
    "min_count_to_compile_aggregate_expression": _COMPILED_AFTER,
    "min_count_to_compile_sort_description": _COMPILED_AFTER,
}
# A result that is not streamed is held in memory whole, as text several times this size.
_DEFAULT_SETTINGS_IN_MEMORY: Final = {"max_result_bytes": str(256 * 1024**2)}

_SETTING_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARAMETER_NAME: Final = re.compile(r"[A-Za-z0-9_$]+")

# chDB gives these names a meaning of its own: results as Python objects.
_NOT_FORMATS: Final = frozenset({"dataframe", "datastore", "arrowtable", "debug"})


@dataclass(frozen=True, slots=True)
class Scope:
    """What holds for one query and no other.

    `earlier` are the SET and USE statements of its session; `fixed` are settings that are set last,
    and `tag` is what `Engine.kill` finds the query by.
    """

    tag: str
    database: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    earlier: Sequence[str] = ()
    fixed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Result:
    """An answer in the format asked for, and what the query touched."""

    body: bytes
    read_rows: int = 0
    read_bytes: int = 0
    written_rows: int = 0
    written_bytes: int = 0
    result_rows: int = 0
    elapsed_s: float = 0.0


class Engine:
    """The one engine of a process. A process can open one data directory, and it alone.

    With `backups` it may write to that folder and read from it.
    """

    def __init__(self, data: Path, backups: Path | None = None) -> None:
        data = data.resolve()
        if "?" in str(data):
            raise refusal(Code.BAD_ARGUMENTS, "The path of a data directory cannot hold a '?'")
        data.mkdir(parents=True, exist_ok=True)
        self._address = f"file:{data}"
        # Of the last run, see below; it holds no table.
        (data / "metadata" / f"{FILES_DATABASE}.sql").unlink(missing_ok=True)
        try:
            with configuration(data, backups) as config:
                options = {**_OPTIONS, "config-file": config}
                pairs = "&".join(f"{name}={value}" for name, value in options.items())
                # Held open as long as the engine shall live: it ends with its last connection.
                self._connection = Connection(f"{self._address}?{pairs}")
        except RuntimeError as error:
            raise from_engine(error) from None
        # Every connection begins in this database, which takes the name of a table for a file's:
        # one that holds tables takes its place.
        self._text(f"DETACH DATABASE {FILES_DATABASE}")
        self._text(f"CREATE DATABASE {FILES_DATABASE} ENGINE = Memory")
        self._text(f"CREATE DATABASE IF NOT EXISTS {CURRENT_DATABASE} ENGINE = Atomic")
        self._observer = Connection(self._address)
        self._failures = Failures(self._observer)
        self.version = self._text("SELECT version()")
        self.timezone = self._text("SELECT timezone()")

    def fence(self) -> Fence:
        """Return the check of statements that knows all that reaches outside this engine."""
        functions = self._text("SELECT name FROM system.table_functions").split()
        engines = self._text(
            "SELECT name FROM system.table_engines UNION DISTINCT "
            "SELECT name FROM system.database_engines"
        ).split()
        return Fence(functions, engines)

    def warm_up(self) -> None:
        """Take the paths that are slow the first time: a table, an insert, a read."""
        with self.query(Scope("warm-up")) as query:
            query.run("CREATE TEMPORARY TABLE warm_up (at DateTime64(3, 'UTC'), n UInt64)")
            query.begin_insert("INSERT INTO warm_up", "Values")
            query.append(b"(0, 1)")
            query.finish_insert()
            query.run("SELECT max(at), sum(n) FROM warm_up", "Native")

    def query(self, scope: Scope, *, streams: bool = False) -> Query:
        """Return a query to run; nothing is opened before its first call."""
        defaults = {} if streams else _DEFAULT_SETTINGS_IN_MEMORY
        return Query(self._address, scope, defaults, self._failures)

    def kill(self, tag: str) -> None:
        """Ask the running query of that tag to stop; nothing happens if there is none."""
        with self.query(Scope("kill")) as query:
            query.run(f"KILL QUERY WHERE Settings['log_comment'] = {_quoted(tag)} ASYNC")

    def close(self) -> None:
        """Release the data directory. Queries must have been closed."""
        self._observer.close()
        self._connection.close()

    def _text(self, sql: str) -> str:
        return bytes(self._connection.query(sql, "TabSeparated").bytes()).decode().strip()


class Query:
    """One query on a connection of its own. Not for two threads at once.

    Every method but `close` raises QueryError, also for an unknown setting or database.
    """

    def __init__(
        self,
        address: str,
        scope: Scope,
        defaults: Mapping[str, str],
        failures: Failures,
    ) -> None:
        self._address = address
        self._failures = failures
        self._scope = scope
        self._defaults = {**_DEFAULT_SETTINGS, **defaults}
        self._opened: Connection | None = None
        self._stream: StreamingResult | None = None
        self._inserter: StreamingInserter | None = None
        self._before: Before | None = None

    def __enter__(self) -> Query:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, sql: str | bytes, format_name: str = "TabSeparated") -> Result:
        """Run one statement to its end."""
        require_format(format_name)
        connection = self._connection()
        try:
            result = connection.query(sql, format_name, params=self._scope.parameters)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise self._failed(error) from None
        return Result(
            body=result.bytes(),
            read_rows=result.storage_rows_read(),
            read_bytes=result.storage_bytes_read(),
            written_rows=result.rows_written(),
            written_bytes=result.bytes_written(),
            result_rows=result.rows_read(),
            elapsed_s=result.elapsed(),
        )

    def open_stream(self, sql: str | bytes, format_name: str) -> bytes | None:
        """Start a SELECT whose result is taken block by block, and return the first block.

        Every block is written as if it were a result of its own, so the format must be one whose
        results can be joined end to end.
        """
        require_format(format_name)
        connection = self._connection()
        try:
            self._stream = connection.send_query(sql, format_name, params=self._scope.parameters)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise from_engine(error) from None
        return self.next_block()

    def next_block(self) -> bytes | None:
        """Return the next block of the stream, None at its end."""
        assert self._stream is not None, "open_stream comes first"
        try:
            block = self._stream.fetch()  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise from_engine(error) from None
        return None if block is None else block.bytes()

    def begin_insert(self, sql: str, format_name: str) -> None:
        """Start an INSERT, given without FORMAT and data."""
        require_format(format_name)
        connection = self._connection()
        parameters = {f"param_{name}": value for name, value in self._scope.parameters.items()}
        try:
            if parameters:
                connection.query(_set(parameters))
            self._inserter = connection.send_insert(sql, format_name)
            self._before = self._failures.before(_quoted(self._scope.tag))
        except RuntimeError as error:
            raise self._failed(error) from None

    def append(self, data: bytes) -> None:
        """Hand over the next bytes of the insert; waits while the engine is busy."""
        assert self._inserter is not None, "begin_insert comes first"
        try:
            self._inserter.append(data)  # type: ignore[no-untyped-call]
        except RuntimeError as error:
            raise from_engine(error) from None

    def finish_insert(self) -> Result:
        """End the data of the insert and wait until its rows are stored."""
        assert self._inserter is not None, "begin_insert comes first"
        assert self._before is not None, "begin_insert comes first"
        try:
            done = self._inserter.finish()
            self._failures.require_none(self._before)
        except RuntimeError as error:
            raise from_engine(error) from None
        return Result(b"", written_rows=done.rows_written, written_bytes=done.bytes_written)

    def _failed(self, error: RuntimeError) -> QueryError:
        """Return the error of a statement that, if it is an insert, is counted as failed."""
        with suppress(RuntimeError):
            self._failures.count()
        return from_engine(error)

    def close(self) -> None:
        """End whatever still runs. Of an unfinished insert, blocks already stored stay."""
        with suppress(RuntimeError):
            if self._inserter is not None:
                self._inserter.cancel()  # type: ignore[no-untyped-call]
        with suppress(RuntimeError):
            if self._stream is not None:
                self._stream.close()  # type: ignore[no-untyped-call]
        if self._opened is not None:
            self._opened.close()

    def _connection(self) -> Connection:
        if self._opened is None:
            self._opened = Connection(self._address)
            try:
                for sql in self._preamble():
                    self._opened.query(sql)
            except RuntimeError as error:
                raise from_engine(error) from None
        return self._opened

    def _preamble(self) -> Iterator[str]:
        scope = self._scope
        # The embedded engine keeps no query log, so the comment is free to carry the tag.
        settings = {**self._defaults, "log_comment": scope.tag}
        database = scope.database
        if not database or database == FILES_DATABASE:
            database = CURRENT_DATABASE
        if scope.earlier:
            yield _set(settings)
            yield f"USE {CURRENT_DATABASE}"
            yield from scope.earlier
            settings = {}
        if scope.database or not scope.earlier:
            yield f"USE {_identifier(database)}"
        settings |= {k: v for k, v in scope.settings.items() if k != "log_comment"}
        # One statement: each costs 0.3 ms. Of a setting that is there twice the last one holds.
        settings |= scope.fixed
        if settings:
            yield _set(settings)


def require_format(name: str) -> None:
    """Raise QueryError for names that are no ClickHouse format but mean something to chDB."""
    if name.lower() in _NOT_FORMATS:
        raise refusal(Code.UNKNOWN_FORMAT, f"Unknown format {name}")


def _set(settings: Mapping[str, str]) -> str:
    pairs = []
    for name, value in settings.items():
        if name.startswith("param_"):
            if not _PARAMETER_NAME.fullmatch(name):
                raise refusal(Code.BAD_ARGUMENTS, f"{name!r} is no name of a query parameter")
        elif not _SETTING_NAME.fullmatch(name):
            raise refusal(Code.UNKNOWN_SETTING, f"Unknown setting {name!r}")
        pairs.append(f"`{name}` = {_quoted(value)}")
    return f"SET {', '.join(pairs)}"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _identifier(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"
