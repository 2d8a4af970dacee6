"""A plan's connections over several gateway processes, one of which is killed."""

from __future__ import annotations

import asyncio
import json

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.support.gateway.running import closing, opened, running_gateway
from tests.support.waiting import WITHIN_S


@pytest.fixture
def both(tmp_path_factory, valkey_port):
    """Two gateways over one Redis."""
    with (
        running_gateway(tmp_path_factory.mktemp("one"), valkey_port) as one,
        running_gateway(tmp_path_factory.mktemp("other"), valkey_port) as other,
    ):
        yield one, other


async def enter(gateway, key):
    """Return a client, or the answer that refused it."""
    try:
        return await opened(gateway, key)
    except InvalidStatus as refused:
        return refused.response


async def pong(client):
    """Ask, and wait for the answer; there may be notices before it."""
    await client.send('{"action":"ping"}')
    async with asyncio.timeout(WITHIN_S):
        while json.loads(await client.recv())["type"] != "pong":
            pass


async def test_a_plan_holds_over_all_gateways_and_a_killed_one_takes_none_along(both):
    one, other = both
    key = await asyncio.to_thread(one.key, "business")
    asked = await asyncio.gather(*(enter(both[number % 2], key) for number in range(14)))
    refused = [each for each in asked if not hasattr(each, "send")]
    inside = [each for each in asked if hasattr(each, "send")]
    assert len(inside) == 5
    for each in refused:
        assert each.status_code == 429
        assert json.loads(each.body)["code"] == "too_many_connections"
        assert int(each.headers["Retry-After"]) > 0
    here = sum(client.remote_address[1] == one.port for client in inside)
    one.kill()
    stayed = []
    for client in inside:
        try:
            await pong(client)
            stayed.append(client)
        except ConnectionClosed:
            pass
    assert len(stayed) == 5 - here
    async with asyncio.timeout(WITHIN_S):
        while len(stayed) < 5:
            if hasattr(entered := await enter(other, key), "send"):
                stayed.append(entered)
            else:
                assert entered.status_code in (429, 503)
                await asyncio.sleep(0.2)
    assert (await enter(other, key)).status_code == 429
    await asyncio.to_thread(other.stop)
    for client in stayed:
        assert (await closing(client))[0] == 1001


async def test_a_gateway_that_stops_gives_its_connections_back_at_once(both):
    one, other = both
    key = await asyncio.to_thread(one.key, "pro")
    client = await opened(one, key)
    assert (await enter(other, key)).status_code == 429
    await asyncio.to_thread(one.stop)
    assert (await closing(client))[0] == 1001
    entered = await enter(other, key)  # no lease is waited for
    await pong(entered)
    await entered.close()
