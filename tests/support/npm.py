"""Packages of the npm registry, kept between runs; without npm a test says that it skips."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from zlib import crc32

import pytest

INSTALL_S = 1500.0  # a hundred packages, on a busy machine
ANSWERS_S = 1500.0  # of a program of a package, to hundreds of questions, on a busy machine


def installed(request: pytest.FixtureRequest, name: str, source: Path, package: str) -> Path:
    """Return a folder with the files of `source`, whose package.json names the package to install.

    `name` is that of the folder in pytest's cache. Folders that want the same share what is
    installed.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        missing("Node.js and npm are not installed")
    cache = request.config.cache
    assert cache is not None
    folder = Path(cache.mkdir(name))
    wanted = json.loads((source / "package.json").read_text())
    asked = json.dumps([wanted["dependencies"], wanted.get("overrides")], sort_keys=True)
    shared = Path(cache.mkdir(f"npm-{crc32(asked.encode()):08x}"))
    with (shared / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be at it
        for file in source.iterdir():
            shutil.copy(file, folder)
        shutil.copy(source / "package.json", shared)
        _install(shared, package)
        _link(folder / "node_modules", shared / "node_modules")
    return folder


def _link(at: Path, to: Path) -> None:
    if at.is_symlink() and at.readlink() == to:
        return
    if at.is_symlink():
        at.unlink()
    elif at.exists():  # as it was before folders shared them
        shutil.rmtree(at)
    at.symlink_to(to)


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
