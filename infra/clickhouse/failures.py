"""Which inserts the embedded engine did not store, though it answered that all rows are written.

chDB reports what it cannot parse, but is silent where rows cannot be stored: a full disk, a
constraint, a view. The engine counts inserts that failed, and errors, each with the query that had
the last one of its kind. Queries that only read leave the first count as it is: however many of
them fail, they keep no insert from being acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

import orjson
from chdb.state.sqlitelike import Connection

from infra.clickhouse.errors import Code, QueryError, refusal

CLOSE_LOOK_S: Final = 60.0
"""How long, after an insert failed, each is watched by its id: that costs as much as to insert."""

_FAILED: Final = "SELECT value FROM system.events WHERE event = 'FailedInsertQuery'"
_QUERY_ID: Final = "SELECT query_id FROM system.processes WHERE Settings['log_comment'] = "
_ERRORS: Final = (
    "SELECT code, name, value, query_id, last_error_message, last_error_time FROM system.errors "
    "WHERE NOT remote ORDER BY last_error_time DESC"
)


@dataclass(frozen=True, slots=True)
class Before:
    """What the engine had counted as an insert began; without its id where it is not watched."""

    failed: int
    query_id: str = ""
    errors: Mapping[str, int] = field(default_factory=dict)  # how many of each code


class Failures:
    """Finds inserts that failed in silence. For many threads; raises RuntimeError as chDB does."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._one_at_a_time = Lock()
        self._failed = 0
        self._close_look_until = 0.0

    def before(self, quoted_tag: str) -> Before:
        """Return what an insert that has begun is compared with as it ends."""
        if time.monotonic() >= self._close_look_until:
            return Before(self._failed)  # without a query: it may be of earlier, never of later
        failed = self.count()
        ids = self._rows(_QUERY_ID + quoted_tag)
        errors = {code: int(count) for code, _, count, *_ in self._rows(_ERRORS)}
        return Before(failed, ids[0][0] if len(ids) == 1 else "", errors)

    def count(self) -> int:
        """Count inserts that failed; for those that said so, as they are nobody's later."""
        rows = self._rows(_FAILED)  # none before the first
        failed = int(rows[0][0]) if rows else 0
        self._failed = max(self._failed, failed)  # of another thread's, one too low is safe
        return failed

    def require_none(self, before: Before) -> None:
        """Raise QueryError if the insert was not stored, or if that is not known."""
        if self.count() == before.failed:
            return
        self._close_look_until = time.monotonic() + CLOSE_LOOK_S
        hidden = []  # of which one before the last may be this insert's
        for code, name, count, query_id, message, at in self._rows(_ERRORS):
            more = int(count) - before.errors.get(code, 0)
            text = f"Code: {code}. DB::Exception: {message}. ({name})"
            if more and query_id == before.query_id != "":
                raise QueryError(int(code), text)
            if more > 1 or not before.query_id:
                hidden.append((at, text))
        if hidden or not before.query_id:
            raise refusal(
                Code.STD_EXCEPTION,
                "It is not known whether the rows are stored. The engine's latest errors: "
                + "; ".join(text for at, text in hidden if at == hidden[0][0]),
            )

    def _rows(self, sql: str) -> list[list[str]]:
        with self._one_at_a_time:
            lines = self._connection.query(sql, "JSONCompactStringsEachRow").bytes().splitlines()
        return [orjson.loads(line) for line in lines]
