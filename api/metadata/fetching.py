"""Bytes from a stranger's URI, so that it cannot reach what is not public, nor cost much.

A host's name is resolved here, once a request, and all its addresses must be public. The
connection goes to one of just these: aiohttp is given them as the answer of its resolver, and each
socket is checked against them once more, also where the host is an address itself. Every redirect
is a new request with all of its checks. Time, connections, redirects, size on the wire and size
after decompression are bounded; the body is counted as it comes.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp.client_exceptions import ClientError
from aiohttp.http_exceptions import HttpProcessingError

from api.metadata.failures import Failed
from api.metadata.hosts import Hosts
from api.metadata.pinned import Pinned, Sockets
from api.metadata.public_addresses import is_public
from api.metadata.resolving import Resolve
from api.metadata.targets import Target, Targets

MAX_REDIRECTS: Final = 3
MAX_ADDRESSES: Final = 16
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OK: Final = 200
_MAX_HEADER_BYTES: Final = 8_190
_MAX_HEADERS: Final = 64
_READ_BYTES: Final = 16 << 10
_INFLATERS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": 15}
_HEADERS: Final = {"accept-encoding": "identity, gzip", "user-agent": "Soltape"}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a fetch may take; sizes are the caller's."""

    total_s: float = 8.0  # with all redirects, from the look-up of the name on
    connect_s: float = 3.0  # for one connection, TLS included


class Fetcher:
    """Fetches for all requests of a process."""

    def __init__(
        self,
        targets: Targets,
        resolve: Resolve,
        hosts: Hosts,
        limits: Limits | None = None,
        may_reach: Callable[[str], bool] = is_public,
    ) -> None:
        self._targets = targets
        self._resolve = resolve
        self._hosts = hosts
        self._limits = limits or Limits()
        self._may_reach = may_reach  # an address

    async def get(self, uri: str, most_bytes: int) -> bytes:
        """Return what a URI leads to, of `most_bytes` at most; raises Failed."""
        try:
            async with asyncio.timeout(self._limits.total_s):
                target = self._targets.of(uri)
                for _ in range(MAX_REDIRECTS + 1):
                    async with self._hosts.turn(target.host):
                        answer = await self._request(target, most_bytes)
                    if isinstance(answer, bytes):
                        return answer
                    target = self._targets.redirected(target, answer)
        except TimeoutError:
            raise Failed("timeout", "it took too long") from None
        except (ClientError, HttpProcessingError, OSError, ValueError):
            raise Failed("unreachable", "the host does not answer as HTTP says") from None
        raise Failed("redirects", f"it redirects more than {MAX_REDIRECTS} times")

    async def _request(self, target: Target, most_bytes: int) -> bytes | str:
        """Return the body, or where a redirect leads."""
        addresses = await self._addresses(target)
        connector = aiohttp.TCPConnector(
            resolver=Pinned(addresses),
            socket_factory=Sockets(addresses, target.port),
            use_dns_cache=False,
            force_close=True,
            limit=1,
        )
        timeout = aiohttp.ClientTimeout(total=None, connect=self._limits.connect_s)
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=timeout,
                headers=_HEADERS,
                auto_decompress=False,
                trust_env=False,
                read_bufsize=_READ_BYTES,
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
                max_headers=_MAX_HEADERS,
            ) as session,
            session.get(target.url, allow_redirects=False) as answer,
        ):
            if answer.status in _REDIRECTS and "location" in answer.headers:
                return answer.headers["location"]
            if answer.status != _OK:
                raise Failed("http_error", f"it answers with HTTP status {answer.status}")
            return await _body(answer, most_bytes)

    async def _addresses(self, target: Target) -> Sequence[str]:
        addresses = list(dict.fromkeys(await self._resolve(target.host, target.port)))
        if not addresses or len(addresses) > MAX_ADDRESSES:
            raise Failed("unreachable", "the host's name has no address, or too many")
        if not target.is_trusted and not all(map(self._may_reach, addresses)):
            raise Failed("refused", "the host's address is not public")
        return addresses


async def _body(answer: aiohttp.ClientResponse, most_bytes: int) -> bytes:
    coding = answer.headers.get("content-encoding", "").strip().lower()
    inflater = None
    if coding in _INFLATERS:
        inflater = zlib.decompressobj(_INFLATERS[coding])
    elif coding not in ("", "identity"):
        raise Failed("bad_encoding", "it is compressed in a way that was not asked for")
    length = answer.content_length
    if length is not None and length > most_bytes:
        raise Failed("too_large", f"it has more than {most_bytes} bytes")
    body = bytearray()
    wire_bytes = 0
    async for part in answer.content.iter_any():
        wire_bytes += len(part)
        if inflater is not None:
            try:
                part = inflater.decompress(part, most_bytes + 1 - len(body))
            except zlib.error:
                raise Failed("bad_encoding", "it is not compressed as it says") from None
        body += part
        if wire_bytes > most_bytes or len(body) > most_bytes:
            raise Failed("too_large", f"it has more than {most_bytes} bytes")
    if inflater is not None and not inflater.eof:
        raise Failed("bad_encoding", "its compressed bytes are cut short")
    return bytes(body)
