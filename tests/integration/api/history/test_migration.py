"""A database with swaps of before: a migration puts them in the order by wallet and time."""

from __future__ import annotations

from random import Random

from infra.clickhouse.client import connect
from infra.clickhouse.migrations import known, migrate
from schemas.rows import SWAPS
from schemas.tape_rows import swap_row
from tests.support.waiting import eventually

NOW_MS = 1_785_499_140_000
DAY_MS = 86_400_000


def projections(client):
    """The projections that all parts of swaps have."""
    parts = client.command(
        "SELECT count() FROM system.parts "
        "WHERE database = currentDatabase() AND table = 'swaps' AND active"
    )
    rows = client.query(
        "SELECT name FROM system.projection_parts "
        "WHERE database = currentDatabase() AND table = 'swaps' AND active "
        "GROUP BY name HAVING count() = {parts:UInt64} ORDER BY name",
        {"parts": parts},
    ).result_rows
    return [name for (name,) in rows]


def test_swaps_of_before_are_in_the_new_order(store, new_swap):
    settings = store.settings.model_copy(update={"clickhouse_database": "history_before"})
    migrate(settings, [each for each in known() if each.number < 21])
    random = Random("before")
    columns = {name: type_ for name, type_ in SWAPS.columns.items() if name != "keeper"}  # of 0036
    rows = [
        swap_row(new_swap(random, block_time_ms=NOW_MS - n * DAY_MS // 50))[: len(columns)]
        for n in range(500)
    ]
    every_swap = f"SELECT {', '.join(columns)} FROM swaps ORDER BY signature"
    with connect(settings) as client:
        client.command("SYSTEM STOP MERGES swaps")
        client.insert(
            "swaps",
            rows,
            list(columns),
            column_type_names=list(columns.values()),
        )
        client.command("SYSTEM START MERGES swaps")
        before = client.query(every_swap).result_rows
        assert "21_swaps" in str(migrate(settings)[0])
        eventually(
            lambda: projections(client) == ["by_quote_time", "by_time", "by_wallet_time"],
            lambda: projections(client),
        )
        assert client.query(every_swap).result_rows == before
        assert client.command("SELECT max(keeper) FROM swaps") == ""
        assert migrate(settings) == []
        # Every statement may run twice.
        for statement in next(each for each in known() if each.number == 21).statements:
            client.command(statement)
        wallet = rows[0][list(SWAPS.columns).index("wallet")]
        found = client.query(
            "SELECT signature FROM wallet_trades(wallet = {wallet:String})", {"wallet": wallet}
        ).result_rows
        assert found == [(rows[0][0],)]
        client.command("DROP DATABASE history_before")
