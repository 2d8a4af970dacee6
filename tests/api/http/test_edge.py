"""Whom a request came from, for all that is within the outermost layer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from api.http.edge import Edge
from infra.hosts import Hosts
from infra.proxies import Proxies


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", b"203.0.113.9", "203.0.113.9"),
        ("::ffff:10.0.0.1", b"203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.1", b"127.0.0.1", "203.0.113.1"),
        ("fe80::1%eth0", b"127.0.0.1", "fe80::1"),
        ("203.0.113.1", b"127.0.0.1", "203.0.113.1"),
    ],
)
async def test_a_client_has_one_name_whatever_socket_took_it(
    peer: str, forwarded: bytes, client: str
) -> None:
    seen = []

    async def app(scope: Any, _: Any, __: Any) -> None:
        seen.append(scope["client"][0])

    edge = Edge(app, SimpleNamespace(is_on=False), Hosts("::"), Proxies("10.0.0.0/8"), [].append)
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "client": (peer, 4_000),
        "headers": [(b"x-forwarded-for", forwarded)],
    }
    await edge(scope, None, None)
    assert seen == [client]
