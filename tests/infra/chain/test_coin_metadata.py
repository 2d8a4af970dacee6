"""The simulated coins' URIs lead somewhere: JSON and images, and the faults of strangers."""

from __future__ import annotations

import zlib
from collections import Counter
from struct import unpack_from

import aiohttp
import pytest
from aiohttp import web

from infra.chain.account_store import AccountStore
from infra.chain.coin_image import SIDE, coin_image

# private `_FAULTS`: every kind of fault must come; the list is the module's.
from infra.chain.coin_metadata import _FAULTS, fault_of
from infra.chain.history import History
from infra.chain.json_rpc import rpc_application
from infra.chain.market import Knobs, Market
from schemas.solana.base58 import encode


def test_an_image_is_a_whole_png_of_its_mint():
    data = coin_image(b"a" * 32)
    assert data == coin_image(b"a" * 32) != coin_image(b"b" * 32)
    at, chunks = 8, {}
    while at < len(data):
        length, kind = unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        assert unpack_from(">I", data, at + 8 + length)[0] == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    assert list(chunks) == [b"IHDR", b"IDAT", b"IEND"]
    assert unpack_from(">II", chunks[b"IHDR"]) == (SIDE, SIDE)
    assert len(zlib.decompress(chunks[b"IDAT"])) == SIDE * (1 + 3 * SIDE)


def test_most_coins_have_no_fault_and_every_fault_comes():
    counts = Counter(fault_of(number.to_bytes(32, "big")) for number in range(3_200))
    assert set(counts) == {None, *_FAULTS}
    assert 0.6 < counts[None] / 3_200 < 0.78


@pytest.fixture
async def served():
    """A market's coins, and a client of the server that their URIs lead to."""
    market = Market(Knobs(seed=3, metadata_origin="http://127.0.0.1"))
    store = AccountStore(market.genesis_accounts())
    application = rpc_application(History(10, 1 << 20, 10), store, market)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{site.port}") as client:
        yield market, client
    await runner.cleanup()


async def test_a_coins_uri_leads_to_its_document_and_image(served):
    market, client = served
    coins = [coin for coin in market.world.coins if coin.uri]
    assert coins
    for coin in coins:
        assert coin.uri == f"http://127.0.0.1/metadata/{encode(coin.address)}.json"
        if fault_of(coin.address) is None:
            async with client.get(coin.uri.removeprefix("http://127.0.0.1")) as answer:
                found = await answer.json()
            assert (found["name"], found["symbol"]) == (coin.name, coin.symbol)
            path = found["image"].partition("/metadata/")[2]
            async with client.get(f"/metadata/{path}") as answer:
                assert await answer.read() == coin_image(coin.address)


async def test_faults_are_answered_as_such(served):
    market, client = served
    seen = set()
    number = 0
    while len(seen) < len(_FAULTS):
        address = number.to_bytes(32, "big")
        number += 1
        fault = fault_of(address)
        if fault is None or fault in seen:
            continue
        seen.add(fault)
        market.world.ledger.mints[address] = market.world.coins[0]
        path = f"/metadata/{encode(address)}.json"
        async with client.get(path, allow_redirects=False) as answer:
            match fault:
                case "missing":
                    assert answer.status == 404
                case "too_large":
                    assert answer.content_length > 1 << 20
                case "redirects_inward":
                    assert answer.headers["location"].startswith("http://127.0.0.1:9/")
                case "redirects":
                    assert answer.headers["location"] == f"{path}?again"
                case "slow":
                    assert await answer.content.readany() == b" "
                case "page":
                    assert answer.content_type == "text/html"
                case "hostile_words":
                    assert "\u202e" in (await answer.json())["description"]
                case _:
                    assert answer.status == 200
    async with client.get("/metadata/nothing.json") as answer:
        assert answer.status == 404


def test_without_an_origin_uris_lead_nowhere():
    market = Market(Knobs(seed=3))
    assert {coin.uri.rpartition("/")[0] for coin in market.world.coins} == {
        "",
        "https://coins.example",
    }
