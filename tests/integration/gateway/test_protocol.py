"""Every action and every answer, as a client of `websockets` has them from a real gateway."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress

import pytest
from websockets.exceptions import ConnectionClosed

from api.access import register, users
from api.access.keys import parse
from api.access.users import Identity
from schemas import channels
from schemas.channels import LiveEvent
from schemas.redis_keys import API_KEY, tag_of_key
from tests.support.gateway.running import (
    SLUGS,
    closing,
    events,
    opened,
    swap,
)
from tests.support.waiting import WITHIN_S

WSOL = "So11111111111111111111111111111111111111112"
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


async def ask(client, **fields):
    """Say something; return what is answered."""
    await client.send(json.dumps(fields))
    return await next_message(client)


async def next_message(client):
    """The next message but notices, which say that there is no pipeline."""
    async with asyncio.timeout(WITHIN_S):
        while (message := json.loads(await client.recv()))["type"] == "notice":
            pass
        return message


async def messages_until_pong(client):
    """What comes until the answer to a ping: all there was."""
    await client.send('{"action": "ping"}')
    found = []
    while (message := await next_message(client))["type"] != "pong":
        found.append(message)
    return found


async def publish(gateway, channel, *some):
    return await asyncio.to_thread(gateway.publish, channel, *some)


def event(channel, index, **data):
    return LiveEvent(index, channel.frame(data))


class TestSubscriptions:
    async def test_without_a_filter_all_events_come_in_order_with_ids(self, gateway, key):
        async with opened(gateway, key) as client:
            assert await ask(client, action="subscribe", channel="swaps", request_id="r1") == {
                "type": "subscribed",
                "channel": "swaps",
                "filter": {},
                "replaces": False,
                "request_id": "r1",
            }
            first = await publish(gateway, channels.SWAPS, *(swap(number=n) for n in range(3)))
            second = await publish(gateway, channels.SWAPS, swap(number=3))
            found = [await next_message(client) for _ in range(4)]
        assert events(found) == [0, 1, 2, 3]
        assert [each["id"] for each in found] == [
            f"{first}-0",
            f"{first}-1",
            f"{first}-2",
            f"{second}-0",
        ]
        assert found[0] == {
            "type": "swap",
            "channel": "swaps",
            "data": {"dex": "pump-fun", "mint": "m", "wallet": "w", "number": 0, "filler": ""},
            "id": f"{first}-0",
        }
        assert list(found[0])[-1] == "id"

    async def test_filters_are_and_across_kinds_and_or_within(self, gateway, key):
        async with opened(gateway, key) as client:
            answer = await ask(
                client,
                action="subscribe",
                channel="swaps",
                dex=["pump-swap", "pump-fun"],
                token=WSOL,
                wallets=[USDC, WSOL],
            )
            assert answer["filter"] == {
                "dex": ["pump-fun", "pump-swap"],
                "token": WSOL,
                "wallets": sorted([USDC, WSOL]),
            }
            await publish(
                gateway,
                channels.SWAPS,
                swap("pump-fun", WSOL, WSOL, 0),
                swap("pump-swap", WSOL, USDC, 1),
                swap("raydium-cpmm", WSOL, USDC, 2),
                swap("pump-swap", USDC, USDC, 3),
                swap("pump-swap", WSOL, "w", 4),
                swap("pump-swap", WSOL, WSOL, 5),
            )
            await publish(
                gateway,
                channels.SWAPS,
                swap("pump-fun", WSOL, USDC, 6),
                swap("pump-fun", "coin", USDC, 7, quote=WSOL),  # a token matches either side
                swap("pump-fun", "coin", USDC, 8, quote=USDC),
            )
            found = [await next_message(client) for _ in range(5)]
        assert events(found) == [0, 1, 5, 6, 7]
        assert [each["id"].rpartition("-")[2] for each in found] == ["0", "1", "5", "0", "1"]

    async def test_a_later_subscription_replaces_the_earlier(self, gateway, key):
        async with opened(gateway, key) as client:
            await ask(client, action="subscribe", channel="swaps", dex="pump-fun")
            answer = await ask(client, action="subscribe", channel="swaps", dex="pump-swap")
            assert (answer["replaces"], answer["filter"]) == (True, {"dex": ["pump-swap"]})
            await publish(gateway, channels.SWAPS, swap("pump-fun"), swap("pump-swap", number=1))
            assert events([await next_message(client)]) == [1]

    async def test_unsubscribe(self, gateway, key):
        async with opened(gateway, key) as client, opened(gateway, key) as witness:
            await ask(witness, action="subscribe", channel="swaps")
            await ask(client, action="subscribe", channel="swaps")
            answer = await ask(client, action="unsubscribe", channel="swaps", request_id="u")
            assert answer == {"type": "unsubscribed", "channel": "swaps", "request_id": "u"}
            await publish(gateway, channels.SWAPS, swap(number=7))
            assert events([await next_message(witness)]) == [7]
            assert await messages_until_pong(client) == []
            assert (await ask(client, action="unsubscribe", channel="swaps"))["code"] == (
                "not_subscribed"
            )
            answer = await ask(client, action="subscribe", channel="swaps")
            assert answer["replaces"] is False

    async def test_all_channels_at_once_on_one_connection(self, gateway, key):
        async with opened(gateway, key) as client:
            await ask(client, action="subscribe", channel="creations", platforms=["bonk"])
            await ask(client, action="subscribe", channel="prices", mints=[WSOL])
            await ask(client, action="subscribe", channel="status")
            await publish(
                gateway,
                channels.CREATIONS,
                event(channels.CREATIONS, ("d", "m", "c", "moonit", "s", 0), mint="no"),
                event(channels.CREATIONS, ("d", "m", "c", "bonk", "s", 0), mint="yes"),
            )
            created = await next_message(client)
            await publish(
                gateway,
                channels.PRICES,
                event(channels.PRICES, (USDC,), mint=USDC),
                event(channels.PRICES, (WSOL,), mint=WSOL, price_sol=1.0),
            )
            priced = await next_message(client)
            await publish(
                gateway,
                channels.STATUS,
                event(channels.STATUS, (5, "confirmed"), slot=5, status="confirmed"),
            )
            settled = await next_message(client)
        assert (created["type"], created["channel"]) == ("creation", "creations")
        assert created["data"] == {"mint": "yes"}
        assert (priced["type"], priced["channel"]) == ("price", "prices")
        assert priced["data"] == {"mint": WSOL, "price_sol": 1.0}
        assert (settled["type"], settled["channel"]) == ("status", "status")
        assert settled["data"] == {"slot": 5, "status": "confirmed"}

    async def test_since_sends_what_was_missed_and_goes_on(self, gateway, key):
        first = await publish(gateway, channels.SWAPS, *(swap(number=n) for n in range(4)))
        await publish(gateway, channels.SWAPS, swap(number=4))
        async with opened(gateway, key) as client:
            answer = await ask(client, action="subscribe", channel="swaps", since=f"{first}-1")
            assert answer["since"] == f"{first}-1"
            missed = [await next_message(client) for _ in range(3)]
            await publish(gateway, channels.SWAPS, swap(number=5))
            assert events([*missed, await next_message(client)]) == [2, 3, 4, 5]

    async def test_a_snapshot_of_prices_comes_before_the_updates(self, gateway, key):
        async with opened(gateway, key) as client:
            answer = await ask(
                client, action="subscribe", channel="prices", mints=[WSOL], snapshot=True
            )
            assert answer["type"] == "subscribed"
            snapshot = await next_message(client)
            assert (snapshot["type"], snapshot["channel"], snapshot["data"]) == (
                "snapshot",
                "prices",
                [],
            )
            # Another subscription is acknowledged only after this one is live or has to wait.
            await publish(gateway, channels.PRICES, event(channels.PRICES, (WSOL,), mint=WSOL))
            price = await next_message(client)
        assert price["type"] == "price"

    async def test_trending_has_a_connection_of_its_own(self, gateway, key):
        async with opened(gateway, key, "/ws/trending-pairs") as client:
            answer = await ask(client, action="subscribe", dex=["bonk"])
            assert (answer["type"], answer["channel"]) == ("subscribed", "trending-pairs")
            assert answer["filter"] == {"dex": ["bonk"]}
            assert (await next_message(client))["type"] == "snapshot"
            entry = await publish(
                gateway,
                channels.TRENDING,
                event(channels.TRENDING, ("m", "moonit"), mint="no"),
                event(channels.TRENDING, ("m", "bonk"), mint="yes"),
            )
            update = await next_message(client)
            assert (update["type"], update["data"]) == ("trending", {"mint": "yes"})
            answer = await ask(client, action="subscribe", dex="*")
            assert (answer["replaces"], answer["filter"]) == (True, {})
            snapshot = await next_message(client)
            assert snapshot["type"] == "snapshot"
            last = event(channels.TRENDING, ("m", "moonit"), mint="last")
            await publish(gateway, channels.TRENDING, last)
            # One reading of the list serves half a second: events newer than it follow it.
            missed = [] if snapshot["as_of_id"] == f"{entry}-1" else ["no", "yes"]
            updates = [await next_message(client) for _ in [*missed, "last"]]
            assert [each["data"] for each in updates] == [
                {"mint": mint} for mint in [*missed, "last"]
            ]
            assert (await ask(client, action="ping"))["type"] == "pong"
            assert (await ask(client, action="unsubscribe"))["type"] == "unsubscribed"
            refused = await ask(client, action="subscribe", channel="swaps")
            assert (refused["code"], refused["accepted"]) == ("unknown_channel", ["trending-pairs"])

    async def test_ping(self, gateway, key):
        async with opened(gateway, key) as client:
            answer = await ask(client, action="ping", request_id="mine")
            assert set(answer) == {"type", "timestamp", "request_id"}
            assert (answer["type"], answer["request_id"]) == ("pong", "mine")
            assert isinstance(answer["timestamp"], int)
            await (await client.ping(b"of the protocol"))


class TestErrors:
    @pytest.mark.parametrize(
        ("sent", "code"),
        [
            ("{", "bad_json"),
            ("", "bad_json"),
            ("[1]", "not_an_object"),
            (b'{"action": "ping"}', "binary_frame"),
            ('{"action": "listen"}', "unknown_action"),
            ('{"action": "subscribe", "channel": "trades"}', "unknown_channel"),
            ('{"action": "subscribe", "channel": "swaps", "wallet": "x"}', "unknown_field"),
            ('{"action": "subscribe", "channel": "swaps", "dex": 5}', "wrong_type"),
            ('{"action": "subscribe", "channel": "swaps", "dex": "uniswap"}', "unknown_dex"),
            (
                '{"action": "subscribe", "channel": "creations", "platforms": ["x"]}',
                "unknown_platform",
            ),
            ('{"action": "subscribe", "channel": "swaps", "token": "x"}', "invalid_address"),
            (
                json.dumps({"action": "subscribe", "channel": "swaps", "wallets": [WSOL] * 101}),
                "too_many_wallets",
            ),
            (
                json.dumps({"action": "subscribe", "channel": "prices", "mints": [WSOL] * 101}),
                "too_many_mints",
            ),
            ('{"action": "unsubscribe", "channel": "status"}', "not_subscribed"),
            ('{"action": "subscribe", "channel": "swaps", "since": "yesterday"}', "bad_since"),
            (
                '{"action": "subscribe", "channel": "prices", "snapshot": true}',
                "snapshot_needs_mints",
            ),
        ],
    )
    async def test_each_is_answered_and_the_connection_stays(self, gateway, key, sent, code):
        async with opened(gateway, key) as client:
            await client.send(sent)
            refused = await next_message(client)
            assert (refused["type"], refused["code"]) == ("error", code)
            assert refused["message"]
            assert (await ask(client, action="ping"))["type"] == "pong"

    async def test_an_error_says_what_is_accepted(self, gateway, key):
        async with opened(gateway, key) as client:
            refused = await ask(
                client, action="subscribe", channel="swaps", dex="uniswap", request_id="r"
            )
        assert refused["accepted"] == sorted(SLUGS.dexes)
        assert (refused["channel"], refused["request_id"]) == ("swaps", "r")

    async def test_a_refused_subscription_leaves_the_former(self, gateway, key):
        async with opened(gateway, key) as client:
            await ask(client, action="subscribe", channel="swaps", dex="pump-fun")
            await ask(client, action="subscribe", channel="swaps", dex="uniswap")
            await publish(gateway, channels.SWAPS, swap("pump-swap"), swap("pump-fun", number=9))
            assert events([await next_message(client)]) == [9]

    @pytest.mark.parametrize("plan", ["free", "pro"])
    async def test_wallets_are_not_in_every_plan(self, gateway, plan):
        key = await asyncio.to_thread(gateway.key, plan)
        async with opened(gateway, key) as client:
            refused = await ask(client, action="subscribe", channel="swaps", wallets=[WSOL])
        assert refused["code"] == "not_in_plan"

    async def test_a_client_that_sends_too_much_gets_an_error_and_is_closed(self, gateway, key):
        async with opened(gateway, key) as client, opened(gateway, key) as other:
            for _ in range(300):
                await client.send('{"action": "ping"}')
            seen = []
            with suppress(ConnectionClosed):
                while True:
                    seen.append(await next_message(client))
            assert (client.close_code, seen[-1]["code"]) == (4029, "too_many_messages")
            assert (await ask(other, action="ping"))["type"] == "pong"


class TestEnds:
    async def test_a_client_that_closes_is_answered_with_its_code(self, gateway, key):
        async with opened(gateway, key) as client:
            await client.close(4321, "bye")
        assert client.close_code == 4321

    async def test_a_revoked_key_closes_its_connections_alone(self, gateway, key):
        revoked = await asyncio.to_thread(gateway.key)
        async with opened(gateway, revoked) as client, opened(gateway, key) as other:
            await asyncio.to_thread(revoke, gateway, revoked)
            assert await closing(client) == (4001, "the API key was revoked")
            assert (await ask(other, action="ping"))["type"] == "pong"

    async def test_a_suspended_user_is_asked_to_see_the_operator(self, gateway):
        async with keys_of(gateway) as keys:
            user = await users.enter(keys, Identity("https://i.example.com", "ann", "ann"), 10)
            async with opened(gateway, await users.create_key(keys, user, "first")) as client:
                await users.suspend(keys, user)
                assert await closing(client) == (
                    4001,
                    "the account is suspended: ask the operator of this service",
                )

    async def test_with_another_plan_a_connection_ends_and_the_next_has_that_plan(self, gateway):
        wallets = {"action": "subscribe", "channel": "swaps", "wallets": [WSOL]}
        key = await asyncio.to_thread(gateway.key, "pro")
        async with opened(gateway, key) as client:
            assert (await ask(client, **wallets))["code"] == "not_in_plan"
            await asyncio.to_thread(give, gateway, key, "business")
            assert await closing(client) == (1001, "the plan has changed: connect again")
        async with opened(gateway, key) as client, opened(gateway, key):
            assert (await ask(client, **wallets))["type"] == "subscribed"

    async def test_metrics_count_what_happened(self, gateway, key):
        def metric(name, **labels):
            return asyncio.to_thread(gateway.metric, f"soltape_gateway_{name}", **labels)

        deliveries, pings = (
            await metric("deliveries_total"),
            await metric("messages_in_total", action="ping"),
        )
        async with opened(gateway, key) as client:
            await ask(client, action="subscribe", channel="swaps")
            await publish(gateway, channels.SWAPS, *(swap(number=n) for n in range(5)))
            assert len([await next_message(client) for _ in range(5)]) == 5
            await ask(client, action="ping")
            assert await metric("connections", endpoint="main") >= 1
        assert await metric("deliveries_total") - deliveries >= 5
        assert await metric("messages_in_total", action="ping") - pings == 1
        assert await metric("closes_total", code="1000", by="client") >= 1
        assert await metric("handshakes_total", status="101") >= 1
        assert await metric("delay_ms_count", channel="swaps") >= 1


@asynccontextmanager
async def keys_of(gateway):
    keys = register.connect(gateway.settings)
    try:
        yield keys
    finally:
        await keys.aclose()


def revoke(gateway, key):
    async def at_once():
        keys = register.connect(gateway.settings)
        await register.revoke(keys, parse(key), await register.now_ms(keys))
        await keys.aclose()

    asyncio.run(at_once())


def give(gateway, key, plan):
    async def at_once():
        keys = register.connect(gateway.settings)
        await keys.ask([("HSET", API_KEY.make(tag=tag_of_key(parse(key))), "plan", plan)])
        await keys.aclose()

    asyncio.run(at_once())


def test_no_key_is_in_what_was_logged_or_counted(gateway, key):
    assert key not in gateway.said()
    assert key not in gateway.get_metrics()
    assert "Traceback" not in gateway.said()
