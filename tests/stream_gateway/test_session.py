"""A subscription to `positions` gets alerts from its answer on, until a failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from redis.exceptions import ConnectionError as RedisConnectionError

from schemas import channels
from schemas.channels import Fall
from schemas.plans import BUSINESS
from schemas.solana.addresses import text
from stream_gateway import messages
from stream_gateway.batches import Batch
from stream_gateway.fanout import Fanout
from stream_gateway.messages import Refused
from stream_gateway.session import Sessions
from stream_gateway.tracking import Watched
from tests.support.waiting import eventually_async

WALLET, OTHER = text(b"w" * 32), text(b"o" * 32)


class Client:
    """A connection as `Sessions` uses it; notes what it is sent."""

    endpoint = "main"
    number = 1

    def __init__(self) -> None:
        self.admitted = SimpleNamespace(plan=BUSINESS, holder=SimpleNamespace(payer="p"))
        self.filters: dict[str, Any] = {}
        self.got: list[dict[str, Any]] = []

    def send(self, frame: bytes) -> None:
        self.got.append(orjson.loads(frame[frame.index(b"{") :]))

    def deliver(self, data: bytes, events: int) -> None:
        assert events == 1
        self.send(data)

    def refuse(self, refused: Refused) -> None:
        self.send(messages.error(refused))

    @property
    def story(self) -> list[Any]:
        """Values of alerts, codes of errors and types of all else."""
        return [
            each["data"]["value"] if "data" in each else each.get("code", each["type"])
            for each in self.got
        ]


class Redis:
    """Has wallets followed once it is let, or fails."""

    def __init__(self) -> None:
        self.answers = asyncio.Event()
        self.error: Exception | None = None
        self.state = Watched.YES
        self.followed: list[set[str]] = []

    async def follow(self, wallets: Iterable[str], holder: str) -> Watched:
        await self.answers.wait()
        if self.error is not None:
            raise self.error
        self.followed.append({*wallets})
        return self.state


class Gateway:
    """Sessions and fan-out of a process."""

    def __init__(self) -> None:
        self.redis = Redis()
        self.fanout = Fanout()
        nothing: Any = None
        self.sessions = Sessions(
            self.fanout, nothing, lambda: None, self.catch_up, self.redis.follow
        )

    async def catch_up(self, connection: Any, chosen: Any, since: str) -> None:
        connection.got.append({"type": f"since {since}"})
        self.fanout.attach(connection, chosen)

    def subscribe(self, client: Any, *wallets: str, **given: Any) -> None:
        ask = {"action": "subscribe", "channel": "positions", "wallets": wallets, **given}
        self.sessions.hear(client, orjson.dumps(ask))

    def alert(self, value: float, wallet: str = WALLET) -> None:
        data = dict.fromkeys(channels.POSITION_ALERT_FIELDS) | {
            "wallet": wallet,
            "kind": "health_below",
            "value": value,
        }
        event = channels.position_event(data, Fall(value, 5.0))
        self.fanout.publish(Batch(channels.POSITIONS, f"{value * 1000:.0f}-0", "e", [event]))


@pytest.fixture
async def gateway() -> Gateway:
    return Gateway()


async def test_alerts_come_while_wallets_are_asked_for_by_the_new_filter(gateway: Gateway) -> None:
    client = Client()
    gateway.subscribe(client, WALLET, health_below=3)
    gateway.alert(2.0)
    gateway.redis.answers.set()
    await eventually_async(lambda: gateway.redis.followed)
    gateway.redis.answers.clear()
    gateway.subscribe(client, WALLET, OTHER, health_below=2)
    gateway.alert(2.5)  # of the filter before
    gateway.alert(1.5)
    gateway.alert(1.4, OTHER)
    gateway.redis.answers.set()
    await eventually_async(lambda: len(gateway.redis.followed) == 2)
    gateway.alert(1.3)
    assert client.story == ["subscribed", 2.0, "subscribed", 1.5, 1.4, 1.3]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused("too_many_new_wallets", "later"), "too_many_new_wallets"),
        (RedisConnectionError("away"), "store_unavailable"),
    ],
)
async def test_a_subscription_that_fails_gets_no_more_alerts(
    gateway: Gateway, error: Exception, code: str
) -> None:
    client = Client()
    gateway.redis.error = error
    gateway.subscribe(client, WALLET, health_below=3)
    gateway.alert(2.0)
    gateway.redis.answers.set()
    await eventually_async(lambda: client.story[-1] == code)
    gateway.alert(1.0)
    assert client.story == ["subscribed", 2.0, code]
    assert client.filters == {}


async def test_with_since_alerts_come_in_order_once_the_missed_ones_were_sent(
    gateway: Gateway,
) -> None:
    client = Client()
    gateway.subscribe(client, WALLET, health_below=3, since="1-0-0")
    gateway.alert(2.0)  # is among those missed: `catch_up` sends it
    gateway.redis.answers.set()
    await eventually_async(lambda: client.story[-1] == "since 1-0-0")
    gateway.alert(1.0)
    assert client.story == ["subscribed", "since 1-0-0", 1.0]


async def test_wallets_are_watched_once_they_were_counted(gateway: Gateway) -> None:
    client, other = Client(), Client()
    gateway.redis.answers.set()
    gateway.subscribe(other, OTHER)
    await eventually_async(lambda: gateway.sessions.watched() == {OTHER})
    gateway.redis.answers.clear()
    gateway.subscribe(client, WALLET, health_below=3)
    await asyncio.sleep(0)
    assert gateway.sessions.watched() == {OTHER}
    gateway.redis.answers.set()
    await eventually_async(lambda: gateway.sessions.watched() == {OTHER, WALLET})


@pytest.mark.parametrize("state", [Watched.NO, Watched.LATE])
async def test_who_subscribes_while_no_alerts_come_hears_why(
    gateway: Gateway, state: Watched
) -> None:
    client = Client()
    gateway.redis.state = state
    gateway.redis.answers.set()
    gateway.subscribe(client, WALLET, health_below=3)
    await eventually_async(lambda: client.story == ["subscribed", state.value])


async def test_all_that_are_subscribed_to_positions_hear_whether_they_are_watched(
    gateway: Gateway,
) -> None:
    client, other, nobody = Client(), Client(), Client()
    gateway.redis.answers.set()
    gateway.subscribe(client, WALLET, health_below=3)
    gateway.subscribe(other, OTHER)
    for state in (Watched.NO, Watched.LATE, Watched.YES):
        gateway.sessions.announce(state)
    for each in (client, other):
        assert each.story == [
            *("subscribed", "positions_unwatched", "positions_late", "positions_watched")
        ]
    assert nobody.story == []
