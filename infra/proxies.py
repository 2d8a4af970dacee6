"""The proxies in front of us, and whom a request came from by what they say.

`X-Forwarded-For` is whatever a caller wrote, with each proxy's caller behind it. Only what trusted
proxies appended is believed: from the right, up to the first address that is none of them.

A socket of IPv6 names its IPv4 peers `::ffff:10.0.0.1`; here they are 10.0.0.1, and no address has
the zone of an interface.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

_MAPPED: Final = 0xFFFF << 32  # of an IPv6 address, before the IPv4 address that it has


class Proxies:
    """Networks of the proxies that are trusted; none by default."""

    def __init__(self, networks: str = "") -> None:
        self._networks = tuple(ip_network(one) for one in networks.split(",") if one)

    def trusts(self, address: str) -> bool:
        """Return whether an address is one of a trusted proxy."""
        if not self._networks:
            return False
        try:
            found = ip_address(plain(address))
        except ValueError:
            return False
        # A network of IPv6 may have IPv4 addresses by their mapped form.
        mapped = IPv6Address(_MAPPED | int(found)) if found.version == 4 else found
        return any(found in network or mapped in network for network in self._networks)

    def client(self, peer: str, forwarded: Iterable[str]) -> str:
        """Return whom a request came from: the peer, or whom trusted proxies name."""
        client = plain(peer)
        named = [one.strip() for header in forwarded for one in header.split(",")]
        while named and self.trusts(client):
            one = _without_port(named.pop())
            try:
                client = plain(str(ip_address(one)))
            except ValueError:
                break  # no address: the proxy that passed it on is the last one known
        return client


def plain(address: str) -> str:
    """Return an address without its zone, an IPv4 one as IPv4; what is no address as it is."""
    if ":" not in address:
        return address
    unscoped = address.partition("%")[0]
    try:
        found = IPv6Address(unscoped)
    except ValueError:
        return address
    return unscoped if found.ipv4_mapped is None else str(found.ipv4_mapped)


def _without_port(place: str) -> str:
    """Return the address of a place: some proxies append the port."""
    if place.startswith("["):
        return place[1:].partition("]")[0]
    host, _, port = place.partition(":")
    return host if port.isdecimal() else place
