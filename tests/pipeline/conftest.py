"""What the pipeline's tests share: the corpus, and transactions built by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest

from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.rpc_json import transaction_info_from_json

CORPUS = Path(__file__).parents[3] / "shared/corpus"
BUILDER = Path(__file__).parent / "decoders/builder.py"
EXAMPLES = Path(__file__).parent / "decoders/examples.py"

Recorded = tuple[dict[str, Any], SubscribeUpdateTransactionInfo]


def _load(path: Path) -> ModuleType:
    """Import a file that is not a test: in importlib mode the folder is no package."""
    name = f"pipeline_tests_{path.stem}"
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test that takes `example` each venue's: (dex, Example)."""
    if "example" in metafunc.fixturenames:
        venues = sorted(_load(EXAMPLES).EXAMPLES.items())
        metafunc.parametrize("example", venues, ids=[dex for dex, _ in venues])


@pytest.fixture(scope="session")
def builder() -> ModuleType:
    """The module that builds transactions: TransactionBuilder, address."""
    return _load(BUILDER)


@pytest.fixture(scope="session")
def new_transaction(builder: ModuleType) -> Callable[..., Any]:
    """TransactionBuilder: call it with the names of the signers."""
    return builder.TransactionBuilder


@pytest.fixture(scope="session")
def examples() -> ModuleType:
    """The module with a swap for each venue that tells swaps by their transfers."""
    return _load(EXAMPLES)


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
