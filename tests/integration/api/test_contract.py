"""The API keeps to the document it publishes: schemathesis asks whatever the document allows.

All checks: statuses, headers, content types, bodies against their schemas; that what the schema
allows is taken and what it does not is refused, that a key is needed; and walks along the links.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from tests.support.api.asking import resolved, validator
from tests.support.api.oracle import known
from tests.support.api.simulation import Simulation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2_400)]

HERE = Path(__file__).parent
SEED = 4
EXAMPLES = 8  # of each operation, and of walks along the links; the same ones in each run
PERPS = ("/api/wallets/{wallet}/p08/funding", "/api/wallets/{wallet}/p09/pnl")
IMAGE = "/api/tokens/{mint}/image"
ALL_PATHS_HAVE = {"500", "503"}
BEHIND_THE_GATE = {"401", "403", "429"}


@pytest.fixture(scope="module")
def document(simulated: Any) -> dict[str, Any]:
    answer = httpx.get(f"{simulated.url}/openapi.json", timeout=120)
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_the_api_does_what_its_document_says(
    simulated: Any, simulation: Simulation, document: dict[str, Any], tmp_path: Path
) -> None:
    truth = known(simulation.truth, simulation.first_slot, simulation.last_slot)
    addresses = tmp_path / "addresses.json"
    busy = sorted(truth.mints_of_wallet, key=lambda each: -len(truth.mints_of_wallet[each]))
    addresses.write_text(json.dumps(busy[:20] + truth.mints))
    report = tmp_path / "report.json"
    options = {
        "--phases": "examples,coverage,fuzzing,stateful",
        "--seed": str(SEED),
        "--max-examples": str(EXAMPLES),
        "--header": f"x-api-key: {simulated.key}",
        "--request-timeout": "20",
        "--max-failures": "20",
        "--report": "json",
        "--report-json-path": str(report),
        "--generation-database": "none",
    }
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color"]
    command += ["--config-file", str(HERE / "contract.toml"), "run"]
    command += [part for option in options.items() for part in option]
    run = subprocess.run(
        [*command, "--continue-on-failure", f"{simulated.url}/openapi.json"],
        cwd=tmp_path,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "contract_hooks",
            "PYTHONPATH": str(HERE),
            "CONTRACT_ADDRESSES": str(addresses),
        },
        capture_output=True,
        text=True,
        timeout=1_800,  # on a busy machine
    )
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    summary = json.loads(report.read_text())
    assert summary["operations"]["tested"] == len(operations(document))
    assert {phase["status"] for phase in summary["phases"].values()} == {"success"}
    assert not summary["errors"]
    assert summary["test_cases"]["generated"] > 1_000
    assert summary["test_cases"]["with_failures"] == 0
    assert "Traceback" not in simulated.logged()


def test_every_operation_is_described(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations(document):
        shown = f"{method} {path}"
        assert 5 < len(operation["summary"]) < 80, shown
        assert len(operation["description"]) > 20, shown
        assert operation["tags"], shown
        statuses = operation["responses"].keys()
        assert statuses >= ALL_PATHS_HAVE, shown
        if operation.get("security") != []:
            assert statuses >= BEHIND_THE_GATE, shown
        if "{" in path or method == "post":
            assert "422" in statuses, shown
        for parameter in operation.get("parameters", []):
            if "$ref" not in parameter:
                assert parameter["description"], shown


def test_every_answer_has_an_example_that_fits(document: dict[str, Any]) -> None:
    checks: dict[str, jsonschema_rs.Validator] = {}  # by schema: most problems have the same one
    for method, path, operation in operations(document):
        for status, summary in operation["responses"].items():
            answer = resolved(document, summary)
            assert "content" in answer or status == "304", (method, path, status)
            for media, content in answer.get("content", {}).items():
                given = [each["value"] for each in content.get("examples", {}).values()]
                given += [content["example"]] if "example" in content else []
                assert given, (method, path, status, media)
                is_strict = media == "application/json" and len(answer["content"]) == 1
                key = f"{is_strict} {json.dumps(content['schema'])}"
                if key not in checks:
                    checks[key] = (
                        validator(document, method, path, int(status))
                        if is_strict
                        else jsonschema_rs.Draft202012Validator(
                            {**content["schema"], "components": document["components"]}
                        )
                    )
                for example in given:
                    assert checks[key].is_valid(example), (method, path, status)


def test_every_link_leads_on(
    simulated: Any, simulation: Simulation, document: dict[str, Any]
) -> None:
    """From a wallet and a token with much history, all links, one by one."""
    truth = known(simulation.truth, simulation.first_slot, simulation.last_slot)
    wallet, mint = max(sorted(truth.matches), key=lambda each: len(truth.matches[each]))
    values = {"wallet": wallet, "mint": mint}
    bodies = {"/api/wallets/batch": {"wallets": [wallet]}}
    paths = {
        operation["operationId"]: (path, operation) for _, path, operation in operations(document)
    }
    followed = 0
    with httpx.Client(
        base_url=simulated.url, headers={"x-api-key": simulated.key}, timeout=120
    ) as client:
        for method, path, operation in operations(document):
            links = operation["responses"]["200"].get("links", {})
            query = {"limit": 1} if "nextPage" in links else {}
            body = bodies.get(path, {"mints": [mint]}) if method == "post" else None
            answer = client.request(method, path.format(**values), params=query, json=body)
            if path == IMAGE:  # strangers' servers are not asked here
                assert answer.json()["code"] == "no_image"
                continue
            assert answer.status_code == 200, answer.text
            for name, link in links.items():
                if name == "nextPage" and answer.json()["page"]["next_cursor"] is None:
                    assert path in PERPS  # few wallets have bets
                    continue
                target, described = paths[link["operationId"]]
                found = {
                    parameter: said_by(expression, values, answer.json())
                    for parameter, expression in link["parameters"].items()
                }
                in_path = {each: found.pop(each) for each in ("wallet", "mint") if each in found}
                named = {each.get("name") for each in described["parameters"]}
                assert found.keys() <= named, (path, name)
                if name == "nextPage":
                    found |= query
                led = client.get(target.format(**in_path), params=found)
                assert led.status_code == 200, (path, name, led.text)
                if name == "nextPage":
                    assert led.json() != answer.json(), path
                followed += 1
    assert followed > 20


def said_by(expression: str, values: dict[str, str], value: Any) -> Any:
    """Return what an expression of a link says of a request for these values and its answer."""
    if expression.startswith("$request.path."):
        return values[expression.removeprefix("$request.path.")]
    for part in expression.removeprefix("$response.body#/").split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    assert value is not None, expression
    return value
