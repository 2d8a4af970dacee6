"""Connections that go to addresses which were checked, whatever a name says by then."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from api.metadata.failures import Failed


class Pinned(AbstractResolver):
    """Answers with the addresses that were checked, whatever is asked."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses."""
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


class Sockets:
    """Makes sockets for the addresses that were checked, and for no others."""

    def __init__(self, addresses: Sequence[str], port: int) -> None:
        self._places = frozenset((ip_address(address), port) for address in addresses)

    def __call__(self, asked: tuple[Any, ...]) -> socket.socket:
        """Return a socket for an answer of `getaddrinfo`; raises Failed."""
        family, kind, protocol, _, (host, port, *_) = asked
        if (ip_address(host), port) not in self._places:
            raise Failed("refused", "the connection would not go to the address that was checked")
        return socket.socket(family, kind, protocol)
