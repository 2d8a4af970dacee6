"""Which IP addresses are of the public Internet.

Sources: the IANA special-purpose registries of IPv4 and IPv6 addresses (RFC 6890 and its updates).
Of IPv6 only what is assigned for global unicast is public, without the blocks in it that lead to
IPv4 addresses (6to4, Teredo) or nowhere. NAT64 and IPv4-mapped addresses lie outside of it.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

_NOT_PUBLIC: Final = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network, unspecified
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT
            "127.0.0.0/8",
            "169.254.0.0/16",  # link-local, and metadata of clouds
            "168.63.129.16/32",  # of Azure's hosts, from its machines alone
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # AMT
            "192.88.99.0/24",  # 6to4 relays
            "192.168.0.0/16",
            "192.175.48.0/24",  # AS112
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, broadcast
        ),
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
_NOT_PUBLIC_6: Final = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # of protocols, Teredo among them
            "2001:db8::/32",
            "2002::/16",  # 6to4
            "2620:4f:8000::/48",  # AS112
            "3fff::/20",
        ),
    )
)


def is_public(address: str) -> bool:
    """Return whether an address is of the public Internet; False for what is none."""
    try:
        if ":" not in address:
            four = IPv4Address(address)
            return not any(four in network for network in _NOT_PUBLIC)
        six = IPv6Address(address)
    except AddressValueError:
        return False
    if six.scope_id is not None:
        return False
    return six in _GLOBAL_UNICAST and not any(six in network for network in _NOT_PUBLIC_6)
