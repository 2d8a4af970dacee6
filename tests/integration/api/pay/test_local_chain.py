"""Pay per call as `soltape up` offers it: the official facilitator before the simulated chain."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from click.testing import CliRunner

from api.access import register
from api.pay.bookkeeping import Books
from api.pay.command import pay as pay_command
from infra.chain import demo_wallets
from infra.clickhouse.client import connect_async
from infra.local import facilitator
from infra.local.process import free_port
from schemas.solana.addresses import text
from tests.integration.api.conftest import Serve
from tests.support import npm
from tests.support.api.served import Served
from tests.support.systems import bound
from tests.support.waiting import eventually, without_error

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parent / "fetch_client"
PATH = f"/pay/api/wallets/{text(demo_wallets.ADDRESSES['staker-0'])}/pnl/summary"
PRICE_RAW = 400
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"


@dataclass
class World:
    """A simulated chain and a facilitator before it."""

    rpc_url: str
    facilitator_url: str

    def call(self, method: str, *params: Any) -> Any:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(self.rpc_url, json=call, timeout=60).json()
        assert "error" not in answer, answer
        return answer["result"]

    def dollars_raw(self, name: str) -> int:
        """What a demo wallet has, at `confirmed`."""
        found = self.call(
            "getTokenAccountsByOwner",
            text(demo_wallets.address(name)),
            {"mint": USDC},
            {"encoding": "jsonParsed", "commitment": "confirmed"},
        )["value"]
        parsed = (each["account"]["data"]["parsed"]["info"] for each in found)
        return sum(int(each["tokenAmount"]["amount"]) for each in parsed)


@contextmanager
def running(*command: str) -> Iterator[None]:
    process = subprocess.Popen(
        bound([sys.executable, "-m", "infra.cli", *command[:1]]) + list(command[1:]),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    ports = [free_port() for _ in range(4)]
    rpc_url = f"http://127.0.0.1:{ports[1]}"
    found = World(rpc_url, f"http://127.0.0.1:{ports[2]}")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RPC_ENDPOINT", rpc_url)
        patch.setenv("METRICS_PORT_CHAIN", str(ports[3]))
        chain = ("chain", "simulated", "--port", str(ports[0]), "--rpc-port", str(ports[1]))
        stack.enter_context(running(*chain, "--rate", "5", "--wallets", "20", "--seed", "4"))
        eventually(lambda: _is_final(found))
        stack.enter_context(running("facilitator", "--port", str(ports[2])))
        without_error(lambda: httpx.get(f"{found.facilitator_url}/supported"), httpx.HTTPError)
        yield found


def _is_final(world: World) -> bool:
    try:
        return int(world.call("getSlot", {"commitment": "finalized"})) > 0
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="module")
def seller(world: World, serve: Serve) -> Iterator[Served]:
    with serve(
        x402_facilitator_url=world.facilitator_url,
        rpc_endpoint=world.rpc_url,
        pay_to=text(demo_wallets.address(demo_wallets.SELLER)),
        pay_network=facilitator.NETWORK,
    ) as found:
        yield found


def test_a_demo_wallet_pays_and_its_dollars_move(
    world: World, seller: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RPC_ENDPOINT", world.rpc_url)
    monkeypatch.chdir(tmp_path)
    had_raw = world.dollars_raw(demo_wallets.SELLER)
    done = CliRunner().invoke(pay_command, [seller.url + PATH])
    assert done.exit_code == 0, done.output
    signature = done.stderr.removeprefix("paid: transaction ").strip()
    eventually(lambda: world.dollars_raw(demo_wallets.SELLER) == had_raw + PRICE_RAW)
    config = {"encoding": "jsonParsed", "commitment": "confirmed"}
    landed = world.call("getTransaction", signature, {**config, "encoding": "json", **_VERSIONS})
    assert landed["meta"]["err"] is None
    payer = text(demo_wallets.address(demo_wallets.PAYER))
    moved = {
        each["owner"]: int(each["uiTokenAmount"]["amount"])
        for each in landed["meta"]["postTokenBalances"]
    }
    before = {
        each["owner"]: int(each["uiTokenAmount"]["amount"])
        for each in landed["meta"]["preTokenBalances"]
    }
    assert before[payer] - moved[payer] == PRICE_RAW


_VERSIONS = {"maxSupportedTransactionVersion": 0}


def test_the_official_client_of_node_pays(
    request: pytest.FixtureRequest, world: World, seller: Served
) -> None:
    folder = npm.installed(request, "x402-fetch", SCRIPT, "@x402/fetch")
    had_raw = world.dollars_raw(demo_wallets.SELLER)
    asked = {
        "url": seller.url + PATH,
        "rpcUrl": world.rpc_url,
        "network": facilitator.NETWORK,
        "asset": USDC,
        "secret": list(bytes(demo_wallets.keypair(demo_wallets.PAYER))),
    }
    node = subprocess.run(
        bound(["node", "pay.mjs"]),
        cwd=folder,
        input=json.dumps(asked).encode(),
        capture_output=True,
        timeout=240,
        check=False,
    )
    assert node.returncode == 0, node.stderr.decode()
    paid = orjson.loads(node.stdout)
    assert paid["status"] == 200
    assert paid["settled"]["success"]
    keyed = httpx.get(
        seller.url + PATH.removeprefix("/pay"), headers={"x-api-key": seller.key}, timeout=60
    )
    assert orjson.loads(paid["body"])["wallet"] == keyed.json()["wallet"]
    eventually(lambda: world.dollars_raw(demo_wallets.SELLER) == had_raw + PRICE_RAW)


async def test_the_books_are_what_the_chain_moved(world: World, seller: Served) -> None:
    """After the two payments above, and again by another process that begins anew."""
    wanted_raw = world.dollars_raw(demo_wallets.SELLER)
    assert wanted_raw >= 2 * PRICE_RAW
    client = await connect_async(seller.settings)
    access = register.connect(seller.settings)
    payer = text(demo_wallets.address(demo_wallets.PAYER))

    async def booked() -> list[Any]:
        books = Books(seller.settings, access)
        try:
            await books.read()
        finally:
            await books.close()
        answer = await client.query(
            "SELECT amount_raw, payer, path, signature FROM payments FINAL "
            "WHERE payer = {payer:String} ORDER BY slot",  # other tests have paid, too
            parameters={"payer": payer},
        )
        return list(answer.result_rows)

    try:
        rows: list[Any] = []
        while sum(row[0] for row in rows) != wanted_raw:  # once it is final
            rows = await booked()
            await asyncio.sleep(0.2)
        assert await booked() == rows
    finally:
        await client.close()
        await access.aclose()
    path = f"GET {PATH.removeprefix('/pay')}"
    assert {row[:3] for row in rows} == {(PRICE_RAW, payer, path)}
    assert len({row[3] for row in rows}) * PRICE_RAW == wanted_raw


def test_a_web_page_reaches_nothing_of_the_facilitator(world: World) -> None:
    url = f"{world.facilitator_url}/settle"
    for headers in (
        {"Origin": "http://evil.example", "content-type": "application/json"},
        {"Sec-Fetch-Site": "cross-site", "content-type": "application/json"},
        {"content-type": "text/plain"},
    ):
        assert httpx.post(url, content=b"{}", headers=headers).status_code == 403
    rebound = {"Host": "evil.example", "content-type": "application/json"}
    assert httpx.post(url, content=b"{}", headers=rebound).status_code == 421
    plain = httpx.post(url, content=b"[]", headers={"content-type": "application/json"})
    assert plain.status_code == 400


def test_the_challenge_names_the_demo_seller(seller: Served) -> None:
    answer = httpx.get(seller.url + PATH)
    found = orjson.loads(b64decode(answer.headers["payment-required"]))
    [accepted] = found["accepts"]
    assert accepted["payTo"] == text(demo_wallets.address(demo_wallets.SELLER))
    assert accepted["extra"]["feePayer"] == text(demo_wallets.address(demo_wallets.FEE_PAYER))
