"""Rows that the embedded engine cannot store are refused: it answers as if they were written."""

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from infra.clickhouse.access import KEEP_FREE_BYTES


@pytest.fixture(scope="module")
def tables(client):
    client.command("CREATE DATABASE stored")
    client.command(
        "CREATE TABLE stored.small (a UInt64, CONSTRAINT is_small CHECK a < 5) "
        "ENGINE = MergeTree ORDER BY a"
    )
    client.command("CREATE TABLE stored.watched (a UInt64) ENGINE = MergeTree ORDER BY a")
    client.command(
        "CREATE MATERIALIZED VIEW stored.watch ENGINE = Memory AS "
        "SELECT throwIf(a = 7, 'seven') AS thrown FROM stored.watched"
    )


@pytest.mark.parametrize(
    ("table", "error"), [("small", "VIOLATED_CONSTRAINT"), ("watched", "seven")]
)
def test_an_insert_that_is_not_stored_is_an_error(tables, client, table, error):
    for _ in range(3):
        with pytest.raises(DatabaseError, match=error):
            client.insert(f"stored.{table}", [[7]], ["a"])
    client.insert(f"stored.{table}", [[1]], ["a"])
    assert client.query(f"SELECT a FROM stored.{table} WHERE a = 1").result_rows == [(1,)]


def test_errors_of_other_queries_are_none_of_an_insert(tables, client):
    with pytest.raises(DatabaseError, match="UNKNOWN_TABLE"):
        client.query("SELECT 1 FROM stored.missing")
    client.insert("stored.small", [[2]], ["a"])
    assert client.query("SELECT a FROM stored.small WHERE a = 2").result_rows == [(2,)]


def test_the_disk_is_not_filled_to_its_end(client):
    kept = client.query("SELECT keep_free_space FROM system.disks WHERE name = 'default'")
    assert kept.result_rows == [(KEEP_FREE_BYTES,)]
