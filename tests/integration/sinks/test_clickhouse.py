"""Blocks of rows that are there once, on a real ClickHouse engine."""

import asyncio

import pytest

from infra.clickhouse.client import connect_async
from infra.local.process import free_port
from pipeline.sinks.clickhouse import ClickHouseSink, RowsRefused
from tests.support.waiting import eventually_async


def slot(number, transactions=0):
    return (number, None, "h", number * 400, transactions, 0, 0, 0, True, None)


async def count(settings):
    async with await connect_async(settings) as client:
        return int(await client.command("SELECT count() FROM slots"))


async def test_a_block_is_there_once_however_often_its_token_comes(clickhouse):
    sink = ClickHouseSink(clickhouse)
    rows = [slot(number) for number in range(1000)]
    for _ in range(3):
        await sink.insert("slots", rows, "a")
    assert await count(clickhouse) == 1000
    await sink.insert("slots", [slot(5000)], "b")
    assert await count(clickhouse) == 1001
    await sink.close()


async def test_many_rows_go_in_several_blocks(clickhouse):
    sink = ClickHouseSink(clickhouse)
    await sink.insert("slots", [slot(number) for number in range(250_000)], "many")
    assert await count(clickhouse) == 250_000
    await sink.close()


async def test_a_table_that_is_not_there_ends_it_with_the_reason(clickhouse):
    async with await connect_async(clickhouse) as client:
        await client.command("DROP TABLE slots SYNC")
    sink = ClickHouseSink(clickhouse)
    with pytest.raises(RowsRefused, match=r"slots: .*60"):
        await sink.insert("slots", [slot(1)], "a")
    await sink.close()


async def test_a_value_that_does_not_fit_ends_it_with_the_reason(clickhouse):
    sink = ClickHouseSink(clickhouse)
    with pytest.raises(RowsRefused, match="slots: "):
        await sink.insert("slots", [slot(1, transactions="many")], "a")
    assert await count(clickhouse) == 0
    await sink.close()


async def test_a_server_that_is_away_is_waited_for():
    from infra.settings import Settings

    nobody = Settings(_env_file=None, clickhouse_url=f"http://127.0.0.1:{free_port()}")
    sink = ClickHouseSink(nobody)
    inserting = asyncio.create_task(sink.insert("slots", [slot(1)], "a"))
    # private `_held`: that an insert waits shows nowhere else.
    await eventually_async(lambda: sink._held == 1)
    assert not inserting.done()
    inserting.cancel()
