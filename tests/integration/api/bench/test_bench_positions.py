"""Positions in `soltape bench api`: what the API answers of its wallets, and what it reports."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from infra.bench.api.data import stores
from infra.bench.api.load import Request
from infra.bench.api.measures import Effort
from infra.bench.api.positions import data, measure
from infra.bench.api.positions.chain import moving
from infra.bench.api.positions.data import Wallets, wallets
from infra.bench.api.positions.measure import ASKED, Asked, requests_of
from infra.bench.api.serving import Served, fetch, serve_api
from infra.bench.api.world import LAST_SLOT, World
from infra.settings import Settings

WORLD = World(10_000)
FEW = 40  # wallets of a group

Bench = tuple[Served, Wallets, Path, Settings]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("wrk") is None and os.environ.get("CI") != "true",
        reason="wrk is not installed",
    ),
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("bench")
    with pytest.MonkeyPatch.context() as patch, stores(folder) as filled:
        patch.setattr(data, "WALLETS", FEW)
        filled.fill(WORLD, with_positions=True)
        with serve_api(filled, folder) as running:
            yield running, wallets(WORLD), folder, filled.settings


def asked_by(name: str) -> Asked:
    [asked] = [each for each in ASKED if each.name == name]
    return asked


def answers(served: Bench, name: str) -> list[Any]:
    running, of, *_ = served
    return [orjson.loads(text) for text in fetch(running, requests_of(asked_by(name), of)).values()]


@pytest.mark.parametrize("name", [each.name for each in ASKED if each.name != "analyze"])
def test_every_wallet_has_all_of_its_positions(served: Bench, name: str) -> None:
    found = answers(served, name)
    assert len(found) == FEW
    for each in found:
        assert each["as_of_slot"] >= LAST_SLOT
        assert each["errors"] == []
        ids = {position["position_id"] for position in each["positions"]}
        assert len(ids) == asked_by(name).positions
        assert each["value_usd"] > 0
        assert all(position["assets"] for position in each["positions"])


def test_an_analysis_has_sixty_positions_in_twelve_protocols(served: Bench) -> None:
    found = answers(served, "analyze")
    assert len(found) == FEW
    for each in found:
        assert each["as_of_slot"] >= LAST_SLOT
        assert each["errors"] == []
        ids = {(one["position_id"], one["route"]) for one in each["positions"]}
        assert len(ids) == 60
        counted = Counter(one["protocol"] for one in each["positions"])
        assert len(counted) == 12
        assert min(counted.values()) >= 4
        assert each["coverage"]["known_accounts"] == each["coverage"]["read_accounts"]
        assert each["holdings"]["coverage"]["is_complete"]
        assert each["dex"]["positions"]["position_count"] > 0
        assert each["net_worth"]["reasons"] == []
        assert each["net_worth"]["value_usd"] > 0


def test_liquidity_is_within_its_range_and_has_earned(
    served: Bench,
) -> None:
    positions = [each for of in answers(served, "whirlpools") for each in of["positions"]]
    for each in positions:
        assert each["range"]["is_in_range"]
        roles = [asset["role"] for asset in each["assets"] if asset["amount_raw"] != "0"]
        assert roles.count("supply") == 2
        assert roles.count("reward") >= 2
        assert all(asset["value_usd"] is not None for asset in each["assets"])


def test_loans_have_health_and_debts(served: Bench) -> None:
    positions = [each for of in answers(served, "marginfi") for each in of["positions"]]
    for each in positions:
        assert each["health"]["health_factor"] > 0
        assert [asset["role"] for asset in each["assets"]].count("borrow") == 1
        assert each["unsupported_fields"] == []


def test_the_report_has_each_route_and_what_was_computed(
    served: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, of, folder, settings = served
    slow = FEW / 2  # a wallet comes again after two seconds
    monkeypatch.setattr(measure, "ASKED", (replace(ASKED[0], rate=slow),))
    with moving(settings, WORLD):
        found = measure.positions(running, of, folder, Effort(1, 1))
    assert found.keys() == {"whirlpools"}
    figures = found["whirlpools"]
    assert figures["failed"] == 0
    assert figures["computed"] > 0.5
    assert figures["p99_ms"] >= figures["p50_ms"] > 0
    assert figures["cpu_us"] > figures["bare_cpu_us"]


def test_an_answer_without_its_positions_is_no_measurement() -> None:
    lacking = orjson.dumps({"positions": [], "errors": []}).decode()
    with pytest.raises(measure.LoadFailed, match="has 0 positions in 0 protocols"):
        measure.check(ASKED[0], {"/p19": lacking})


def test_the_chain_goes_on_while_it_is_measured(served: Bench) -> None:
    running, of, _, settings = served

    def slots() -> set[int]:
        [answer] = fetch(running, [Request(f"/api/wallets/{of.lenders[0]}/p02/lending")]).values()
        found = orjson.loads(answer)
        assert found["errors"] == []
        return {found["as_of_slot"], *(each["reference_slot"] for each in found["positions"])}

    before = slots()
    with moving(settings, WORLD):
        deadline = time.monotonic() + 240
        while slots() == before:
            assert time.monotonic() < deadline
            time.sleep(0.5)
    assert max(slots()) > max(before)
