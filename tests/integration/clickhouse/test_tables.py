"""What the product does with tables: large inserts, replays, versions, views, many clients."""

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import clickhouse_connect
import pytest
import urllib3
from clickhouse_connect.driver.exceptions import DatabaseError

from tests.support.waiting import eventually

ROWS = 200_000
SWAPS = """
CREATE OR REPLACE TABLE swaps (
    signature String,
    slot UInt64,
    dex LowCardinality(String),
    wallet String,
    amount_raw UInt128,
    block_time DateTime64(3, 'UTC')
) ENGINE = MergeTree ORDER BY (wallet, slot) SETTINGS non_replicated_deduplication_window = 100
"""
COLUMNS = ["signature", "slot", "dex", "wallet", "amount_raw", "block_time"]


def swaps(count):
    return [
        [f"signature{i}" * 8, i, "pump-swap", f"wallet{i % 1000}", i * 10**20, 1_700_000_000 + i]
        for i in range(count)
    ]


@pytest.fixture(params=["lz4", "zstd", False])
def any_client(embedded, request):
    with clickhouse_connect.get_client(
        **embedded.address, compress=request.param, autogenerate_session_id=False
    ) as client:
        yield client


def test_a_large_insert_is_read_back_as_a_stream(any_client):
    any_client.command(SWAPS)
    written = any_client.insert("swaps", swaps(ROWS), column_names=COLUMNS)
    assert written.written_rows == ROWS
    read = amount = blocks = 0
    with any_client.query_row_block_stream("SELECT slot, amount_raw FROM swaps") as stream:
        for block in stream:
            blocks += 1
            read += len(block)
            amount += sum(row[1] for row in block)
    assert (read, amount) == (ROWS, 10**20 * ROWS * (ROWS - 1) // 2)
    assert blocks > 1


def test_a_replayed_insert_counts_once_however_it_travels(embedded, client):
    client.command(SWAPS)
    rows = swaps(50_000)
    for compress in ("lz4", "zstd", False):
        with clickhouse_connect.get_client(**embedded.address, compress=compress) as writer:
            for token in ("slots 1-10", "slots 11-20"):
                writer.insert(
                    "swaps",
                    rows,
                    column_names=COLUMNS,
                    settings={"insert_deduplication_token": token},
                )
    assert client.command("SELECT count() FROM swaps") == 100_000


def test_an_insert_in_small_pieces_is_one_part(embedded, client):
    client.command("CREATE OR REPLACE TABLE pieces (a UInt64) ENGINE = MergeTree ORDER BY a")
    lines = [f"{i}\n".encode() for i in range(300_000)]
    http = urllib3.PoolManager()
    answer = http.request(
        "POST",
        f"{embedded.url}/?query=INSERT+INTO+pieces+FORMAT+CSV",
        body=(b"".join(lines[i : i + 1000]) for i in range(0, len(lines), 1000)),
        chunked=True,
    )
    assert answer.status == 200, answer.data
    count = client.query("SELECT count(), uniqExact(_part), sum(a) FROM pieces").result_rows
    assert count == [(300_000, 1, sum(range(300_000)))]


def test_an_insert_whose_client_dies_leaves_nothing(embedded, client):
    client.command("CREATE OR REPLACE TABLE cut (a UInt64) ENGINE = MergeTree ORDER BY a")
    inserts = "SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO cut%'"
    with socket.create_connection(("127.0.0.1", embedded.port)) as connection:
        body = b"INSERT INTO cut FORMAT CSV\n" + b"1\n" * 1_000_000
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body) + 2}\r\n\r\n"
        connection.sendall(head.encode() + body)
        eventually(lambda: client.command(inserts) == 1)
        time.sleep(0.3)  # all but the last row have arrived
    eventually(lambda: client.command(inserts) == 0)
    assert client.command("SELECT count() FROM cut") == 0


@pytest.mark.parametrize("body", [b"1\nno number\n", b"1,2,3\n" * 3, b'{"a":'])
def test_broken_data_is_refused_whole(embedded, client, body):
    client.command("CREATE OR REPLACE TABLE broken (a UInt64) ENGINE = MergeTree ORDER BY a")
    answer = urllib3.request(
        "POST", f"{embedded.url}/", body=b"INSERT INTO broken FORMAT CSV\n" + body
    )
    assert (answer.status, answer.headers["X-ClickHouse-Exception-Code"]) == (400, "117")
    assert client.command("SELECT count() FROM broken") == 0


def test_a_native_body_cut_short_is_refused_whole(embedded, client):
    client.command("CREATE OR REPLACE TABLE short (a UInt64) ENGINE = MergeTree ORDER BY a")
    native = client.raw_query("SELECT number AS a FROM numbers(1000)", fmt="Native")
    answer = urllib3.request(
        "POST", f"{embedded.url}/", body=b"INSERT INTO short FORMAT Native\n" + native[:-5]
    )
    assert answer.headers["X-ClickHouse-Exception-Code"] == "33"
    assert client.command("SELECT count() FROM short") == 0


@pytest.mark.parametrize("fmt", ["Native", "CSV", "JSONEachRow", "RowBinary", "Parquet", "TSV"])
def test_raw_data_of_any_format_goes_in_and_out(client, fmt):
    client.command("CREATE OR REPLACE TABLE raw (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
    data = client.raw_query("SELECT number AS a, 'ü' AS b FROM numbers(1000)", fmt=fmt)
    client.raw_insert("raw", ["a", "b"], data, fmt=fmt)
    assert client.query("SELECT sum(a), any(b) FROM raw").result_rows == [(499_500, "ü")]
    streamed = client.raw_stream("SELECT * FROM raw ORDER BY a", fmt=fmt).read()
    assert streamed == client.raw_query("SELECT * FROM raw ORDER BY a", fmt=fmt)


def test_values_and_selects_insert_and_are_counted(client):
    client.command("CREATE OR REPLACE TABLE counted (a UInt64) ENGINE = MergeTree ORDER BY a")
    values = client.command("INSERT INTO counted VALUES (1), (1 + {b:UInt64})", {"b": 1})
    assert values.written_rows == 2
    selected = client.command("INSERT INTO counted SELECT number FROM numbers(10)")
    assert selected.written_rows == 10
    client.command("INSERT INTO {t:Identifier} FORMAT CSV", {"t": "counted"}, data="7\n8\n")
    assert client.command("SELECT count() FROM counted") == 14


def test_the_latest_version_replaces(client):
    client.command(
        "CREATE OR REPLACE TABLE pnl (wallet String, slot UInt64, realized_raw Int256) "
        "ENGINE = ReplacingMergeTree(slot) ORDER BY wallet"
    )
    for slot in (2, 3, 1, 3):
        client.insert("pnl", [["a", slot, -slot], ["b", 9, 9]])
    query = "SELECT * FROM pnl FINAL ORDER BY wallet"
    assert client.query(query).result_rows == [("a", 3, -3), ("b", 9, 9)]
    client.command("OPTIMIZE TABLE pnl FINAL")
    assert client.command("SELECT count() FROM pnl") == 2


def test_a_materialised_view_sees_every_insert_once(client):
    client.command(SWAPS)
    client.command(
        "CREATE OR REPLACE TABLE volume (dex LowCardinality(String), n SimpleAggregateFunction("
        "sum, UInt64), wallets AggregateFunction(uniqExact, String)) "
        # The target needs a window as well, or it counts a replay that the source refuses.
        "ENGINE = AggregatingMergeTree ORDER BY dex "
        "SETTINGS non_replicated_deduplication_window = 100"
    )
    client.command("DROP VIEW IF EXISTS volume_mv")
    client.command(
        "CREATE MATERIALIZED VIEW volume_mv TO volume AS "
        "SELECT dex, count() AS n, uniqExactState(wallet) AS wallets FROM swaps GROUP BY dex"
    )
    for i in (1, 2, 2):
        settings = {
            "insert_deduplication_token": f"batch {i}",
            "deduplicate_blocks_in_dependent_materialized_views": 1,
        }
        client.insert("swaps", swaps(1000), column_names=COLUMNS, settings=settings)
    query = "SELECT dex, sum(n), uniqExactMerge(wallets) FROM volume GROUP BY dex"
    assert client.query(query).result_rows == [("pump-swap", 2000, 1000)]


async def test_many_clients_at_once_see_their_own_answers(embedded, client):
    client.command(
        "CREATE OR REPLACE TABLE shared (caller UInt64) ENGINE = MergeTree ORDER BY caller"
    )

    async def work(caller):
        async with await clickhouse_connect.get_async_client(**embedded.address) as own:
            for _ in range(5):
                await own.insert("shared", [[caller]] * 100)
                result = await own.query(
                    "SELECT count() % 100, getSetting('max_threads') "
                    "FROM shared WHERE caller = {w:UInt64}",
                    parameters={"w": caller},
                    settings={"max_threads": 1 + caller % 7},
                )
                assert result.result_rows == [(0, 1 + caller % 7)]

    await asyncio.gather(*(work(caller) for caller in range(40)))
    assert client.command("SELECT count() FROM shared") == 40 * 5 * 100


def test_a_query_whose_client_leaves_is_stopped(embedded, client):
    sql = "SELECT count() FROM numbers(1e15)"
    running = f"SELECT count() FROM system.processes WHERE query = '{sql}'"
    with ThreadPoolExecutor() as pool:
        left = pool.submit(
            urllib3.request, "POST", f"{embedded.url}/", body=sql, timeout=1, retries=False
        )
        eventually(lambda: client.command(running) == 1)
        assert isinstance(left.exception(), urllib3.exceptions.TimeoutError)
    eventually(lambda: client.command(running) == 0)


def test_reading_slowly_holds_up_nobody(embedded, client):
    slow = urllib3.request(
        "POST", f"{embedded.url}/", body="SELECT * FROM numbers(1e12)", preload_content=False
    )
    assert slow.read(1000)
    for _ in range(20):
        assert client.command("SELECT 1") == 1
    slow.close()


def test_an_error_of_one_client_is_not_anothers(client):
    with ThreadPoolExecutor(8) as pool:
        bad = [pool.submit(client.query, "SELECT * FROM nowhere") for _ in range(50)]
        good = [pool.submit(client.command, f"SELECT {i}") for i in range(1, 51)]
        assert [g.result() for g in good] == list(range(1, 51))
        assert all(isinstance(b.exception(), DatabaseError) for b in bad)
