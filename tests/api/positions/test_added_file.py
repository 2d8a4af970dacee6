"""A protocol is one file: in a folder of its own it gives a filter, routes and a document."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from schemas.protocols import registry
from schemas.solana.addresses import text
from tests.api.positions.added import PROGRAM

pytestmark = pytest.mark.processes

FILE = '''
"""A protocol of tests."""

from schemas.protocols.contract import Kind, Position, Protocol, Route, Shape

KIND = Kind("{kind}", {program!r}, tag={tag!r}, wallets=(8,))


def read(held, world):
    yield []
    return [Position("loans", account) for account in held.of(KIND)]


PROTOCOL = Protocol("{name}", (KIND,), (Route("loans", Shape.LENDING, "{name}: loans"),), read)
'''
PATH = "/api/wallets/{wallet}/p99/loans"


def file(folder: Path, name: str, program: bytes = PROGRAM, tag: bytes = b"examples") -> None:
    source = FILE.format(name=name, kind=f"{name}_loan", program=program, tag=tag)
    (folder / f"{name}.py").write_text(source)


def process(folder: Path, changes: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.api.positions.added", str(folder), changes],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": ""},
    )


def registered(folder: Path, changes: str = "") -> Any:
    ended = process(folder, changes)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def last_line(folder: Path, changes: str = "") -> str:
    """Return the last line of a process that does not begin."""
    ended = process(folder, changes)
    assert ended.returncode
    return ended.stderr.strip().splitlines()[-1]


def test_filter_route_and_document_follow_and_nothing_else_changes(tmp_path: Path) -> None:
    before = registered(tmp_path)
    file(tmp_path, "example")
    after = registered(tmp_path, "p99=example")
    operation = after["paths"].pop(PATH)["get"]
    assert operation["summary"] == "example: loans"
    answer = operation["responses"]["200"]["content"]["application/json"]
    assert answer["example"]["positions"][0]["health"]["health_factor"]
    [added] = [each for each in after["filters"] if b"examples".hex() in each]
    assert text(PROGRAM).encode().hex() in added
    after["filters"].remove(added)
    assert after == before


def test_without_a_slug_it_is_stored_and_not_served(tmp_path: Path) -> None:
    file(tmp_path, "example")
    found = registered(tmp_path)
    assert any(b"examples".hex() in each for each in found["filters"])
    assert PATH not in found["paths"]


def test_a_slug_is_renamed_and_switched_off(tmp_path: Path) -> None:
    paths = registered(tmp_path, "staking=-,p42=native_stake")["paths"]
    assert "/api/wallets/{wallet}/p42/native" in paths
    assert "/api/wallets/{wallet}/staking/native" not in paths


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ("p99=nothing", "PROTOCOLS: slug p99: there is no protocol nothing"),
        ("p98=-", "PROTOCOLS: there is no slug p98 to switch off"),
        ("p42=native_stake", "PROTOCOLS: protocol native_stake has two slugs: staking and p42"),
        ("p10=flash,p10=adrena", "PROTOCOLS: slug p10 is claimed twice"),
        ("p10=-,p10=flash", "PROTOCOLS: slug p10 is claimed twice"),
    ],
)
def test_what_cannot_be_served_is_refused(changes: str, words: str) -> None:
    with pytest.raises(registry.Conflict) as raised:
        registry.served(changes)
    assert str(raised.value) == words


def test_what_cannot_be_served_stops_the_process(tmp_path: Path) -> None:
    line = last_line(tmp_path, "p99=nothing")
    assert line.endswith("PROTOCOLS: slug p99: there is no protocol nothing")


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        ('p23 = "kamino"\n# p23\np23 = "drift"', "slug p23 is claimed twice"),
        ('p23 = "kamino"\np24 = "kamino"', "protocol kamino has two slugs: p23 and p24"),
        ('p23 = "nothing"', "slug p23: there is no protocol nothing"),
        ("p23 = kamino", "Invalid value (at line 1, column 7)"),
    ],
)
def test_slugs_that_are_claimed_twice_stop_the_process(stored: str, words: str) -> None:
    with pytest.raises(registry.Conflict) as raised:
        registry.shipped(stored, registry.ALL)
    assert str(raised.value) == f"slugs.toml: {words}"


def test_a_program_claimed_twice_stops_the_process(tmp_path: Path) -> None:
    file(tmp_path, "example")
    file(tmp_path, "other")
    line = last_line(tmp_path)
    assert f"program {text(PROGRAM)} is claimed twice" in line
    assert "example_loan of example" in line
    assert "other_loan of other" in line


def test_a_protocol_in_two_files_stops_the_process(tmp_path: Path) -> None:
    file(tmp_path, "example")
    source = (tmp_path / "example.py").read_text()
    copied = source.replace("example_loan", "loan_two").replace("examples", "exbmples")
    (tmp_path / "other.py").write_text(copied)
    assert last_line(tmp_path).endswith("protocol example is in two files")


def test_two_files_may_know_different_accounts_of_a_program(tmp_path: Path) -> None:
    file(tmp_path, "example")
    file(tmp_path, "other", tag=b"xamples!")
    filters = registered(tmp_path)["filters"]
    for tag in (b"examples", b"xamples!"):
        assert any(tag.hex() in each for each in filters)
