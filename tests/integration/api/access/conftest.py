"""A real Valkey for the keys, and a clock that a test may set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from pathlib import Path

import pytest
import redis as sync_redis

from api.access import charge, register
from api.access.charge import Charges
from api.access.keys import Record, new, parse
from api.access.script import Asks, Script
from infra.redis.asks import Pipelined
from infra.settings import Settings
from tests.support.systems import running_valkey


@pytest.fixture(scope="package")
def keys_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the keys live: database 1, as beside `soltape up`."""
    with running_valkey(tmp_path_factory.mktemp("keys")) as port:
        yield f"redis://127.0.0.1:{port}/1"


@pytest.fixture
def settings(keys_url: str) -> Settings:
    return Settings(_env_file=None, access_redis_url=keys_url)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys_url: str) -> Path:
    """An empty folder to be in, settings that lead to an empty Redis for the keys, and no more."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACCESS_REDIS_URL", keys_url)
    with sync_redis.Redis.from_url(keys_url) as client:
        client.flushall()
    return tmp_path


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[Pipelined]:
    connection = register.connect(settings)
    await connection.ask([("FLUSHALL",)])
    yield connection
    await connection.aclose()


@pytest.fixture
def charges(redis: Pipelined) -> Charges:
    return Charges(redis)


class Maker:
    """Makes keys."""

    def __init__(self, redis: Asks) -> None:
        self._redis = redis

    async def text(self, plan: str = "free", name: str = "test", **facts: object) -> str:
        """Make a key and return its text."""
        text = new()
        record = Record(parse(text), name, plan, "", text[-4:], 1, **facts)  # type: ignore[arg-type]
        assert await register.put(self._redis, record)
        return text

    async def fingerprint(self, plan: str = "free", **facts: object) -> str:
        """Make a key and return what it is known by."""
        return parse(await self.text(plan, **facts))


@pytest.fixture
def make(redis: Pipelined) -> Maker:
    return Maker(redis)


class Clock:
    """What the script of a charge takes for Redis's clock."""

    def __init__(self, redis: Asks) -> None:
        self._redis = redis
        self.ms = 0

    async def set(self, to: int | datetime) -> None:
        """Set it, to milliseconds since the epoch or to a moment."""
        self.ms = to if isinstance(to, int) else int(to.timestamp() * 1000)
        await self._redis.ask([("MSET", "s", self.ms // 1000, "us", self.ms % 1000 * 1000 + 999)])

    async def forward(self, ms: int) -> None:
        await self.set(self.ms + ms)


@pytest.fixture
async def clock(redis: Pipelined, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The script as it is, but for its one look at the clock."""
    # private `_CHARGE`: the script with another clock; Redis has no way to set its own.
    text = charge._CHARGE.text
    look = "redis.call('TIME')"
    assert text.count(look) == 1
    changed = Script(text.replace(look, "redis.call('MGET', 's', 'us')"))
    monkeypatch.setattr(charge, "_CHARGE", changed)
    clock = Clock(redis)
    await clock.set(1_763_700_000_000)
    return clock
