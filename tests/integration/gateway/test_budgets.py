"""What a key may have of bytes, of a real gateway: live events are dropped, replays take time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection, connect

from schemas.channels import SWAPS
from schemas.plans import FREE
from tests.support.gateway.running import Gateway, swap

pytestmark = pytest.mark.timeout(300)

FILLER = "x" * 250_000
MIB = 1024 * 1024


def publish(gateway: Gateway, mib: int) -> list[str]:
    """Publish so many MiB of events; return their ids."""
    count = mib * MIB // len(FILLER)
    events = (swap(number=number, filler=FILLER) for number in range(count))
    return [gateway.publish(SWAPS, event) + "-0" for event in events]


async def subscribed(client: ClientConnection, **wish: Any) -> None:
    await client.send(orjson.dumps({"action": "subscribe", "channel": "swaps", **wish}).decode())
    while orjson.loads(await client.recv())["type"] != "subscribed":
        pass


async def test_live_events_beyond_the_budget_are_dropped_and_counted(gateway: Gateway) -> None:
    key = await asyncio.to_thread(gateway.key, "free")
    async with connect(f"{gateway.url}/ws?api_key={key}", max_size=None) as client:
        await subscribed(client)
        published = received = dropped = 0
        while not dropped:
            # Less than may wait for a client: none is dropped for reading slowly.
            published += len(await asyncio.to_thread(publish, gateway, 3))
            while received + dropped < published:
                message = orjson.loads(await client.recv())
                if message["type"] == "swap":
                    received += 1
                elif message["type"] == "lagging":
                    assert message["reason"] == "budget"
                    dropped += message["dropped"]
        assert received + dropped == published
        assert received * len(FILLER) >= (FREE.live_mib_a_minute - 3) * MIB


async def test_replays_share_a_budget_and_wait_for_it(gateway: Gateway) -> None:
    had, *missed = await asyncio.to_thread(publish, gateway, FREE.replay_mib_a_minute // 2 + 1)
    key = await asyncio.to_thread(gateway.key, "free")
    took_s = []
    for _ in range(3):  # of which the third is half a budget beyond
        began_s = time.monotonic()
        async with connect(f"{gateway.url}/ws?api_key={key}", max_size=None) as client:
            await subscribed(client, since=had)
            received = 0
            while received < len(missed):
                received += orjson.loads(await client.recv())["type"] == "swap"
        took_s.append(time.monotonic() - began_s)
    # What a replay is beyond the budget takes its share of a minute.
    assert sum(took_s) > 20
