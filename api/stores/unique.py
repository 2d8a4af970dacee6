"""Rows of tables that may have one twice until their parts are merged.

A query that leaves out the second one looks at far more rows than it returns. So it returns them
both, next to each other, and is asked again for as many as are lacking then: seldom.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

Row = dict[str, Any]
At = TypeVar("At")


async def read_unique(
    ask: Callable[[At, int], Awaitable[list[Row]]], at: Callable[[Row], At], before: At, most: int
) -> list[Row]:
    """Return the first `most` rows after a place, each once; raises Problem.

    `ask` returns rows in the order of their places, those after a place and no more than a limit;
    `at` is the place of a row, which is its identity.
    """
    found: list[Row] = []
    while True:
        wanted = most - len(found)
        rows = await ask(before, wanted)
        for row in rows:
            place = at(row)
            if place != before:
                found.append(row)
                before = place
        if len(found) == most or len(rows) < wanted:
            return found
