"""Neither user of the embedded server reaches a file, an address or a program through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3

from infra.clickhouse.access import CURRENT_DATABASE

SECRET = "what is in the file"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file that the user of the server's process can read and write."""
    path = tmp_path / "secret.csv"
    path.write_text(SECRET)
    return path


def ask(
    embedded: Any, sql: str | bytes, user: str = "default", method: str = "POST", **rest: Any
) -> tuple[int, str]:
    fields = {"user": user, **rest.pop("fields", {})}
    if method == "GET":
        fields["query"] = sql
    answer = urllib3.request(
        method,
        f"{embedded.url}/?" + urlencode(fields),
        body=sql if method == "POST" else None,
        retries=False,
        **rest,
    )
    return answer.status, answer.data.decode()


OUTSIDE = [
    "SELECT * FROM file('{path}', 'LineAsString')",
    "SELECT file('{path}')",
    "SELECT `file`('{path}')",
    "SELECT \"file\" /* */ ('{path}')",
    "SELECT `fil\\x65`('{path}')",
    "SELECT FILE('{path}')",
    "SELECT file\u00a0('{path}')",
    "SELECT 1 AS a$$, file('{path}') AS b$$",
    "SELECT * FROM '{path}'",
    "SELECT * FROM `{path}`",
    'SELECT * FROM "{path}"',
    "SELECT * FROM default.`{path}`",
    "SELECT * FROM `default`.`{path}`",
    "SELECT * FROM `d\\x65fault`.`{path}`",
    "DESCRIBE '{path}'",
    "DESCRIBE TABLE default.`{path}`",
    "DESCRIBE file('{path}')",
    "EXISTS default.`{path}`",
    "USE default",
    "EXPLAIN SELECT * FROM file('{path}')",
    "WITH x AS (SELECT * FROM file('{path}')) SELECT * FROM x",
    "SELECT * FROM loop('default', '{path}')",
    "SELECT * FROM merge('default', '.*')",
    "SELECT 1 INTO OUTFILE '{path}' TRUNCATE",
    "WITH 1 AS a SELECT a INTO /* */ OUTFILE '{path}' TRUNCATE",
    "INSERT INTO FUNCTION file('{path}', 'CSV', 'a UInt8') SELECT 1",
    "INSERT INTO TABLE FUNCTION file('{path}', 'CSV', 'a UInt8') VALUES (1)",
    "INSERT INTO t FROM INFILE '{path}' FORMAT LineAsString",
    "CREATE TABLE t (a String) ENGINE = File(LineAsString, '{path}')",
    "CREATE TABLE t (a String) ENGINE File(LineAsString, '{path}')",
    "CREATE TABLE t AS file('{path}')",
    "CREATE VIEW v AS SELECT * FROM file('{path}')",
    "CREATE DATABASE d ENGINE = Filesystem('{folder}')",
    "CREATE DATABASE d ENGINE = SQLite('{path}')",
    "CREATE DICTIONARY d (a UInt8) PRIMARY KEY a SOURCE(FILE(path '{path}' format 'CSV')) "
    "LAYOUT(FLAT()) LIFETIME(0)",
    "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS "
    "disk = disk(type = local, path = '{folder}/')",
    "ATTACH TABLE t FROM '{folder}' (a UInt8) ENGINE = MergeTree ORDER BY a",
    "BACKUP DATABASE system TO File('{path}')",
    "RESTORE DATABASE system FROM File('{path}')",
    "SELECT 1 FORMAT Template SETTINGS format_template_resultset = '{path}'",
    "SELECT 1 SETTINGS output_format_schema = '{path}' FORMAT CapnProto",
    "SET dialect = 'kusto'",
    "SELECT * FROM url('http://127.0.0.1:9/')",
    "DESC mysql('127.0.0.1:9', 'a', 'b', 'c', 'd')",
    "EXPLAIN TABLE OVERRIDE mysql('127.0.0.1:9', 'a', 'b', 'c', 'd') COLUMNS (a Int8)",
    "SELECT * FROM remote('127.0.0.1:9', system.one)",
    "SELECT * FROM s3('http://127.0.0.1:9/a')",
    "SELECT * FROM python('os')",
    "SELECT * FROM executable('id', 'TSV', 'a String')",
    "CREATE TABLE t (a String) ENGINE = URL('http://127.0.0.1:9/', 'CSV')",
    "CREATE TABLE t (a String) ENGINE = Kafka('127.0.0.1:9', 'a', 'b', 'CSV')",
    "SELECT 1 // '\n, file('{path}') // '",
    "SELECT 1 INTO // a comment\n OUTFILE '{path}' TRUNCATE",
    "SELECT * APPLY file FROM (SELECT '{path}')",
    "SELECT arrayMap(file, ['{path}'])",
    "SELECT b FROM values('a UInt8, b String ALIAS file(''{path}'')', 1)",
    "SELECT b FROM generateRandom('a UInt8, b String ALIAS file(''{path}'')') LIMIT 1",
    "SELECT 1 SETTINGS additional_result_filter = '1 = match(file(''{path}''), ''what'')'",
    "SELECT 1 SETTINGS additional_result_filter = '0 < (SELECT count() FROM file(''{path}''))'",
    "SELECT 1 SETTINGS additional_result_filter = '0 < (SELECT count() FROM python(''a''))'",
    "SELECT hasColumnInTable('default', '{path}', 'c1')",
    "INSERT INTO t VALUES (file('{path}'))",
    "INSERT INTO t SELECT * FROM format(Values, 'a String', '(file(''{path}''))')",
    "INSERT INTO t VALUES ((SELECT a FROM python('a')))",
    "USE DATABASE default",
    "EXECUTE AS default ATTACH TABLE t FROM '{folder}' (a UInt8) ENGINE = MergeTree ORDER BY a",
    "DROP TABLE IF EXISTS a PARALLEL WITH ATTACH TABLE t FROM '{folder}' (a UInt8) "
    "ENGINE = MergeTree ORDER BY a",
    "SYSTEM SUSPEND FOR 1 SECOND",
    "DROP DATABASE default",
    "DROP DATABASE IF EXISTS scratch",
    "DETACH DATABASE other, scratch",
    "RENAME DATABASE `scratch` TO other",
    "DROP DATABASE {name:Identifier}",
    "DROP DATABASE system",
    "DETACH TABLE system.one",
    "EXCHANGE TABLES system.one AND system.contributors",
    "DROP DATABASE IF EXISTS information_schema",
]


@pytest.mark.parametrize("user", ["default", "reader"])
@pytest.mark.parametrize("sql", OUTSIDE)
def test_no_statement_reaches_outside(embedded: Any, secret: Path, user: str, sql: str) -> None:
    ask(embedded, f"CREATE TABLE IF NOT EXISTS {CURRENT_DATABASE}.t (a String) ENGINE = Null")
    text = sql.replace("{path}", str(secret)).replace("{folder}", str(secret.parent))
    status, answer = ask(embedded, text.encode(), user=user)
    assert status != 200
    # By the front, or because there is no such table; never by what the file has in it.
    assert any(f"({code})" in answer for code in REFUSED), answer
    assert SECRET not in answer
    assert secret.read_text() == SECRET
    assert [path.name for path in secret.parent.iterdir()] == [secret.name]


REFUSED = (
    *("ACCESS_DENIED", "READONLY", "SYNTAX_ERROR", "UNKNOWN_TABLE"),
    *("FUNCTION_THROW_IF_VALUE_IS_NON_ZERO", "FUNCTION_NOT_ALLOWED"),
)


@pytest.mark.parametrize(
    "fields",
    [
        {"param_d": "default"},
        {"param_d": "`default`"},
        {"database": "default", "param_d": "scratch"},
    ],
)
def test_no_parameter_names_the_database_of_files(
    embedded: Any, secret: Path, fields: dict[str, str]
) -> None:
    sql = f"SELECT * FROM {{d:Identifier}}.`{secret}`"
    status, answer = ask(embedded, sql, fields=fields)
    assert status != 200
    assert SECRET not in answer
    status, answer = ask(embedded, f"SELECT * FROM `{secret}`", fields={"database": "default"})
    assert (status, "(UNKNOWN_TABLE)" in answer) == (404, True)


def test_no_setting_of_an_address_reads_a_file(embedded: Any, secret: Path) -> None:
    fields = {"format_template_resultset": str(secret)}
    status, answer = ask(embedded, "SELECT 1 FORMAT Template", fields=fields)
    assert (status, "(ACCESS_DENIED)" in answer) == (403, True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'file(', 1 AS file, (2) AS outfile_, 'default.x'",
        "SELECT engine FROM system.databases WHERE name = 'file' AND engine = 'URL'",
        "SELECT sum(number) FROM numbers(3)",
        "SELECT * FROM format(JSONEachRow, '{\"a\": 1}')",
        "SELECT 'π' -- ü",
        "CREATE TABLE scratch.made (a UInt8 DEFAULT 1) ENGINE = ReplacingMergeTree ORDER BY a",
        "INSERT INTO scratch.made (a) VALUES (1)",
        "CREATE VIEW scratch.seen AS SELECT a AS engine FROM scratch.made",
        "SELECT 4 // 2",
        "SELECT file FROM (SELECT 'a' AS file)",
        "CHECK TABLE scratch.made",
        "SYSTEM STOP MERGES scratch.made",
        "SYSTEM START MERGES scratch.made",
        "CREATE FUNCTION added AS (a) -> a + 1",
        "DROP FUNCTION added",
        "CREATE DATABASE other ENGINE = Atomic",
        "DROP DATABASE other",
        "DROP VIEW scratch.seen",
        "DROP TABLE scratch.made",
    ],
)
def test_what_stays_inside_works(embedded: Any, sql: str) -> None:
    assert ask(embedded, sql.encode())[0] == 200


@pytest.mark.parametrize("database", ["'default'", "default"])
def test_no_buffer_is_one_of_a_file(embedded: Any, secret: Path, database: str) -> None:
    """The engine of a table takes the names of another one, in quotes or as words."""
    sql = f"CREATE OR REPLACE TABLE scratch.buffer (c1 String) ENGINE = Buffer({database}, "
    assert ask(embedded, f"{sql}`{secret}`, 1, 1, 1, 1, 1, 1, 1)")[0] == 200
    assert ask(embedded, "SELECT * FROM scratch.buffer") == (200, "")
    ask(embedded, "INSERT INTO scratch.buffer VALUES ('written')")
    ask(embedded, "DROP TABLE scratch.buffer")  # writes what it holds
    assert secret.read_text() == SECRET


@pytest.mark.parametrize("user", ["default", "reader"])
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("additional_result_filter", "1 = throwIf(file('{path}') LIKE 'what%', 'read')"),
        ("input_format_record_errors_file_path", "{path}"),
    ],
)
def test_no_setting_carries_a_path(
    embedded: Any, secret: Path, user: str, setting: str, value: str
) -> None:
    fields = {setting: value.replace("{path}", str(secret))}
    status, answer = ask(embedded, "SELECT 1", user=user, fields=fields)
    assert status != 200
    assert any(f"({code})" in answer for code in REFUSED), answer
    assert "read:" not in answer


def test_a_session_keeps_no_name_of_the_database_of_files(embedded: Any, secret: Path) -> None:
    fields = {"session_id": "names"}
    ask(embedded, "SET param_d = 'default'", fields=fields)
    status, answer = ask(embedded, f"SELECT * FROM {{d:Identifier}}.`{secret}`", fields=fields)
    assert (status, "(UNKNOWN_TABLE)" in answer) == (404, True)


@pytest.mark.parametrize("readonly", ["0", "00", "2"])
def test_no_setting_makes_get_write(embedded: Any, readonly: str) -> None:
    ask(embedded, "CREATE TABLE IF NOT EXISTS scratch.gets (a UInt8) ENGINE = Memory")
    status, answer = ask(
        embedded,
        "WITH 1 AS a INSERT INTO scratch.gets SELECT a",
        method="GET",
        fields={"readonly": readonly, "default_format": "JSON"},
    )
    assert (status != 200, "(READONLY)" in answer) == (True, True)
    assert ask(embedded, "SELECT count() FROM scratch.gets") == (200, "0\n")


def test_nothing_is_written_by_get(embedded: Any) -> None:
    for sql in ("CREATE DATABASE got", "DROP DATABASE scratch", "SYSTEM STOP MERGES"):
        status, answer = ask(embedded, sql, method="GET")
        assert (status != 200, "(READONLY)" in answer) == (True, True)
    assert ask(embedded, "SELECT 1", method="GET") == (200, "1\n")


@pytest.mark.parametrize(
    ("site", "status"),
    [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)],
)
def test_a_page_from_elsewhere_is_turned_away(embedded: Any, site: str, status: int) -> None:
    """What a browser says of an image or a script of a page, which has no Origin."""
    answer = ask(embedded, "SELECT 1", method="GET", headers={"Sec-Fetch-Site": site})
    assert answer[0] == status
