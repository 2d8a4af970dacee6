"""What is installed is all there is: pyproject.toml lists every package and every data file."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("schemas", "infra", "pipeline", "api", "stream_gateway")
DATA = {".gz", ".json", ".lua", ".mjs", ".proto", ".sql", ".toml", ".xml"}


@pytest.fixture(scope="module")
def setuptools() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]


def test_every_package_is_listed(setuptools: Any) -> None:
    found = {
        ".".join(init.parent.relative_to(ROOT).parts)
        for room in ROOMS
        for init in (ROOT / room).rglob("__init__.py")
    }
    assert found <= {*setuptools["packages"]}


def _is_listed(path: Path, setuptools: Any) -> bool:
    """Return True if a pattern of a package that has the file fits it."""
    patterns = setuptools["package-data"]
    for folder in path.relative_to(ROOT).parents:
        package = ".".join(folder.parts)
        if package in setuptools["packages"]:
            name = path.relative_to(ROOT / folder).as_posix()
            if any(
                fnmatch(name, pattern) and ("/" in pattern or "/" not in name)
                for pattern in (*patterns["*"], *patterns.get(package, ()))
            ):
                return True
    return False


def test_every_data_file_is_listed(setuptools: Any) -> None:
    missing = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.suffix in DATA and path.is_file() and not _is_listed(path, setuptools)
    ]
    assert not missing
