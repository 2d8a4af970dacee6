"""Where a URI of a token leads, if it may be asked: scheme, host, port and path, checked.

The URI is taken apart and put together anew from what was checked, so that no other parser reads
anything else in it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urljoin, urlsplit

from api.metadata.failures import Failed

MAX_URI: Final = 2_048
_PORTS: Final = {"http": 80, "https": 443}
PUBLIC_PORTS: Final = frozenset(_PORTS.values())
_HOST: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
_MAX_HOST: Final = 253
_SIX: Final = re.compile(r"[0-9a-f:.]{2,45}")
_CONTENT_ID: Final = re.compile(r"[A-Za-z0-9]{32,128}")
_TRANSACTION_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_KEPT: Final = "%/:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class Target:
    """One HTTP request that may be made, if the addresses of its host may be reached."""

    scheme: str
    host: str  # lower case, ASCII; of IPv6 without brackets
    port: int
    path: str  # with the query
    is_trusted: bool  # its addresses need not be public

    @property
    def url(self) -> str:
        """Return the address of the request."""
        place = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{place}{port}{self.path}"


class Targets:
    """Reads URIs by what the settings allow."""

    def __init__(
        self,
        trusted_origin: str | None = None,
        ipfs_gateway: str | None = None,
        arweave_gateway: str | None = None,
        ports: Collection[int] = PUBLIC_PORTS,
    ) -> None:
        self._ports = ports
        self._ipfs = ipfs_gateway
        self._arweave = arweave_gateway
        self._trusted: tuple[str, str, int] | None = None
        if trusted_origin is not None:
            self._trusted = _place(trusted_origin)

    def of(self, uri: str) -> Target:
        """Return where a URI leads; raises Failed."""
        if len(uri) > MAX_URI:
            raise Failed("refused", f"the URI has more than {MAX_URI} characters")
        scheme, _, rest = uri.partition("://")
        match scheme.lower():
            case "ipfs":
                uri = self._at_ipfs(rest)
            case "ar":
                uri = self._at_arweave(rest)
        place = _place(uri)
        is_trusted = place == self._trusted
        if not is_trusted and place[2] not in self._ports:
            raise Failed("refused", "the URI names a port of its own")
        if not is_trusted and "." not in place[1] and ":" not in place[1]:
            raise Failed("refused", "the URI names a host of a local network")
        parts = urlsplit(uri)
        try:
            path = quote(parts.path, safe=_KEPT) or "/"
            query = f"?{quote(parts.query, safe=_KEPT + '?')}" if parts.query else ""
        except UnicodeError:
            raise Failed("refused", "the URI is no text") from None
        return Target(*place, path + query, is_trusted)

    def redirected(self, target: Target, location: str) -> Target:
        """Return where a redirect leads, with all that `of` checks; raises Failed."""
        if len(location) > MAX_URI:
            raise Failed("refused", f"a redirect has more than {MAX_URI} characters")
        try:
            return self.of(urljoin(target.url, location))
        except ValueError:
            raise Failed("refused", "a redirect leads to what is no URI") from None

    def _at_ipfs(self, rest: str) -> str:
        if not self._ipfs:
            raise Failed("refused", "ipfs:// wants a gateway, METADATA_IPFS_GATEWAY")
        content_id, slash, path = rest.removeprefix("ipfs/").partition("/")
        if not _CONTENT_ID.fullmatch(content_id) or _climbs(path):
            raise Failed("refused", "the URI names no content of IPFS")
        return f"{self._ipfs.rstrip('/')}/ipfs/{content_id}{slash}{path}"

    def _at_arweave(self, rest: str) -> str:
        if not self._arweave:
            raise Failed("refused", "ar:// wants a gateway, METADATA_ARWEAVE_GATEWAY")
        transaction_id, slash, path = rest.partition("/")
        if not _TRANSACTION_ID.fullmatch(transaction_id) or _climbs(path):
            raise Failed("refused", "the URI names no transaction of Arweave")
        return f"{self._arweave.rstrip('/')}/{transaction_id}{slash}{path}"


def _climbs(path: str) -> bool:
    return ".." in path.replace("%2e", ".").replace("%2E", ".").split("/")


def _place(uri: str) -> tuple[str, str, int]:
    """Return scheme, host and port of a URI; raises Failed."""
    # `urlsplit` takes line breaks and tabs out silently; a backslash is a slash to some parsers.
    if any(character <= " " or character in "\\\x7f" for character in uri):
        raise Failed("refused", "the URI has a blank, a control character or a backslash in it")
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise Failed("refused", "the URI cannot be read") from None
    if parts.scheme not in _PORTS:
        raise Failed("refused", "only http, https, ipfs and ar are asked")
    if "@" in parts.netloc:
        raise Failed("refused", "the URI has credentials in it")
    if len(host) > _MAX_HOST:
        raise Failed("refused", "the URI names no host")
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise Failed("refused", "the URI names no host") from None
    if not (_SIX if ":" in host else _HOST).fullmatch(host):
        raise Failed("refused", "the URI names no host")
    return parts.scheme, host, _PORTS[parts.scheme] if port is None else port
