"""An answer as HTTP: JSON, and 304 where the caller has it already."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson
from fastapi import Request, Response

_JSON: Final = "application/json"


def reply(request: Request, answer: Any) -> Response:
    """Return an answer with its ETag, or 304 without a body if the caller named that.

    What is posted for has none: nobody may ask for it under a condition, and batches are large.
    """
    body = orjson.dumps(answer)
    if request.method == "POST":
        return Response(body, media_type=_JSON, headers={"cache-control": "no-store"})
    etag = f'W/"{blake2b(body, digest_size=8).hexdigest()}"'
    headers = {"etag": etag, "cache-control": "private, no-cache"}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(body, media_type=_JSON, headers=headers)
