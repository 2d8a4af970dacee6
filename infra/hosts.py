"""The names that a server is asked by.

A web page can point a name of its own at this machine (DNS rebinding): to the browser it is then of
one origin with whatever listens here, but the browser still sends the page's name as `Host`.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from infra.settings import EVERYWHERE

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Hosts:
    """Which `Host` headers a server accepts.

    On loopback those are this machine's names and `names`. Elsewhere they are `names` and every
    address, which balancers use to ask for health and no page can point at another machine; any
    name where none is given.
    """

    def __init__(self, listens_on: str, names: str = "") -> None:
        given = {name.lower() for name in names.split(",") if name}
        address = _address(listens_on)
        self._is_local = address.is_loopback if address else listens_on in LOOPBACK
        is_open = not given and not self._is_local
        self._names = None if is_open else LOOPBACK | given | ({listens_on.lower()} - EVERYWHERE)

    def accepts(self, host: str) -> bool:
        """Return whether a `Host` header, with or without its port, is allowed."""
        if self._names is None:
            return True
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self._names or (not self._is_local and _address(name) is not None)

    def refusal(self, host: str) -> str:
        """Return what to say to the others."""
        return (
            f"This server does not answer to the name {host[:100]!r}: add it to ALLOWED_HOSTS if "
            "that is a name of yours"
        )


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
