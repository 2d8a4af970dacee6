"""JSON lines from files of others: numbered, and none longer than we want to hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final

import orjson

MAX_LINE_BYTES: Final = 64 * 1024**2  # a block of mainnet as JSON has about ten


def numbered_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, with their numbers; of one too long, the beginning."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES + 1)
        if line.strip():
            yield number, line


def parse_line(line: bytes) -> Any:
    """Return what a line holds; raises ValueError."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"longer than {MAX_LINE_BYTES >> 20} MiB")
    return orjson.loads(line)  # its error is a ValueError
