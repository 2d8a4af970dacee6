"""Commands, pipelines, transactions and scripts on a cluster: each goes where its keys are."""

import asyncio

import pytest
from redis.exceptions import ResponseError

from infra.redis.asks import connect_pipelined
from infra.redis.client import ask, check
from infra.redis.slots import slot_of
from pipeline.agents.settled.checkpoint_rows import books_keys
from pipeline.agents.settled.restore import Books, Overtaken, claim, clear, finish
from pipeline.sinks.redis import Moved, Watermark, commit, read_watermark
from schemas.redis_keys import tag_of_mints

pytestmark = pytest.mark.processes

TAGS = [tag_of_mints(number) for number in range(8)]


@pytest.fixture
async def asks(settings):
    client = connect_pipelined(settings)
    yield client
    await client.aclose()


async def test_the_tags_of_the_partitions_are_on_several_nodes(cluster):
    owners = {cluster.owner(slot_of(("GET", f"wm:{tag}"))) for tag in TAGS}
    assert len(owners) > 1  # else nothing below shows anything


async def test_answers_come_in_the_order_of_the_commands(redis, asks):
    async with redis.pipeline(transaction=False) as pipe:
        for number, tag in enumerate(TAGS):
            pipe.hset(f"market:{tag}:x", mapping={"n": number})
            pipe.zadd(f"top:{tag}", {b"a": number})
        assert await pipe.execute() == [1, 1] * len(TAGS)
    commands = [each for tag in TAGS for each in (("HGET", f"market:{tag}:x", "n"), ("TIME",))]
    for answers in (await ask(redis, commands), await asks.ask(commands)):
        assert answers[::2] == [b"%d" % number for number in range(len(TAGS))]
    assert await redis.zscore(f"top:{TAGS[5]}", b"a") == 5
    assert await redis.zrange(f"top:{TAGS[5]}", 0, -1, withscores=True) == [(b"a", 5.0)]
    assert sorted([name async for name in redis.scan_iter("top:*")]) == sorted(
        f"top:{tag}".encode() for tag in TAGS
    )


async def test_a_transaction_is_whole_or_not_at_all(redis, asks):
    tag = TAGS[2]
    async with redis.pipeline(transaction=True) as pipe:
        pipe.set(f"a:{tag}", 1).hset(f"b:{tag}", "f", "v").get(f"a:{tag}")
        assert await pipe.execute() == [True, 1, b"1"]
    async with redis.pipeline(transaction=True) as pipe:
        pipe.set(f"a:{tag}", 2).execute_command("HSET", f"b:{tag}")
        with pytest.raises(ResponseError, match="wrong number of arguments"):
            await pipe.execute()
    assert await redis.get(f"a:{tag}") == b"1"
    with pytest.raises(ResponseError, match=r"CROSSSLOT|MOVED"):
        await asks.ask([("MULTI",), ("GET", "a:{m1}"), ("GET", "a:{m2}"), ("EXEC",)])


async def test_a_script_is_known_to_every_node_once_it_is_asked_for(redis):
    script = redis.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    for tag in TAGS:
        assert await script(keys=[f"n:{tag}"], args=[3]) == 3
    later = redis.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1] * 2)")
    async with redis.pipeline(transaction=False) as pipe:
        for tag in TAGS:
            await later(keys=[f"n:{tag}"], args=[3], client=pipe)
        assert await pipe.execute() == [9] * len(TAGS)


async def test_state_and_watermark_move_together_or_not(redis):
    for number, tag in enumerate(TAGS):
        key, mark = f"wm:{tag}:pnl", Watermark(number, number, number)
        await commit(redis, key, None, mark, [("HSET", f"pos:{tag}:w", "m", b"x")])
        assert await read_watermark(redis, key) == mark
        with pytest.raises(Moved):
            await commit(redis, key, Watermark(9, 9, 9), Watermark(10, 9, 9), [])
        assert await redis.hget(f"pos:{tag}:w", "m") == b"x"


@pytest.mark.parametrize("migrated", [0, 3])
async def test_a_slot_on_its_way_is_read_and_written_on_both_nodes(cluster, redis, asks, migrated):
    tag = TAGS[1]
    slot = slot_of(("GET", tag))
    names = [f"k{number}:{tag}" for number in range(6)]
    for number, name in enumerate(names):
        await redis.set(name, number)
    source, target = cluster.begin_move(slot)
    assert cluster.move_keys(slot, source, target, most=migrated) == migrated
    expected = [b"%d" % number for number in range(6)]
    gets = [("GET", name) for name in names]
    for _ in range(2):
        assert await ask(redis, gets) == expected
        assert await asks.ask(gets) == expected
        assert [await redis.get(name) for name in names] == expected
    cluster.move_keys(slot, source, target)
    cluster.end_move(slot, target)
    assert await ask(redis, gets) == expected
    assert (await asks.ask([("MULTI",), *gets, ("EXEC",)]))[-1] == expected


async def test_a_transaction_waits_for_a_slot_that_is_half_moved(cluster, redis):
    tag = TAGS[4]
    slot = slot_of(("GET", tag))
    key, mark = f"wm:{tag}:pnl", Watermark(1, 1, 1)
    await commit(redis, key, None, mark, [("SET", f"s:{tag}", 1)])
    source, target = cluster.begin_move(slot)
    assert cluster.move_keys(slot, source, target, most=1) == 1
    following = asyncio.create_task(_until_committed(redis, key, mark, tag))
    await asyncio.sleep(0)
    cluster.move_keys(slot, source, target)
    cluster.end_move(slot, target)
    async with asyncio.timeout(60):
        await following
    assert await redis.get(f"s:{tag}") == b"2"
    assert await read_watermark(redis, key) == Watermark(2, 2, 2)


async def _until_committed(redis, key, mark, tag):
    while True:
        try:
            return await commit(redis, key, mark, Watermark(2, 2, 2), [("SET", f"s:{tag}", 2)])
        except ResponseError:
            await asyncio.sleep(0.05)


async def test_a_cluster_says_how_many_nodes_it_has(cluster):
    assert (await check(cluster.url)).endswith("a cluster of 3 nodes")


async def test_books_of_one_partition_are_found_and_removed_wherever_they_are(redis):
    mine, other = TAGS[3], TAGS[6]
    for tag in (mine, other):
        mark = Watermark(1, 1, 1)
        await commit(redis, f"wm:{tag}:market", None, mark, [("HSET", f"market:{tag}:x", "f", 1)])
        await redis.zadd(f"holders:{tag}:x", {b"o": 1})
    found = await books_keys(redis, mine, "market")
    assert sorted(found) == [
        (f"holders:{mine}:x".encode(), "zset"),
        (f"market:{mine}:x".encode(), "hash"),
    ]
    await clear(redis, Books("market", 3, mine))
    assert [name async for name in redis.scan_iter(f"*{mine}*")] == [f"wm:{mine}:market".encode()]
    assert await read_watermark(redis, f"wm:{mine}:market") is None, "who fills them has a claim"
    assert len([name async for name in redis.scan_iter(f"*{other}*")]) == 3


async def test_books_are_those_of_the_last_claim(redis):
    books, mark = Books("market", 4, TAGS[4]), Watermark(7, 8, 9)
    earlier = await clear(redis, books)
    later = await claim(redis, books)
    with pytest.raises(Overtaken, match="market 4 as well"):
        await finish(redis, books, earlier, mark, 1)
    assert await read_watermark(redis, books.watermark) is None
    await finish(redis, books, later, mark, 1)
    assert await read_watermark(redis, books.watermark) == mark
    await commit(redis, books.watermark, mark, Watermark(10, 11, 12), [])
    await finish(redis, books, later, mark, 1)  # the same once more, as its answer was lost
    assert await read_watermark(redis, books.watermark) == Watermark(10, 11, 12)


async def test_many_keys_of_a_slot_that_is_half_moved_come_in_one_ask(cluster, redis, asks):
    tag = TAGS[7]
    slot = slot_of(("GET", tag))
    names = [f"k{number}:{tag}" for number in range(1_200)]
    await ask(redis, [("SET", name, number) for number, name in enumerate(names)])
    source, target = cluster.begin_move(slot)
    assert cluster.move_keys(slot, source, target, most=300) == 300
    expected = [b"%d" % number for number in range(1_200)]
    gets = [("GET", name) for name in names]
    assert await asks.ask(gets) == expected
    cluster.move_keys(slot, source, target)
    assert await ask(redis, gets) == expected  # all by ASK: the slot is still the source's
    cluster.end_move(slot, target)
    assert await ask(redis, gets) == expected
