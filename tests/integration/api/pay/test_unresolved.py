"""What the books lack, in a real ClickHouse: noted by name, read by another process, mended."""

from __future__ import annotations

from typing import Any

import pytest

from api.pay.bookkeeping import TRIES, Books, BooksClosed, token_account
from infra.clickhouse.client import connect_async
from infra.settings import Settings
from schemas.solana.base58 import encode
from tests.api.pay.test_bookkeeping import Node, Redis, settings
from tests.support.rpc_server import serving


async def test_a_transaction_that_a_node_lacks_is_a_row_until_it_is_there(
    stores: Settings,
) -> None:
    of = settings("http://127.0.0.1:1")
    node = Node(3, token_account(of))
    lacked = node.signatures[1]
    node.lacks = {lacked}
    node.garbles = {node.signatures[0]: {"result": {}}}

    async def read(sql: str) -> list[Any]:
        client = await connect_async(stores)
        try:
            return [*(await client.query(sql)).result_rows]
        finally:
            await client.close()

    async with serving(node.answer) as url:
        names = ("pay_to", "pay_asset", "pay_network")
        ours = {name: getattr(of, name) for name in names} | {"rpc_endpoint": url}
        first, second = [
            Books(stores.model_copy(update=ours), Redis())  # type: ignore[arg-type]
            for _ in range(2)
        ]
        for _ in range(TRIES - 1):
            with pytest.raises(BooksClosed, match=lacked):
                await first.read()
        assert await first.read() == 1
        await first.close()
        unresolved = (
            "SELECT signature, slot, cause FROM payments_unresolved FINAL "
            f"WHERE NOT is_resolved AND pay_to = '{of.pay_to}' ORDER BY slot"
        )
        assert await read(unresolved) == [
            (node.signatures[0], 5, "it cannot be read: KeyError('meta')"),
            (lacked, node.slot_of(lacked), "the node lists it and does not have it"),
        ]
        assert await second.read() == 0
        node.lacks.clear()
        node.garbles.clear()
        assert await second.read() == 2
        await second.close()
        assert await read(unresolved) == []
        booked = await read(
            f"SELECT signature FROM payments FINAL WHERE pay_to = '{of.pay_to}' ORDER BY signature"
        )
        assert booked == [(each,) for each in sorted(node.signatures)]


async def test_books_that_begin_again_keep_what_payments_bought_and_close_a_gap(
    stores: Settings,
) -> None:
    # A seller of its own; the node's transactions are of the token account of the usual one.
    usual = settings("http://127.0.0.1:1")
    node = Node(6, token_account(usual))
    node.slot_of = lambda signature: 5 + min(4, node.signatures.index(signature))  # type: ignore[method-assign]
    known = node.signatures
    redis = Redis()
    redis.path = b"GET /api/wallets/x/holdings"
    names = {"pay_to": usual.pay_to, "pay_asset": usual.pay_asset, "pay_network": encode(b"again")}

    async def read(table: str, columns: str) -> list[Any]:
        client = await connect_async(stores)
        try:
            sql = f"SELECT {columns} FROM {table} FINAL WHERE network = '{names['pay_network']}'"
            return [*(await client.query(f"{sql} ORDER BY slot, signature")).result_rows]
        finally:
            await client.close()

    async with serving(node.answer) as url:

        def made() -> Books:
            ours = {**names, "rpc_endpoint": url}
            return Books(stores.model_copy(update=ours), redis)  # type: ignore[arg-type]

        first = made()
        node.signatures = known[:2]
        assert await first.read() == 2
        node.signatures, node.first = known, 4  # its ledger begins in slot 9, with two payments
        for _ in range(TRIES - 1):
            with pytest.raises(BooksClosed, match="begins at slot 9, the books end at 6"):
                await first.read()
        assert await first.read() == 2
        await first.close()
        redis.path = None  # ten minutes later

        for _ in range(2):  # whichever of the newest slot is taken for the last
            again = made()
            assert await again.read() == 0
            await again.close()
        assert await read("payments_unresolved", "signature, slot, is_resolved") == [
            ("slots 7-8", 7, False)
        ]
        node.first = 0
        last = made()
        assert await last.read() == 2
        await last.close()
    assert await read("payments_unresolved", "signature, is_resolved") == [("slots 7-8", True)]
    bought = "GET /api/wallets/x/holdings"
    paths = [bought, bought, None, None, bought, bought]
    assert await read("payments", "signature, path") == [*zip(known, paths, strict=True)]
