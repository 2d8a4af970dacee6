import pytest

from infra.clickhouse.errors import QueryError
from infra.clickhouse.statement import outline, verb_of


@pytest.mark.parametrize(
    ("text", "sql", "format_name", "data"),
    [
        (b"INSERT INTO t FORMAT Native\n\x01\x00;", b"INSERT INTO t ", "Native", b"\x01\x00;"),
        (b"insert into t (a, b) format CSV \r\n1,2", b"insert into t (a, b) ", "CSV", b"1,2"),
        (b"INSERT INTO t FORMAT JSONEachRow {}", b"INSERT INTO t ", "JSONEachRow", b"{}"),
        (b"INSERT INTO t VALUES (1), (2)", b"INSERT INTO t ", "Values", b" (1), (2)"),
        (b"INSERT INTO values VALUES (1)", b"INSERT INTO values ", "Values", b" (1)"),
        (b"INSERT INTO db.format FORMAT CSV\n1", b"INSERT INTO db.format ", "CSV", b"1"),
        (b"INSERT INTO `a FORMAT b` VALUES (1)", b"INSERT INTO `a FORMAT b` ", "Values", b" (1)"),
        (b"INSERT INTO t (format, values) VALUES(1)", None, "Values", b"(1)"),
        (b"INSERT INTO {values:Identifier} FORMAT TSV\n", None, "TSV", b""),
        (b"INSERT INTO t SETTINGS a = 'FORMAT x' FORMAT CSV\n1", None, "CSV", b"1"),
        (b"-- VALUES\n/* FORMAT CSV */ INSERT INTO TABLE t VALUES (1)", None, "Values", b" (1)"),
        (b"INSERT INTO FUNCTION null('a Int8') VALUES (1)", None, "Values", b" (1)"),
    ],
)
def test_an_insert_ends_where_its_data_begins(text, sql, format_name, data):
    statement = outline(text)
    assert statement.data_at is not None
    assert (statement.format, text[statement.data_at :]) == (format_name, data)
    assert text.startswith(statement.sql)
    if sql is not None:
        assert statement.sql == sql


@pytest.mark.parametrize(
    "text",
    [
        b"INSERT INTO t SELECT 1",
        b"INSERT INTO t WITH x AS (SELECT 1) SELECT * FROM x",
        b"INSERT INTO t FROM INFILE 'x' FORMAT CSV",
        b"INSERT INTO t",
        b"INSERT INTO t FORMAT",
    ],
)
def test_an_insert_without_data_is_whole(text):
    statement = outline(text)
    assert (statement.verb, statement.data_at, statement.sql) == ("INSERT", None, text)


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        (b"SELECT 1 FORMAT JSON", "JSON"),
        (b"select 1 format JSON;", "JSON"),
        (b"SELECT 1 FORMAT CSV SETTINGS max_threads = 1", "CSV"),
        (b"SELECT 1 FORMAT Native -- FORMAT CSV", "Native"),
        (b"SELECT 'FORMAT CSV'", None),
        (b"SELECT format FROM t", None),
        (b"SELECT $a$ FORMAT CSV$a$", None),
        (b"SELECT 'it''s \\' FORMAT CSV'", None),
    ],
)
def test_the_format_clause_is_found(text, format_name):
    assert outline(text).format == format_name


@pytest.mark.parametrize(
    ("text", "verb"),
    [
        (b"  -- hello\n# shell\n/* a\nb */ select 1", "SELECT"),
        (b"((SELECT 1) UNION ALL (SELECT 2))", "SELECT"),
        (b"", ""),
        (b" /* only a comment */ ", ""),
        (b"'a'", ""),
    ],
)
def test_the_verb_is_the_first_word(text, verb):
    assert verb_of(text) == outline(text).verb == verb


def test_two_statements_are_refused_like_a_server_does():
    with pytest.raises(QueryError, match="Multi-statements") as caught:
        outline(b"SELECT 1; DROP TABLE t")
    assert (caught.value.code, caught.value.status) == (62, 400)


@pytest.mark.parametrize(
    "text", [b"SELECT ';'", b"SELECT 1;", b"SELECT 1;; -- done;\n", b"SELECT 1 /*;*/"]
)
def test_a_semicolon_at_the_end_or_in_a_string_is_fine(text):
    assert outline(text).verb == "SELECT"


def test_what_streaming_must_know():
    assert outline(b"SELECT a, sum(b) FROM t GROUP BY a WITH TOTALS").has_totals
    assert not outline(b"SELECT 'WITH TOTALS'").has_totals
    assert outline(b"CREATE TEMPORARY TABLE t (a Int8)").creates_temporary
    assert outline(b"CREATE OR REPLACE TEMPORARY TABLE t (a Int8)").creates_temporary
    assert not outline(b"CREATE TABLE temporary (a Int8)").creates_temporary


@pytest.mark.timeout(120)  # it would take hours
@pytest.mark.parametrize("quote", [b"'", b'"', b"`"])
def test_a_string_that_is_never_closed_takes_no_time(quote):
    assert outline(b"SELECT " + quote + b"a b " * 100_000).verb == "SELECT"
