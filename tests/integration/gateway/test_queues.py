"""What waits for all clients together is bounded: the clients with most waiting are closed."""

from __future__ import annotations

import asyncio
import json
import socket

from schemas import channels
from tests.support.gateway.running import closing, opened, running_gateway, swap
from tests.support.waiting import WITHIN_S

SUBSCRIBE = json.dumps({"action": "subscribe", "channel": "swaps"})


async def subscribed(gateway, key, **options):
    client = await opened(gateway, key, ping_interval=None, **options)
    await client.send(SUBSCRIBE)
    async with asyncio.timeout(WITHIN_S):
        while json.loads(await client.recv())["type"] != "subscribed":
            pass
    return client


def narrow(gateway):
    """A socket that takes little at once."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    sock.connect(("127.0.0.1", gateway.port))
    sock.setblocking(False)
    return sock


async def test_the_slowest_are_closed_though_each_has_room(tmp_path, valkey_port):
    with running_gateway(
        tmp_path,
        valkey_port,
        gateway_queues_mib=4,
        gateway_queue_kib=1024 * 1024,
        gateway_slow_s=600.0,
        gateway_idle_s=3_600.0,
    ) as gateway:
        key = await asyncio.to_thread(gateway.key)
        reader = await subscribed(gateway, key)
        # It does not read: the library reads ahead by one message, and then waits.
        sleeper = await subscribed(gateway, key, sock=narrow(gateway), max_queue=1)

        async def read():
            async for message in reader:
                if json.loads(message).get("data", {}).get("number") == -1:
                    return

        reading = asyncio.create_task(read())

        def is_closed():
            return gateway.metric("soltape_gateway_closes_total", code="4008", by="server") == 1

        async with asyncio.timeout(WITHIN_S):
            while not await asyncio.to_thread(is_closed):
                await asyncio.to_thread(
                    gateway.publish, channels.SWAPS, *(swap(filler="x" * 10_000),) * 20
                )
        await asyncio.to_thread(gateway.publish, channels.SWAPS, swap(number=-1))
        async with asyncio.timeout(WITHIN_S):
            await reading
        assert gateway.metric("soltape_gateway_queue_bytes") <= 4 * 1024 * 1024
        assert (await closing(sleeper))[0] in (4008, 1006)  # 1006: the gateway gave it up
        await reader.close()
