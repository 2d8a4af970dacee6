"""Prices as agent `live` keeps and publishes them.

A price is published when it has changed, at most once in 100 ms a mint, and the last one always:
a batch is not done before the prices it changed are out. SOL's own price is the reference of the
settled slots; its moves alone publish no token, the next trade of the token does, at whatever price
in SOL. Late trades do not move a price back in time or slot.

A price message always has dollars. Until the first reference of SOL arrives, prices wait in memory
and no batch waits for them; the reference then publishes them all. A process that ends before that
publishes such a price with the next trade of its mint.

Prices come from trades at `processed`. Those of a slot that is orphaned later are not taken back:
the next trade corrects the price, and `slot` on it and the status channel say which ones to
doubt. What must be exact is computed from the settled lanes.

What is known of a mint is read from Redis when it first trades here and written back with the
next flush. After a crash the last second's trades may be counted twice, which weighs their volume
a little more; they do not move the price. While Redis is away a mint that is not in memory begins
anew, which is counted.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog
from redis.asyncio import Redis

from infra.redis.client import RedisError
from pipeline.agents.live import metrics
from pipeline.agents.live.conflation import Conflation
from pipeline.agents.live.receipt import Receipt
from pipeline.agents.live.streams import LiveStreams
from pipeline.domain.pool_trade import trade_of
from pipeline.domain.price import MintPrice, Verdict
from pipeline.sinks.kafka import KafkaSink, Message
from schemas import channels, prices, topics
from schemas.amounts import LAMPORTS
from schemas.events import Migration, Swap
from schemas.money import WSOL
from schemas.prices import LastPrice
from schemas.proto import tape_pb2
from schemas.redis_keys import PRICE

log = structlog.get_logger(__name__)

MINTS_IN_MEMORY: Final = 50_000


class MintState:
    """What is known of the price of one mint."""

    __slots__ = ("closes", "decimals", "last", "price", "sent")

    def __init__(self) -> None:
        self.price = MintPrice()
        self.decimals: int | None = None  # of the latest trade; no price is published before one
        self.sent: LastPrice | None = None
        self.last: LastPrice | None = None  # the same, once Kafka has acknowledged it
        self.closes = b""

    @classmethod
    def of_hash(cls, mint: str, fields: Mapping[bytes, bytes]) -> MintState:
        """Return what Redis holds; a state of another form is begun anew."""
        self = cls()
        try:
            if packed := fields.get(b"state"):
                self.price = MintPrice.unpack(packed)
            if decimals := fields.get(b"decimals"):
                self.decimals = int(decimals)
            self.last = prices.last_price(fields)
            self.closes = fields.get(b"closes", b"")
        except (KeyError, ValueError) as error:
            log.warning("stored price cannot be read", mint=mint, reason=str(error))
            return cls()
        self.sent = self.last
        return self

    def news(self, sol_usd: float | None, *, traded: bool = False) -> LastPrice | None:
        """Return the price if it differs from the one sent last, after a trade also in dollars.

        None while dollars are unknown.
        """
        price = self.price
        if price.price is None or self.decimals is None or sol_usd is None:
            return None
        lamports, amount_raw = price.price
        price_sol = lamports / amount_raw * 10.0**self.decimals / LAMPORTS
        price_usd = price_sol * sol_usd
        found = LastPrice(price_sol, price_usd, price.time_ms, price.slot, price.pool)
        if self.sent is None or self.sent.price_sol != price_sol:
            return found
        return found if traded and price_usd != self.sent.price_usd else None

    def publish(self, price: LastPrice) -> bool:
        """Take note of a published price; return whether the one before closed its five minutes."""
        closes = self.last is not None and prices.close_of(self.last) < prices.close_of(price)
        if self.last is not None and closes:
            self.closes = prices.add_close(self.closes, self.last)
        self.last = price
        return closes


class SolState(MintState):
    """SOL itself: what it is worth in dollars is the reference that settled slots carry."""

    __slots__ = ("at_ms", "at_slot")

    def __init__(self) -> None:
        super().__init__()
        self.at_ms = 0
        self.at_slot = 0

    def news(self, sol_usd: float | None, *, traded: bool = False) -> LastPrice | None:
        """Return the price if it is another than was sent last, and not older."""
        sent = self.sent
        if sol_usd is None or not self.at_ms:
            return None
        if sent is not None and (
            sent.price_usd == sol_usd or self.at_ms < sent.time_ms or self.at_slot < sent.slot
        ):
            return None
        return LastPrice(1.0, sol_usd, self.at_ms, self.at_slot, "")


_Update = tuple[tape_pb2.PriceUpdate, MintState, LastPrice, list[Receipt]]


@dataclass(slots=True)
class _Sent:
    """Prices that were handed to Kafka together."""

    updates: list[_Update]
    is_acked: bool = False


class Prices:
    """The prices of the mints that trade on our partitions."""

    def __init__(self, redis: Redis, kafka: KafkaSink, streams: LiveStreams) -> None:
        self._redis = redis
        self._kafka = kafka
        self._streams = streams
        # Least recently traded first. No LRUCache: what is still to be written must not go.
        self._mints: OrderedDict[str, MintState] = OrderedDict()
        self._conflation = Conflation()
        self._sent: deque[_Sent] = deque()  # and not published live yet, in this order
        self._sol_usd: float | None = None

    def set_sol_usd(self, sol_usd: float, receipt: Receipt) -> None:
        """Use a reference price of SOL; the first one publishes the prices that waited for it."""
        is_first, self._sol_usd = self._sol_usd is None, sol_usd
        if is_first:
            for mint, state in self._mints.items():
                if state.news(sol_usd):
                    self._conflation.changed(mint, receipt)

    async def load(self, mints: Iterable[str]) -> None:
        """Have the states of these mints in memory."""
        wanted = dict.fromkeys(mints)
        while missing := [mint for mint in wanted if mint not in self._mints]:  # or cleared since
            stored = await self._stored(missing)
            for mint, fields in zip(missing, stored, strict=True):
                kind = SolState if mint == WSOL else MintState
                self._mints[mint] = kind.of_hash(mint, fields) if fields else kind()
        for mint in wanted:
            self._mints.move_to_end(mint)
        self._forget()

    def reference(self, swap: Swap, receipt: Receipt) -> None:
        """Publish what SOL is worth, as of a swap; SOL is loaded as a mint is."""
        state = self._mints[WSOL]
        assert isinstance(state, SolState)
        state.at_ms = max(state.at_ms, swap.block_time_ms)
        state.at_slot = max(state.at_slot, swap.slot)
        if state.news(self._sol_usd):
            self._conflation.changed(WSOL, receipt)

    def trade(self, swap: Swap, receipt: Receipt) -> None:
        """Take a swap of a loaded mint into account."""
        trade = trade_of(swap)
        if trade is None:
            metrics.TRADES.labels("unvalued").inc()
            return
        state = self._mints[swap.mint]
        verdict = state.price.apply(trade)
        metrics.TRADES.labels(verdict.value).inc()
        if verdict is Verdict.ACCEPTED:
            state.decimals = swap.decimals
            self._changed(swap.mint, state, receipt, traded=True)

    def migration(self, migration: Migration, receipt: Receipt) -> None:
        """Replace a loaded mint's curve by its new pool.

        The price stays as it is, unless the new pool has traded already.
        """
        state = self._mints[migration.mint]
        state.price.migrated(migration.from_pool, migration.pool)
        self._changed(migration.mint, state, receipt)

    async def publish(self) -> None:
        """Send the prices that are due."""
        updates: list[_Update] = []
        messages = []
        for mint, receipts in self._conflation.take(time.monotonic()):
            state = self._mints[mint]
            price = state.news(self._sol_usd, traded=True)
            if price is None:
                for receipt in receipts:
                    receipt.release()
                continue
            state.sent = price
            update = tape_pb2.PriceUpdate(
                mint=mint,
                price_sol=price.price_sol,
                price_usd=price.price_usd,
                timestamp=price.time_ms,
                slot=price.slot,
                pool=price.pool,
            )
            updates.append((update, state, price, receipts))
            messages.append(_message(update))
        if messages:
            sent = _Sent(updates)
            self._sent.append(sent)
            await self._kafka.send(messages, partial(self._acked, sent))

    @property
    def next_at(self) -> float | None:
        """When `publish` has something to do, by time.monotonic(); None where nothing waits."""
        return self._conflation.next_at

    def clear(self) -> None:
        """Forget everything: others may change it in Redis from here on."""
        self._mints.clear()
        self._conflation = Conflation()

    async def _stored(self, mints: list[str]) -> list[Mapping[bytes, bytes]]:
        if not self._streams.away:
            try:
                async with self._redis.pipeline(transaction=False) as pipeline:
                    for mint in mints:
                        pipeline.hgetall(_key(mint))
                    found: list[Mapping[bytes, bytes]] = await pipeline.execute()
                    return found
            except (RedisError, OSError) as error:
                self._streams.lost_touch(error)
        metrics.UNREMEMBERED.inc(len(mints))
        return [{}] * len(mints)

    def _changed(
        self, mint: str, state: MintState, receipt: Receipt, *, traded: bool = False
    ) -> None:
        self._write(mint, state)
        if state.news(self._sol_usd, traded=traded):
            self._conflation.changed(mint, receipt)

    def _write(self, mint: str, state: MintState) -> None:
        key = _key(mint)
        self._streams.state(key, partial(_commands, key, state))

    def _acked(self, sent: _Sent) -> None:
        """Publish prices live in the order they were sent; partitions acknowledge in another."""
        sent.is_acked = True
        while self._sent and self._sent[0].is_acked:
            self._published(self._sent.popleft().updates)

    def _published(self, updates: list[_Update]) -> None:
        events, held = [], []
        for update, state, price, receipts in updates:
            closed = state.publish(price)
            if self._mints.get(update.mint) is state:
                self._write(update.mint, state)
                if closed:
                    key = _key(update.mint)
                    self._streams.state(f"{key} closes", partial(_closes, key, state))
            events.append((channels.PRICES, channels.price_event(update)))
            held += receipts
        self._streams.add(None, events, held)
        for receipt in held:
            receipt.release()

    def _forget(self) -> None:
        """Let the mints go that have not traded for longest, but none that is still to be written.

        Those are a few milliseconds old, unless Redis is away.
        """
        for _ in range(len(self._mints) - MINTS_IN_MEMORY):
            mint, state = self._mints.popitem(last=False)
            if self._streams.will_write(_key(mint)):
                self._mints[mint] = state


def _key(mint: str) -> str:
    return PRICE.make(mint=mint)


def _commands(key: str, state: MintState) -> Iterator[tuple[Any, ...]]:
    """Yield what writes a state as it is now."""
    fields: list[Any] = ["state", state.price.pack()]
    if state.decimals is not None:
        fields += ["decimals", state.decimals]
    if state.last is not None:
        for item in state.last.to_hash().items():
            fields += item
    yield ("HSET", key, *fields)
    yield ("EXPIRE", key, PRICE.ttl_s)


def _closes(key: str, state: MintState) -> Iterator[tuple[Any, ...]]:
    yield ("HSET", key, "closes", state.closes)


def _message(update: tape_pb2.PriceUpdate) -> Message:
    topic = topics.PRICES
    value = update.SerializeToString()
    return Message(topic.name, topic.partition(update.mint), update.mint.encode(), value)
