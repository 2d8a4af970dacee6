"""What a batch becomes for those who want some of it."""

from __future__ import annotations

import orjson
from websockets.frames import Opcode
from websockets.protocol import CLIENT, OPEN, Protocol

from schemas import channels
from schemas.channels import LiveEvent
from schemas.money import WSOL
from stream_gateway.batches import Batch, Gap, Place
from stream_gateway.fanout import Fanout
from stream_gateway.subscriptions import Filter


def read(data):
    """The messages in frames, as a client of another make reads them."""
    protocol = Protocol(CLIENT, state=OPEN, max_size=None)
    protocol.receive_data(data)
    frames = protocol.events_received()
    assert protocol.parser_exc is None
    assert all(frame.opcode is Opcode.TEXT and frame.fin for frame in frames)
    return [orjson.loads(frame.data) for frame in frames]


class Client:
    def __init__(self, fails=False):
        self.writes = []
        self.fails = fails

    def deliver(self, data, events):
        if self.fails:
            raise RuntimeError("gone")
        assert len(read(data)) == events
        self.writes.append(data)

    def send(self, frame):
        if self.fails:
            raise RuntimeError("gone")
        self.writes.append(frame)

    @property
    def numbers(self):
        return [message["data"]["n"] for data in self.writes for message in read(data)]


def swap(n, dex="d", mint="m", wallet="w", filler="", quote="q"):
    data = {"n": n, "filler": filler}
    return LiveEvent((dex, mint, wallet, "", f"s{n}", 0, quote), channels.SWAPS.frame(data))


def batch(*events, first=0):
    return Batch(channels.SWAPS, "1700000000000-3", "e", list(events), first)


def test_events_come_whole_with_their_ids():
    fanout, client = Fanout(), Client()
    fanout.attach(client, Filter("swaps"))
    fanout.publish(batch(swap(1), swap(2, filler="x" * 70_000), swap(3, filler="y" * 200), first=4))
    [data] = client.writes
    messages = read(data)
    assert [each["id"] for each in messages] == [f"1700000000000-3-{place}" for place in (4, 5, 6)]
    assert [each["type"] for each in messages] == ["swap"] * 3
    assert messages[1]["data"] == {"n": 2, "filler": "x" * 70_000}


def test_each_client_gets_what_it_wants_in_one_write():
    fanout = Fanout()
    wanted = {
        (1, 2, 3): Filter("swaps"),
        (1, 3): Filter("swaps", dexes=frozenset(["a"])),
        (2,): Filter("swaps", wallets=frozenset(["w2", "w3"]), dexes=frozenset(["b"])),
        (3,): Filter("swaps", tokens=frozenset(["m3"])),
        (2, 3): Filter("swaps", tokens=frozenset([WSOL, "m3"])),
        (): Filter("swaps", tokens=frozenset(["m3"]), dexes=frozenset(["b"])),
    }
    clients = {numbers: (Client(), Client()) for numbers in wanted}
    for numbers, both in clients.items():
        for client in both:
            fanout.attach(client, wanted[numbers])
    fanout.publish(
        batch(
            swap(1, dex="a", wallet="w1"),
            swap(2, dex="b", wallet="w2", quote=WSOL),
            swap(3, dex="a", mint="m3", wallet="w3", quote=WSOL),
        )
    )
    for numbers, both in clients.items():
        for client in both:
            assert client.numbers == list(numbers)
            assert len(client.writes) == bool(numbers)


def test_equal_filters_get_the_very_same_bytes():
    fanout, clients = Fanout(), [Client() for _ in range(3)]
    for client in clients:
        fanout.attach(client, Filter("swaps", dexes=frozenset(["a"])))
    fanout.publish(batch(swap(1, dex="a"), swap(2)))
    assert len({id(client.writes[0]) for client in clients}) == 1


def test_each_threshold_is_in_the_frames_of_those_who_have_it():
    fanout, wallets = Fanout(), frozenset(["w"])
    below = {1.1: Client(), 1.2: Client(), None: Client()}
    for threshold, client in below.items():
        fanout.attach(client, Filter("positions", wallets=wallets, health_below=threshold))
    data = dict.fromkeys(channels.POSITION_ALERT_FIELDS) | {"wallet": "w"}
    fall = channels.position_event(data, channels.Fall(1.05, 1.15))
    left = channels.position_event(data | {"threshold": 7.0})
    fanout.publish(Batch(channels.POSITIONS, "1-0", "1", [fall, left]))
    received = {
        threshold: [each["data"]["threshold"] for data in client.writes for each in read(data)]
        for threshold, client in below.items()
    }
    assert received == {1.1: [1.1, 7.0], 1.2: [7.0], None: [7.0]}
    assert [each["id"] for each in read(below[1.2].writes[0])] == ["1-0-1"]


def test_nothing_is_framed_for_nobody():
    fanout, client = Fanout(), Client()
    fanout.attach(client, Filter("swaps", dexes=frozenset(["other"])))
    some = batch(swap(1))
    fanout.publish(some)
    assert "frames" not in vars(some)


def test_a_later_subscription_replaces_that_of_its_channel_alone():
    fanout, client = Fanout(), Client()
    fanout.attach(client, Filter("swaps"))
    fanout.attach(client, Filter("prices"))
    fanout.attach(client, Filter("swaps", dexes=frozenset(["a"])))
    fanout.publish(batch(swap(1), swap(2, dex="a")))
    assert client.numbers == [2]
    price = LiveEvent(("m",), channels.PRICES.frame({"n": 7}))
    fanout.publish(Batch(channels.PRICES, "1-0", "e", [price]))
    assert client.numbers == [2, 7]
    fanout.detach(client, "swaps")
    fanout.publish(batch(swap(3, dex="a")))
    fanout.detach(client)
    fanout.publish(Batch(channels.PRICES, "2-0", "e", [price]))
    fanout.detach(client)
    assert client.numbers == [2, 7]


def test_gaps_are_sent_to_all_of_the_channel_whatever_they_want():
    fanout, narrow, wide, other = Fanout(), Client(), Client(), Client()
    fanout.attach(narrow, Filter("swaps", dexes=frozenset(["none"])))
    fanout.attach(wide, Filter("swaps"))
    fanout.attach(other, Filter("prices"))
    fanout.gap(Gap(channels.SWAPS, "epoch", Place(5, 0, 2), Place(9, 0, 0)))
    for client in (narrow, wide):
        [received] = read(client.writes[0])
        message = received.pop("message")
        assert "may be missing" in message
        assert received == {
            "type": "gap",
            "channel": "swaps",
            "reason": "epoch",
            "after": "5-0-2",
            "before": "9-0-0",
        }
    assert other.writes == []


def test_one_that_fails_is_left_out_and_the_others_are_served():
    fanout, bad, good = Fanout(), Client(fails=True), Client()
    fanout.attach(bad, Filter("swaps"))
    fanout.attach(good, Filter("swaps"))
    fanout.publish(batch(swap(1)))
    bad.fails = False
    fanout.publish(batch(swap(2)))
    assert bad.writes == []
    assert good.numbers == [1, 2]


def test_a_client_that_leaves_during_delivery_disturbs_no_other():
    fanout, after = Fanout(), Client()

    class Leaving(Client):
        def deliver(self, data, events):
            super().deliver(data, events)
            fanout.detach(self)

    leaving = Leaving()
    fanout.attach(leaving, Filter("swaps"))
    fanout.attach(after, Filter("swaps"))
    fanout.publish(batch(swap(1)))
    fanout.publish(batch(swap(2)))
    assert leaving.numbers == [1]
    assert after.numbers == [1, 2]
