"""Rows that the embedded engine cannot store are refused: it answers as if they were written."""

from contextlib import contextmanager
from http.client import HTTPConnection

import pytest
from clickhouse_connect.driver.exceptions import DatabaseError

from infra.clickhouse.access import KEEP_FREE_BYTES
from tests.support.waiting import eventually


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


def test_an_insert_is_stored_after_one_that_said_that_it_failed(tables, client):
    for statement in ("INSERT INTO stored.missing VALUES (1)", "INSERT INTO stored.small SELECT 7"):
        with pytest.raises(DatabaseError, match=r"UNKNOWN_TABLE|VIOLATED_CONSTRAINT"):
            client.command(statement)
        client.insert("stored.watched", [[2]], ["a"])


@pytest.mark.parametrize(
    ("table", "error"), [("small", "VIOLATED_CONSTRAINT"), ("watched", "seven")]
)
def test_an_insert_that_is_not_stored_is_an_error(tables, client, table, error):
    for _ in range(3):
        with pytest.raises(DatabaseError, match=error):
            client.insert(f"stored.{table}", [[7]], ["a"])
    client.insert(f"stored.{table}", [[1]], ["a"])
    assert client.query(f"SELECT a FROM stored.{table} WHERE a = 1").result_rows == [(1,)]


@contextmanager
def insert(embedded, table, *values):
    """Begin an insert, which the engine knows of; give what ends it and returns the status."""
    connection = HTTPConnection("127.0.0.1", embedded.port, timeout=60)
    connection.putrequest("POST", f"/?query=INSERT+INTO+{table}+FORMAT+CSV&query_id=watched")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()

    def send(data):
        connection.send(b"%x\r\n%s\r\n" % (len(data), data))

    def end():
        send("".join(f"{value}\n" for value in values).encode())
        send(b"")
        answer = connection.getresponse()
        answer.read()
        return answer.status

    try:
        yield end
    finally:
        connection.close()


def is_running(client):
    running = "SELECT count() FROM system.processes WHERE Settings['log_comment'] = 'watched'"
    return client.query(running).result_rows == [(1,)]


def test_errors_of_other_queries_are_none_of_an_insert(tables, client, embedded):
    with insert(embedded, "stored.small", 2) as end:
        assert eventually(lambda: is_running(client))
        for statement in ("SELECT 1 FROM stored.missing", "SELECT missing FROM stored.small") * 3:
            with pytest.raises(DatabaseError, match="UNKNOWN_"):
                client.query(statement)
        assert end() == 200
    assert client.query("SELECT a FROM stored.small WHERE a = 2").result_rows == [(2,)]


def test_another_insert_that_fails_is_none_of_an_insert(tables, client, embedded):
    with pytest.raises(DatabaseError, match="VIOLATED_CONSTRAINT"):
        client.insert("stored.small", [[7]], ["a"])
    with insert(embedded, "stored.small", 3) as end:  # is looked at closely after the first failed
        assert eventually(lambda: is_running(client))
        with pytest.raises(DatabaseError, match="VIOLATED_CONSTRAINT"):
            client.insert("stored.small", [[7]], ["a"])
        assert end() == 200


def test_an_error_that_the_insert_itself_steps_over_is_none(tables, client):
    settings = {"input_format_allow_errors_num": 1}
    client.raw_insert("stored.small", ["a"], b"4\nfour\n", fmt="CSV", settings=settings)
    assert client.query("SELECT a FROM stored.small WHERE a = 4").result_rows == [(4,)]


def test_the_disk_is_not_filled_to_its_end(client):
    kept = client.query("SELECT keep_free_space FROM system.disks WHERE name = 'default'")
    assert kept.result_rows == [(KEEP_FREE_BYTES,)]
