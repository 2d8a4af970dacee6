"""A file that pages are made of, as it is sent: compressed once, and not to whom has it."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from hashlib import blake2b

from fastapi import Request, Response

from api.http.compression import accepts_gzip
from api.http.replies import has


class Asset:
    """A file. `headers` are in every answer, 304 included: a cache takes them over from there."""

    def __init__(
        self, content: bytes, media_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._content = content
        self._gzip = gzip.compress(content)
        self._media_type = media_type
        self._etag = f'W/"{blake2b(content, digest_size=8).hexdigest()}"'
        self._headers = {
            "etag": self._etag,
            "cache-control": "no-cache",
            "vary": "accept-encoding",
            **(headers or {}),
        }

    def respond(self, request: Request) -> Response:
        """Return the file, or 304 to whom has it."""
        headers = dict(self._headers)
        if has(request, self._etag.encode()):
            return Response(None, 304, headers)
        if accepts_gzip(request.headers.get("accept-encoding", "").encode("latin-1")):
            headers["content-encoding"] = "gzip"
            return Response(self._gzip, 200, headers, self._media_type)
        return Response(self._content, 200, headers, self._media_type)
