"""A Valkey and a ClickHouse of the embedded stack, for the sinks alone."""

import asyncio
import os
import subprocess

import pytest

from infra.clickhouse.embedded import server
from infra.clickhouse.migrations import migrate
from infra.local.process import NotReady, free_port
from infra.redis.client import connect
from infra.redis.embedded import valkey
from infra.settings import Settings
from tests.support.systems import bound
from tests.support.waiting import without_error_async


async def started(process):
    child = subprocess.Popen(  # noqa: ASYNC220 - an instant
        bound(process.command),
        env=os.environ | dict(process.env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    await without_error_async(process.ready, NotReady)
    return child


@pytest.fixture
async def redis(tmp_path):
    port = free_port()
    child = await started(valkey(tmp_path / "valkey", "127.0.0.1", port))
    client = connect(Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0"))
    yield client
    await client.aclose()
    child.kill()
    child.wait()


@pytest.fixture
async def clickhouse(tmp_path):
    """Settings that lead to a ClickHouse with our tables."""
    port = free_port()
    child = await started(server(tmp_path / "clickhouse", port))
    settings = Settings(_env_file=None, clickhouse_url=f"http://127.0.0.1:{port}")
    await asyncio.to_thread(migrate, settings)
    yield settings
    child.kill()
    child.wait()
