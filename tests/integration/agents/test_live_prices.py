"""Prices and frames of `soltape agents live`, on a real broker and a real Valkey."""

from __future__ import annotations

import asyncio
import signal
from collections import defaultdict
from itertools import pairwise

import orjson
import pytest

from pipeline.domain.pool_trade import trade_of
from pipeline.domain.price import MintPrice
from schemas import channels, prices
from schemas.codec import message_to_json
from schemas.events import Commitment
from schemas.money import WSOL
from schemas.proto import tape_pb2
from schemas.redis_keys import LIVE_FENCE, PRICE, mint_tag
from schemas.topics import LIVE, PRICES, SWAPS
from tests.support.systems import saved
from tests.support.waiting import eventually_async

CLOCK_MS = 50  # the producer stamps a message when it gets to it; conflation has exact tests


@pytest.fixture
def live(lane, store, make_agent):
    """An agent with a Redis, on the broker of `lane`."""
    agent = make_agent(lane.settings)
    agent.redis_url = store.settings.redis_url
    agent.start()
    return agent


def final_prices(lane):
    """What each mint's price is in the end: the rule, applied to what was sent."""
    mints, decimals = defaultdict(MintPrice), {}
    for swap in lane.sent:
        mints[swap.mint].apply(trade_of(swap))
        decimals[swap.mint] = swap.decimals
    return {
        mint: price.price[0] / price.price[1] * 10.0 ** decimals[mint] / 1e9
        for mint, price in mints.items()
        if price.price
    }


def published(lane):
    """The price updates of each token; SOL's own are apart."""
    by_mint = defaultdict(list)
    for record in lane.got[PRICES.name]:
        update = tape_pb2.PriceUpdate.FromString(record.value)
        assert record.key.decode() == update.mint
        assert record.partition == PRICES.partition(update.mint)
        by_mint[update.mint].append((record, update))
    by_mint.pop(WSOL, None)
    return by_mint


def last_published(lane):
    return {mint: updates[-1][1].price_sol for mint, updates in published(lane).items()}


async def last_price(store, mint):
    fields = await store.client.hgetall(PRICE.make(tag=mint_tag(mint), mint=mint))
    return prices.last_price(fields)


async def frames(store, channel):
    found = []
    for entry in await store.entries(channel.stream):
        for event in entry.events:
            frame = orjson.loads(event.frame)
            assert (frame["type"], frame["channel"]) == (channel.type, channel.channel)
            assert event.index == [frame["data"][name] for name in channel.index]
            found.append(frame["data"])
    return found


async def until(holds):
    """Wait for what Redis is to hold: it comes a little after Kafka."""
    await eventually_async(holds)


async def last_prices_are_there(lane, store):
    async def holds():
        found = [await last_price(store, mint) for mint in expected]
        return [last and last.price_sol for last in found] == list(expected.values())

    expected = final_prices(lane)
    await until(holds)


async def frames_are_there(store, count):
    async def holds():
        return len(await frames(store, channels.SWAPS)) >= count

    await until(holds)


async def ends_with_all_published(lane, live):
    """End the agent in order, which leaves nothing unpublished, and read what it has published."""
    live.signal(signal.SIGTERM)
    assert await live.ended() == 0
    await lane.read_on()


async def every_partition_is_fenced(store):
    """Wait until the founder of the epoch has written for each partition.

    Their topic has what earlier tests sent, too. A successor that finds no fence for a partition
    cannot know that nothing of it is missing in the epoch, and begins another.
    """

    async def holds():
        return await store.client.hlen(LIVE_FENCE.make()) == LIVE.partitions

    await until(holds)


async def epochs(store):
    return {
        entry.epoch for channel in channels.ALL for entry in await store.entries(channel.stream)
    }


async def test_prices_are_conflated_and_the_last_one_arrives(lane, live, store):
    await lane.feed(1200, per_second=1e6)  # a busy machine would not keep a rate
    expected = final_prices(lane)
    assert len(expected) == 40
    await lane.until(lambda: last_published(lane) == expected)

    for updates in published(lane).values():
        stamps = [record.timestamp for record, _ in updates]
        assert all(later - at >= 100 - CLOCK_MS for at, later in pairwise(stamps))
        slots = [(update.slot, update.timestamp) for _, update in updates]
        assert slots == sorted(slots)
        for _, update in updates:
            assert update.price_usd == pytest.approx(update.price_sol * 150)
    assert sum(map(len, published(lane).values())) < 1200

    await last_prices_are_there(lane, store)
    for mint, price_sol in expected.items():
        last = await last_price(store, mint)
        update = published(lane)[mint][-1][1]
        assert (last.price_sol, last.price_usd) == (price_sol, update.price_usd)
        assert (last.time_ms, last.slot, last.pool) == (update.timestamp, update.slot, update.pool)


async def test_frames_are_the_events(lane, live, store):
    await lane.feed(300, per_second=600)
    await lane.until(lambda: last_published(lane) == final_prices(lane))
    await frames_are_there(store, 300)
    await last_prices_are_there(lane, store)
    await ends_with_all_published(lane, live)  # their last batches may be unread

    got = {}
    for record in lane.got[SWAPS.name]:
        swap = tape_pb2.Swap.FromString(record.value)
        got[swap.signature, swap.event_index] = swap
    seen = {}
    for data in await frames(store, channels.SWAPS):
        swap = got[data["signature"], data["event_index"]]
        seen[data["signature"], data["event_index"]] = data
        assert data.pop("amount") == swap.amount_raw / 10**6
        assert data.pop("quote_amount") == swap.quote_amount_raw / 10**9
        for name in ("fee", "priority_fee", "tip"):
            assert data.pop(f"{name}_sol") == getattr(swap, f"{name}_lamports") / 10**9
        assert data.pop("symbol") is None
        assert {"kind": "swap", **data} == message_to_json(swap)
    assert seen.keys() == got.keys()

    prices_seen = await frames(store, channels.PRICES)
    fields = ["mint", "price_sol", "price_usd", "timestamp", "slot", "pool"]
    assert all(list(data) == fields for data in prices_seen)
    updates = [tape_pb2.PriceUpdate.FromString(r.value) for r in lane.got[PRICES.name]]
    assert sorted(map(orjson.dumps, prices_seen)) == sorted(
        orjson.dumps({name: getattr(update, name) for name in fields}) for update in updates
    )
    assert len(await epochs(store)) == 1


@pytest.mark.slow
async def test_kills_lose_and_repeat_no_frame_and_no_last_price(lane, live, store):
    feeding = asyncio.create_task(lane.feed(4000, per_second=500))
    await every_partition_is_fenced(store)
    for pause_s in (0.3, 0.4):
        await live.until_working()
        await asyncio.sleep(pause_s)
        live.kill()
        live.start()
    await feeding
    await lane.until(lambda: last_published(lane) == final_prices(lane))
    await last_prices_are_there(lane, store)
    seen = [data["tx_index"] for data in await frames(store, channels.SWAPS)]
    assert len(seen) == len(set(seen)), "a frame came twice"
    assert sorted(seen) == [swap.tx_index for swap in lane.sent], "a frame is missing"
    assert len(await epochs(store)) == 1
    assert "Traceback" not in live.log


@pytest.mark.slow
async def test_partitions_change_hands_without_a_frame_lost_or_repeated(
    lane, live, store, make_agent
):
    await live.until_working()
    feeding = asyncio.create_task(lane.feed(9000, per_second=300))
    await every_partition_is_fenced(store)
    other = make_agent(lane.settings)
    other.redis_url = live.redis_url
    other.start()
    await other.until_working(4)
    await other.until_metric("soltape_agents_published_total", lambda n: n > 0, topic=SWAPS.name)
    live.kill()
    await other.until_working()
    await feeding
    await lane.until(lambda: last_published(lane) == final_prices(lane))
    await last_prices_are_there(lane, store)
    seen = [data["tx_index"] for data in await frames(store, channels.SWAPS)]
    assert len(seen) == len(set(seen)), "a frame came twice"
    assert sorted(seen) == [swap.tx_index for swap in lane.sent], "a frame is missing"
    assert len(await epochs(store)) == 1
    assert "Traceback" not in live.log + other.log


@pytest.mark.slow
async def test_redis_away_stops_no_topic_and_misses_nothing(lane, live, store):
    await lane.feed(300, per_second=600)
    await lane.until(lambda: last_published(lane) == final_prices(lane))
    await last_prices_are_there(lane, store)
    await saved(store.client)
    store.kill()
    await lane.feed(600, per_second=600)
    await lane.until(
        lambda: last_published(lane) == final_prices(lane) and len(lane.got[SWAPS.name]) >= 900
    )
    assert len(lane.got[SWAPS.name]) == 900
    await live.until_metric("soltape_live_redis_away", lambda away: away == 1)
    await store.start()
    await live.until_metric("soltape_live_redis_away", lambda away: away == 0)
    await last_prices_are_there(lane, store)
    seen = [data["tx_index"] for data in await frames(store, channels.SWAPS)]
    assert sorted(seen) == list(range(900))
    assert len(await epochs(store)) == 1
    assert live.log.count("Redis is away") == 1
    assert "Traceback" not in live.log


async def test_a_restart_goes_on_with_the_prices_it_had(lane, live, store):
    """A fake spike in a thin pool right after the restart: the deep pool is remembered."""
    await live.until_working()
    async with lane.publisher() as publisher:
        for n in range(20):
            swap = lane.swap()
            mint = swap.mint = lane.sent[0].mint
            swap.pool, swap.quote_reserve_raw = lane.sent[0].pool, 400 * 10**9
            swap.amount_raw, swap.sol_value_lamports = 10**9, 10**9 + n
            swap.quote_amount_raw = swap.sol_value_lamports
            publisher.event(swap)
    await lane.until(lambda: mint in last_published(lane))
    await last_prices_are_there(lane, store)
    before = (await last_price(store, mint)).price_sol
    live.signal(signal.SIGTERM)
    assert await live.ended() == 0
    live.start()
    await live.until_working()
    async with lane.publisher() as publisher:
        spike, real = lane.swap(), lane.swap()
        for swap, lamports in ((spike, 15 * 10**8), (real, 10**9 + 7)):
            swap.mint, swap.pool, swap.quote_reserve_raw = mint, lane.sent[0].pool, 400 * 10**9
            swap.amount_raw = 10**9
            swap.quote_amount_raw = swap.sol_value_lamports = lamports
        spike.pool, spike.quote_reserve_raw = spike.wallet, 10 * 10**9
        publisher.event(spike)
        publisher.event(real)
    await lane.until(lambda: last_published(lane)[mint] == pytest.approx(before, rel=0.001))
    await frames_are_there(store, 22)
    await ends_with_all_published(lane, live)
    assert all(u.price_sol < before * 1.01 for _, u in published(lane)[mint])


async def test_a_backfilled_swap_is_published_and_moves_no_price_back(lane, live, store):
    await live.until_working()
    async with lane.publisher() as publisher:
        publisher.event(lane.swap())
    mint = lane.sent[0].mint
    await lane.until(lambda: mint in last_published(lane))
    before = last_published(lane)
    async with lane.publisher() as publisher:
        late = lane.swap()
        late.mint, late.pool = mint, lane.sent[0].pool
        late.slot, late.block_time_ms = late.slot - 500, late.block_time_ms - 200_000
        late.commitment = Commitment.CONFIRMED
        publisher.event(late)
    await lane.until(lambda: len(lane.got[SWAPS.name]) == 2)
    await live.until_metric("soltape_live_trades_total", lambda n: n == 1, verdict="late")
    await ends_with_all_published(lane, live)
    assert last_published(lane) == before
    await frames_are_there(store, 2)
    assert (await last_price(store, mint)).slot == lane.sent[0].slot


async def test_sol_itself_has_the_reference_price(lane, live, store):
    await live.until_working()
    for sol_usd in ("150", "150", "151.25"):
        async with lane.publisher() as publisher:
            # private `_sol_usd`: sets the reference price that ingest reads off the chain.
            publisher._sol_usd = sol_usd
            for _ in range(60):  # the mints of every partition
                publisher.event(lane.swap())

        async def holds(wanted=float(sol_usd)):
            last = await last_price(store, WSOL)
            return last and last.price_usd == wanted

        await until(holds)
    await lane.until(lambda: last_published(lane) == final_prices(lane))
    await ends_with_all_published(lane, live)
    updates = [tape_pb2.PriceUpdate.FromString(record.value) for record in lane.got[PRICES.name]]
    of_sol = [(u.price_sol, u.price_usd) for u in updates if u.mint == WSOL]
    assert of_sol == [(1.0, 150.0), (1.0, 151.25)]


async def test_an_orderly_end_waits_for_the_prices_that_wait(lane, live, store):
    await live.until_working()
    await lane.feed(400, per_second=800)
    live.signal(signal.SIGTERM)
    assert await live.ended() == 0
    live.start()
    await lane.until(lambda: last_published(lane) == final_prices(lane))
    await live.until_working()
    await ends_with_all_published(lane, live)
    assert len(lane.got[SWAPS.name]) == 400, "done, but not committed"
