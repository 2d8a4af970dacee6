"""Live events in Redis Streams, as frames ready to be sent to WebSocket clients.

An entry of a stream holds what was published within some 20 ms, in order:

    epoch    text; another one than before: something may be missing in between
    index    JSON, an array an event: the values of the stream's `index`, to filter by
    frames   the frames, each one line of JSON, newlines between them

One entry for many events costs the writer 4 to 15 us of CPU an event, one entry each 24 to 30;
Redis takes 3 to 5 against 8, a reader 1.4 against 2. A frame is {"type": ..., "channel": ...,
"data": {...}}; an event's id is its entry's and its place there, "1732170000000-0-7", and `with_id`
adds it to the frame. Delivery into the streams is once while Redis keeps what it has acknowledged;
`signature` and `event_index` identify a swap or creation for good.

Missed something? The epoch (key `{live}:epoch`, and in each entry) changes whenever the streams may
have a hole: Redis lost data, a writer had to drop frames or could not write what it had read. In
the trending list's stream entries have more behind it, "<epoch>/<writer>": each process that writes
it has its own, as one that ends may leave a change unwritten.
Entries were trimmed if the first entry of a stream is younger than the id last seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import orjson

from schemas import redis_keys
from schemas.amounts import human, sol
from schemas.codec import message_to_json
from schemas.compact_json import compact_json
from schemas.prices import LastPrice
from schemas.proto import tape_pb2


@dataclass(frozen=True, slots=True)
class Channel:
    """A stream, what its frames are called, and what the index holds of each."""

    stream: str
    channel: str
    type: str
    index: tuple[str, ...]

    def frame(self, data: Mapping[str, Any]) -> bytes:
        """Return the frame of an event."""
        return compact_json({"type": self.type, "channel": self.channel, "data": data})


_IDENTITY: Final = ("signature", "event_index")

SWAPS: Final = Channel(
    redis_keys.LIVE_SWAPS.make(),
    "swaps",
    "swap",
    ("dex", "mint", "wallet", "platform", *_IDENTITY, "quote_mint"),
)
CREATIONS: Final = Channel(
    redis_keys.LIVE_CREATIONS.make(),
    "creations",
    "creation",
    ("dex", "mint", "creator", "platform", *_IDENTITY),
)
PRICES: Final = Channel(redis_keys.LIVE_PRICES.make(), "prices", "price", ("mint",))
STATUS: Final = Channel(redis_keys.LIVE_STATUS.make(), "status", "status", ("slot", "status"))
TRENDING: Final = Channel(
    redis_keys.LIVE_TRENDING.make(), "trending-pairs", "trending", ("mint", "dex")
)
POSITIONS: Final = Channel(
    redis_keys.LIVE_POSITIONS.make(), "positions", "position_alert", ("wallet", "kind", "fell")
)

ALL: Final = (SWAPS, CREATIONS, PRICES, STATUS, TRENDING, POSITIONS)

TRENDING_FIELDS: Final = (
    "mint",
    "name",
    "symbol",
    "dex",  # the launch platform
    "creator",
    "price_usd",
    "market_cap",
    "liquidity_usd",
    "buy_count",
    "sell_count",
    "buy_volume_24h",
    "sell_volume_24h",
    "total_volume_24h",
    "holder_count",
    "top10_holders_pct",
    "dev_holding_pct",
    "bonding_curve_pct",
    "is_migrated",
    "supply",
    "decimals",
)
"""The data of a trending frame, all of them, in this order; what is not known is null."""

POSITION_ALERT_FIELDS: Final = (
    "alert_id",
    "kind",  # health_below, range_left or lock_ended
    "wallet",
    "protocol",
    "route",
    "position_id",
    "market",
    "slot",
    "time_ms",
    "unit",  # of value and threshold: ratio, price, ms or slot
    "value",
    "threshold",
)
"""The data of an alert, all of them, in this order; what is not known is null."""

SLOT_GAP: Final = "slot_gap"
"""The type of the frame, in the stream of slots, that reports slots that could not be fetched."""

TRENDING_REMOVED: Final = "trending_removed"
"""The type of the frame that reports a token that left the list; its data: `mint` and `dex`."""


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event as it waits in a stream: the values of the index, and the frame."""

    index: Sequence[Any]
    frame: bytes


@dataclass(frozen=True, slots=True)
class Entry:
    """What an entry of a stream holds."""

    epoch: str
    events: list[LiveEvent]


def swap_event(swap: tape_pb2.Swap, symbol: str | None = None) -> LiveEvent:
    """Return a swap for its stream: the fields of tape.proto, then human amounts and the symbol."""
    data = message_to_json(swap)
    del data["kind"]
    data["amount"] = human(swap.amount_raw, swap.decimals)
    data["quote_amount"] = human(swap.quote_amount_raw, swap.quote_decimals)
    data["fee_sol"] = sol(swap.fee_lamports)
    data["priority_fee_sol"] = sol(swap.priority_fee_lamports)
    data["tip_sol"] = sol(swap.tip_lamports)
    data["symbol"] = symbol
    index = (
        swap.dex,
        swap.mint,
        swap.wallet,
        swap.platform,
        swap.signature,
        swap.event_index,
        swap.quote_mint,
    )
    return LiveEvent(index, SWAPS.frame(data))


def creation_event(creation: tape_pb2.Creation) -> LiveEvent:
    """Return a creation for its stream: the fields of tape.proto."""
    data = message_to_json(creation)
    del data["kind"]
    index = (
        creation.dex,
        creation.mint,
        creation.creator,
        creation.platform,
        creation.signature,
        creation.event_index,
    )
    return LiveEvent(index, CREATIONS.frame(data))


def price_event(price: tape_pb2.PriceUpdate) -> LiveEvent:
    """Return a price for its stream."""
    last = LastPrice(price.price_sol, price.price_usd, price.timestamp, price.slot, price.pool)
    return LiveEvent((price.mint,), PRICES.frame(price_data(price.mint, last)))


def price_data(mint: str, price: LastPrice) -> dict[str, Any]:
    """Return the data of a price frame."""
    return {
        "mint": mint,
        "price_sol": price.price_sol,
        "price_usd": price.price_usd,
        "timestamp": price.time_ms,
        "slot": price.slot,
        "pool": price.pool,
    }


def status_event(status: tape_pb2.SlotStatus) -> LiveEvent:
    """Return what became of a slot for its stream: the fields of tape.proto."""
    data = message_to_json(status)
    del data["kind"]
    return LiveEvent((status.slot, data["status"]), STATUS.frame(data))


def slot_gap_event(gap: tape_pb2.SlotGap) -> LiveEvent:
    """Return slots that could not be had, for the stream of slots: the fields of tape.proto.

    The wallets of a slot that was rolled back may be thousands: they are in the table of gaps.
    """
    data = message_to_json(gap)
    for name in ("kind", "wallets", "lost_by"):
        del data[name]
    frame = {"type": SLOT_GAP, "channel": STATUS.channel, "data": data}
    return LiveEvent((gap.first_slot, "gap"), compact_json(frame))


def trending_event(record: Mapping[str, Any]) -> LiveEvent:
    """Return a token of the trending list for its stream, from its record."""
    return LiveEvent((record["mint"], record["dex"]), TRENDING.frame(trending_data(record)))


def trending_data(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data of a trending frame; a record has empty texts for what is not known."""
    return {name: None if record[name] == "" else record[name] for name in TRENDING_FIELDS}


def trending_removed_event(mint: str, dex: str) -> LiveEvent:
    """Return that a token left the trending list, for its stream."""
    data = {"mint": mint, "dex": dex}
    frame = {"type": TRENDING_REMOVED, "channel": TRENDING.channel, "data": data}
    return LiveEvent((mint, dex), compact_json(frame))


def position_event(data: Mapping[str, Any], fell: Fall | None = None) -> LiveEvent:
    """Return an alert for its stream; `fell`: how far health fell, of no other kind.

    The threshold that health fell below is each client's own: null here, see `with_threshold`.
    """
    fields = {name: data[name] for name in POSITION_ALERT_FIELDS}
    index = (data["wallet"], data["kind"], None if fell is None else fell.text)
    return LiveEvent(index, POSITIONS.frame(fields))


class Fall(NamedTuple):
    """A fall of health: every threshold above `to`, up to and with `since`, was crossed by it.

    `since` is None where the position had not been seen before: then all above `to` are crossed.
    """

    to: float
    since: float | None

    @property
    def text(self) -> str:
        """Return it as an event's index has it: the shortest digits that are the same numbers."""
        return f"{self.to!r} {'' if self.since is None else repr(self.since)}"

    @classmethod
    def parse(cls, text: str) -> Fall:
        """Return what `text` made; raises ValueError."""
        to, _, since = text.partition(" ")
        return cls(float(to), float(since) if since else None)

    def crosses(self, threshold: float) -> bool:
        """Return whether health fell below a threshold now, and was not below it before."""
        return self.to < threshold and (self.since is None or threshold <= self.since)


_NO_THRESHOLD: Final = b'"threshold":null}}'


def with_threshold(frame: bytes, threshold: float) -> bytes:
    """Return the frame of an alert with the client's own threshold where it has none."""
    if not frame.endswith(_NO_THRESHOLD):
        return frame
    return b'%s"threshold":%s}}' % (frame[: -len(_NO_THRESHOLD)], orjson.dumps(threshold))


def pack(epoch: str, events: Sequence[LiveEvent]) -> dict[str, str | bytes]:
    """Return the fields of one entry."""
    return {
        "epoch": epoch,
        "index": orjson.dumps([event.index for event in events]),
        "frames": b"\n".join([event.frame for event in events]),
    }


def unpack(fields: Mapping[bytes, bytes]) -> Entry:
    """Return what an entry holds; raises ValueError for one of another form."""
    try:
        index = orjson.loads(fields[b"index"])
        frames = fields[b"frames"].split(b"\n")
        events = [LiveEvent(*both) for both in zip(index, frames, strict=True)]
        return Entry(fields[b"epoch"].decode(), events)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no entry of a live stream: {error}") from None


def event_id(entry_id: str, place: int) -> str:
    """Return the id of an event: where a client that saw it goes on."""
    return f"{entry_id}-{place}"


def parse_event_id(text: str) -> tuple[str, int]:
    """Return the id of the entry and the place in it; raises ValueError."""
    parts = text.split("-")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        raise ValueError("an event's id is three numbers with hyphens between them")
    return f"{parts[0]}-{parts[1]}", int(parts[2])


def with_id(frame: bytes, identity: str) -> bytes:
    """Return the frame with `id` as its last field."""
    return b'%s,"id":"%s"}' % (frame[:-1], identity.encode())
