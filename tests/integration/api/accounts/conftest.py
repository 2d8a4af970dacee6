"""A Valkey with a lane of accounts in it, and what asks and waits there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from api.accounts.following import Following
from api.stores.clients import Stores
from infra.redis.client import connect
from infra.settings import Settings
from tests.support.api.accounts_lane import AccountsLane
from tests.support.api.counted_stores import CountedStores
from tests.support.systems import running_valkey

SLOT = 5_000
TIME_MS = 1_763_700_000_000


@pytest.fixture(scope="package")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to an empty Valkey."""
    with running_valkey(tmp_path_factory.mktemp("accounts")) as port:
        yield Settings(_env_file=None, redis_url=f"redis://127.0.0.1:{port}/0")


@pytest.fixture
async def lane(settings: Settings) -> AsyncIterator[AccountsLane]:
    """A lane that nothing has been written to."""
    redis = connect(settings)
    await redis.flushdb()
    yield AccountsLane(redis, SLOT, TIME_MS)
    await redis.aclose()


@pytest.fixture
async def stores(settings: Settings) -> AsyncIterator[CountedStores]:
    """Stores that note each trip to it."""
    found = CountedStores(settings)
    yield found
    await found.close()


@pytest.fixture
async def follow(settings: Settings) -> AsyncIterator[Callable[..., Following]]:
    """Make what a process follows with: `follow(api_new_accounts=3)`."""
    async with AsyncExitStack() as stack:

        def make(**changed: Any) -> Following:
            used = settings.model_copy(update=changed)
            stores = Stores(used)
            stack.push_async_callback(stores.close)
            following = Following(stores, used)
            stack.push_async_callback(following.aclose)
            return following

        yield make
