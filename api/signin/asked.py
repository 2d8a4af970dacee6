"""What paths of an account are asked with, and how they answer."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from fastapi import Request, Response
from pydantic import AfterValidator

from api.access.keys import check_words
from api.access.user_sessions import UserSession

NO_STORE: Final = {"cache-control": "no-store"}


def _name(text: str) -> str:
    text = check_words(text.strip())
    if not text:
        raise ValueError("it is empty")
    return text


Name = Annotated[str, AfterValidator(_name)]
"""What a user calls something of theirs."""


def session_of(request: Request) -> UserSession:
    """Return the session that the gate let a request in with."""
    found: UserSession = request.scope["state"]["session"]
    return found


def answer(body: dict[str, Any], status: int = 200) -> Response:
    """Return an answer that nothing keeps."""
    return Response(orjson.dumps(body), status, NO_STORE, "application/json")
