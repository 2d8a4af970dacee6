"""The channel `positions`: wallets followed, each client's own threshold, live and replayed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import ClientConnection

from schemas import channels
from schemas.channels import Fall, LiveEvent
from schemas.redis_keys import (
    ASKED_ACCOUNTS,
    TRACKED_WALLETS,
    WATCH_LEASE,
    WATERMARK,
    account_tags,
)
from schemas.solana.addresses import key as raw
from schemas.solana.addresses import text
from tests.support.gateway.running import Gateway, opened, running_gateway
from tests.support.waiting import WITHIN_S, eventually_async

WALLET, OTHER = text(b"w" * 32), text(b"o" * 32)
NEW_A_MINUTE = 3


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, valkey_port: int) -> Iterator[Gateway]:
    """A gateway that lets a key ask for few new wallets a minute."""
    folder: Path = tmp_path_factory.mktemp("gateway")
    with running_gateway(folder, valkey_port, api_new_accounts_per_key=NEW_A_MINUTE) as gateway:
        gateway.redis.set(WATCH_LEASE.make(), "somebody")
        accounts_moved(gateway, time.time() + 3_600)  # for as long as the tests take
        yield gateway


def accounts_moved(gateway: Gateway, at_s: float) -> None:
    """Say when the agent `accounts` last moved."""
    for tag in account_tags():
        gateway.redis.hset(WATERMARK.make(tag=tag, group="accounts"), "at_ms", int(at_s * 1000))


def alert(fell: Fall | None, wallet: str = WALLET, **given: Any) -> LiveEvent:
    data = dict.fromkeys(channels.POSITION_ALERT_FIELDS) | {
        "wallet": wallet,
        "kind": "range_left" if fell is None else "health_below",
        "value": None if fell is None else fell.to,
    }
    return channels.position_event(data | given, fell)


async def new_key(gateway: Gateway, plan: str = "enterprise") -> str:
    return await asyncio.to_thread(gateway.key, plan)


async def next_of(client: ClientConnection, kind: str) -> Any:
    """The next message of a kind."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            message = orjson.loads(await client.recv())
            if message["type"] == kind:
                return message


async def subscribe(client: ClientConnection, **given: Any) -> Any:
    """Subscribe; return the answer."""
    await client.send(
        orjson.dumps({"action": "subscribe", "channel": "positions", **given}).decode()
    )
    return await next_of(client, "subscribed")


async def until_asked(gateway: Gateway, *wallets: str) -> None:
    """Wait until wallets were asked for."""
    await eventually_async(lambda: {*map(raw, wallets)} <= {*asked(gateway)})


def asked(gateway: Gateway) -> list[bytes]:
    entries: Any = gateway.redis.xrange(ASKED_ACCOUNTS.make())
    return [fields[b"wallet"] for _, fields in entries]


async def test_each_client_gets_what_crosses_its_own_threshold(gateway: Gateway) -> None:
    # From a place in the stream on, so that nothing depends on when a subscription begins.
    since = f"{gateway.publish(channels.POSITIONS, alert(Fall(50.0, 60.0)))}-0"
    one, other = await new_key(gateway), await new_key(gateway)
    async with opened(gateway, one) as low, opened(gateway, other) as high:
        answer = await subscribe(low, wallets=[WALLET], health_below=1.05, since=since)
        assert answer["filter"] == {"wallets": [WALLET], "health_below": 1.05}
        await subscribe(high, wallets=[WALLET], health_below=1.2, since=since)
        await until_asked(gateway, WALLET)
        for _ in range(2):  # the second time they are live
            gateway.publish(
                channels.POSITIONS,
                alert(Fall(1.1, 1.3)),
                alert(Fall(1.0, 1.1)),
                alert(Fall(1.0, None), OTHER),
                alert(None, threshold=7.0),
            )
            for client, value, threshold in ((low, 1.0, 1.05), (high, 1.1, 1.2)):
                first = await next_of(client, "position_alert")
                assert (first["data"]["value"], first["data"]["threshold"]) == (value, threshold)
                assert tuple(first["data"]) == channels.POSITION_ALERT_FIELDS
                second = await next_of(client, "position_alert")
                assert (second["data"]["kind"], second["data"]["threshold"]) == ("range_left", 7.0)


async def test_what_was_missed_comes_by_the_threshold_too(gateway: Gateway) -> None:
    before = gateway.publish(channels.POSITIONS, alert(Fall(2.0, 2.5)))
    gateway.publish(channels.POSITIONS, alert(Fall(1.1, 1.3)), alert(Fall(1.0, 1.1)))
    async with opened(gateway, await new_key(gateway)) as client:
        await subscribe(client, wallets=[WALLET], health_below=1.2, since=f"{before}-0")
        missed = await next_of(client, "position_alert")
        assert (missed["data"]["value"], missed["data"]["threshold"]) == (1.1, 1.2)
        gateway.publish(channels.POSITIONS, alert(Fall(0.5, 1.2)))
        live = await next_of(client, "position_alert")
        assert (live["data"]["value"], live["data"]["threshold"]) == (0.5, 1.2)


async def test_a_key_asks_for_so_many_new_wallets_a_minute_and_for_followed_ones_freely(
    gateway: Gateway,
) -> None:
    wallets = [text(bytes([each]) * 32) for each in range(1, NEW_A_MINUTE + 3)]
    gateway.redis.zadd(TRACKED_WALLETS.make(), {raw(wallets[0]): 1.0})
    async with opened(gateway, await new_key(gateway)) as client:
        await subscribe(client, wallets=wallets, request_id="many")
        refused = await next_of(client, "error")
        assert (refused["code"], refused["channel"]) == ("too_many_new_wallets", "positions")
        assert refused["request_id"] == "many"
        followed = [each for each in wallets if raw(each) in asked(gateway)]
        assert len(followed) == NEW_A_MINUTE
        await client.send('{"action":"unsubscribe","channel":"positions"}')
        assert (await next_of(client, "error"))["code"] == "not_subscribed"
        await subscribe(client, wallets=[wallets[0], *followed])
        await until_asked(gateway, wallets[0])
    other = text(b"p" * 32)
    async with opened(gateway, await new_key(gateway)) as client:  # another key
        await subscribe(client, wallets=[other])
        await until_asked(gateway, other)
    assert len(asked(gateway)) == len({*asked(gateway)}), "each once in ten minutes"


async def until_notice(client: ClientConnection, code: str) -> None:
    """Wait for a notice; others may come before it, and one may come twice."""
    while (await next_of(client, "notice"))["code"] != code:
        pass


async def test_subscribers_get_a_notice_while_no_process_watches(gateway: Gateway) -> None:
    gateway.redis.delete(WATCH_LEASE.make())
    async with opened(gateway, await new_key(gateway)) as client:
        await subscribe(client, wallets=[WALLET])
        await until_notice(client, "positions_unwatched")
        gateway.redis.set(WATCH_LEASE.make(), "somebody")
        await until_notice(client, "positions_watched")
        accounts_moved(gateway, time.time() - 120)
        await until_notice(client, "positions_late")
        gateway.redis.delete(WATCH_LEASE.make())
        await until_notice(client, "positions_unwatched")
    gateway.redis.set(WATCH_LEASE.make(), "somebody")
    accounts_moved(gateway, time.time() + 3_600)


@pytest.mark.parametrize("plan", ["free", "pro"])
async def test_a_plan_without_filters_by_wallet_has_no_alerts(gateway: Gateway, plan: str) -> None:
    async with opened(gateway, await new_key(gateway, plan)) as client:
        ask = {"action": "subscribe", "channel": "positions", "wallets": [WALLET]}
        await client.send(orjson.dumps(ask).decode())
        assert (await next_of(client, "error"))["code"] == "not_in_plan"
