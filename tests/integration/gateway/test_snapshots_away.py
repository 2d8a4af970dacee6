"""Snapshots that cannot be had: the store ends under a running gateway."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import redis as sync_redis
from websockets.asyncio.client import ClientConnection, connect

from tests.support.gateway.running import Gateway, running_gateway
from tests.support.systems import running_valkey
from tests.support.waiting import WITHIN_S

MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


async def asked(client: ClientConnection, **ask: Any) -> list[dict[str, Any]]:
    """Say something, then ping; return all that is answered in between, notices left out."""
    await client.send(orjson.dumps({**ask, "request_id": "asked"}).decode())
    found = []
    async with asyncio.timeout(WITHIN_S):
        while True:
            message = orjson.loads(await client.recv())
            if message["type"] != "notice":
                found.append(message)
            if message["type"] in ("error", "unsubscribed", "pong"):
                return found


def test_a_client_that_asks_for_a_snapshot_gets_an_error_and_stays(tmp_path: Path) -> None:
    with (
        running_valkey(tmp_path) as port,
        running_gateway(tmp_path, port) as gateway,
    ):
        key = gateway.key()
        asyncio.run(ask_while_away(gateway, key))


async def ask_while_away(gateway: Gateway, key: str) -> None:
    headers = {"x-api-key": key}
    async with (
        connect(f"{gateway.url}/ws", additional_headers=headers) as main,
        connect(f"{gateway.url}/ws/trending-pairs", additional_headers=headers) as trending,
    ):
        with suppress(sync_redis.ConnectionError):
            gateway.redis.shutdown(nosave=True)
        of_prices = {"channel": "prices", "mints": [MINT], "snapshot": True}
        for client, channel, ask in (
            (main, "prices", of_prices),
            (trending, "trending-pairs", {"dex": "*"}),
        ):
            reply = await asked(client, action="subscribe", **ask)
            assert [message["type"] for message in reply] == ["subscribed", "error"]
            error = reply[-1]
            assert (error["code"], error["channel"]) == ("store_unavailable", channel)
            assert error["request_id"] == "asked"
            [gone] = await asked(client, action="unsubscribe", channel=channel)
            assert gone["code"] == "not_subscribed"
            [pong] = await asked(client, action="ping")
            assert pong["type"] == "pong"
