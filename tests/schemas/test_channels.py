"""Frames and entries of the live streams."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import orjson
import pytest

from schemas import channels, redis_keys
from schemas.channels import CREATIONS, PRICES, STATUS, SWAPS, LiveEvent
from schemas.proto import tape_pb2

SWAP = tape_pb2.Swap(
    signature="s",
    event_index=4,
    dex="pump-swap",
    mint="m",
    wallet="w",
    platform="pump-fun",
    side=tape_pb2.BUY,
    amount_raw=2**64 - 1,
    decimals=6,
    quote_amount_raw=1_500_000_000,
    quote_decimals=9,
    price_usd=0.5,
)


def data_of(event, channel):
    frame = orjson.loads(event.frame)
    assert list(frame) == ["type", "channel", "data"]
    assert (frame["type"], frame["channel"]) == (channel.type, channel.channel)
    assert list(event.index) == [frame["data"][name] for name in channel.index]
    return frame["data"]


def test_a_swap_has_raw_amounts_as_text_and_human_ones_as_numbers():
    data = data_of(channels.swap_event(SWAP), SWAPS)
    assert (data["amount_raw"], data["quote_amount"]) == ("18446744073709551615", 1.5)
    assert data["amount"] == pytest.approx(18446744073709.551615)
    assert (data["side"], data["price_usd"], data["price_sol"]) == ("buy", 0.5, None)
    assert {field.name for field in SWAP.DESCRIPTOR.fields} <= data.keys()


def test_creations_and_statuses_have_the_fields_of_the_topic():
    creation = tape_pb2.Creation(mint="m", name="a\nb", platform="pump-fun", creator="c")
    data = data_of(channels.creation_event(creation), CREATIONS)
    assert (data["name"], data["decimals"]) == ("a\nb", None)
    status = tape_pb2.SlotStatus(slot=7, status=tape_pb2.SlotStatus.ORPHANED)
    assert data_of(channels.status_event(status), STATUS)["status"] == "orphaned"


def test_slots_that_could_not_be_fetched_are_reported_among_the_statuses():
    gap = tape_pb2.SlotGap(first_slot=5, last_slot=9, reason="pruned", detected_ms=1)
    event = channels.slot_gap_event(gap)
    assert len(event.index) == len(STATUS.index)
    assert orjson.loads(event.frame) == {
        "type": "slot_gap",
        "channel": "status",
        "data": {"first_slot": 5, "last_slot": 9, "reason": "pruned", "detected_ms": 1},
    }


def test_a_price_has_the_fields_that_clients_know_first():
    price = tape_pb2.PriceUpdate(mint="m", price_sol=0.25, price_usd=40.0, timestamp=5, slot=9)
    data = data_of(channels.price_event(price), PRICES)
    assert list(data)[:4] == ["mint", "price_sol", "price_usd", "timestamp"]
    assert list(data.values())[:4] == ["m", 0.25, 40.0, 5]


def test_every_stream_is_among_the_keys():
    keys = [key for key in vars(redis_keys).values() if isinstance(key, redis_keys.Key)]
    live = [key for key in keys if key.type == "stream" and key.make().startswith("{live}")]
    streams = {key.make(): key.owner for key in live}
    assert streams == {
        "{live}:swaps": "live",
        "{live}:creations": "live",
        "{live}:prices": "live",
        "{live}:status": "live",
        "{live}:trending": "market",
        "{live}:positions": "watch",
    }
    assert [channel.stream for channel in channels.ALL] == list(streams)


def test_an_alert_of_health_says_how_far_it_fell_and_each_client_s_own_threshold():
    data = dict.fromkeys(channels.POSITION_ALERT_FIELDS, 1) | {"wallet": "w", "threshold": None}
    fall = channels.Fall(1.05, 1.1)
    event = channels.position_event(data | {"kind": "health_below"}, fall)
    assert event.index == ("w", "health_below", "1.05 1.1")
    assert channels.Fall.parse(event.index[2]) == fall
    assert channels.Fall.parse(channels.Fall(0.1 + 0.2, None).text) == (0.1 + 0.2, None)
    own = channels.with_threshold(event.frame, 1.08)
    assert orjson.loads(own)["data"] == orjson.loads(event.frame)["data"] | {"threshold": 1.08}
    other = channels.position_event(data | {"kind": "range_left", "threshold": 2.0})
    assert other.index == ("w", "range_left", None)
    assert channels.with_threshold(other.frame, 1.08) == other.frame


@pytest.mark.parametrize(
    ("threshold", "crossed"), [(1.05, False), (1.06, True), (1.1, True), (1.11, False)]
)
def test_a_fall_crosses_the_thresholds_in_between(threshold, crossed):
    assert channels.Fall(1.05, 1.1).crosses(threshold) is crossed
    assert channels.Fall(1.05, None).crosses(threshold) is (threshold > 1.05)


def test_a_trending_frame_has_null_for_what_is_not_known():
    record = dict.fromkeys(reversed(channels.TRENDING_FIELDS), 1)
    record |= {"mint": "m", "dex": "pump-fun", "name": "", "creator": "", "is_migrated": False}
    data = data_of(channels.trending_event(record), channels.TRENDING)
    assert tuple(data) == channels.TRENDING_FIELDS
    assert (data["name"], data["creator"], data["symbol"]) == (None, None, 1)
    assert data["is_migrated"] is False


def test_a_token_that_left_the_trending_list_is_named():
    event = channels.trending_removed_event("m", "pump-fun")
    assert event.index == ("m", "pump-fun")
    assert orjson.loads(event.frame) == {
        "type": "trending_removed",
        "channel": "trending-pairs",
        "data": {"mint": "m", "dex": "pump-fun"},
    }


def test_an_entry_is_read_as_it_was_written():
    creation = tape_pb2.Creation(mint="m", name="line\nbreak")  # frames are one line each
    events = [channels.swap_event(SWAP), channels.creation_event(creation)]
    fields = channels.pack("an-epoch", events)
    stored = {
        name.encode(): value.encode() if isinstance(value, str) else value
        for name, value in fields.items()
    }
    entry = channels.unpack(stored)
    assert entry.epoch == "an-epoch"
    assert [event.frame for event in entry.events] == [event.frame for event in events]
    assert [tuple(event.index) for event in entry.events] == [event.index for event in events]


def test_what_a_stream_holds_cannot_be_changed_by_those_who_share_it():
    event = channels.swap_event(SWAP)
    stored = {b"epoch": b"e", b"index": b"[[1]]", b"frames": b"{}"}
    for whole, name in ((SWAPS, "type"), (event, "frame"), (channels.unpack(stored), "epoch")):
        with pytest.raises(FrozenInstanceError):
            setattr(whole, name, "another")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {b"epoch": b"e", b"index": b"[[1]]"},
        {b"epoch": b"e", b"index": b"[[1]]", b"frames": b"{}\n{}"},
        {b"epoch": b"e", b"index": b"no json", b"frames": b"{}"},
        {b"epoch": b"\xff", b"index": b"[[1]]", b"frames": b"{}"},
    ],
)
def test_an_entry_of_another_form_is_refused(fields):
    with pytest.raises(ValueError, match="no entry of a live stream"):
        channels.unpack(fields)


def test_ids_of_events():
    identity = channels.event_id("1732170000000-3", 12)
    assert channels.parse_event_id(identity) == ("1732170000000-3", 12)
    event = LiveEvent(("m",), PRICES.frame({"mint": "m"}))
    frame = orjson.loads(channels.with_id(event.frame, identity))
    assert frame == {**orjson.loads(event.frame), "id": identity}
    for wrong in ("", "1-2", "1-2-3-4", "1-2-x", "1-2-", "-1-2-3", "1-2-٣"):
        with pytest.raises(ValueError, match="three numbers"):
            channels.parse_event_id(wrong)


def test_trending_has_the_twenty_fields():
    assert len(set(channels.TRENDING_FIELDS)) == 20
    assert set(channels.TRENDING.index) <= set(channels.TRENDING_FIELDS)
