"""A short market through the whole pipeline to WebSocket clients, everything noted on the way."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson
import websockets

from api.access import register
from api.access.keys import Record, new, parse
from infra.kafka import topics
from infra.local.process import Process, free_port
from infra.local.stack import listens
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.chaos.fleet import HOST, Chain, Fleet, Plan, plan
from pipeline.chaos.watch import Watch, last_settled
from schemas import channels
from schemas.plans import ENTERPRISE
from schemas.topics import CREATIONS, PRICES, SLOT_STATUS, SWAPS

SEED = 5
RATE = 100.0  # transactions a second
SLOTS = 50  # at least, from the first to the last confirmed one
CREATED = 5  # tokens, at least
SETTLE_S = 300.0
FORKS = 0.2  # a good many, of a few slots each
MOST_MINTS = 100  # of a subscription to prices
WORKERS = ("live", "market")
PUBLIC = (SWAPS, CREATIONS, PRICES, SLOT_STATUS)
# Nobody watches positions here, and a subscription to them names wallets.
MAIN = tuple(
    channel for channel in channels.ALL if channel not in (channels.TRENDING, channels.POSITIONS)
)

Message = dict[str, Any]


@dataclass
class Client:
    """A connection, what it asks for, and all that it was sent."""

    path: str
    asks: Sequence[Mapping[str, Any]]
    got: list[Message] = field(default_factory=list)
    connection: websockets.ClientConnection | None = None

    async def listen(self, url: str, key: str) -> None:
        """Ask, and note what comes until cancelled."""
        async with websockets.connect(
            f"{url}{self.path}", additional_headers={"x-api-key": key}, max_size=None
        ) as connection:
            self.connection = connection
            for ask in self.asks:
                await self.ask(ask)
            async for text in connection:
                self.got.append(orjson.loads(text))

    async def ask(self, message: Mapping[str, Any]) -> None:
        assert self.connection
        await self.connection.send(orjson.dumps(message).decode())

    def events(self, kind: str) -> list[Message]:
        return [message for message in self.got if message["type"] == kind]

    def last(self, channel: str) -> str:
        """The id of the last event of a channel."""
        ids = [m["id"] for m in reversed(self.got) if "id" in m and m["channel"] == channel]
        return ids[0] if ids else ""


@dataclass
class Finished:
    """What a run left."""

    truth: Path
    records: dict[str, list[bytes]]  # topic -> its messages; those of a key in order
    trending: dict[str, Message]  # mint -> record, as Redis has it in the end
    snapshot: Message  # of the trending list, asked for in the end
    all: Client
    filtered: Client
    trends: Client
    snaps: Client  # asks for snapshots of prices all the time
    refused: Message  # the answer to a venue that there is not


def gateway(settings: Settings, shared: Mapping[str, str], port: int) -> Process:
    """Describe `soltape gateway` beside the processes of a fleet."""
    metrics_port = free_port()
    ports = {"GATEWAY_PORT": str(port), "METRICS_PORT_GATEWAY": str(metrics_port)}
    return Process(
        name="gateway",
        command=[sys.executable, "-m", "infra.cli", "gateway"],
        address=f"ws://{HOST}:{port}",
        ready=lambda: listens(port),
        env={**shared, **ports},
    )


async def new_key(settings: Settings) -> str:
    """Make a key of a plan without limits."""
    text = new()
    redis = register.connect(settings)
    try:
        at_ms = await register.now_ms(redis)
        assert await register.put(
            redis, Record(parse(text), "test", ENTERPRISE.name, "", text[-4:], at_ms)
        )
    finally:
        await redis.aclose()
    return text


async def run(folder: Path) -> Finished:
    """Run it, from before the chain's first slot to when nothing comes any more."""
    planned = plan(folder, Chain(SEED, RATE, minutes=1), "embedded")
    chain = planned.processes["chain"]
    options = [*chain.command, "--forks", str(FORKS), "--damaged", "0"]
    planned.processes["chain"] = replace(chain, command=options)
    port = free_port()
    redis_env = {"REDIS_URL": planned.settings.redis_url, "SOLTAPE_DATA": str(folder)}
    planned.processes["gateway"] = gateway(planned.settings, redis_env, port)
    everything = Client("/ws", [{"action": "subscribe", "channel": each.channel} for each in MAIN])
    filtered = Client(
        "/ws",
        [
            {"action": "subscribe", "channel": "swaps", "dex": ["pump-swap", "pump-fun"]},
            {"action": "subscribe", "channel": "creations", "platforms": ["pump-fun"]},
        ],
    )
    trends = Client("/ws/trending-pairs", [{"action": "subscribe", "dex": "*"}])
    snaps = Client("/ws", [{"action": "subscribe", "channel": "swaps", "dex": "no-such-venue"}])
    fleet, watch = Fleet(planned), Watch(planned)
    listening: list[asyncio.Task[None]] = []
    try:
        await fleet.start("kafka", "clickhouse", "redis", "gateway")
        key = await new_key(planned.settings)
        url = f"ws://{HOST}:{port}"
        clients = (everything, filtered, trends, snaps)
        listening = [asyncio.create_task(client.listen(url, key)) for client in clients]

        async def subscribed() -> bool:
            return all(len(client.got) >= len(client.asks) for client in clients)

        await watch.until(subscribed, SETTLE_S, "answers to the subscriptions")
        await snaps.ask({"action": "unsubscribe", "channel": "swaps"})
        await fleet.start(*WORKERS, "ingest", "chain")
        listening.append(asyncio.create_task(_ask_for_snapshots(snaps, everything)))

        async def enough() -> bool:
            statuses = Counter(each["data"]["status"] for each in everything.events("status"))
            return statuses["confirmed"] >= SLOTS and len(everything.events("creation")) >= CREATED

        await watch.until(enough, SETTLE_S, f"{SLOTS} slots, and {CREATED} tokens")
        await _calm(fleet, watch, planned)
        await _all_delivered(watch, planned.settings, everything, trends)
        last = Client("/ws/trending-pairs", [{"action": "subscribe", "dex": "*"}])
        listening.append(asyncio.create_task(last.listen(url, key)))

        async def snapped() -> bool:
            return bool(last.events("snapshot"))

        await watch.until(snapped, SETTLE_S, "a snapshot")
        await snaps.ask({"action": "subscribe", "channel": "swaps", "dex": "no-such-venue"})

        async def refused() -> bool:
            return bool(snaps.events("error"))

        await watch.until(refused, SETTLE_S, "an error")
        records = {
            topic.name: [
                record.value async for record in topics.records_so_far(planned.settings, topic)
            ]
            for topic in PUBLIC
        }
        trending = await _trending(planned.settings)
        for task in listening:
            assert not task.done(), task
        await fleet.end("gateway")
        assert not fleet.crashes, fleet.crashes
    finally:
        for task in listening:
            task.cancel()
        await asyncio.gather(*listening, return_exceptions=True)
        await watch.close()
        await fleet.close()
    return Finished(
        planned.truth,
        records,
        trending,
        last.events("snapshot")[0],
        everything,
        filtered,
        trends,
        snaps,
        snaps.events("error")[0],
    )


async def _ask_for_snapshots(client: Client, everything: Client) -> None:
    """Subscribe to prices anew, with a snapshot, for mints that trade; until cancelled."""
    while True:
        mints = [message["data"]["mint"] for message in everything.events("price")]
        if some := list(dict.fromkeys(reversed(mints)))[:MOST_MINTS]:
            ask = {"action": "subscribe", "channel": "prices", "mints": some, "snapshot": True}
            await client.ask(ask)
        await asyncio.sleep(0.3)


async def _calm(fleet: Fleet, watch: Watch, planned: Plan) -> None:
    """Stop the chain, and wait until all that was confirmed has gone through."""
    confirmed = await watch.metric("chain", "soltape_chain_slot", commitment="confirmed") or 0

    async def published() -> bool:
        return (await watch.progress("ingest") or 0) >= confirmed > 0

    await watch.until(published, SETTLE_S, f"slot {confirmed} on the settled lanes")
    await fleet.end("chain", "ingest")  # after which nothing more is settled
    last = await last_settled(planned)

    async def done() -> bool:
        lag = await watch.metric("live", "soltape_agents_lag_batches")
        return lag == 0 and await watch.watermark("market") == last

    await watch.until(done, SETTLE_S, f"slot {last} behind all agents")


async def _all_delivered(watch: Watch, settings: Settings, *clients: Client) -> None:
    """Wait until the streams stand still, and clients have the last event of each."""
    redis = connect(settings)
    ends: dict[str, str] = {}

    async def delivered() -> bool:
        nonlocal ends
        before, ends = ends, {}
        for channel in channels.ALL:
            for entry_id, fields in await redis.xrevrange(channel.stream, count=1):
                place = len(channels.unpack(fields).events) - 1
                ends[channel.channel] = channels.event_id(entry_id.decode(), place)
        await asyncio.sleep(2.5)  # trending is published about once a second
        return ends == before and all(
            any(client.last(channel) == end for client in clients) for channel, end in ends.items()
        )

    try:
        await watch.until(delivered, SETTLE_S, "the last events at the clients")
    finally:
        await redis.aclose()
    assert len(ends) == len(channels.ALL) - 1  # all but positions


async def _trending(settings: Settings) -> dict[str, Message]:
    redis = connect(settings)
    found: dict[str, Message] = {}
    try:
        async for key in redis.scan_iter("trending:*:records"):
            for mint, text in (await redis.hgetall(key)).items():
                found[mint.decode()] = orjson.loads(text)
    finally:
        await redis.aclose()
    return found
