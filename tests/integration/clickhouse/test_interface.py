"""The HTTP interface as a ClickHouse server has it: statuses, headers, settings, sessions."""

import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import aiohttp
import clickhouse_connect
import lz4.frame
import pytest
import urllib3
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

HTTP = urllib3.PoolManager(maxsize=8)
FAILS_LATE = (
    "SELECT number, throwIf(number = 900000) FROM numbers(1000000) SETTINGS max_block_size = 10000"
)


@pytest.fixture
def post(embedded):
    def post(sql="", headers=None, method="POST", path="/", **parameters):
        body = sql.encode() if isinstance(sql, str) else sql
        address = f"{embedded.url}{path}?{urlencode(parameters)}"
        return HTTP.request(method, address, body=body, headers=headers or {}, retries=False)

    return post


@pytest.mark.parametrize(
    ("sql", "code", "status", "name"),
    [
        ("SELEC 1", 62, 400, "SYNTAX_ERROR"),
        ("", 62, 400, "SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", 62, 400, "SYNTAX_ERROR"),
        ("SELECT * FROM nowhere", 60, 404, "UNKNOWN_TABLE"),
        ("SELECT * FROM nowhere FORMAT JSON", 60, 404, "UNKNOWN_TABLE"),
        ("INSERT INTO nowhere FORMAT CSV\n1", 60, 404, "UNKNOWN_TABLE"),
        ("SELECT nothing", 47, 404, "UNKNOWN_IDENTIFIER"),
        ("SELECT nofunction()", 46, 404, "UNKNOWN_FUNCTION"),
        ("USE nowhere", 81, 404, "UNKNOWN_DATABASE"),
        ("SELECT 1 FORMAT Nothing", 73, 404, "UNKNOWN_FORMAT"),
        ("SELECT 1 SETTINGS nosetting = 1", 115, 404, "UNKNOWN_SETTING"),
        ("SELECT toUInt8('x')", 6, 400, "CANNOT_PARSE_TEXT"),
        ("SELECT {a:UInt8}", 456, 500, "UNKNOWN_QUERY_PARAMETER"),
        ("SELECT throwIf(1)", 395, 500, "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO"),
        ("SELECT sleep(3) SETTINGS max_execution_time = 1", 159, 408, "TIMEOUT_EXCEEDED"),
        ("SELECT groupArray(number) FROM numbers(1e9)", 241, 500, "MEMORY_LIMIT_EXCEEDED"),
        ("SELECT * FROM numbers(1e8) FORMAT JSON", 396, 500, "TOO_MANY_ROWS_OR_BYTES"),
    ],
)
def test_an_error_has_clickhouses_code_and_status(post, sql, code, status, name):
    answer = post(sql)
    assert (answer.headers.get("X-ClickHouse-Exception-Code"), answer.status) == (str(code), status)
    text = answer.data.decode()
    assert text.startswith(f"Code: {code}. DB::Exception: ")
    assert f"({name}) (version " in text


def test_a_clickhouse_connect_user_sees_code_and_name(client):
    with pytest.raises(DatabaseError) as caught:
        client.query("SELECT * FROM nowhere")
    assert (caught.value.code, caught.value.name) == (60, "UNKNOWN_TABLE")


async def test_an_error_after_the_first_rows_reaches_both_clients(embedded, client):
    with (
        pytest.raises(StreamFailureError, match="throwIf") as caught,
        client.query_row_block_stream(FAILS_LATE) as blocks,
    ):
        for _ in blocks:
            pass
    assert caught.value.code == 395
    async with await clickhouse_connect.get_async_client(**embedded.address) as async_client:
        blocks = await async_client.query_row_block_stream(FAILS_LATE)
        with pytest.raises(StreamFailureError, match="throwIf") as caught:
            await read_all(blocks)
    assert caught.value.code == 395


async def test_a_client_that_reads_late_gets_the_error_too(embedded):
    """The event loop of a busy program takes the end of a connection before the program reads."""
    sql = "SELECT number, throwIf(number = 900) FROM numbers(1000) SETTINGS max_block_size = 100"
    async with aiohttp.ClientSession() as session, session.post(embedded.url, data=sql) as answer:
        await asyncio.sleep(0.5)  # how late it reads
        tag = answer.headers["X-ClickHouse-Exception-Tag"].encode()
        said = await answer.content.readuntil(tag + b"\r\n__exception__\r\n")
    assert b"throwIf" in said


async def read_all(blocks):
    async with blocks:
        async for _ in blocks:
            pass


@pytest.mark.parametrize("accept", ["", "lz4", "zstd", "gzip"])
def test_a_late_error_never_looks_like_the_whole_answer(post, accept):
    with pytest.raises(urllib3.exceptions.HTTPError):
        post(FAILS_LATE, {"Accept-Encoding": accept}, enable_http_compression=1)
    answer = post(FAILS_LATE, wait_end_of_query=1)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (500, "395")


def test_ping_and_unknown_paths(client, post):
    assert client.ping()
    assert post(method="GET", path="/ping").data == b"Ok.\n"
    assert post(method="GET").data == b"Ok.\n"
    assert post(method="GET", path="/nothing").status == 404


def test_the_query_may_be_in_the_address_the_body_or_both(post):
    assert post(query="SELECT 1").data == b"1\n"
    assert post("SELECT 1").data == b"1\n"
    assert post("+ 1", query="SELECT 1").data == b"2\n"
    assert post(method="GET", query="SELECT 1").data == b"1\n"


def test_the_headers_of_an_answer(post):
    answer = post("SELECT number FROM numbers(5) FORMAT JSONCompact", query_id="mine")
    assert answer.headers["X-ClickHouse-Query-Id"] == "mine"
    assert answer.headers["X-ClickHouse-Format"] == "JSONCompact"
    assert answer.headers["X-ClickHouse-Timezone"] == "UTC"
    assert answer.headers["Content-Type"].startswith("application/json")
    summary = json.loads(answer.headers["X-ClickHouse-Summary"])
    assert (summary["read_rows"], summary["result_rows"]) == ("5", "5")
    assert [int(n) for (n,) in answer.json()["data"]] == [0, 1, 2, 3, 4]


def test_an_empty_result_differs_from_no_result(client, post):
    assert post("SHOW TABLES LIKE 'nothing'").headers["X-ClickHouse-Format"] == "TabSeparated"
    assert "X-ClickHouse-Format" not in post("CREATE DATABASE IF NOT EXISTS other").headers
    assert client.command("SHOW TABLES LIKE 'nothing'") == ""
    result = client.query("SELECT 1 AS a, 'x' AS b WHERE 0")
    assert result.result_rows == []


@pytest.mark.parametrize("format_name", ["JSONCompact", "CSVWithNames", "TSVWithNamesAndTypes"])
def test_a_format_with_a_frame_has_one_frame(post, format_name):
    rows = 200_000  # several blocks
    answer = post(f"SELECT number AS n FROM numbers({rows})", default_format=format_name).data
    frames = {"JSONCompact": (b'"meta"', 1), "CSVWithNames": (b'"n"\n', 1)}
    mark, count = frames.get(format_name, (b"n\nUInt64\n", 1))
    assert answer.count(mark) == count
    assert post("SELECT 1 AS n WHERE 0", default_format=format_name).data


def test_totals_survive(post):
    sql = "SELECT number % 2 AS k, count() FROM numbers(10) GROUP BY k WITH TOTALS ORDER BY k"
    assert post(sql).data == b"0\t5\n1\t5\n\n0\t10\n"


@pytest.mark.parametrize("wait", [0, 1])
def test_answers_are_compressed_when_asked_for(post, wait):
    sql = "SELECT * FROM numbers(100000)"
    asked = {"enable_http_compression": 1, "wait_end_of_query": wait}
    answer = post(sql, {"Accept-Encoding": "br, lz4"}, **asked)
    assert answer.headers["Content-Encoding"] == "lz4"
    assert lz4.frame.decompress(answer.data) == post(sql).data
    assert "Content-Encoding" not in post(sql, {"Accept-Encoding": "lz4"}).headers


def test_settings_hold_for_one_request_only(client, post):
    read = "SELECT getSetting('max_threads')"
    assert post(read, max_threads=3).data == b"3\n"
    assert post(read).data != b"3\n"
    assert client.query(read, settings={"max_threads": 5}).result_rows == [(5,)]
    answer = post("SELECT 1", no_such_setting=1)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (404, "115")


def test_reading_only(post, client):
    post("CREATE OR REPLACE TABLE kept (a UInt8) ENGINE = MergeTree ORDER BY a")
    for refused in (
        post("INSERT INTO kept VALUES (1)", readonly=1),
        post("DROP TABLE kept", readonly=1),
        post("SELECT 1 SETTINGS max_threads = 1", readonly=1),
        post("SET max_threads = 1", readonly=1, session_id="r"),
        post("SET readonly = 0", readonly=2),
        post(method="GET", query="DROP TABLE kept"),
        post(method="GET", query="DROP TABLE kept", readonly=0),
    ):
        assert refused.headers["X-ClickHouse-Exception-Code"] == "164", refused.data
    assert post(method="HEAD", query="DROP TABLE kept").status == 405
    assert post("SET readonly = 1", session_id="locked").status == 200
    assert post("SELECT 1", session_id="locked").data == b"1\n"
    refused = post("DROP TABLE kept", session_id="locked")
    assert refused.headers["X-ClickHouse-Exception-Code"] == "164"
    assert post("SELECT count() FROM kept", readonly=1, max_threads=1).data == b"0\n"
    assert post(method="GET", query="SELECT 1", max_threads=1).data == b"1\n"


def test_a_session_keeps_settings_and_database(post):
    post("CREATE DATABASE IF NOT EXISTS other")
    for sql in ("SET max_threads = 3", "USE other"):
        assert post(sql, session_id="s").status == 200
    read = "SELECT getSetting('max_threads'), currentDatabase()"
    assert post(read, session_id="s").data == b"3\tother\n"
    assert post(read, session_id="s", max_threads=2, database="default").data == b"2\tscratch\n"
    assert post(read, session_id="s").data == b"3\tother\n"
    assert not post(read, session_id="t").data.startswith(b"3\t")
    unknown = post(read, session_id="u", session_check=1)
    assert unknown.headers["X-ClickHouse-Exception-Code"] == "372"
    temporary = post("CREATE TEMPORARY TABLE x (a Int8)", session_id="s")
    assert temporary.status == 501


def test_a_sync_client_with_a_session_of_its_own(embedded):
    with clickhouse_connect.get_client(**embedded.address) as with_session:
        with_session.command("SET max_threads = 3")
        assert with_session.command("SELECT getSetting('max_threads')") == 3


def test_a_session_or_query_id_in_use_is_refused(post):
    with ThreadPoolExecutor() as pool:
        for parameter, code in (("session_id", "373"), ("query_id", "216")):
            both = [pool.submit(post, "SELECT sleep(1)", **{parameter: "busy"}) for _ in range(2)]
            codes = [b.result().headers.get("X-ClickHouse-Exception-Code") for b in both]
            assert sorted(codes, key=str) == [code, None]


@pytest.mark.parametrize(
    ("headers", "parameters", "code"),
    [
        ({"Content-Encoding": "snappy"}, {}, 89),
        ({"Content-Encoding": "lz4"}, {}, 271),
        ({"Content-Type": "multipart/form-data; boundary=x"}, {}, 36),
        ({}, {"compress": 1}, 48),
        ({}, {"decompress": 1}, 48),
        ({}, {"role": "reader"}, 511),
        ({}, {"session_id": "a", "session_timeout": 1e9}, 374),
        ({}, {"database": "nowhere"}, 81),
        ({}, {"default_format": "DataFrame"}, 73),
        ({}, {"max_threads": "many"}, 27),
        ({}, {"a-b": "1"}, 115),
        ({"Origin": "https://example.com"}, {}, 497),
        ({"Origin": "null"}, {}, 497),
        ({"Host": "example.com"}, {}, 497),
        ({"Host": "127.0.0.1.example.com:8123"}, {}, 497),
        ({"X-ClickHouse-User": "nobody"}, {}, 516),
        ({"X-ClickHouse-User": "default", "X-ClickHouse-Key": "x"}, {}, 516),
        ({"Authorization": "Basic !"}, {}, 516),
        ({"Authorization": "Bearer abc"}, {}, 516),
        ({}, {"user": "default", "password": "x"}, 516),
    ],
)
def test_what_is_not_accepted_says_so(post, headers, parameters, code):
    answer = post("SELECT 1", headers, **parameters)
    assert answer.headers["X-ClickHouse-Exception-Code"] == str(code), answer.data
    assert answer.status >= 400


def test_a_statement_too_large_is_refused(post):
    answer = post("SELECT 1 --" + "x" * 5_000_000)
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (413, "229")
    bomb = lz4.frame.compress(b"SELECT 1 --" + bytes(50_000_000))
    answer = post(bomb, {"Content-Encoding": "lz4"})
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (413, "229")


def test_a_form_too_large_is_refused(embedded):
    field = '--x\r\nContent-Disposition: form-data; name="param_{}"\r\n\r\n{}\r\n'
    parts = [field.format(number, "x" * 100_000).encode() for number in range(50)]
    answer = HTTP.request(
        "POST", f"{embedded.url}/?query=SELECT+1", body=iter([*parts, b"--x--\r\n"]), chunked=True,
        headers={"Content-Type": "multipart/form-data; boundary=x"}, retries=False,
    )  # fmt: skip
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (413, "229")


def test_nothing_is_read_of_a_caller_who_may_not_ask(embedded):
    with socket.create_connection(("127.0.0.1", embedded.port), timeout=30) as connection:
        connection.sendall(
            b"POST /?user=nobody HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n5\r\n--x\r\n\r\n"
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 403 ")  # the body has no end


def test_external_data_is_refused_by_name(client):
    data = clickhouse_connect.driver.external.ExternalData(
        file_name="x.csv", data=b"1\n", fmt="CSV", types=["UInt8"]
    )
    with pytest.raises(DatabaseError, match="External data is not served"):
        client.query("SELECT * FROM x", external_data=data)
