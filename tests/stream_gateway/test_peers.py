"""By which address a connection is bounded."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from stream_gateway.handshake import Handshake
from stream_gateway.waiting_room import WaitingRoom


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("203.0.113.1", "203.0.113.1"),
        ("::ffff:203.0.113.1", "203.0.113.1"),
        ("fe80::1%eth0", "fe80::1"),
    ],
)
async def test_a_peer_has_one_address_whatever_socket_took_it(peer: str, address: str) -> None:
    room = WaitingRoom(most=2, most_of_address=2)
    host = SimpleNamespace(waiting_room=room, limits=SimpleNamespace(handshake_s=60.0))
    one = Handshake(host, upgrade=lambda: None)
    transport = SimpleNamespace(get_extra_info=lambda _: (peer, 4_000))
    one.connection_made(transport)
    assert one.address == address
    one.connection_lost(None)
