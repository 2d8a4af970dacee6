"""The reader of the embedded server reads, within limits, and does nothing else."""

import clickhouse_connect
import pytest
import urllib3

from infra.clickhouse import writer
from infra.clickhouse.client import connect
from infra.clickhouse.migrations import migrate
from infra.clickhouse.reader import LIMITS, as_reader, create_on_server, server_statements
from infra.settings import Settings


@pytest.fixture(scope="module")
def settings(embedded):
    settings = Settings(_env_file=None, clickhouse_url=embedded.url, clickhouse_database="read")
    migrate(settings)
    return settings


def ask(embedded, sql, user="reader", method="POST", **fields):
    fields = {"user": user, **fields}
    if method == "GET":
        fields["query"] = sql
    query = "&".join(f"{name}={value}" for name, value in fields.items())
    body = sql if method == "POST" else None
    answer = urllib3.request(method, f"{embedded.url}/?{query}", body=body, retries=False)
    return answer.status, answer.data.decode()


def test_it_reads(embedded, settings):
    with connect(as_reader(settings)) as client:
        assert client.command("SELECT count() FROM swaps") == 0
        assert client.query("SELECT {n:UInt8} + 1", parameters={"n": 4}).result_rows == [(5,)]
        assert "swaps" in str(client.query("SHOW TABLES").result_rows)
    assert ask(embedded, "SELECT 1 FORMAT JSONCompact")[0] == 200
    assert ask(embedded, "SELECT+1", method="GET") == (200, "1\n")
    assert ask(embedded, "EXPLAIN SELECT count() FROM read.swaps")[0] == 200
    assert ask(embedded, "DESCRIBE TABLE read.swaps")[1].startswith("signature\tString")
    assert ask(embedded, "DESC (SELECT count() AS n FROM read.swaps)")[1].startswith("n\tUInt64")
    assert ask(embedded, "SELECT 'file (', 1 AS file, (2) AS outfile_") == (200, "file (\t1\t2\n")


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO read.swaps (signature) VALUES ('a')",
        "INSERT INTO read.swaps (signature) SELECT 'a'",
        "DROP TABLE read.swaps",
        "DROP DATABASE read",
        "TRUNCATE TABLE read.swaps",
        "ALTER TABLE read.swaps DELETE WHERE 1",
        "ALTER TABLE read.swaps DROP COLUMN slot",
        "OPTIMIZE TABLE read.swaps FINAL",
        "CREATE TABLE read.t (a UInt8) ENGINE = Memory",
        "CREATE TEMPORARY TABLE t (a UInt8)",
        "CREATE VIEW read.v AS SELECT 1",
        "RENAME TABLE read.swaps TO read.other",
        "SYSTEM FLUSH LOGS",
        "SYSTEM STOP MERGES",
        "KILL QUERY WHERE 1",
        "SELECT 1 SETTINGS max_execution_time = 0",
        "SELECT 1 SETTINGS readonly = 0",
        "GRANT SELECT ON *.* TO reader",
        "BACKUP DATABASE read TO File('x')",
    ],
)
def test_it_does_nothing_else(embedded, settings, sql):
    status, text = ask(embedded, sql)
    assert status != 200
    assert text.startswith("Code: 164. DB::Exception: ")
    assert "(READONLY)" in text
    with connect(settings) as client:
        assert client.command("EXISTS TABLE read.swaps") == 1


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_its_limits_can_be_lowered_and_not_raised(embedded, settings, name):
    limit = LIMITS[name]
    shown = f"SELECT getSetting('{name}')"
    assert ask(embedded, shown) == (200, f"{limit}\n")
    assert ask(embedded, shown, **{name: 1 if name == "max_threads" else limit - 1})[0] == 200
    for value in (limit + 1, 0, -1, "x"):
        status, text = ask(embedded, shown, **{name: value})
        assert status != 200
        assert "Code: 452." in text


def test_a_result_too_large_is_refused(embedded, settings):
    status, text = ask(embedded, "SELECT number FROM numbers(2000000)", wait_end_of_query=1)
    assert status != 200
    assert "TOO_MANY_ROWS_OR_BYTES" in text


def test_it_stays_the_reader_in_a_session_and_whatever_it_asks_for(embedded, settings):
    session = {"session_id": "shared"}
    assert ask(embedded, "SELECT getSetting('readonly')", readonly=0) == (200, "1\n")
    assert ask(embedded, "SET readonly = 0", **session)[0] != 200
    assert ask(embedded, "SET max_execution_time = 0", **session)[0] != 200
    # Sessions are of one user: what one sets, the other's queries do not see.
    assert ask(embedded, "USE read", **session)[0] == 200
    assert ask(embedded, "SELECT currentDatabase()", **session) == (200, "read\n")
    assert ask(embedded, "SELECT currentDatabase()", user="default", **session) == (
        200,
        "scratch\n",
    )


def test_passwords(start):
    with start(CLICKHOUSE_PASSWORD="w") as embedded:
        # No way in beside a password: a reader without one of its own is not let in.
        assert ask(embedded, "SELECT 1")[0] == 403
        assert ask(embedded, "SELECT 1", user="default", password="w")[0] == 200
    with start(CLICKHOUSE_PASSWORD="w", CLICKHOUSE_READER_PASSWORD="r") as embedded:
        assert ask(embedded, "SELECT 1", password="r")[0] == 200
        assert ask(embedded, "SELECT 1", password="w")[0] == 403
        assert ask(embedded, "SELECT 1", user="default", password="r")[0] == 403
        with clickhouse_connect.get_client(
            **embedded.address, username="reader", password="r"
        ) as client:
            assert client.command("SELECT getSetting('readonly')") == 1


def test_on_a_server_the_statements_are_sql_and_here_none_is_sent(settings):
    settings = settings.model_copy(update={"clickhouse_reader_password": None})
    with connect(settings) as client:
        assert create_on_server(client, settings) is False
        given = Settings(_env_file=None, clickhouse_reader_password="it's")
        assert create_on_server(client, given) is False  # embedded
        for statement in server_statements(given):
            sql = statement % {"password": "'it\\'s'"}
            assert client.query(
                "SELECT formatQuerySingleLine({sql:String})", parameters={"sql": sql}
            ).result_rows


def test_the_writers_limits_are_sql_that_a_server_understands(settings):
    given = Settings(_env_file=None, clickhouse_user="it`s \\ 5 %", clickhouse_database="tape")
    statements = writer.server_statements(given)
    with connect(settings) as client:
        understood = [
            client.query(
                "SELECT formatQuerySingleLine({sql:String})", parameters={"sql": sql}
            ).result_rows[0][0]
            for sql in statements
        ]
    assert understood[0] == "CREATE SETTINGS PROFILE IF NOT EXISTS `tape_writer`"
    assert understood[1].startswith("ALTER SETTINGS PROFILE `tape_writer`")
    for name, most in writer.LIMITS.items():
        assert f"{name} = {most}" in understood[1]
    assert understood[1].endswith("TO `it\\`s \\\\ 5 %`")
