"""The recorded transactions, and an example of each venue, for the tests of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.rpc_json import transaction_info_from_json
from tests.support.decoding.examples import EXAMPLES

CORPUS = Path(__file__).parents[3] / "shared/corpus"

Recorded = tuple[dict[str, Any], SubscribeUpdateTransactionInfo]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes `example` each venue's: (dex, Example)."""
    if "example" in metafunc.fixturenames:
        venues = sorted(EXAMPLES.items())
        metafunc.parametrize("example", venues, ids=[dex for dex, _ in venues])


@pytest.fixture(scope="session")
def corpus() -> dict[str, Recorded]:
    """Recorded mainnet transactions by signature: the answer of getTransaction, and read."""
    path = CORPUS / "transactions.jsonl"
    if not path.exists():
        pytest.skip(f"no recorded transactions at {path}: they do not travel with the repository")
    return dict(_recorded(path))


def _recorded(path: Path) -> Iterator[tuple[str, Recorded]]:
    for line in path.read_bytes().splitlines():
        answer = orjson.loads(line)
        yield answer["transaction"]["signatures"][0], (answer, transaction_info_from_json(answer))
