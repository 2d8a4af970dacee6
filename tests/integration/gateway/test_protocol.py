"""Every action and every answer, as a client of `websockets` has them."""

import json

from tests.integration.gateway.conftest import opened


async def test_ping(gateway, key):
    async with opened(gateway, key) as client:
        await client.send('{"action": "ping", "request_id": "mine"}')
        told = json.loads(await client.recv())
    assert (told["type"], told["request_id"]) == ("pong", "mine")
