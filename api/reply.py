"""An answer as HTTP: JSON, and 304 where the caller has it already.

Up to which slot it is complete does not tell an answer from others: on a live chain that changes
with every slot, and what is told of most wallets and tokens does not. A caller who is told 304 has
what is true as of now.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import orjson
from fastapi import Request, Response

_JSON: Final = (b"content-type", b"application/json")
_REVALIDATED: Final = (b"cache-control", b"private, no-cache")
_NOT_KEPT: Final = (b"cache-control", b"no-store")
_AS_OF: Final = b'"as_of_slot":'  # nothing within a text: quotes there have a backslash
_AS_OF_PAIR: Final = re.compile(_AS_OF + rb'(?:\d+|null),"as_of_ms":(?:\d+|null)')


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


@dataclass(frozen=True, slots=True)
class Encoded:
    """An answer as it is sent, for one that is sent to many."""

    body: bytes
    etag: bytes


def encode(answer: Any) -> Encoded:
    """Return an answer's JSON and what tells it from others."""
    body = told = orjson.dumps(answer)
    # It stands first or last, so it is found at once, however long the answer is.
    at = 1 if body.startswith(_AS_OF, 1) else body.rfind(_AS_OF)
    if at >= 0 and (found := _AS_OF_PAIR.match(body, at)):
        told = body[:at] + body[found.end() :]
    return Encoded(body, b'W/"%b"' % blake2b(told, digest_size=8).hexdigest().encode())


def reply(request: Request, answer: Any) -> Response:
    """Return an answer with its ETag, or 304 without a body if the caller named that.

    What is posted for has none: nobody may ask for it under a condition, and batches are large.
    """
    if request.method == "POST":
        return Answer(200, orjson.dumps(answer), _JSON, _NOT_KEPT)
    return send(request, encode(answer))


def send(request: Request, encoded: Encoded) -> Response:
    """Return an encoded answer, or 304 if the caller has it."""
    etag = encoded.etag
    if has(request, etag):
        return Answer(304, b"", (b"etag", etag), _REVALIDATED)
    return Answer(200, encoded.body, _JSON, (b"etag", etag), _REVALIDATED)


def has(request: Request, etag: bytes) -> bool:
    """Tell whether `if-none-match` names an ETag of ours, alone or among others, or any by `*`.

    With or without `W/`: these are the same there (RFC 9110, 13.1.2).
    """
    for name, value in request.scope["headers"]:
        if name == b"if-none-match" and (
            etag.removeprefix(b"W/") in value or value.strip() == b"*"
        ):
            return True
    return False
