"""What can go wrong at MCP's paths and nowhere else, so that REST's documents do not list it."""

from __future__ import annotations

from typing import Final

from api.http.errors import Kind

ORIGIN_REFUSED: Final = Kind("origin_refused", 403, "Pages of this origin may not call this path")
NO_SESSION: Final = Kind("no_session", 404, "The session is not open")
TOO_MANY_SESSIONS: Final = Kind(
    "too_many_sessions", 429, "Too many sessions of the API key are open"
)
