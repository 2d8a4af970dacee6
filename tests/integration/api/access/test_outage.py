"""A Redis that is killed and comes back: nobody comes in meanwhile, and nothing is forgotten."""

import asyncio
import re

import httpx
import pytest
from redis.exceptions import RedisError

from api.access import durability, register
from api.access.charge import Charges
from api.access.grants import Refusal
from api.access.keys import Record, new, parse
from infra.local.process import free_port
from infra.redis.embedded import valkey
from infra.settings import Settings
from tests.support.systems import Mortal
from tests.support.waiting import eventually, without_error_async


@pytest.fixture
def server(tmp_path):
    server = Mortal(valkey(tmp_path / "redis", "127.0.0.1", free_port()))
    asyncio.run(server.start())
    yield server
    server.kill()


async def test_what_was_counted_is_there_when_redis_comes_back(server):
    redis = register.connect(Settings(_env_file=None, redis_url=server.process.address))
    charges = Charges(redis)
    text = new()
    await register.put(redis, Record(parse(text), "x", "free", "", text[-4:], 1))
    for _ in range(60):
        await charges.request(parse(text), 1)
    assert await durability.doubts(redis) == []  # it is on disk
    server.kill()
    for _ in range(3):
        with pytest.raises(RedisError):
            await charges.request(parse(text), 1)
    await server.start()
    answer = await without_error_async(lambda: charges.request(parse(text), 1), RedisError)
    assert isinstance(answer, Refusal)
    assert answer.outcome == "rate"
    assert sum((await register.read(redis, parse(text))).credits.values()) == 60
    await redis.aclose()


def test_an_api_lets_nobody_in_until_its_redis_is_back(server, serve):
    with serve(access_redis_url=server.process.address) as api:
        with httpx.Client(base_url=api.url, headers={"x-api-key": api.key}) as client:
            assert client.get("/api/usage").status_code == 200
            assert asyncio.run(doubts(server)) == []
            server.kill()
            for path in ("/api/usage", "/api/tokens/trending", "/api/nothing"):
                answer = client.get(path)
                assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
                assert answer.headers["retry-after"] == "2"
            assert client.get("/api/health/live").status_code == 200
            health = eventually(  # a look at the stores is a second old at most
                lambda: (answer := client.get("/api/health")).status_code == 503 and answer
            )
            assert health.json()["status"] == "unavailable"
            assert "dependencies" not in health.json()
            ready = httpx.get(f"{api.metrics_url}/ready")
            assert ready.status_code == 503
            assert set(ready.json()["lacking"]) == {"keys"}
            counted = httpx.get(f"{api.metrics_url}/metrics").text
            failures = re.search(r'store_failures_total{store="keys"} ([0-9.]+)', counted)
            assert float(failures[1]) >= 4
            asyncio.run(server.start())
            eventually(lambda: client.get("/api/usage").status_code == 200)
            health = eventually(  # a look at the stores is a second old at most
                lambda: (
                    (answer := client.get("/api/health").json())["dependencies"]["keys"]["status"]
                    == "ok"
                    and answer
                )
            )
            stores = health["dependencies"]
            assert stores["keys"]["version"].startswith("Valkey ")
        assert "Traceback" not in api.logged()


async def doubts(server):
    redis = register.connect(Settings(_env_file=None, redis_url=server.process.address))
    try:
        return await durability.doubts(redis)
    finally:
        await redis.aclose()
