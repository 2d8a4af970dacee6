"""Requests to the identity provider, so that nothing it says leads to a private address.

The issuer's own origin is the operator's choice and may be anywhere. Whatever else its discovery
names is reached over https at public addresses alone. No redirect is followed; time and size are
bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import aiohttp
import orjson
from aiohttp.http_exceptions import HttpProcessingError

from api.metadata import failures
from api.metadata.pinned import Pinned, Sockets
from api.metadata.public_addresses import is_public
from api.metadata.resolving import Resolve, SystemResolver
from api.signin.failures import Failed

WITHIN_S: Final = 5.0
MOST_BYTES: Final = 256 << 10
_MAX_ADDRESSES: Final = 16
_MAX_HEADER_BYTES: Final = 8_190
_PORTS: Final = {"http": 80, "https": 443}


class Fetcher:
    """Asks one issuer's addresses for JSON. Every method raises Failed."""

    def __init__(self, issuer: str, resolve: Resolve | None = None) -> None:
        self._issuer = origin(issuer)
        self._resolve = resolve or SystemResolver()

    def check(self, url: str) -> SplitResult:
        """Return an address of the provider taken apart, if it may be one."""
        try:
            parts = urlsplit(url)
            place = origin(url)
        except ValueError:
            raise Failed("provider", "an address cannot be read") from None
        if place != self._issuer and parts.scheme != "https":
            raise Failed("provider", "an address beside the issuer's is not https")
        if "@" in parts.netloc or parts.fragment or not url.isascii() or not url.isprintable():
            raise Failed("provider", "an address has what no endpoint has")
        return parts

    async def get(self, url: str) -> Any:
        """Return what a GET answers with 200."""
        status, answer = await self._ask("GET", url, {}, None)
        if status != 200:
            raise Failed("provider", f"{urlsplit(url).path} answered {status}")
        return answer

    async def post(self, url: str, headers: Mapping[str, str], form: str) -> tuple[int, Any]:
        """Return status and answer of a form; 500 and above raises."""
        kind = {"content-type": "application/x-www-form-urlencoded", **headers}
        status, answer = await self._ask("POST", url, kind, form.encode())
        if status >= 500 or status == 429:
            raise Failed("provider", f"{urlsplit(url).path} answered {status}")
        return status, answer

    async def _ask(
        self, method: str, url: str, headers: Mapping[str, str], data: bytes | None
    ) -> tuple[int, Any]:
        parts = self.check(url)
        try:
            async with asyncio.timeout(WITHIN_S):
                return await self._asked(method, url, parts, headers, data)
        except TimeoutError:
            raise Failed("provider", f"no answer within {WITHIN_S:g} s") from None
        except (failures.Failed, aiohttp.ClientError, HttpProcessingError, OSError) as error:
            raise Failed("provider", f"{type(error).__name__}: {error}") from None

    async def _asked(
        self,
        method: str,
        url: str,
        parts: SplitResult,
        headers: Mapping[str, str],
        data: bytes | None,
    ) -> tuple[int, Any]:
        port = parts.port or _PORTS[parts.scheme]
        addresses = list(dict.fromkeys(await self._resolve(parts.hostname or "", port)))
        if len(addresses) > _MAX_ADDRESSES:
            raise Failed("provider", "its name has too many addresses")
        if origin(url) != self._issuer and not all(map(is_public, addresses)):
            raise Failed("provider", f"{parts.hostname} is not at a public address")
        connector = aiohttp.TCPConnector(
            resolver=Pinned(addresses),
            socket_factory=Sockets(addresses, port),
            use_dns_cache=False,
            force_close=True,
            limit=1,
        )
        async with (
            aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"accept": "application/json", "accept-encoding": "identity"},
                auto_decompress=False,
                trust_env=False,
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            ) as session,
            session.request(
                method, url, headers=headers, data=data, allow_redirects=False
            ) as answer,
        ):
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > MOST_BYTES:
                    raise Failed("provider", f"an answer has more than {MOST_BYTES} bytes")
            try:
                return answer.status, orjson.loads(bytes(body))
            except orjson.JSONDecodeError:
                if answer.status >= 300:  # an error need not be JSON
                    return answer.status, None
                raise Failed("provider", "an answer is no JSON") from None


def origin(url: str) -> tuple[str, str, int]:
    """Return scheme, host and port of an address; raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("http:// or https:// is expected")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
