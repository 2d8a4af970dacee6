"""The embedded ClickHouse as a process: what it keeps, what it refuses, how it stops."""

import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import clickhouse_connect
import pytest
import urllib3
from click.testing import CliRunner

from infra.clickhouse import client
from infra.clickhouse.command import clickhouse
from infra.clickhouse.embedded import server
from infra.local.process import NotReady, free_port
from infra.settings import Settings
from tests.support.waiting import eventually


def connect(embedded, **options):
    return clickhouse_connect.get_client(**embedded.address, **options)


def refusal(data, port):
    done = subprocess.run(server(data, port).command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_restart_keeps_the_data(start, how):
    with start() as embedded:
        connect(embedded).command("CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
        connect(embedded).insert("t", [[n] for n in range(1000)])
        embedded.process.send_signal(how)
        status = embedded.process.wait(60)
        assert status == (-9 if how is signal.SIGKILL else 0)
        if how is not signal.SIGKILL:
            assert "stopped" in embedded.log.read_text()
    with start() as embedded:
        assert connect(embedded).command("SELECT sum(a) FROM t") == 499_500


def test_a_stop_does_not_wait_for_long_queries(start):
    with start() as embedded, ThreadPoolExecutor() as pool:
        busy = [
            pool.submit(urllib3.request, "POST", f"{embedded.url}/", body=sql, retries=False)
            for sql in (
                "SELECT count() FROM numbers(1e15)",
                "SELECT count() FROM numbers(1e15) FORMAT JSON",
                "INSERT INTO FUNCTION null('n UInt64') SELECT number FROM numbers(1e15)",
            )
        ]
        eventually(lambda: running_queries(embedded) == len(busy))
        embedded.process.terminate()
        assert embedded.process.wait(60) == 0
        for query in busy:
            error = query.exception()
            if error is None:  # or the connection broke
                assert query.result().headers["X-ClickHouse-Exception-Code"] == "394"


def running_queries(embedded):
    sql = "SELECT count() FROM system.processes WHERE query NOT LIKE '%system.processes%'"
    return int(urllib3.request("POST", f"{embedded.url}/", body=sql).data)


def test_a_stop_lets_a_short_query_finish(start):
    with start() as embedded, ThreadPoolExecutor() as pool:
        query = pool.submit(
            urllib3.request, "POST", f"{embedded.url}/", body="SELECT sleep(0.6) FORMAT JSON"
        )
        eventually(lambda: running_queries(embedded) == 1 or query.done())
        embedded.process.terminate()
        assert query.result().status == 200


def test_a_port_in_use_is_named(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = refusal(tmp_path, port)
    assert f"port {port} on 127.0.0.1 is in use" in message
    assert "CLICKHOUSE_URL" in message


def test_a_second_process_on_the_same_data_is_refused_with_the_pid_of_the_first(start, tmp_path):
    with start() as embedded:
        message = refusal(tmp_path / "data", free_port())
        assert f"in use by process {embedded.process.pid}" in message
        assert connect(embedded).command("SELECT 1") == 1


def test_data_that_cannot_be_opened_is_a_message(tmp_path):
    (tmp_path / "broken" / "status").mkdir(parents=True)
    assert "does not open" in refusal(tmp_path / "broken", free_port())
    (tmp_path / "file").touch()
    assert "Not a directory" in refusal(tmp_path / "file" / "data", free_port())
    assert "cannot hold a '?'" in refusal(tmp_path / "what?", free_port())


def test_user_and_password(start):
    secret = {"CLICKHOUSE_USER": "tape", "CLICKHOUSE_PASSWORD": "p:ss wörd"}
    with start(**secret) as embedded:
        own = {"username": "tape", "password": "p:ss wörd"}
        assert connect(embedded, **own).command("SELECT 1") == 1
        for wrong in ({}, {**own, "password": "x"}, {**own, "username": "default"}):
            with pytest.raises(clickhouse_connect.driver.exceptions.DatabaseError) as caught:
                connect(embedded, **wrong)
            assert caught.value.code == 516
        assert "p:ss" not in embedded.log.read_text()


async def test_ready_answers_when_it_serves(start, tmp_path):
    with pytest.raises(NotReady, match="nothing serves ClickHouse"):
        await server(tmp_path, free_port()).ready()
    with start() as embedded:
        await server(tmp_path, embedded.port).ready()


async def test_clients_and_check_from_settings(start):
    with start(CLICKHOUSE_PASSWORD="secret") as embedded:
        settings = Settings(clickhouse_url=embedded.url, clickhouse_password="secret")
        assert (await client.check(settings)).startswith("ClickHouse 26.")
        with pytest.raises(client.ClickHouseError, match="soltape"):
            client.connect(settings)
        with client.connect(settings, "default") as sync_client:
            sync_client.command("CREATE DATABASE soltape")
        async with await client.connect_async(settings) as async_client:
            result = await async_client.query("SELECT currentDatabase()")
            assert result.result_rows == [("soltape",)]
        wrong = Settings(clickhouse_url=embedded.url, clickhouse_password="no")
        with pytest.raises(client.ClickHouseUnavailable, match="refuses user 'default'") as caught:
            await client.check(wrong)
        assert "secret" not in str(caught.value)


async def test_check_says_what_is_wrong():
    free = Settings(clickhouse_url=f"http://127.0.0.1:{free_port()}")
    with pytest.raises(client.ClickHouseUnavailable, match="start it with `soltape clickhouse`"):
        await client.check(free)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"http://user:secret@127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(client.ClickHouseUnavailable, match="does not answer within") as caught:
            await client.check(Settings(clickhouse_url=address), timeout_s=0.3)
        assert "secret" not in str(caught.value)

        def answer() -> None:
            # The connection that timed out is still in the backlog.
            for _ in range(2):
                connection, _ = other.accept()
                connection.recv(1000)
                with connection:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(client.ClickHouseUnavailable, match="no ClickHouse HTTP interface"):
            await client.check(Settings(clickhouse_url=address))
        thread.join(5)


def test_help_teaches():
    text = CliRunner().invoke(clickhouse, ["--help"]).output
    assert "curl" in text
    assert "--port" in text
    assert "CLICKHOUSE_URL" in text
