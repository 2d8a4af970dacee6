"""The books beside a node that is away, prunes or answers nonsense; the table is a list here."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from api.pay import bookkeeping
from api.pay.bookkeeping import PART, Books, BooksClosed, token_account
from infra.settings import Settings
from schemas.rows import Row
from tests.api.pay.test_payment import TERMS, paid
from tests.support.rpc_server import serving
from tests.support.waiting import eventually_async

AMOUNT_RAW = 400


class Node:
    """A node that lists payments to the seller; `lacks` are those that it does not have."""

    def __init__(self, count: int, account: str) -> None:
        self.signatures = [str(Signature(n.to_bytes(64, "big"))) for n in range(count)]
        self.lacks: set[str] = set()
        self.nonsense: Any = None
        self.asked = 0
        wire = paid()["payload"]["transaction"]
        message = VersionedTransaction.from_bytes(b64decode(wire)).message
        index = [str(each) for each in message.account_keys].index(account)

        def balance(amount_raw: int) -> dict[str, Any]:
            return {"accountIndex": index, "uiTokenAmount": {"amount": str(amount_raw)}}

        self._found = {
            "slot": 5,
            "blockTime": 1_700_000_000,
            "transaction": [wire, "base64"],
            "meta": {
                "err": None,
                "preTokenBalances": [balance(0)],
                "postTokenBalances": [balance(AMOUNT_RAW)],
            },
        }

    async def answer(self, method: str, params: list[Any]) -> Any:
        self.asked += 1
        if self.nonsense is not None:
            return web.json_response(self.nonsense)
        if method == "getTransaction":
            found = None if params[0] in self.lacks else self._found
            return web.json_response({"result": found})
        newest = [*reversed(self.signatures)]
        config = params[1]
        if "until" in config:
            newest = newest[: newest.index(config["until"])]
        if "before" in config:
            newest = newest[newest.index(config["before"]) + 1 :]
        listed = [{"signature": each, "err": None} for each in newest[: config["limit"]]]
        return web.json_response({"result": listed})


class Redis:
    async def ask(self, commands: list[Any]) -> list[Any]:
        return [None for _ in commands]


def books(url: str, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> Books:
    async def newest(_: Books) -> str:
        return str(rows[-1][0]) if rows else ""

    async def insert(_: Books, added: list[Row]) -> None:
        rows.extend(added)

    # private `_newest`, `_insert`: the rows that ClickHouse would hold; integration tests have the
    # real one.
    monkeypatch.setattr(Books, "_newest", newest)
    monkeypatch.setattr(Books, "_insert", insert)
    return Books(settings(url), Redis())  # type: ignore[arg-type]


def settings(url: str) -> Settings:
    return Settings(
        _env_file=None,
        pay_to=TERMS.pay_to,
        pay_asset=TERMS.asset,
        pay_network=TERMS.network,
        rpc_endpoint=url,
    )


ACCOUNT = token_account(settings("http://127.0.0.1:1"))


async def test_what_ends_a_look_leaves_the_parts_before_in_the_books(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    node = Node(2 * PART + 5, ACCOUNT)
    node.lacks = {node.signatures[-1]}
    async with serving(node.answer) as url:
        first = books(url, rows, monkeypatch)
        with pytest.raises(BooksClosed, match="does not have it"):
            await first.read()
        assert [row[0] for row in rows] == node.signatures[: 2 * PART]
        await first.close()
        node.lacks.clear()
        second = books(url, rows, monkeypatch)  # of another process
        assert await second.read() == 5
        assert [row[0] for row in rows] == node.signatures
        assert {row[8] for row in rows} == {AMOUNT_RAW}
        assert await second.read() == 0
        await second.close()


@pytest.mark.parametrize(
    "nonsense", [[], 5, {"result": None}, {"result": 5}, {"result": [{}]}, {"result": [None]}]
)
async def test_no_answer_of_a_node_ends_the_role(
    monkeypatch: pytest.MonkeyPatch, nonsense: Any
) -> None:
    # private `_BACKOFF_S`: shortens a wait that is no setting.
    monkeypatch.setattr(bookkeeping, "_BACKOFF_S", (0.01, 0.01))
    rows: list[Row] = []
    node = Node(3, ACCOUNT)
    node.nonsense = nonsense
    async with serving(node.answer) as url:
        running = asyncio.create_task(books(url, rows, monkeypatch).run())
        try:
            await eventually_async(lambda: running.done() or node.asked >= 3)
            node.nonsense = None
            await eventually_async(lambda: running.done() or len(rows) == 3)
            assert not running.done()
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
