"""The modules of the dashboard that need no browser, by their tests in JavaScript."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

TESTS = sorted(Path(__file__).parent.glob("*.test.mjs"))
NODE = shutil.which("node")


@pytest.mark.parametrize("file", TESTS, ids=lambda path: path.name)
def test_units(file: Path) -> None:
    if NODE is None:
        pytest.skip("node is not installed")
    done = subprocess.run(
        [NODE, "--test", str(file)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
