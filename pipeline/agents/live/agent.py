"""Agent `live`: from batches of the live lane to what users read as it happens.

An event becomes one message on its public topic, with its values in SOL and dollars, and a frame
in its live stream; swaps make prices (`prices`). Amounts are integers up to here, floats on the
public messages.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import faust
import structlog
from aiokafka.structs import TopicPartition
from google.protobuf.message import DecodeError

from infra.kafka.topics import has_none_between
from infra.redis.client import connect
from pipeline.agents import metrics
from pipeline.agents.context import Context
from pipeline.agents.live import broker_disk, chain, vocabulary
from pipeline.agents.live import metrics as live_metrics
from pipeline.agents.live.lost import LostBatches
from pipeline.agents.live.prices import Prices
from pipeline.agents.live.receipt import Receipt
from pipeline.agents.live.streams import LiveStreams, Place
from pipeline.agents.live.tokens import Tokens
from pipeline.agents.poison import undecoded
from pipeline.sinks.kafka import Message
from schemas import channels, topics
from schemas.amounts import human, sol, usd
from schemas.channels import Channel, LiveEvent
from schemas.codec import CodecError, migration_from_proto, swap_from_proto
from schemas.events import Migration, Swap
from schemas.money import WSOL
from schemas.proto import tape_pb2
from schemas.proto.tape_pb2 import LiveBatch
from schemas.solana.networks import is_genesis_hash
from schemas.topics import Topic

log = structlog.get_logger(__name__)

GROUP: Final = "live"
MAX_DECIMALS: Final = 255  # the chain keeps them in one byte
REDIS_ANSWERS_S: Final = 1.0  # the longest that a Redis which hangs holds the lane up, once
_OF_A_MINT: Final = ("swap", "creation", "migration")
_PRICE: Final = re.compile(r"[0-9]{1,18}(\.[0-9]{1,30})?", re.ASCII)  # a decimal in plain notation


class Poison(Exception):
    """A message of the live lane that is no batch of events; the text says why."""


def parse(value: bytes | None) -> LiveBatch:
    """Return the batch; raises Poison.

    Protobuf reads many a wrong byte string as a message of fields it does not know, and the
    publisher sends no empty batches: one without events is not its message.
    """
    if value is None:
        raise Poison("no value")
    try:
        batch = LiveBatch.FromString(value)
    except DecodeError as error:
        raise Poison(str(error)) from None
    if not batch.events:
        raise Poison("no LiveBatch: it holds no events")
    for event in batch.events:
        if max(event.swap.decimals, event.swap.quote_decimals) > MAX_DECIMALS:
            raise Poison(f"no LiveBatch: a token of {event.swap.decimals} decimals")
    if batch.sol_usd and not _PRICE.fullmatch(batch.sol_usd):
        raise Poison(f"no LiveBatch: sol_usd {batch.sol_usd[:40]!r} is no price")
    if batch.genesis_hash and not is_genesis_hash(batch.genesis_hash):
        raise Poison(f"no LiveBatch: genesis_hash {batch.genesis_hash[:50]!r} is not 32 bytes")
    return batch


def set_values(swap: tape_pb2.Swap) -> None:
    """Set the values and prices in SOL and dollars, in human units, where they are known."""
    tokens = human(swap.amount_raw, swap.decimals)
    if swap.HasField("sol_value_lamports"):
        swap.sol_value = sol(swap.sol_value_lamports)
        if tokens:
            swap.price_sol = swap.sol_value / tokens
    if swap.HasField("usd_value_micros"):
        swap.usd_value = usd(swap.usd_value_micros)
        if tokens:
            swap.price_usd = swap.usd_value / tokens


def public_messages(batch: LiveBatch) -> Iterator[Message]:
    """Yield the public messages of a batch, in its order."""
    for event in batch.events:
        match event.WhichOneof("event"):
            case "swap":
                yield _message(topics.SWAPS, event.swap.mint, event.swap)
            case "creation":
                yield _message(topics.CREATIONS, event.creation.mint, event.creation)
            case "slot_status":
                status = event.slot_status
                yield _message(topics.SLOT_STATUS, str(status.slot), status)


def live_events(
    batch: LiveBatch, symbols: Mapping[str, str | None]
) -> Iterator[tuple[Channel, LiveEvent]]:
    """Yield what the live streams hold of a batch, in its order; `symbols` by mint of its swaps."""
    for event in batch.events:
        match event.WhichOneof("event"):
            case "swap":
                swap = event.swap
                yield channels.SWAPS, channels.swap_event(swap, symbols[swap.mint])
            case "creation":
                yield channels.CREATIONS, channels.creation_event(event.creation)
            case "slot_status":
                yield channels.STATUS, channels.status_event(event.slot_status)
            case "slot_gap":
                yield channels.STATUS, channels.slot_gap_event(event.slot_gap)


def attach(app: faust.App, context: Context) -> None:
    """Put the agent on an app."""
    # acks=False: `progress` commits, not Faust.
    source = app.topic(topics.LIVE.name, key_serializer="raw", value_serializer="raw", acks=False)
    live = Live(context)
    context.before_end.append(live.settle)
    app.on_partitions_revoked.connect(live.on_revoked)  # type: ignore[arg-type]

    @app.agent(source, name=GROUP, concurrency=1)
    async def agent(stream: Any) -> None:
        async for event in stream.events():
            await live.open.wait()
            done = context.progress.begin(event.message)
            try:
                await live.handle(event.message, event.value, Receipt(done))
            except Exception as error:
                context.stop(f"{GROUP}: {type(error).__name__}: {error}")
                await asyncio.get_running_loop().create_future()  # no next message, until the end

    app.task(live.streams.run)
    app.task(live.publish_prices)
    app.task(live.publish_vocabulary)
    app.task(live.name_chain)
    app.task(live.know_broker_disk)


class Live:
    """The agent's work on the messages of the lane."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        redis = connect(settings, answer_timeout_s=REDIS_ANSWERS_S, retries=0)
        self._redis = redis
        self._settings = settings
        self._kafka = context.kafka
        self._progress = context.progress
        self.streams = LiveStreams(
            redis,
            stream_bytes=settings.live_stream_mib << 20,
            hold_bytes=settings.live_hold_mib << 20,
            none_between=self._none_between,
        )
        self._prices = Prices(redis, context.kafka, self.streams)
        self._tokens = Tokens(redis, self.streams)
        self._lost = LostBatches(GROUP, settings, context.kafka, context.progress)
        self._genesis_hash: str | None = None  # of the last batch; None: there was none yet
        self._changed = asyncio.Event()
        self.open = asyncio.Event()
        self.open.set()

    async def _none_between(self, partition: int, first: int, offset: int) -> bool:
        place = TopicPartition(topics.LIVE.name, partition)
        return await has_none_between(self._settings, place, first, offset)

    async def handle(self, source: Any, value: bytes | None, receipt: Receipt) -> None:
        """Send what comes of a message; its receipt is released with all of it arrived."""
        try:
            batch = parse(value)
        except Poison as error:
            where = f"{source.topic}[{source.partition}]@{source.offset}"
            metrics.POISON.labels(source.topic).inc()
            log.warning("poison message put aside", place=where, reason=str(error))
            await self._lost.skip(source)
            self.streams.add(Place(source.partition, source.offset, 0), (), [receipt])
            await self._kafka.send([undecoded(value, where, str(error))], receipt.release)
            return
        await self._lost.before(source, batch)
        self._genesis_hash = batch.genesis_hash
        symbols = await self._complete(batch)
        messages = list(public_messages(batch))
        receipt.hold()  # until its prices and frames have their own
        await self._kafka.send(messages, partial(_acked, batch, messages, receipt))
        await self._reprice(batch, source.partition, receipt)
        place = Place(source.partition, source.offset, batch.sent_ms)
        self.streams.add(place, list(live_events(batch, symbols)), [receipt])
        receipt.release()

    async def publish_prices(self) -> None:
        """Send the prices that had to wait, until cancelled."""
        while True:
            next_at = self._prices.next_at
            if next_at is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            await asyncio.sleep(next_at - time.monotonic())
            await self._prices.publish()

    async def publish_vocabulary(self) -> None:
        """Publish the venues and platforms, until cancelled."""
        await vocabulary.keep_published(self._redis)

    async def name_chain(self) -> None:
        """Keep in Redis which chain the last batch was of, until cancelled."""
        await chain.keep_named(self._redis, lambda: self._genesis_hash)

    async def know_broker_disk(self) -> None:
        """Keep in Redis what the brokers' logs take, until cancelled."""
        await broker_disk.keep_known(self._settings, self._redis)

    async def settle(self) -> None:
        """Begin no other message, and have out what waits: prices of the last 100 ms, frames."""
        self.open.clear()
        while not self._progress.idle:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def on_revoked(self, _: faust.App, revoked: Any, **__: Any) -> None:
        """Forget what others may change from here on."""
        self._prices.clear()
        self._tokens.clear()
        self._lost.handed_over()
        self.streams.handed_over()

    async def _complete(self, batch: LiveBatch) -> dict[str, str | None]:
        """Set values and launch platforms of the swaps; return the symbols of their mints."""
        tokens = self._tokens
        kinds = [(event.WhichOneof("event"), event) for event in batch.events]
        await tokens.load(getattr(event, kind).mint for kind, event in kinds if kind in _OF_A_MINT)
        symbols: dict[str, str | None] = {}
        for kind, event in kinds:
            if kind == "swap":
                set_values(event.swap)
                event.swap.platform = tokens.platform(event.swap)
                symbols[event.swap.mint] = tokens.symbol(event.swap.mint)
            elif kind == "creation":
                tokens.created(event.creation)
            elif kind == "migration":
                tokens.migrated(event.migration)
        return symbols

    async def _reprice(self, batch: LiveBatch, partition: int, receipt: Receipt) -> None:
        if batch.sol_usd:
            self._prices.set_sol_usd(float(batch.sol_usd), receipt)
        if events := list(_pricing(batch)):
            await self._apply(events, partition, receipt)
        await self._prices.publish()
        self._changed.set()

    async def _apply(
        self, events: Sequence[Swap | Migration], partition: int, receipt: Receipt
    ) -> None:
        loads_sol = partition == topics.LIVE.partition(WSOL)  # one of the workers does
        mints = [event.mint for event in events]
        await self._prices.load([*mints, WSOL] if loads_sol else mints)
        for event in events:
            if isinstance(event, Swap):
                self._prices.trade(event, receipt)
                if loads_sol:
                    self._prices.reference(event, receipt)
            else:
                self._prices.migration(event, receipt)


def _pricing(batch: LiveBatch) -> Iterator[Swap | Migration]:
    """Yield the events of a batch that prices come of."""
    for event in batch.events:
        try:
            if event.HasField("swap"):
                yield swap_from_proto(event.swap)
            elif event.HasField("migration"):
                yield migration_from_proto(event.migration)
        except CodecError:
            live_metrics.TRADES.labels("unreadable").inc()


def _acked(batch: LiveBatch, messages: list[Message], receipt: Receipt) -> None:
    receipt.release()
    for topic, count in Counter(message.topic for message in messages).items():
        metrics.PUBLISHED.labels(topic).inc(count)
    metrics.LAG_MS.labels(GROUP).observe(time.time() * 1000 - batch.sent_ms)
    for event in reversed(batch.events):
        if (kind := event.WhichOneof("event")) not in (None, "slot_gap"):
            metrics.LAST_SLOT.labels(GROUP).set(getattr(event, kind).slot)
            break


def _message(topic: Topic, key: str, value: Any) -> Message:
    return Message(topic.name, topic.partition(key), key.encode(), value.SerializeToString())
