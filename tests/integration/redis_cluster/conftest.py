"""A cluster that the tests of a module share, empty at the beginning of each."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from infra.redis.client import connect
from infra.settings import Settings
from tests.support.redis_cluster import ValkeyCluster, running_cluster


@pytest.fixture(scope="package")
def valkeys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyCluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(valkeys: ValkeyCluster) -> ValkeyCluster:
    valkeys.flush()
    return valkeys


@pytest.fixture
def settings(cluster: ValkeyCluster) -> Settings:
    return Settings(_env_file=None, redis_url=cluster.url)


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[Redis]:
    client = connect(settings)
    yield client
    await client.aclose()
