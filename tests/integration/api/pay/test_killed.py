"""Fifty clients, and four processes that are killed while they verify, settle, store and answer."""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

import orjson
import pytest
from solders.keypair import Keypair

from api.access import register
from api.pay.bookkeeping import Books, BooksClosed
from infra.clickhouse.client import connect_async
from infra.local.process import free_port
from infra.settings import Settings
from schemas.solana.addresses import check
from tests.integration.api.conftest import Serve
from tests.support.api.paying import NETWORK, PayWorld
from tests.support.api.paying_crowd import MOMENTS, Crowd, Fleet, Killer, id_of
from tests.support.waiting import without_error_async

pytestmark = pytest.mark.slow
CLIENTS = 50
PROCESSES = 4
SEED = 7
KILLS_OF_A_MOMENT = 3
KILLING_S = 40.0  # each moment has at least one kill, however slow the machine is
LONGEST_PAUSE_S = 0.3
PRICE_RAW = 400


async def test_whatever_is_killed_answers_payments_and_books_agree(
    stores: Settings, serve: Serve
) -> None:
    world, chance = PayWorld(), Random(SEED)
    world.desk.pause_s = lambda: chance.uniform(0.0, LONGEST_PAUSE_S)
    selling = {
        "x402_facilitator_url": world.url,
        "rpc_endpoint": world.rpc_url,
        "pay_to": world.seller,
        "pay_network": NETWORK,
    }
    shared = {**selling, "api_reuse_port": True, "api_port": free_port()}
    subjects = [str(Keypair().pubkey()) for _ in range(5)]
    wallets = [world.wallet() for _ in range(10)]
    had_raw = [world.owned_raw(each) for each in wallets]
    redis = register.connect(stores)
    fleet = await asyncio.to_thread(Fleet, lambda: serve(**shared), PROCESSES)
    crowd = Crowd(fleet.url, lambda: world.chain.blockhash, wallets, subjects, SEED)
    killer = Killer(fleet, crowd, redis)
    moments = [*MOMENTS * KILLS_OF_A_MOMENT]
    chance.shuffle(moments)
    books = Books(stores.model_copy(update=selling), redis)
    try:
        paying = asyncio.create_task(crowd.run(CLIENTS))
        enough_s = time.monotonic() + KILLING_S
        for moment in moments:
            if time.monotonic() < enough_s or moment not in {each.moment for each in killer.kills}:
                await killer.kill(moment)
        crowd.is_over = True
        await paying
        landed = {id_of(bytes(each)) for each in world.chain.landed.values()}
        for each in crowd.purchases:  # refused, and on the chain nevertheless?
            if each.id in landed and not each.delivered:
                each.is_refused = False
                assert await crowd.had(each, "127.0.0.1"), each
        await without_error_async(books.read, BooksClosed)
        rows = await booked(stores, world.seller)
    finally:
        await crowd.close()
        await books.close()
        await asyncio.to_thread(fleet.close)
        await redis.aclose()
        world.close()

    assert {each.moment for each in killer.kills} == {*MOMENTS}
    assert len(landed) >= CLIENTS
    # No unpaid answer: what was shown is on the chain, and for the request that it was paid for.
    assert {each.id for each in crowd.purchases if each.is_shown} <= landed
    assert 200 not in {status for each in crowd.purchases for status in each.others}
    for purchase in crowd.purchases:
        for _, body in purchase.delivered:
            assert orjson.loads(body)["wallet"] in purchase.path
    # Every settled payment's answer was had.
    assert landed == {each.id for each in crowd.purchases if each.delivered}
    # The money and the books agree with what was bought.
    paid_raw = PRICE_RAW * len(landed)
    assert world.revenue_raw == paid_raw
    assert sum(had_raw) - sum(world.owned_raw(each) for each in wallets) == paid_raw
    assert {row[0]: (row[1], row[2]) for row in rows} == {
        each.id: (PRICE_RAW, f"GET {each.path}") for each in crowd.purchases if each.id in landed
    }
    assert len(rows) == len(landed)
    # A second time only where the process was killed before its mark.
    for purchase in crowd.purchases:
        for peer, _ in purchase.delivered[:-1]:
            [kill] = [found for found in killer.kills if peer in found.peers]
            assert kill.states[purchase.id] == "settled", (purchase, kill)


async def booked(settings: Settings, seller: str) -> list[Any]:
    """Return what the books have of a seller: payment, units, what was sold."""
    check(seller)
    client = await connect_async(settings)
    try:
        answer = await client.query(
            f"SELECT message_sha256, amount_raw, path FROM payments FINAL WHERE pay_to = '{seller}'"
        )
        return list(answer.result_rows)
    finally:
        await client.close()
