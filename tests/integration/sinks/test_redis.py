"""State and watermark in one transaction, on a real Valkey."""

import pytest
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ResponseError,
    TryAgainError,
)

from pipeline.sinks.redis import Moved, Refused, Watermark, commit, read_watermark, transient

KEY = "wm:{m0}:test"
FIRST, SECOND, THIRD = (Watermark(slot, slot * 10, slot * 400) for slot in (1, 2, 3))


async def test_state_and_watermark_are_written_together(redis):
    assert await read_watermark(redis, KEY) is None
    await commit(
        redis, KEY, None, FIRST, [("SET", "a{m0}", 1), ("HSET", "h{m0}", b"\x00\r\n", "x")]
    )
    await commit(redis, KEY, FIRST, SECOND, [("SET", "a{m0}", 2)])
    assert await read_watermark(redis, KEY) == SECOND
    assert await redis.get("a{m0}") == b"2"
    assert await redis.hgetall("h{m0}") == {b"\x00\r\n": b"x"}
    assert int((await redis.hgetall(KEY))[b"at_ms"]) > 1_700_000_000_000


@pytest.mark.parametrize("there", [FIRST, THIRD], ids=["older", "newer"])
async def test_where_another_watermark_is_nothing_is_written(redis, there):
    await commit(redis, KEY, None, there, [])
    with pytest.raises(Moved) as moved:
        await commit(redis, KEY, SECOND, Watermark(9, 9, 9), [("SET", "a{m0}", 1)])
    assert moved.value.found == there
    assert await read_watermark(redis, KEY) == there
    assert not await redis.exists("a{m0}")


async def test_a_watermark_that_is_gone_is_another(redis):
    with pytest.raises(Moved) as moved:
        await commit(redis, KEY, FIRST, SECOND, [])
    assert moved.value.found is None


async def test_an_execution_whose_answer_was_lost_is_not_repeated(redis):
    await commit(redis, KEY, None, FIRST, [("SET", "a{m0}", 1)])
    await redis.set("a{m0}", "not again")
    await commit(redis, KEY, None, FIRST, [("SET", "a{m0}", 1)])
    assert await redis.get("a{m0}") == b"not again"


async def test_a_command_that_redis_does_not_know_leaves_all_as_it_was(redis):
    await commit(redis, KEY, None, FIRST, [])
    with pytest.raises(Refused, match="NOSUCH a: ERR unknown command"):
        await commit(redis, KEY, FIRST, SECOND, [("SET", "b{m0}", 1), ("NOSUCH", "a")])
    assert await read_watermark(redis, KEY) == FIRST
    assert not await redis.exists("b{m0}")


async def test_a_command_on_the_wrong_type_is_named(redis):
    await redis.set("text{m0}", "x")
    with pytest.raises(Refused, match=r"HSET text\{m0\} f: WRONGTYPE"):
        await commit(redis, KEY, None, FIRST, [("HSET", "text{m0}", "f", 1)])


async def test_a_full_redis_is_waited_for_and_has_nothing_of_the_transaction(redis):
    await commit(redis, KEY, None, FIRST, [])
    await redis.config_set("maxmemory", "1mb")
    with pytest.raises(ResponseError) as full:
        await commit(redis, KEY, FIRST, SECOND, [("SET", "a{m0}", b"x" * 1000)])
    assert transient(full.value)
    assert await read_watermark(redis, KEY) == FIRST
    await redis.config_set("maxmemory", "100mb")
    await commit(redis, KEY, FIRST, SECOND, [("SET", "a{m0}", b"x" * 1000)])
    assert await read_watermark(redis, KEY) == SECOND


@pytest.mark.parametrize(
    "refusal", [ClusterDownError, MasterDownError, TryAgainError, AskError, MovedError]
)
def test_a_cluster_that_changes_is_waited_for(refusal):
    text = "9000 127.0.0.1:7001" if issubclass(refusal, AskError) else "the first word is cut off"
    assert transient(refusal(text))


async def test_a_connection_is_of_use_afterwards(redis):
    """Answers that nobody waited for would be taken for those of the next command."""
    for number in range(1, 30):
        commands = [("SET", f"k{i}{{m0}}", number) for i in range(500)]
        if number % 3 == 0:
            commands.append(("NOSUCH",))
        believed = await read_watermark(redis, KEY)
        try:
            await commit(redis, KEY, believed, Watermark(number, number, number), commands)
        except Refused:
            continue
        assert await redis.get("k499{m0}") == str(number).encode()
