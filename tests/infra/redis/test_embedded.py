"""The embedded Valkey, started as `soltape up` starts it."""

import asyncio
import signal
import subprocess
from contextlib import contextmanager

import pytest

from infra.local.process import NotReady, free_port
from infra.redis.client import RedisError, check, connect
from infra.redis.embedded import valkey
from infra.settings import Settings
from tests.support.systems import bound, saved
from tests.support.waiting import without_error_async

pytestmark = pytest.mark.processes


@contextmanager
def running(process):
    popen = subprocess.Popen(bound(process.command), stdout=subprocess.DEVNULL)
    try:
        yield popen
    finally:
        popen.kill()
        popen.wait(60)


async def until_ready(process):
    await without_error_async(process.ready, NotReady)


async def test_what_was_written_is_there_after_sigkill(tmp_path):
    process = valkey(tmp_path / "redis", "127.0.0.1", free_port())
    settings = Settings(redis_url=process.address)
    with running(process):
        await until_ready(process)
        async with connect(settings) as client:
            await client.set("watermark", 42)
            await saved(client)
    with running(process):
        await until_ready(process)
        async with connect(settings) as client:
            assert await client.get("watermark") == b"42"


async def test_sigterm_stops_it_at_once(tmp_path):
    process = valkey(tmp_path, "127.0.0.1", free_port())
    with running(process) as popen:
        await until_ready(process)
        assert (await check(process.address)).startswith("Valkey ")
        popen.send_signal(signal.SIGTERM)
        assert popen.wait(60) == 0


async def test_not_ready_says_what_is_missing(tmp_path):
    process = valkey(tmp_path, "127.0.0.1", free_port())
    with pytest.raises(NotReady, match=r"Connect call failed|connecting to 127\.0\.0\.1"):
        await process.ready()


async def test_a_silent_server_times_out(tmp_path):
    async def silent(reader, writer):
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(RedisError, match=r"(?i)timeout"):
            await check(f"redis://127.0.0.1:{port}/0", timeout_s=0.3)
