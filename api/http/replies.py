"""An encoded answer as HTTP: JSON with an ETag, or 304 where the caller has it."""

from __future__ import annotations

from typing import Final

from fastapi import Request, Response

from api.http.encoding import Encoded

_JSON: Final = (b"content-type", b"application/json")
_REVALIDATED: Final = (b"cache-control", b"private, no-cache")
_IMAGE_KEPT: Final = (b"cache-control", b"private, max-age=300")
_IMAGE_ALONE: Final = (
    (b"content-disposition", b"inline"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NOT_KEPT: Final = (b"cache-control", b"no-store")


class Answer(Response):
    """A response with ready headers: Starlette's way to them takes three times as long.

    A body that is not empty gets its `content-length`.
    """

    def __init__(self, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
        self.status_code = status
        self.background = None
        self.body = body
        self.raw_headers = [*headers]
        if body:
            self.raw_headers.append((b"content-length", b"%d" % len(body)))


def send(request: Request, encoded: Encoded) -> Response:
    """Return an answer with its ETag, or 304 without a body if the caller has it.

    The answer to a POST has no ETag: nobody may ask for it under a condition.
    """
    if request.scope["method"] == "POST":
        return Answer(200, encoded.body, _JSON, _NOT_KEPT)
    etag = encoded.etag
    if has(request, etag):
        return Answer(304, b"", (b"etag", etag), _REVALIDATED)
    return Answer(200, encoded.body, _JSON, (b"etag", etag), _REVALIDATED)


def send_image(request: Request, data: bytes, media_type: str, digest: str) -> Response:
    """Return a stranger's image, so that a browser takes it for nothing but an image."""
    etag = f'"{digest}"'.encode()
    if has(request, etag):
        return Answer(304, b"", (b"etag", etag), _IMAGE_KEPT, *_IMAGE_ALONE)
    kind = media_type.encode()
    return Answer(200, data, (b"content-type", kind), (b"etag", etag), _IMAGE_KEPT, *_IMAGE_ALONE)


def send_uncached(encoded: Encoded, status: int = 200) -> Response:
    """Return an answer that no cache may keep."""
    return Answer(status, encoded.body, _JSON, _NOT_KEPT)


def has(request: Request, etag: bytes) -> bool:
    """Return True if `if-none-match` names the ETag, alone or among others, or any by `*`.

    `W/` makes no difference there (RFC 9110, 13.1.2).
    """
    for name, value in request.scope["headers"]:
        if name == b"if-none-match" and (
            etag.removeprefix(b"W/") in value or value.strip() == b"*"
        ):
            return True
    return False
