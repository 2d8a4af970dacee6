"""Asks the protocols' own SDKs: `make judges`; tests/README.md has the figures of a run.

Each judge is installed from npm once, into pytest's cache, and answers at least 200 random worlds
and what the corpus of real accounts has for it. A judge fails if a figure is not as it says,
but for differences that the test's document explains, or if one of its tests did not run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from tests.judges.judges import JUDGES, Judge
from tests.support.judging import FILE

ROOT: Final = Path(__file__).parents[2]
RECORDS: Final = "not recorded_anew"  # what writes answers down is no judge
LIMIT_S: Final = 3600  # of a test: most of it is npm's, on a busy machine


def main() -> int:
    """Run the judges that are asked for, each in a process; report each in a line."""
    parser = argparse.ArgumentParser(prog="make judges", description=__doc__)
    parser.add_argument("--only", help=f"some, with commas between: {', '.join(JUDGES)}")
    only = parser.parse_args().only
    names = only.split(",") if only else [*JUDGES]
    for each in names:
        if each not in JUDGES:
            parser.error(f"there is no judge {each!r}; there are: {', '.join(JUDGES)}")
    passed = [ask(name, JUDGES[name]) for name in names]
    return 0 if all(passed) else 1


def ask(name: str, judge: Judge) -> bool:
    """Run a judge's tests; print what it was asked, and what pytest said where one failed."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts"
        counts.touch()
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-q", "-m", "node", "-k", RECORDS),
                *("--timeout", str(LIMIT_S), *judge.paths),
            ],
            cwd=ROOT,
            env=os.environ | {FILE: str(counts)} | judge.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        counted: Counter[str] = Counter()
        for line in counts.read_text(encoding="utf-8").splitlines():
            counted.update(json.loads(line))
    passed = done.returncode == 0 and " skipped" not in done.stdout
    if not passed:
        print(done.stdout + done.stderr, file=sys.stderr)
    print(f"{name}: {said(counted, passed)}, {time.monotonic() - began:.0f} s", flush=True)
    return passed


def said(counted: Counter[str], passed: bool) -> str:
    """Return a judge's line, without its name and time."""
    asked = f"{counted['worlds']} worlds, {counted['accounts']} real accounts"
    if not passed:
        return f"FAILED after {asked}"
    explained = " explained" if counted["differences"] else ""
    return f"{asked}, {counted['differences']}{explained} differences"


if __name__ == "__main__":
    sys.exit(main())
