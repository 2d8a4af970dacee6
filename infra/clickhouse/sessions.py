"""HTTP sessions: what `SET` and `USE` leave behind for the next request of a session_id."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from infra.clickhouse.errors import Code, refusal

DEFAULT_TIMEOUT_S: Final = 60
MAX_TIMEOUT_S: Final = 3600
_MAX_SESSIONS: Final = 10_000
_MAX_STATEMENTS: Final = 200


@dataclass(slots=True)
class Session:
    """The statements to repeat before each query of the session, in order."""

    statements: dict[str, None] = field(default_factory=dict)
    expires_at_s: float = 0.0
    in_use: bool = False

    def remember(self, sql: str) -> None:
        """Keep a SET or USE that succeeded; the latest of equal ones counts."""
        self.statements.pop(sql, None)
        if len(self.statements) >= _MAX_STATEMENTS:
            raise refusal(
                Code.LIMIT_EXCEEDED, f"A session keeps at most {_MAX_STATEMENTS} SET statements"
            )
        self.statements[sql] = None


class Sessions:
    """All sessions of the front; an idle one is forgotten after its timeout."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    @contextmanager
    def enter(self, session_id: str, timeout_s: int, *, must_exist: bool) -> Iterator[Session]:
        """Hold a session for one request. Raises QueryError if it is unknown or in use."""
        self._forget_idle()
        session = self._sessions.get(session_id)
        if session is None:
            if must_exist:
                raise refusal(Code.SESSION_NOT_FOUND, f"Session {session_id!r} not found")
            if len(self._sessions) >= _MAX_SESSIONS:
                raise refusal(Code.LIMIT_EXCEEDED, f"There are {_MAX_SESSIONS} sessions already")
            session = self._sessions[session_id] = Session()
        if session.in_use:
            raise refusal(
                Code.SESSION_IS_LOCKED, f"Session {session_id!r} is locked by a concurrent client"
            )
        session.in_use = True
        try:
            yield session
        finally:
            session.in_use = False
            session.expires_at_s = time.monotonic() + timeout_s

    def _forget_idle(self) -> None:
        now_s = time.monotonic()
        for session_id in [
            session_id
            for session_id, session in self._sessions.items()
            if not session.in_use and session.expires_at_s < now_s
        ]:
            del self._sessions[session_id]
