"""The bench of the fan-out, small: both servers deliver what the oracle wants, to the byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from stream_gateway.bench import serving
from stream_gateway.bench.load import deliver, prepare
from stream_gateway.bench.serving import Served, Store

CLIENTS = 60

Server = Callable[[Store], AbstractContextManager[Served]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with serving.store(tmp_path) as running:
        yield running


@pytest.mark.parametrize(
    "server", [lambda store: serving.gateway(store, CLIENTS), serving.bare], ids=["gateway", "bare"]
)
def test_a_load_is_delivered(store: Store, server: Server) -> None:
    load = prepare(1.0, 100.0, CLIENTS)
    with server(store) as served:
        outcome = deliver(served, store, load)  # which compares with the oracle
    assert outcome.deliveries == load.deliveries() > 500
    assert outcome.cpu_seconds > 0
    assert outcome.latency.samples > 0
