"""Anchor's own coder of accounts: bytes of any kind that an IDL describes, and what they mean.

The questions and answers are those of `anchor_coder/coder.cjs`. IDLs are read where they are and
are no part of this repository: a test skips where they are absent.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support import npm
from tests.support.judging import judged

IDLS: Final = Path(__file__).parents[3] / "shared" / "facts" / "positions" / "idl"
_SOURCE: Final = Path(__file__).parent / "anchor_coder"


def coder(request: pytest.FixtureRequest) -> Path:
    """Return the folder with the coder, installed; skips where npm is absent."""
    return npm.installed(request, "anchor-coder", _SOURCE, "@coral-xyz/anchor")


def idl(name: str) -> str:
    """Return the path of an IDL; skips where it is absent."""
    path = IDLS / name
    if not path.exists():
        pytest.skip(f"the IDL {name} is not here")
    return str(path)


def asked(folder: Path, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the coder's answers to questions, in their order."""
    done = subprocess.run(
        ["node", "coder.cjs"],
        cwd=folder,
        input="".join(json.dumps(each) + "\n" for each in questions),
        capture_output=True,
        text=True,
        timeout=npm.ANSWERS_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    judged(worlds=len(questions))
    return [json.loads(line) for line in done.stdout.splitlines()]
