"""A protocol is added by its file: routes, what is subscribed, and the document follow."""

from __future__ import annotations

import pytest

from api.app import create_app
from infra.settings import Settings
from schemas.protocols import programs, registry
from schemas.protocols.contract import Kind, Protocol, Route, Shape

PROGRAM = b"q" * 32
KIND = Kind("example_position", PROGRAM, tag=b"examples", wallets=(8,))
EXAMPLE = Protocol(
    "example",
    (KIND,),
    (
        Route("lending", Shape.LENDING, "Deposits and borrows"),
        Route("rewards", Shape.REWARDS, "Emissions that were not claimed"),
    ),
)
PATHS = {f"/api/wallets/{{wallet}}/p99/{name}" for name in ("lending", "rewards")}


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the registry has where the file is named there, and in the two TOML files."""
    everything = (*registry.ALL, EXAMPLE)
    monkeypatch.setitem(programs.NUMBERS, PROGRAM, 900)
    monkeypatch.setitem(programs.ADDRESSES, 900, PROGRAM)
    slugs = {"staking": "native_stake", "p99": "example"}
    monkeypatch.setattr(registry, "SLUGS", registry.by_slug(slugs, everything))
    monkeypatch.setattr(registry, "KINDS", registry.by_program(everything))


@pytest.mark.usefixtures("added")
def test_routes_subscription_and_document_follow() -> None:
    data = b"examples" + b"w" * 32
    assert registry.kind_of(b"a" * 32, PROGRAM, data) is KIND
    assert registry.KINDS[PROGRAM] == (KIND,)
    document = create_app(Settings(_env_file=None)).openapi()
    assert document["paths"].keys() >= PATHS
    for path in PATHS:
        operation = document["paths"][path]["get"]
        answer = operation["responses"]["200"]["content"]["application/json"]
        assert answer["example"]["positions"][0]["assets"][0]["amount_raw"]
        assert operation["summary"] in {route.about for route in EXAMPLE.routes}


def test_without_it_they_are_not_there() -> None:
    assert registry.kind_of(b"a" * 32, PROGRAM, b"examples") is None
    paths = create_app(Settings(_env_file=None)).openapi()["paths"]
    assert not PATHS & paths.keys()
    assert "/api/wallets/{wallet}/staking/native" in paths


def test_a_program_without_a_number_is_a_conflict() -> None:
    with pytest.raises(registry.Conflict, match="no number"):
        registry.by_program((*registry.ALL, EXAMPLE))
