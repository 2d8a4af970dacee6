"""An API that users sign in to, with the certified provider of another make."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from infra.settings import Settings
from tests.support import npm
from tests.support.api.served import Served, served
from tests.support.api.signing_in import Certified, Person, certified, signin_settings

PROVIDER = Path(__file__).parent / "provider"

Serve = Callable[..., AbstractContextManager[Served]]


@pytest.fixture(scope="session")
def provider_folder(request: pytest.FixtureRequest) -> Path:
    return npm.installed(request, "oidc-provider", PROVIDER, "oidc-provider")


@pytest.fixture(scope="package")
def serve_signin(stores: Settings, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Start an API: `with serve_signin(provider, signin_max_users=1) as served`."""
    keys_url = f"{stores.redis_url.rpartition('/')[0]}/8"

    def start(provider: object, **changed: object) -> AbstractContextManager[Served]:
        usual = {
            "access_redis_url": keys_url,
            "api_timeout_s": 60.0,
            "health_disk_free_pct": 0.0,
            "metadata_fetch": False,
        }
        settings = stores.model_copy(update={**usual, **signin_settings(provider, **changed)})
        return served(settings, tmp_path_factory.mktemp("signin"))

    return start


@pytest.fixture(scope="package")
def provider(
    provider_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Certified]:
    log = tmp_path_factory.mktemp("provider") / "log"
    with certified(provider_folder, log) as running:
        yield running


@pytest.fixture(scope="package")
def api(provider: Certified, serve_signin: Serve) -> Iterator[Served]:
    with serve_signin(provider) as running:
        yield running


@pytest.fixture
def person(api: Served) -> Iterator[Person]:
    """A user that is not signed in."""
    with Person(api) as somebody:
        yield somebody


@pytest.fixture
def ann(person: Person) -> Person:
    """A user that is signed in."""
    assert person.sign_in().status_code == 303
    return person
