"""What clients receive is what happened: against the market's own notes, and against Kafka.

A simulated chain with many forks, faults of the stream, the whole pipeline, and the gateway, each
a process; clients are there from before the first slot.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

import stream_gateway
from pipeline.agents.live.vocabulary import SLUGS
from schemas import channels
from schemas.channels import TRENDING, TRENDING_FIELDS, parse_event_id, trending_data
from schemas.proto import tape_pb2
from schemas.topics import CREATIONS, PRICES, SLOT_STATUS, SWAPS
from tests.support.gateway.market_run import CREATED, MAIN, SLOTS, Finished, run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Identity = tuple[int, str, int]
# The launchpad of a coin that trades on an AMM cannot be known from that trade alone.
CURVES = {"pump-fun", "raydium-launchlab", "meteora-dbc"}
# Of the market's notes, what is no field of an event, or another time than that of `processed`.
NOT_IN_FRAMES = {
    "kind",
    "canonical",
    "vault_raw",
    "quote_vault_raw",
    "token_owner",
    "block_time_ms",
}
# What RPC may have said of a token whose creation nobody saw.
FROM_RPC = {"name", "symbol", "supply", "market_cap", "top10_holders_pct", "dev_holding_pct"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    return asyncio.run(run(tmp_path_factory.mktemp("frames")))


@pytest.fixture(scope="module")
def happened(finished: Finished) -> dict[str, dict[Identity, dict[str, Any]]]:
    """The events of all branches of the chain, by kind and identity."""
    found: dict[str, dict[Identity, dict[str, Any]]] = {"swap": {}, "creation": {}}
    for line in finished.truth.read_bytes().splitlines():
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:  # the last one, cut short
            break
        if row["kind"] in found:
            found[row["kind"]][identity(row)] = row
    return found


def identity(event: dict[str, Any]) -> Identity:
    return event["slot"], event["signature"], event["event_index"]


def data_of(client: Any, kind: str) -> list[dict[str, Any]]:
    return [message["data"] for message in client.events(kind)]


def same(name: str, event: dict[str, Any], wanted: Any) -> bool:
    """Whether a field is as the market says, where it can be known from the bytes."""
    got = event[name]
    if "reserve" in name and event["dex"] == "raydium-cpmm" and wanted is not None:
        # The event does not say which part of the fee waits for the protocol in the vault.
        return 0 <= int(got) - int(wanted) <= int(event["pool_fee_raw"])
    if wanted is None or got is None:
        return got in (None, "") and wanted in (None, "")
    return str(got) == str(wanted)


@pytest.mark.parametrize("kind", ["swap", "creation"])
def test_every_event_happened_and_every_field_is_right(
    finished: Finished, happened: Any, kind: str
) -> None:
    events = data_of(finished.all, kind)
    launched = {truth["mint"] for truth in happened["creation"].values()}
    for event in events:
        truth = happened[kind].get(identity(event))
        assert truth is not None, event
        if kind == "swap" and event["dex"] not in CURVES and event["mint"] not in launched:
            truth = truth | {"platform": ""}  # launched before the tape
        wrong = {
            name: (event[name], wanted)
            for name, wanted in truth.items()
            if name not in NOT_IN_FRAMES and not same(name, event, wanted)
        }
        assert not wrong, (event["dex"], event["signature"], wrong)
    assert len(events) >= (1_000 if kind == "swap" else CREATED)


def test_each_event_is_there_once_and_in_the_order_of_its_id(finished: Finished) -> None:
    for client in (finished.all, finished.filtered, finished.trends):
        # Books that are opened later than others write the trending list under an epoch of theirs.
        opened = ("gap", TRENDING.channel, "epoch")
        got = [(m["type"], m.get("channel"), m.get("reason")) for m in client.got]
        assert not [
            each for each in got if each[0] in ("gap", "error", "lagging") and each != opened
        ]
        for channel in channels.ALL:
            places = []
            for message in client.got:
                if "id" in message and message["channel"] == channel.channel:
                    entry_id, place = parse_event_id(message["id"])
                    ms, _, number = entry_id.partition("-")
                    places.append((int(ms), int(number), place))
            assert places == sorted(set(places)), channel.channel
    for kind in ("swap", "creation"):
        counts = Counter(map(identity, data_of(finished.all, kind)))
        assert set(counts.values()) == {1}


def test_frames_are_what_the_topics_carry(finished: Finished) -> None:
    for topic, message, event, kind in (
        (SWAPS, tape_pb2.Swap, channels.swap_event, "swap"),
        (CREATIONS, tape_pb2.Creation, channels.creation_event, "creation"),
        (PRICES, tape_pb2.PriceUpdate, channels.price_event, "price"),
        (SLOT_STATUS, tape_pb2.SlotStatus, channels.status_event, "status"),
    ):
        by_key: dict[Any, list[Any]] = defaultdict(list)
        for value in finished.records[topic.name]:
            data = orjson.loads(event(message.FromString(value)).frame)["data"]
            by_key[data.get("mint", data["slot"])].append(data)
        by_place: dict[Any, list[Any]] = defaultdict(list)
        for data in data_of(finished.all, kind):
            if kind == "swap":  # the topic has no symbols
                data = data | {"symbol": None}
            by_place[data.get("mint", data["slot"])].append(data)
        assert by_place == by_key, kind
        assert by_key


def test_a_swap_has_the_symbol_and_the_platform_of_its_creation(finished: Finished) -> None:
    created = {data["mint"]: data for data in data_of(finished.all, "creation")}
    of_launches = [data for data in data_of(finished.all, "swap") if data["mint"] in created]
    assert of_launches
    known = 0
    for data in of_launches:
        creation = created[data["mint"]]
        # The chain lets transactions of a slot overtake each other: a swap its token's creation.
        if data["slot"] == creation["slot"] and not data["symbol"]:
            continue
        for name in ("symbol", "platform"):
            assert data[name] == creation[name]
        known += 1
    assert known > len(of_launches) / 2


def test_names_are_those_of_the_specification(finished: Finished) -> None:
    kinds = {"swaps": "swap", "creations": "creation", "prices": "price", "status": "status"}
    assert {channel.channel for channel in MAIN} == set(kinds)
    for channel, kind in kinds.items():
        events = finished.all.events(kind)
        assert {message["channel"] for message in events} == {channel}
        assert {tuple(message) for message in events} == {("type", "channel", "data", "id")}
    for data in data_of(finished.all, "price"):
        assert list(data)[:4] == ["mint", "price_sol", "price_usd", "timestamp"]
    for data in data_of(finished.trends, "trending"):
        assert tuple(data) == TRENDING_FIELDS


def test_a_filter_takes_what_it_says_and_leaves_nothing_out(finished: Finished) -> None:
    wanted = [
        e for e in finished.all.events("swap") if e["data"]["dex"] in ("pump-swap", "pump-fun")
    ]
    assert finished.filtered.events("swap") == wanted
    made = [e for e in finished.all.events("creation") if e["data"]["platform"] == "pump-fun"]
    assert finished.filtered.events("creation") == made
    assert made
    assert 0 < len(wanted) < len(finished.all.events("swap"))
    assert not finished.filtered.events("price")


def test_prices_never_go_back(finished: Finished) -> None:
    latest: dict[str, tuple[int, int]] = {}
    for data in data_of(finished.all, "price"):
        now = data["slot"], data["timestamp"]
        assert now >= latest.get(data["mint"], now)
        latest[data["mint"]] = now
    assert len(latest) > 20


def place(identity: str) -> tuple[int, ...]:
    return tuple(map(int, identity.split("-")))


def test_a_snapshot_and_what_follows_it_is_the_stream(finished: Finished) -> None:
    """While the market runs: nothing between the two is missing, and nothing goes back."""
    stream = [(place(m["id"]), m["data"]) for m in finished.all.events("price")]
    snapshots, mints, after, followed = 0, set[str](), (0, 0, 0), list[Any]()

    def check() -> None:
        wanted = [each for each in stream if each[1]["mint"] in mints and each[0] > after]
        assert followed == wanted[: len(followed)]

    for message in finished.snaps.got:
        if message["type"] == "subscribed" and message["channel"] == "prices":
            check()
            mints, followed = set(message["filter"]["mints"]), []
        elif message["type"] == "snapshot":
            snapshots += 1
            after = place(message["as_of_id"])
            before = {d["mint"]: d for p, d in stream if p <= after and d["mint"] in mints}
            assert message["data"] == [before[mint] for mint in sorted(before)]
        elif message["type"] == "price":
            followed.append((place(message["id"]), message["data"]))
    check()
    assert snapshots > 20
    assert len(finished.snaps.events("price")) > 100


def test_an_unknown_venue_is_refused_once_the_vocabulary_is_published(
    finished: Finished,
) -> None:
    assert finished.refused["code"] == "unknown_dex"
    assert set(finished.refused["accepted"]) == set(SLUGS.dexes)


def settled() -> Any:
    """The recipe of PROTOCOL.md, verbatim."""
    text = (Path(stream_gateway.__file__).parent / "PROTOCOL.md").read_text()
    [recipe] = re.findall(r"```python\n(class Settled:.*?)```", text, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(recipe, namespace)
    return namespace["Settled"]()


def test_clients_that_settle_by_the_status_channel_have_the_canonical_chain(
    finished: Finished, happened: Any
) -> None:
    client = settled()
    for message in finished.all.got:
        client.take(message)
    statuses = data_of(finished.all, "status")
    orphaned = {data["slot"] for data in statuses if data["status"] == "orphaned"}
    confirmed = {data["slot"] for data in statuses if data["status"] == "confirmed"}
    first, last = min(confirmed), max(confirmed)
    canonical = {
        key
        for key, row in happened["swap"].items()
        if row["canonical"] and first <= row["slot"] <= last
    }
    assert set(client.kept) == canonical
    seen = set(map(identity, data_of(finished.all, "swap")))
    left_behind = {key for key in seen if key[0] in orphaned}
    assert len(left_behind) > 20  # there was something to be forgotten
    assert len(canonical) > 1_000
    assert all(slot > last or slot < first for slot in client.waiting)
    for data in client.kept.values():
        assert data["commitment"] in ("processed", "confirmed")


def test_clients_that_settle_know_each_slot_and_its_parent(finished: Finished) -> None:
    slots = {}
    for data in data_of(finished.all, "status"):
        if data["status"] == "confirmed":
            assert data["slot"] not in slots, "confirmed twice"
            slots[data["slot"]] = data
    ordered = sorted(slots)
    assert len(ordered) >= SLOTS
    for before, slot in pairwise(ordered):
        assert slots[slot]["parent"] == before
        assert slots[slot]["block_time_ms"] > 0
    events = Counter(
        data["slot"] for kind in ("swap", "creation") for data in data_of(finished.all, kind)
    )
    for slot in ordered:
        assert slots[slot]["events"] >= events[slot]  # migrations are counted as well


def test_clients_that_follow_the_trending_list_have_it(finished: Finished) -> None:
    first, *updates = [message for message in finished.trends.got if "data" in message]
    assert (first["type"], first["data"]) == ("snapshot", [])  # the chain had not begun
    followed = {}
    for message in updates:
        data = message["data"]
        if message["type"] == "trending":
            followed[data["mint"]] = data
        else:
            assert message["type"] == "trending_removed"
            followed.pop(data["mint"], None)
    assert len(followed) > 10
    assert followed.keys() == finished.trending.keys()
    for mint, record in finished.trending.items():
        expected = trending_data(record)
        unlike = {name for name in TRENDING_FIELDS if followed[mint][name] != expected[name]}
        assert unlike <= (set() if record["name"] else FROM_RPC)
    listed = {data["mint"]: data for data in finished.snapshot["data"]}
    assert listed.keys() == followed.keys()
    for mint, data in listed.items():
        assert tuple(data) == TRENDING_FIELDS
        if finished.trending[mint]["name"]:
            assert data == followed[mint]
