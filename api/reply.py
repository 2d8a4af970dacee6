"""An answer as HTTP: JSON, and 304 where the caller has it already."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, Final

import orjson
from fastapi import Request, Response

_JSON: Final = (b"content-type", b"application/json")
_REVALIDATED: Final = (b"cache-control", b"private, no-cache")
_NOT_KEPT: Final = (b"cache-control", b"no-store")


class Answer(Response):
    """A response whose headers are made already: Starlette's way to them takes three times as long.

    A length is told of what has a body.
    """

    def __init__(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [*headers]
        if body:
            self.raw_headers.append((b"content-length", b"%d" % len(body)))


def reply(request: Request, answer: Any) -> Response:
    """Return an answer with its ETag, or 304 without a body if the caller named that.

    What is posted for has none: nobody may ask for it under a condition, and batches are large.
    """
    body = orjson.dumps(answer)
    if request.method == "POST":
        return Answer(200, body, _JSON, _NOT_KEPT)
    etag = b'W/"%b"' % blake2b(body, digest_size=8).hexdigest().encode()
    for name, value in request.scope["headers"]:
        if name == b"if-none-match" and etag in value:
            return Answer(304, b"", (b"etag", etag), _REVALIDATED)
    return Answer(200, body, _JSON, (b"etag", etag), _REVALIDATED)
