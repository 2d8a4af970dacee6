"""Clients of `infra.clickhouse.client`, in a process of their own."""

import subprocess
import sys

import pytest

INSERTS = """
import asyncio, sys
from infra.clickhouse.client import connect, connect_async
from infra.settings import Settings

settings = Settings(_env_file=None, clickhouse_url=sys.argv[1], clickhouse_database="default")

async def insert_async():
    async with await connect_async(settings) as client:
        await client.insert("kept", [[2, None]], column_names=["number", "name"])

with connect(settings) as client:
    client.command("CREATE TABLE kept (number UInt64, name Nullable(String)) ENGINE = Memory")
    client.insert("kept", [[1, "one"]], column_names=["number", "name"])
    asyncio.run(insert_async())
    print(client.query("SELECT * FROM kept ORDER BY number").result_rows)
print(sorted({"numpy", "pandas", "pyarrow"} & sys.modules.keys()))
"""


@pytest.mark.slow
def test_an_insert_imports_none_of_the_libraries_that_come_with_chdb(embedded):
    """They would take a second in which the process answers nobody. Slow: it starts ClickHouse."""
    ended = subprocess.run(
        [sys.executable, "-c", INSERTS, embedded.url],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert ended.stdout.splitlines() == ["[(1, 'one'), (2, None)]", "[]"]
