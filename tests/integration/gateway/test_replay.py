"""What a client missed, on a real Valkey: from memory or the stream, then live, each event once."""

from __future__ import annotations

import asyncio
import time
from itertools import count, islice
from random import Random

import pytest
from redis.exceptions import RedisError

from schemas import channels
from schemas.channels import SWAPS
from stream_gateway import replay as module
from stream_gateway.recent import Recent
from stream_gateway.subscriptions import Filter
from tests.support.gateway.reading import Client, Reader, Store, swap, until
from tests.support.waiting import WITHIN_S


@pytest.fixture
async def store(tmp_path):
    store = Store(tmp_path, "--appendfsync", "always")
    await store.start()
    yield store
    store.kill()
    await store.client.aclose()


@pytest.fixture(params=["memory", "redis"])
async def reader(request, store):
    """One that remembers half a minute, and one that remembers the last entry alone."""
    reader = Reader(store, Recent(max_bytes=1) if request.param == "redis" else Recent())
    yield reader
    await reader.stop()


async def fed(store, entries=40, random=None):
    """Entries of some swaps each, on two venues; return ids of all, and how many there are."""
    random = random or Random(5)
    ids, number = [], 0
    for _ in range(entries):
        count = random.randrange(1, 6)
        numbers = range(number, number + count)
        events = [swap(n, "even" if n % 2 == 0 else "odd") for n in numbers]
        entry = (await store.client.xadd(SWAPS.stream, channels.pack("e1", events))).decode()
        ids += [f"{entry}-{place}" for place in range(count)]
        number += count
    return ids


async def test_from_any_event_the_rest_comes_once_in_order_and_then_what_is_live(store, reader):
    ids = await fed(store)
    await reader.start()
    clients = [await reader.caught_up(each) for each in ids]
    [_, last] = ids.append(f"{await store.add(len(ids))}-0"), len(ids) - 1
    await until(lambda: all(last in client.numbers for client in clients))
    for number, client in enumerate(clients):
        assert client.story == [*range(number + 1, last + 1)]
        assert client.ids == ids[number + 1 :]


async def test_what_is_not_wanted_is_left_out(store, reader):
    ids = await fed(store)
    await reader.start()
    odd = frozenset(["odd"])
    for number in range(0, len(ids), 7):
        client = await reader.caught_up(ids[number], dexes=odd)
        assert client.numbers == [n for n in range(number + 1, len(ids)) if n % 2]
    assert (await reader.caught_up(ids[0], wallets=frozenset(["nobody"]))).story == []


async def test_while_events_come_nothing_is_lost_between_or_comes_twice(store, reader):
    ids = await fed(store)
    await reader.start()
    random, clients, is_over = Random(3), [], False

    async def writing():
        number = len(ids)
        while not is_over:
            events = [swap(number + more) for more in range(random.randrange(1, 4))]
            entry = (await store.client.xadd(SWAPS.stream, channels.pack("e1", events))).decode()
            ids.extend(f"{entry}-{place}" for place in range(len(events)))
            number += len(events)

    writer = asyncio.create_task(writing())
    for _ in range(60):
        since = random.choice(ids)
        clients.append((since, await reader.caught_up(since)))
    is_over = True
    await writer
    ids.append(f"{await store.add(0)}-0")
    await until(lambda: all(ids[-1:] == client.ids[-1:] for _, client in clients))
    for since, client in clients:
        assert client.ids == ids[ids.index(since) + 1 :]


async def test_time_is_a_place_to_go_on_from(store, reader):
    await store.add(0, entry="1000-0")
    await store.add(1, 2, entry="2000-0")
    await store.add(3, entry="3000-5")
    await reader.start()
    assert (await reader.caught_up("1500-0-0")).story == [1, 2, 3]
    assert (await reader.caught_up("1999-0-0")).story == [1, 2, 3]
    assert (await reader.caught_up("2000-0-0")).story == [2, 3], "that event was seen"
    assert (await reader.caught_up("2000-0-9")).story == [3]
    assert (await reader.caught_up("2500-0-0")).story == [3]
    late = await reader.caught_up("4000-0-0")
    await store.add(4)
    await until(lambda: late.story == [4])


async def test_trimmed_events_are_a_gap_and_then_comes_the_oldest(store, reader):
    ids = await fed(store, entries=20)
    await store.client.xtrim(SWAPS.stream, maxlen=10, approximate=False)
    await reader.start()
    [(entry, _), *_] = await store.client.xrange(SWAPS.stream, count=1)
    oldest = f"{entry.decode()}-0"
    for since in (ids[0], "1-0-0", "0-0-0"):
        client = await reader.caught_up(since)
        assert client.gaps == [("trimmed", since, oldest)]
        assert client.ids == ids[ids.index(oldest) :]
    assert (await reader.caught_up(oldest)).gaps == []


async def test_of_a_stream_that_is_whole_nothing_is_lost_since_its_beginning(store, reader):
    ids = await fed(store, entries=5)
    await reader.start()
    client = await reader.caught_up("0-0-0")
    assert client.gaps == []
    assert client.ids == ids


async def test_an_empty_stream_begins_without_a_gap_only_from_its_beginning(store, reader):
    await reader.start()
    new, old = await reader.caught_up("0-0-0"), await reader.caught_up("1700000000000-0-0")
    await store.add(1)
    await until(lambda: new.numbers and old.numbers)
    assert new.story == [1]
    assert old.gaps == [("trimmed", "1700000000000-0-0", None)]


async def test_an_id_of_another_clock_is_a_gap(store, reader):
    await store.add(1)
    await reader.start()
    since = f"{int(time.time() * 1000) + 3_600_000}-0-0"
    client = await reader.caught_up(since)
    assert client.gaps == [("epoch", since, None)]
    await store.add(2)
    await until(lambda: client.story == ["epoch", 2])


async def test_another_epoch_is_a_gap_in_its_place(store, reader):
    since = f"{await store.add(1, epoch='e1')}-0"
    await store.add(2, epoch="e1")
    before = f"{await store.add(3, epoch='e2')}-0"
    await store.add(4, epoch="e2")
    await reader.start()
    client = await reader.caught_up(since)
    assert client.story == [2, "epoch", 3, 4]
    assert client.gaps[0][2] == before
    assert (await reader.caught_up(before)).story == [4]


async def test_writers_that_take_turns_are_no_gap(store, reader):
    await reader.start()
    for number, epoch in enumerate(("e1/a", "e1/b", "e1/a")):
        since = f"{await store.add(number, epoch=epoch)}-0"
    await store.add(3, epoch="e1/b")
    await store.add(4, epoch="e1/c")
    last = await store.add(5, epoch="e1/a")
    await until(lambda: reader.source.position[SWAPS.stream] == last)
    assert (await reader.caught_up(since)).story == [3, "epoch", 4, 5], "c has begun since"


async def test_a_writer_of_before_the_gateway_started_is_no_gap(store):
    for number, epoch in enumerate(("e1/a", "e1/b", "e1/b")):
        since = f"{await store.add(number, epoch=epoch, entry=f'{1000 + number}-0')}-0"
    reader = Reader(store, Recent(max_bytes=1))
    await reader.start()
    live = reader.client()
    await store.add(3, epoch="e1/a")
    await store.add(4, epoch="e1/c")
    await until(lambda: 4 in live.story)
    assert live.story == [3, "epoch", 4]
    assert (await reader.caught_up(since)).story == [3, "epoch", 4]
    await reader.stop()


async def test_an_entry_that_is_none_is_a_gap_in_its_place(store, reader):
    since = f"{await store.add(1)}-0"
    await store.client.xadd(SWAPS.stream, {"x": "y"})
    before = f"{await store.add(2)}-0"
    await store.add(3)
    await reader.start()
    client = await reader.caught_up(since)
    assert client.story == ["dropped", 2, 3]
    assert client.gaps[0][2] == before


async def test_an_event_this_process_has_not_read_yet_is_waited_for(store, reader):
    """Another process was faster, and the client comes from there."""
    await store.add(1)
    await reader.start()
    await reader.pause()
    seen = f"{await store.add(2)}-0"
    coming = asyncio.create_task(reader.caught_up(seen))
    await asyncio.sleep(0.2)
    assert not coming.done()
    reader.go_on()
    client = await coming
    await store.add(3)
    await until(lambda: client.numbers)
    assert client.story == [3]


async def test_clients_that_return_get_a_gap_if_redis_lost_all(store, reader):
    ids = await fed(store, entries=3)
    await reader.start()
    store.kill()
    await until(lambda: reader.notices)
    store.lose_all()
    await store.start()
    await until(lambda: len(reader.notices) == 2)
    other = Reader(store)
    await other.start()
    client = await other.caught_up(ids[-1])
    assert client.gaps == [("trimmed", ids[-1], None)]
    number = int(client.ids[-1]) if client.ids else len(ids)
    await store.add(number, epoch="e2")
    await until(lambda: client.numbers == [number])
    await other.stop()


async def test_a_client_gets_a_gap_for_what_redis_lost_once_it_was_handed_on(store):
    """Else it would read the end of the stream repeatedly, until somebody writes the next entry."""
    since = f"{await store.add(1)}-0"
    kept = store.file().read_bytes()
    reader = Reader(store, Recent(max_bytes=1))
    await reader.start()
    last = await store.add(2)
    await until(lambda: reader.source.position[SWAPS.stream] == last)
    store.kill()
    await until(lambda: reader.notices)
    store.file().write_bytes(kept)
    await store.start()
    await until(lambda: len(reader.notices) == 2)
    client = await reader.caught_up(since)
    assert client.gaps == [("epoch", since, None)]
    assert (await reader.caught_up(f"{last}-0")).story == []
    await store.add(3)
    await until(lambda: client.numbers == [3])
    await reader.stop()


async def test_a_slow_client_is_waited_for_and_delays_no_other(store, reader, monkeypatch):
    monkeypatch.setattr(module, "STEP_BYTES", 10_000)
    monkeypatch.setattr(module, "PAGE_BYTES", 10_000)
    entries = []
    for number in range(0, 400, 4):
        events = [swap(more, filler="x" * 1000) for more in range(number, number + 4)]
        entries.append(await store.client.xadd(SWAPS.stream, channels.pack("e1", events)))
    since = f"{entries[0].decode()}-3"
    await reader.start()
    slow = [Client() for _ in range(5)]
    for client in slow:
        client.reads.clear()
    coming = [
        asyncio.create_task(reader.replay.catch_up(client, Filter("swaps"), since))
        for client in slow
    ]
    for client in slow:
        client.reads.set()  # for the first step
    await asyncio.sleep(0)
    for client in slow:
        client.reads.clear()
    fast = await reader.caught_up(since)
    assert fast.numbers == [*range(4, 400)]
    for client in slow:
        assert client.waiting_bytes < 40_000
        assert len(client.numbers) < 396
        client.reads.set()
    await asyncio.gather(*coming)
    await store.add(400)
    await until(lambda: all(client.numbers == [*range(4, 401)] for client in (fast, *slow)))


async def test_a_client_slower_than_the_stream_grows_is_live_after_a_gap(store, monkeypatch):
    """As by the budget of its plan: it would read the end that is trimmed for ever."""
    monkeypatch.setattr(module, "PAGE_BYTES", 2_000)
    reader = Reader(store, Recent(max_bytes=60_000))
    numbers = count()

    async def grown(entries):
        for number in islice(numbers, entries):
            fields = channels.pack("e1", [swap(number)])
            entry = await store.client.xadd(SWAPS.stream, fields, maxlen=150, approximate=False)
        return entry.decode()

    class Slow(Client):
        async def may_replay(self):
            last = await grown(30)  # pages have fewer
            await until(lambda: reader.source.position[SWAPS.stream] == last)
            return True

    since = f"{await grown(1)}-0"
    await grown(149)
    await reader.start()
    client = Slow()
    async with asyncio.timeout(WITHIN_S):
        await reader.replay.catch_up(client, Filter("swaps"), since)
    *trimmed, last_gap = client.gaps
    assert {reason for reason, *_ in client.gaps} == {"trimmed"}
    assert all(before is not None for *_, before in trimmed)
    assert last_gap[2] is None
    live = next(numbers)
    await store.add(live)
    await until(lambda: live in client.numbers)
    after_gap = client.story[client.story[::-1].index("trimmed") * -1 :]
    assert after_gap == [*range(live + 1 - len(after_gap), live + 1)]
    await reader.stop()


async def test_a_client_that_left_is_sent_no_more(store, reader):
    ids = await fed(store)
    await reader.start()
    client = Client()
    client.is_open = False
    await reader.replay.catch_up(client, Filter("swaps"), ids[0])
    await store.add(1000)
    witness = await reader.caught_up(ids[0])
    await until(lambda: 1000 in witness.numbers)
    assert client.messages == []


async def test_without_redis_memory_still_serves_and_the_rest_is_refused(store, reader):
    ids = await fed(store)
    await reader.start()
    store.kill()
    await until(lambda: reader.notices)
    assert (await reader.caught_up(ids[-1])).story == []
    with pytest.raises((RedisError, OSError)):
        await reader.caught_up("1-0-0")
    await store.start()
    client = await reader.caught_up("1-0-0")
    assert client.ids == ids


class Raw:
    """Takes bytes, as a socket does."""

    def __init__(self):
        self.data = b""
        self.turn = asyncio.Lock()

    def charge(self, size):
        pass

    def deliver(self, data, events):
        self.data += data

    replay = deliver

    async def may_replay(self):
        return True


async def test_a_client_whose_filter_takes_nothing_pays_for_what_is_read(store):
    ids = await fed(store, entries=400)
    reader = Reader(store)
    await reader.start()
    wanted = await reader.caught_up(ids[0])
    unwanted = await reader.caught_up(ids[0], tokens=frozenset({"no such token"}))
    assert wanted.ids
    assert unwanted.ids == []
    assert unwanted.charged >= wanted.charged / 2 > 10_000


async def test_hundreds_come_back_at_once_and_what_is_live_is_not_late(store):
    ids = await fed(store, entries=400)
    reader = Reader(store)
    await reader.start()
    live, clients, over = reader.client(), [Raw() for _ in range(200)], []

    async def come_back(client):
        await reader.replay.catch_up(client, Filter("swaps"), ids[0])
        over.append(client)

    coming = [asyncio.create_task(come_back(client)) for client in clients]
    await store.add(len(ids))
    await until(lambda: live.story)
    assert len(over) < 200
    await asyncio.gather(*coming)
    witness = await reader.caught_up(ids[0])
    assert witness.numbers == [*range(1, len(ids) + 1)]
    raw = Raw()
    await reader.replay.catch_up(raw, Filter("swaps"), ids[0])
    assert {client.data for client in clients} == {raw.data}
    await reader.stop()
