"""The proxies in front of us, and whom a request came from by what they say.

`X-Forwarded-For` is whatever a caller wrote, with each proxy's caller behind it. Only what trusted
proxies appended is believed: from the right, up to the first address that is none of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address, ip_network


class Proxies:
    """Networks of the proxies that are trusted; none by default."""

    def __init__(self, networks: str = "") -> None:
        self._networks = tuple(ip_network(one) for one in networks.split(",") if one)

    def trusts(self, address: str) -> bool:
        """Return whether an address is one of a trusted proxy."""
        if not self._networks:
            return False
        try:
            found = ip_address(address)
        except ValueError:
            return False
        return any(found in network for network in self._networks)

    def client(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return whom a request came from: the peer, or whom trusted proxies name."""
        client = peer
        named = [one.strip() for header in forwarded for one in header.split(",")]
        while named and self.trusts(client):
            one = _without_port(named.pop())
            try:
                client = str(ip_address(one))
            except ValueError:
                break  # no address: the proxy that passed it on is the last one known
        return client


def _without_port(place: str) -> str:
    """Return the address of a place: some proxies append the port."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    host, _, port = place.partition(":")
    return host if port.isdecimal() else place
