"""Real stores for accounts and the answers made of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.settings import Settings
from tests.support.systems import running_stores


@pytest.fixture(scope="package")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings that lead to both stores, the tables made."""
    with running_stores(tmp_path_factory.mktemp("positions")) as settings:
        yield settings
