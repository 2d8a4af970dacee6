"""Retired words and names: `python -m tests.rules.words` names each place, `make lint` runs it.

A room joins `ROOMS` once it is clean. `ALLOWED` lists what stays and why: names that another room
or a user depends on. An entry without any place left is reported too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("api", "infra", "pipeline", "schemas", "stream_gateway", "tests")
SUFFIXES: Final = frozenset(
    f".{each}"
    for each in ["py", "md", "js", "mjs", "cjs", "html", "css", "sql", "proto", "toml", "yml"]
)


def word(pattern: str) -> re.Pattern[str]:
    """Return a pattern of whole words, parts of snake_case names included."""
    return re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])", re.IGNORECASE)


RETIRED: Final[Mapping[str, tuple[re.Pattern[str], ...]]] = {
    "say, report, send, show or return": (
        word(r"(?:un)?tell(?:s|ing|er|ers)?|(?:un)?told"),
        re.compile(r"(?<=[a-z])(?:Told|Tells?|Teller)(?![a-z])"),
    ),
    "is, has, holds; a stopped chain, a cached answer": (
        word(r"stands|stood"),
        re.compile(r"(?<=[a-z])Stood(?![a-z])"),
    ),
    "it; a client, a user, a process": (word(r"he|his|him|himself"),),
    "a client that ..., the caller, the holder": (
        word(r"who[ _]comes"),
        word(r"(?:of|to|by|from)[ _]who(?:ever)?"),
    ),
    "must, will, or a plain verb": (word(r"(?:is|are|was|were)[ _]to[ _]be"),),
    "despite": (word(r"notwithstanding"),),
    "repeatedly, a retry": (word(r"again[ _]and[ _]again"),),
    "silently, without a close frame": (word(r"without[ _]a[ _]word"),),
    "continues without": (word(r"goes[ _]on[ _]without"),),
    "CachedAnswer, BoundedCache, or what it holds": (
        re.compile(r"\bclass (?:Kept|Remembered|Standing|Stood|Teller|Told)\b"),
    ),
}

ALLOWED: Final[Mapping[str, str]] = {
    "_file.tell()": "a method of Python's files",
    "log.tell()": "likewise",
    "stands_for": "a field of `schemas.protocols.contract.Position` that `api` reads",
}
LEFT_OUT: Final[Mapping[str, str]] = {
    "api/dashboard/page/vendor/lightweight-charts.js": "is not ours",
    "infra/clickhouse/migrations/0001_tape.sql": "ran: a migration stays as it is",
    "infra/clickhouse/migrations/0030_outcomes.sql": "likewise",
    "tests/rules/words.py": "names the words",
    "tests/rules/test_rules.py": "shows them",
}


def files(rooms: tuple[str, ...] = ROOMS) -> Iterator[Path]:
    """Yield the files of some rooms that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *rooms]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        file = ROOT / name
        if file.suffix in SUFFIXES and name not in LEFT_OUT and file.is_file():
            yield file


def retired(line: str) -> Iterator[tuple[str, str]]:
    """Yield each retired word of a line, and what to write instead."""
    for phrase in ALLOWED:
        line = line.replace(phrase, "")
    for instead, patterns in RETIRED.items():
        for pattern in patterns:
            for match in pattern.finditer(line):
                yield match[0], instead


def problems() -> Iterator[str]:
    """Yield a line for each place with a retired word, and for each entry without a place."""
    unused = set(ALLOWED)
    for file in files():
        text = file.read_text(encoding="utf-8")
        unused -= {phrase for phrase in unused if phrase in text}
        if not any(retired(text)):  # most files: a pattern never needs more than one line
            continue
        for number, line in enumerate(text.splitlines(), 1):
            for found, instead in retired(line):
                yield f"{file.relative_to(ROOT)}:{number}: retired: {found!r}; instead: {instead}"
    for phrase in sorted(unused):
        yield f"tests/rules/words.py: nothing is left of {phrase!r}: take it out of ALLOWED"


def main() -> int:
    """Print every problem; return 1 if there is one."""
    found = list(problems())
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
