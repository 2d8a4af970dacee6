"""Which addresses can be a gateway for ipfs:// or ar://: those that the API may fetch from.

Any other one would fail with every URI, and the answers would blame the tokens. This permits
nothing: the API checks each request by itself (`api/metadata/targets.py`).
"""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

_PORTS: Final = {"http": 80, "https": 443}
_NAME: Final = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
_MAX_NAME: Final = 253
_NO_PART_OF_IT: Final = re.compile(r"[?#\\\x00-\x20\x7f]")

Origin = tuple[str, str, int]


def check_gateway(text: str, endings: tuple[str, ...]) -> str:
    """Return an address without what a URI cannot be put behind; raises ValueError.

    `endings` are those of paths that such addresses are written with, and must not be.
    """
    parts = urlsplit(text)
    if _NO_PART_OF_IT.search(text) or "@" in parts.netloc:
        raise ValueError("http(s)://host is expected, without credentials, query or fragment")
    for ending in endings:
        if parts.path.rstrip("/").endswith(ending):
            raise ValueError(f"the same address is expected without {ending} at its end")
    return text


def check_reachable(text: str, trusted_origin: str | None) -> str:
    """Return an address that the API may fetch from; raises ValueError."""
    origin = _origin(text)
    if trusted_origin is not None and origin == _origin(trusted_origin):
        return text
    scheme, host, port = origin
    if port in _PORTS.values() and _may_be_public(host):
        return text
    place = f"[{host}]" if ":" in host else host
    written = f"{scheme}://{place}" + ("" if port == _PORTS[scheme] else f":{port}")
    raise ValueError(
        "a public host at port 80 or 443 is expected; of a gateway of your own, elsewhere or at a "
        f"private address, METADATA_TRUSTED_ORIGIN must be the origin: {written}"
    )


def _origin(text: str) -> Origin:
    """Return scheme, host and port as the API compares them; raises ValueError."""
    parts = urlsplit(text)
    host = parts.hostname or ""
    if not host.isascii():
        try:
            host = host.encode("idna").decode()
        except UnicodeError:
            raise ValueError("the name of a host is expected behind ://") from None
    return parts.scheme, host, _PORTS[parts.scheme] if parts.port is None else parts.port


def _may_be_public(host: str) -> bool:
    """Return False for an address that is private, and for a name that has no dot or is none."""
    try:
        return ip_address(host).is_global
    except ValueError:
        return len(host) <= _MAX_NAME and "." in host.rstrip(".") and bool(_NAME.fullmatch(host))
