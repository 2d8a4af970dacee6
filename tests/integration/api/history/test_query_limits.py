"""Queries of the API: read-only, within the time of a request, over one client."""

from __future__ import annotations

import asyncio

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError
from structlog.testing import capture_logs

from api.http.errors import STORE_UNAVAILABLE, TOO_COSTLY, Problem
from api.stores.clients import Stores


@pytest.fixture
async def reading(store):
    found = Stores(store.settings.model_copy(update={"api_timeout_s": 1.2}))
    yield found
    await found.close()


async def test_a_query_ends_with_the_time_of_a_request(reading, caplog):
    (row,) = await reading.query("SELECT toInt64(getSetting('max_execution_time')) AS s", {})
    assert row == {"s": 1}
    assert not caplog.records  # no word of the client about it
    with capture_logs() as logged, pytest.raises(Problem) as refused:
        # It has no end of its own: it returns because it was ended.
        await reading.query("SELECT sum(sleep(0.5)) FROM system.numbers", {})
    assert refused.value.kind is STORE_UNAVAILABLE  # who is busy with others is slow as well
    assert "TIMEOUT_EXCEEDED" in logged[0]["reason"]


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (241, "Query memory limit exceeded: would use 2.1 GiB", TOO_COSTLY),
        (241, "(total) memory limit exceeded: would use 9 GiB", STORE_UNAVAILABLE),
        (159, "Timeout exceeded: elapsed 9 seconds", STORE_UNAVAILABLE),
        (158, "Limit for rows or bytes to read exceeded", TOO_COSTLY),
        (202, "Too many simultaneous queries", STORE_UNAVAILABLE),
        (None, "connection reset", STORE_UNAVAILABLE),
    ],
)
async def test_a_failure_names_its_cause(reading, monkeypatch, code, text, kind):
    async def fails(*_):
        raise DatabaseError(text, code=code)

    # private `_connected`: the driver's errors, which the server gives only under load.
    client = await reading._connected()
    monkeypatch.setattr(client, "query", fails)
    with pytest.raises(Problem) as refused:
        await reading.query("SELECT 1", {})
    assert refused.value.kind is kind


async def test_nothing_is_written(store, reading):
    for sql in (
        "TRUNCATE TABLE swaps",
        "INSERT INTO gaps VALUES (1, 2, 'x', 3)",
        "DROP VIEW trades",
    ):
        with pytest.raises(Problem) as refused:
            await reading.query(sql, {})
        assert "readonly" not in refused.value.detail  # the reason is for the log


async def test_first_queries_at_once_share_a_client(reading):
    await asyncio.gather(*(reading.query("SELECT 1 AS one", {}) for _ in range(8)))
    # private `_clickhouse`: that the client is shared shows nowhere else.
    first = reading._clickhouse
    await reading.query("SELECT 1 AS one", {})
    assert reading._clickhouse is first


async def test_values_are_bound_whatever_they_say(reading):
    for text in ("' OR 1=1 --", "{mint:String}", "\\", "\n\t\x00", "☃" * 50, "%(x)s", "}"):
        (row,) = await reading.query("SELECT {text:String} AS text", {"text": text})
        assert row["text"] == text
