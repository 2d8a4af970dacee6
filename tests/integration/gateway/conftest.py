"""A Valkey, a gateway on it and a key, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.gateway.running import Gateway, running_gateway
from tests.support.systems import running_valkey


@pytest.fixture(scope="module")
def valkey_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with running_valkey(tmp_path_factory.mktemp("valkey")) as port:
        yield port


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, valkey_port: int) -> Iterator[Gateway]:
    """A gateway for the tests of a module."""
    with running_gateway(tmp_path_factory.mktemp("gateway"), valkey_port) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def key(gateway: Gateway) -> str:
    """A key without limits."""
    return gateway.key()
