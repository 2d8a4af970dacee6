"""The live streams read from a Valkey, through its failures: in order, once, gaps at holes."""

from __future__ import annotations

import signal

import pytest

from infra.redis.client import connect
from pipeline.agents.live.streams import LiveStreams, Place
from schemas import channels
from schemas.channels import PRICES, SWAPS, LiveEvent
from stream_gateway import source as module
from stream_gateway.source import NOTHING
from stream_gateway.subscriptions import Filter
from tests.support.gateway.reading import Client, Reader, Store, swap, until
from tests.support.waiting import eventually_async


@pytest.fixture
async def store(tmp_path):
    # What it has shown is in its file, so that tests can say what it loses.
    store = Store(tmp_path, "--appendfsync", "always")
    await store.start()
    yield store
    store.kill()
    await store.client.aclose()


@pytest.fixture
async def reader(store):
    reader = Reader(store)
    await reader.start()
    yield reader
    await reader.stop()


class Writer:
    """The agent's writer, fed by a test: batch `n` holds swap `n`."""

    def __init__(self, store):
        redis = connect(store.settings, answer_timeout_s=1.0, retries=0)
        self.streams = LiveStreams(redis, stream_bytes=1 << 20, hold_bytes=1 << 20)

    async def write(self, number):
        self.streams.add(Place(0, number, 1000 + number), [(SWAPS, swap(number))], [])
        await eventually_async(self.streams.flush)


async def test_events_of_all_channels_come_in_order_with_their_ids(store, reader):
    swaps, prices = reader.client(), Client()
    reader.fanout.attach(prices, Filter("prices"))
    first = await store.add(1, 2)
    await store.client.xadd(
        PRICES.stream, channels.pack("e1", [LiveEvent(("m",), PRICES.frame({"n": 7}))])
    )
    second = await store.add(3)
    await until(lambda: len(swaps.ids) == 3 and prices.ids)
    assert swaps.story == [1, 2, 3]
    assert swaps.ids == [f"{first}-0", f"{first}-1", f"{second}-0"]
    assert prices.messages[0]["data"] == {"n": 7}
    assert reader.source.position[SWAPS.stream] == second
    assert reader.notices == []


async def test_what_was_there_before_is_remembered_and_not_live(store):
    for number in range(100):
        await store.add(number)
    reader = Reader(store)
    client = reader.client()
    await reader.start()
    await store.add(100)
    await until(lambda: client.story)
    assert client.story == [100]
    items = reader.source.recent.after(SWAPS.stream, module.Place(0, 0, 0))
    assert len(items) == 101
    await reader.stop()


async def test_redis_restarts_and_clients_go_on(store, reader):
    client = reader.client()
    await store.add(1)
    await until(lambda: client.story == [1])
    store.kill()
    await until(lambda: reader.notices)
    assert reader.source.is_away
    await store.start()
    await store.add(2)
    await until(lambda: client.story == [1, 2])
    assert reader.notices == ["source_away", "source_back"]
    assert not reader.source.is_away


async def test_a_redis_that_hangs_is_away_and_nothing_comes_twice(store, reader, monkeypatch):
    monkeypatch.setattr(module, "ANSWER_S", 1.5)
    client = reader.client()
    await store.add(1)
    await until(lambda: client.story == [1])
    store.signal(signal.SIGSTOP)
    await until(lambda: reader.notices)
    store.signal(signal.SIGCONT)
    await store.add(2)
    await until(lambda: client.story == [1, 2])
    await until(lambda: reader.notices == ["source_away", "source_back"])
    assert client.story == [1, 2]


async def test_a_gateway_waits_for_a_redis_that_is_not_there_yet(store):
    await store.add(1)
    store.kill()
    reader = Reader(store)
    reader.go_on()
    await until(lambda: reader.notices == ["source_away"])
    assert not reader.source.ready.is_set()
    await store.start()
    await until(reader.source.ready.is_set)
    assert reader.notices == ["source_away", "source_back"]
    await reader.stop()


async def test_redis_lost_everything_and_its_writer_goes_on(store, reader):
    writer, client = Writer(store), reader.client()
    for number in range(3):
        await writer.write(number)
    await until(lambda: client.story == [0, 1, 2])
    store.kill()
    store.lose_all()
    await store.start()
    await writer.write(3)
    await writer.write(4)
    await until(lambda: client.numbers == [0, 1, 2, 3, 4])
    assert client.story == [0, 1, 2, "epoch", 3, 4]
    assert client.gaps == [("epoch", client.ids[2], client.ids[3])]
    assert reader.notices == ["source_away", "source_back"]


async def test_redis_lost_the_last_that_it_had_shown(store, reader):
    """Killed before that was on disk: the writer begins an epoch, as others may have missed it."""
    writer, client = Writer(store), reader.client()
    await writer.write(0)
    await writer.write(1)
    await until(lambda: client.story == [0, 1])
    kept = store.file().stat().st_size
    await writer.write(2)
    await until(lambda: client.story == [0, 1, 2])
    store.kill()
    with store.file().open("r+b") as file:
        file.truncate(kept)
    await store.start()
    assert await store.client.xlen(SWAPS.stream) == 2
    await writer.write(3)
    await until(lambda: 3 in client.numbers)
    assert client.story == [0, 1, 2, "epoch", 3]
    late = await reader.caught_up(client.ids[1])  # from memory: what Redis lost was seen here
    assert late.story == [2, "epoch", 3]
    other = Reader(store)
    await other.start()
    assert (await other.caught_up(client.ids[1])).story == ["epoch", 3]
    assert (await other.caught_up(client.ids[2])).story == ["epoch", 3]
    await other.stop()


async def test_what_redis_lost_before_it_acknowledged_is_written_again(store, reader):
    """The writer's answer was lost as well: it knows nothing of what it wrote."""
    client = reader.client()
    await store.add(1)
    await until(lambda: client.story == [1])
    kept = store.file().stat().st_size
    await store.add(2)
    await until(lambda: client.story == [1, 2])
    store.kill()
    with store.file().open("r+b") as file:
        file.truncate(kept)
    await store.start()
    await store.add(2)
    await store.add(3)
    await until(lambda: 3 in client.numbers)
    assert client.story == [1, 2, 2, 3]


@pytest.mark.parametrize("is_read", ["while-it-is-empty", "when-it-has-entries"])
async def test_a_redis_with_another_clock_is_read_from_its_beginning(store, reader, is_read):
    client = reader.client()
    await store.add(1, epoch="e1")
    await until(lambda: client.story == [1])
    store.kill()
    store.lose_all()
    if is_read == "when-it-has-entries":
        await until(lambda: reader.notices == ["source_away"])
        await reader.pause()
    await store.start()
    if is_read == "while-it-is-empty":
        await until(lambda: reader.source.position[SWAPS.stream] == NOTHING)
    await store.add(2, epoch="e1", entry="1000-0")
    await store.add(3, epoch="e1", entry="1000-1")
    if is_read == "when-it-has-entries":
        reader.go_on()
    await until(lambda: client.numbers == [1, 2, 3])
    assert client.story == [1, "epoch", 2, 3]
    back = await reader.caught_up(client.ids[1])
    assert back.story == [3]
    await store.add(4, epoch="e1", entry="1001-0")
    await until(lambda: back.story == [3, 4])


async def test_a_redis_that_is_what_it_was_long_before_shows_nothing_again(store, reader):
    """As restored from a snapshot of minutes ago, or with a replica that was so far behind."""
    client = reader.client()

    async def came(number):
        await until(lambda: client.numbers[-1:] == [number])

    async def add(numbers):
        for number in numbers:
            fields = channels.pack("e1", [swap(number)])
            await store.client.xadd(SWAPS.stream, fields, maxlen=30, approximate=False)
            if number % 20 == 19:
                await came(number)

    await add(range(60))
    kept = store.file().read_bytes()
    last = 60 + module.HANDED_ON + 20
    await add(range(60, last))
    await came(last - 1)
    store.kill()
    await until(lambda: reader.notices)
    store.file().write_bytes(kept)
    await store.start()
    await until(lambda: len(reader.notices) == 2)
    await store.add(last, epoch="e2")
    await until(lambda: last in client.numbers)
    assert client.story == [*range(last), "epoch", last]


async def test_what_was_trimmed_while_the_reader_was_away_is_a_gap(store, reader):
    client = reader.client()
    await store.add(0)
    await until(lambda: client.story == [0])
    await reader.pause()
    ids = [await store.add(number) for number in range(1, 301)]
    await store.client.xtrim(SWAPS.stream, maxlen=100, approximate=False)
    reader.go_on()
    await until(lambda: 300 in client.numbers)
    assert client.story == [0, "trimmed", *range(201, 301)]
    assert client.gaps == [("trimmed", client.ids[0], f"{ids[200]}-0")]


async def test_a_reader_that_is_behind_and_not_too_late_loses_nothing(store, reader):
    client = reader.client()
    await store.add(0)
    await until(lambda: client.story == [0])
    await reader.pause()
    for number in range(1, 301):
        await store.add(number)
    reader.go_on()
    await until(lambda: 300 in client.numbers)
    assert client.story == [*range(301)]


async def test_another_epoch_is_a_gap_once_though_writers_differ_for_a_moment(store, reader):
    client = reader.client()
    await store.add(1, epoch="e1")
    for number, epoch in ((2, "e2"), (3, "e1"), (4, "e2"), (5, "e1"), (6, "e3")):
        await store.add(number, epoch=epoch)
    await until(lambda: 6 in client.numbers)
    assert client.story == [1, "epoch", 2, 3, 4, 5, "epoch", 6]


@pytest.mark.parametrize(
    "fields",
    [
        {"x": "y"},
        {"epoch": "e1", "index": "[[]]", "frames": b'{"a":1}\n{"b":2}'},
        {"epoch": "e1", "index": "[[1,2]]", "frames": "{}"},
        {"epoch": "e1", "index": '[["d","m","w","p",["s"],0]]', "frames": "{}"},
        {"epoch": "e1", "index": "[7]", "frames": "{}"},
        {"epoch": "e1", "index": '[["d","m","w","p","s",0]]', "frames": ""},
        {"epoch": b"\xff", "index": '[["d","m","w","p","s",0]]', "frames": "{}"},
    ],
)
async def test_an_entry_that_is_none_is_a_gap_and_no_more(store, reader, fields):
    client = reader.client()
    await store.add(1)
    await store.client.xadd(SWAPS.stream, fields)
    after = await store.add(2)
    await until(lambda: 2 in client.numbers)
    assert client.story == [1, "dropped", 2]
    assert client.gaps == [("dropped", client.ids[0], f"{after}-0")]


async def test_a_key_of_another_kind_is_waited_out(store, reader):
    client = reader.client()
    await store.client.set(SWAPS.stream, "no stream")
    await until(lambda: reader.notices == ["source_away"])
    await store.client.delete(SWAPS.stream)
    await store.add(1)
    await until(lambda: client.story == [1])


async def test_an_entry_of_megabytes_comes_in_pieces(store, reader):
    client, writes = reader.client(), []
    deliver = client.deliver
    client.deliver = lambda data, events: (writes.append(len(data)), deliver(data, events))
    events = [swap(number, filler="x" * 20_000) for number in range(100)]
    entry_id = await store.client.xadd(SWAPS.stream, channels.pack("e1", events))
    await until(lambda: len(client.numbers) == 100)
    assert client.ids == [f"{entry_id.decode()}-{place}" for place in range(100)]
    assert max(writes) <= module.PIECE_BYTES + 100 * 64
    late = await reader.caught_up(client.ids[37])
    assert late.numbers == [*range(38, 100)]


async def test_several_gateways_read_the_same(store, reader):
    other = Reader(store)
    await other.start()
    clients = [reader.client(), other.client()]
    for number in range(50):
        await store.add(number)
    await until(lambda: all(49 in client.numbers for client in clients))
    assert clients[0].messages == clients[1].messages
    await other.stop()
