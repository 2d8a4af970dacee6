"""Real stores with their tables, and `soltape api` in front of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from infra.settings import Settings
from tests.support.api.served import Served, served
from tests.support.api.simulation import Shared, Simulation
from tests.support.systems import running_stores

Serve = Callable[..., AbstractContextManager[Served]]

# What a request may take here: a machine under load is slow, and most tests ask what is answered.
PATIENT_S = 60.0


@pytest.fixture(scope="package")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to an empty Valkey and an empty ClickHouse, the tables made."""
    with running_stores(tmp_path_factory.mktemp("api-stores")) as settings:
        yield settings


@pytest.fixture(scope="package")
def serve(stores: Settings, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Start an API of one's own: `with serve(api_timeout_s=1.0) as served`.

    It reads the stores above unless other ones are named.
    """

    def start(**changed: object) -> AbstractContextManager[Served]:
        folder = tmp_path_factory.mktemp("api")
        # How full the disk of this machine is, is not what is tested; nor are strangers' servers.
        usual = {
            "api_timeout_s": PATIENT_S,
            "health_disk_free_pct": 0.0,
            "metadata_fetch": False,
        }
        return served(stores.model_copy(update={**usual, **changed}), folder)

    return start


@pytest.fixture(scope="package")
def api(serve: Serve) -> Iterator[Served]:
    """The API of this folder's tests, with a key to use: `api.url`, `api.key`."""
    with serve() as running:
        yield running


@pytest.fixture(scope="module")
def demo(stores: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An API with a demo key, as `soltape up` runs it; its keys are in a database of their own."""
    folder = tmp_path_factory.mktemp("demo")
    keys_url = f"{stores.redis_url.rpartition('/')[0]}/5"
    settings = stores.model_copy(update={"access_redis_url": keys_url, "metadata_fetch": False})
    with served(settings, folder, "--demo-key", str(folder / "demo-key")) as running:
        yield running


@pytest.fixture(scope="package")
def shared_simulation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    shared = Shared((base.parent if is_worker else base) / "simulation")
    yield shared
    shared.close()


@pytest.fixture(scope="module")
def simulation(shared_simulation: Shared) -> Iterator[Simulation]:
    """A finished market in real stores; all test processes share one."""
    with shared_simulation.used() as found:
        yield found


@pytest.fixture(scope="module")
def serve_simulation(
    simulation: Simulation, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., AbstractContextManager[Served]]:
    """Start an API over the simulation's stores: `with serve_simulation() as served`."""

    def start(**changed: object) -> AbstractContextManager[Served]:
        folder = tmp_path_factory.mktemp("api")
        patient = {"api_timeout_s": PATIENT_S, "metadata_fetch": False, **changed}
        return served(simulation.settings.model_copy(update=patient), folder)

    return start


@pytest.fixture(scope="module")
def simulated(serve_simulation: Callable[..., AbstractContextManager[Served]]) -> Iterator[Served]:
    """An API over the simulation's stores."""
    with serve_simulation() as running:
        yield running
