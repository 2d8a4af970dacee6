"""Packages of the npm registry, kept between runs; without npm a test says that it skips."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

INSTALL_S = 1500.0  # a hundred packages, on a busy machine
ANSWERS_S = 1500.0  # of a program of a package, to hundreds of questions, on a busy machine


def installed(request: pytest.FixtureRequest, name: str, source: Path, package: str) -> Path:
    """Return a folder with the files of `source`, whose package.json names the package to install.

    `name` is that of the folder in pytest's cache.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        missing("Node.js and npm are not installed")
    folder = Path(request.config.cache.mkdir(name))  # type: ignore[union-attr]
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be at it
        for file in source.iterdir():
            shutil.copy(file, folder)
        _install(folder, package)
    return folder


def _install(folder: Path, package: str) -> None:
    wanted = json.loads((folder / "package.json").read_text())["dependencies"][package]
    there = folder / "node_modules" / package / "package.json"
    if there.exists() and json.loads(there.read_text())["version"] == wanted:
        return
    npm = subprocess.run(
        ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=INSTALL_S,
        check=False,
    )
    if npm.returncode:
        missing(f"npm could not install {package}: {npm.stderr[-500:]}")


def missing(reason: str) -> None:
    """Skip the test; in CI, where nothing may be missing, fail."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
