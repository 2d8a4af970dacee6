"""Rows to ClickHouse: one insert a batch, repeated with the same token until it is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class ClickHouseSink:
    """Inserts rows; waits out an outage of the server."""

    async def insert(self, table: str, rows: Sequence[tuple[Any, ...]], token: str) -> None:
        """Insert rows, values in the order of `schemas.rows`; returns when they are there."""
        raise NotImplementedError
