"""The books beside a node that is away, prunes or answers nonsense; the table is a list here."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from redis.exceptions import ResponseError
from solders.signature import Signature
from solders.transaction import VersionedTransaction

# private `_found`: one answer of a node, which a look at the chain asks for by the clock.
from api.pay import bookkeeping
from api.pay.bookkeeping import (
    LAG_SLOTS,
    MENDED_AT_ONCE,
    PART,
    TRIES,
    UNREADABLE,
    UNRESOLVED,
    Books,
    BooksClosed,
    Listed,
    token_account,
)
from infra.settings import Settings
from schemas.rows import PAYMENTS, Row, Table
from tests.api.pay.test_payment import TERMS, paid
from tests.support.metrics import value_of
from tests.support.rpc_server import serving
from tests.support.waiting import eventually_async

AMOUNT_RAW = 400


class Node:
    """A node that lists payments to the seller; `lacks` are those that it does not have."""

    def __init__(self, count: int, account: str) -> None:
        self.signatures = [str(Signature(n.to_bytes(64, "big"))) for n in range(count)]
        self.lacks: set[str] = set()
        self.garbles: dict[str, Any] = {}  # answers about transactions that nobody can read
        self.nonsense: Any = None
        self.asked = 0
        self.first = 0  # its ledger begins with the one at this place
        self.lag = 0  # newest ones that it does not have yet
        wire = paid()["payload"]["transaction"]
        message = VersionedTransaction.from_bytes(b64decode(wire)).message
        index = [str(each) for each in message.account_keys].index(account)

        def balance(amount_raw: int) -> dict[str, Any]:
            return {"accountIndex": index, "uiTokenAmount": {"amount": str(amount_raw)}}

        self._found = {
            "blockTime": 1_700_000_000,
            "transaction": [wire, "base64"],
            "meta": {
                "err": None,
                "preTokenBalances": [balance(0)],
                "postTokenBalances": [balance(AMOUNT_RAW)],
            },
        }

    def slot_of(self, signature: str) -> int:
        return 5 + self.signatures.index(signature)

    @property
    def newest_slot(self) -> int:
        return 5 + len(self.signatures) - 1 - self.lag

    async def answer(self, method: str, params: list[Any]) -> Any:
        self.asked += 1
        if self.nonsense is not None:
            return web.json_response(self.nonsense)
        if method == "getTransaction":
            if params[0] in self.garbles:
                return web.json_response(self.garbles[params[0]])
            found = {**self._found, "slot": self.slot_of(params[0])}
            return web.json_response({"result": None if params[0] in self.lacks else found})
        if method == "getSlot":
            return web.json_response({"result": self.newest_slot})
        if method == "getFirstAvailableBlock":
            return web.json_response({"result": self.first and 5 + self.first})
        config = params[1]
        if config["minContextSlot"] > self.newest_slot:
            error = {"code": -32016, "message": "Minimum context slot has not been reached"}
            return web.json_response({"error": error})
        newest = self.signatures[self.first : len(self.signatures) - self.lag][::-1]
        if config.get("until") in newest:  # as Agave: one that it does not know bounds nothing
            newest = newest[: newest.index(config["until"])]
        if "before" in config:
            known = config["before"] in newest
            newest = newest[newest.index(config["before"]) + 1 :] if known else []
        listed = [
            {"signature": each, "err": None, "slot": self.slot_of(each)}
            for each in newest[: config["limit"]]
        ]
        return web.json_response({"result": listed})


class Redis:
    path: bytes | None = None  # what all payments bought, while it is known

    def __init__(self) -> None:
        self.whole: bytes | None = None

    async def ask(self, commands: list[Any]) -> list[Any]:
        return [self.answer(*each) for each in commands]

    def answer(self, command: str, _: str, *values: Any) -> Any:
        if command == "HGET":
            return self.path
        if command == "SET":
            self.whole = values[0].encode()
        return self.whole


def books(
    url: str,
    rows: list[Row],
    monkeypatch: pytest.MonkeyPatch,
    notes: list[Row] | None = None,
    redis: Redis | None = None,
) -> Books:
    async def newest(_: Books) -> Listed:
        return Listed(str(rows[-1][0]), int(rows[-1][2])) if rows else Listed("", 0)

    async def booked(_: Books, among: list[Row]) -> set[str]:
        return {str(row[0]) for row in rows} & {str(row[0]) for row in among}

    async def read_unresolved(_: Books) -> list[Listed]:
        latest = {row[0]: row for row in notes or ()}
        return [Listed(str(row[0]), int(row[1])) for row in latest.values() if not row[5]]

    async def insert(_: Books, table: Table, added: list[Row]) -> None:
        if table is PAYMENTS:
            rows.extend(added)
        else:
            assert notes is not None
            notes.extend(added)

    # private `_newest`, `_booked`, `_read_unresolved`, `_insert`: the rows that ClickHouse would
    # hold; integration tests have the real one.
    monkeypatch.setattr(Books, "_newest", newest)
    monkeypatch.setattr(Books, "_booked", booked)
    monkeypatch.setattr(Books, "_read_unresolved", read_unresolved)
    monkeypatch.setattr(Books, "_insert", insert)
    return Books(settings(url), redis or Redis())  # type: ignore[arg-type]


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


async def test_what_a_node_lists_and_lacks_holds_up_nothing_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(PART + 20, ACCOUNT)
    lacked = [node.signatures[3], node.signatures[-1]]
    node.lacks = {*lacked}
    async with serving(node.answer) as url:
        first = books(url, rows, monkeypatch, notes)
        for _ in range(TRIES - 1):
            with pytest.raises(BooksClosed, match="does not have it"):
                await first.read()
            assert (rows, notes) == ([], [])
        with pytest.raises(BooksClosed, match="does not have it"):
            await first.read()  # of the second part
        assert len(rows) == PART - 1
        for _ in range(TRIES - 2):
            with pytest.raises(BooksClosed, match="does not have it"):
                await first.read()
        assert await first.read() == 19
        assert [row[0] for row in rows] == [each for each in node.signatures if each not in lacked]
        assert [(row[0], row[5]) for row in notes] == [(each, False) for each in lacked]
        assert value_of(UNRESOLVED) == 2
        await first.close()

        second = books(url, rows, monkeypatch, notes)  # of another process
        assert await second.read() == 0
        node.lacks = {lacked[1]}
        assert await second.read() == 1
        assert rows[-1][0] == lacked[0]
        assert [(row[0], row[5]) for row in notes][-1] == (lacked[0], True)
        assert value_of(UNRESOLVED) == 1
        node.lacks.clear()
        assert await second.read() == 1
        assert {row[0] for row in rows} == {*node.signatures}
        assert len(rows) == len(node.signatures)
        assert await second.read() == 0
        assert value_of(UNRESOLVED) == 0
        await second.close()


async def test_what_cannot_be_read_is_put_aside_with_its_cause_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(PART + 20, ACCOUNT)
    whole = {"slot": 5, "blockTime": 1, "meta": {"err": None}, "transaction": ["AAAA", "base64"]}
    version = {"code": -32015, "message": "Transaction version (1) is not supported"}
    garbled: list[Any] = [
        {"result": whole},
        {"result": {**whole, "transaction": ["%", "base64"]}},
        {"result": {**whole, "meta": None}},
        {"result": 5},
        {"result": []},
        {"error": version},
    ]
    node.garbles = dict(zip(node.signatures[7:], garbled, strict=False))
    before = value_of(UNREADABLE)
    async with serving(node.answer) as url:
        first = books(url, rows, monkeypatch, notes)
        assert await first.read() == len(node.signatures) - len(garbled)
        assert [row[0] for row in rows] == [
            each for each in node.signatures if each not in node.garbles
        ]
        assert [(row[0], row[5]) for row in notes] == [(each, False) for each in node.garbles]
        causes = [str(row[7]) for row in notes]
        assert all(cause.startswith("it cannot be read: ") for cause in causes[:-1])
        assert causes[-1] == "getTransaction: Transaction version (1) is not supported"
        assert (value_of(UNREADABLE) - before, value_of(UNRESOLVED)) == (len(garbled),) * 2
        assert await first.read() == 0  # asked again, and still not to be read
        assert len(notes) == value_of(UNRESOLVED) == len(garbled)
        node.garbles.clear()  # a later version reads them
        assert await first.read() == len(garbled)
        assert {row[0] for row in rows} == {*node.signatures}
        assert value_of(UNRESOLVED) == 0
        assert {(row[5], row[7]) for row in notes[len(garbled) :]} == {(True, "")}
        await first.close()


async def test_an_error_that_is_not_of_the_transaction_puts_nothing_aside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(3, ACCOUNT)
    busy = {"error": {"code": -32005, "message": "Node is behind by 200 slots"}}
    async with serving(node.answer) as url:
        found = books(url, rows, monkeypatch, notes)
        node.garbles = {node.signatures[1]: busy}
        for _ in range(TRIES + 1):
            with pytest.raises(BooksClosed):
                await found.read()
        assert (rows, notes) == ([], [])
        node.garbles.clear()
        assert await found.read() == 3
        await found.close()


async def test_a_node_may_say_that_there_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    node = Node(2, ACCOUNT)
    for each in node.signatures:
        found = {**node._found, "slot": node.slot_of(each)}
        node.garbles[each] = {"jsonrpc": "2.0", "id": 1, "error": None, "result": found}
    async with serving(node.answer) as url:
        found_books = books(url, rows, monkeypatch, [])
        assert await found_books.read() == 2
        await found_books.close()


async def test_a_look_asks_for_some_of_what_is_lacking(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(3 * MENDED_AT_ONCE, ACCOUNT)
    node.lacks = {*node.signatures}
    async with serving(node.answer) as url:
        found = books(url, rows, monkeypatch, notes)
        for _ in range(TRIES - 1):
            with pytest.raises(BooksClosed):
                await found.read()
        assert await found.read() == 0
        assert len(notes) == 3 * MENDED_AT_ONCE
        asked = node.asked
        node.lacks.clear()
        assert [await found.read() for _ in range(4)] == [MENDED_AT_ONCE] * 3 + [0]
        assert node.asked - asked == 3 * (MENDED_AT_ONCE + 4)
        assert {row[0] for row in rows} == {*node.signatures}
        await found.close()


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


async def test_a_node_that_lags_changes_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    redis = Redis()
    redis.path = b"GET /api/wallets/x/holdings"
    node = Node(LAG_SLOTS + 10, ACCOUNT)
    async with serving(node.answer) as url:
        found = books(url, rows, monkeypatch, [], redis)
        assert await found.read() == len(node.signatures)
        redis.path = None  # ten minutes later
        written = [*rows]
        node.lag = 1
        with pytest.raises(BooksClosed):
            await found.read()
        node.lag = 0
        assert await found.read() == 0
        assert rows == written
        await found.close()


async def test_a_row_is_not_written_again_without_what_it_bought(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    redis = Redis()
    redis.path = b"GET /api/wallets/x/holdings"
    node = Node(4, ACCOUNT)
    node.slot_of = lambda signature: 5 + min(2, node.signatures.index(signature))  # type: ignore[method-assign]
    async with serving(node.answer) as url:
        first = books(url, rows, monkeypatch, [], redis)
        assert await first.read() == 4
        await first.close()
        redis.path = None
        rows[2:] = rows[:1:-1]  # two are in the newest slot, and a table does not say in what order
        second = books(url, rows, monkeypatch, [], redis)
        assert await second.read() == 0
        assert len(rows) == 4
        assert all(row[-1] is not None for row in rows)
        await second.close()


async def test_slots_that_a_node_does_not_list_are_a_gap_until_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(100, ACCOUNT)
    known = node.signatures
    async with serving(node.answer) as url:
        node.signatures = known[:60]
        first = books(url, rows, monkeypatch, notes)
        assert await first.read() == 60
        node.signatures, node.first = known, 80  # it began anew from a snapshot
        for _ in range(TRIES - 1):
            with pytest.raises(BooksClosed, match="begins at slot 85, the books end at 64"):
                await first.read()
        assert (len(rows), notes) == (60, [])
        assert await first.read() == 20
        assert [row[0] for row in rows[60:]] == known[80:]
        assert [(*row[:2], row[5]) for row in notes] == [("slots 65-84", 65, False)]
        assert value_of(UNRESOLVED) == 1
        assert await first.read() == 0
        assert len(notes) == 1
        await first.close()

        second = books(url, rows, monkeypatch, notes)  # of another process
        assert await second.read() == 0
        assert (len(notes), value_of(UNRESOLVED)) == (1, 1)
        node.first = 50  # another node, which has it
        assert await second.read() == 20
        assert {row[0] for row in rows} == {*known}
        assert len(rows) == len(known)
        assert [(*row[:2], row[5]) for row in notes[1:]] == [("slots 65-84", 65, True)]
        assert value_of(UNRESOLVED) == 0
        assert await second.read() == 0
        await second.close()


async def test_a_node_that_prunes_what_is_booked_leaves_no_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(100, ACCOUNT)
    async with serving(node.answer) as url:
        found = books(url, rows, monkeypatch, notes)
        assert await found.read() == 100
        known = node.signatures
        node.signatures = [*known, *Node(101, ACCOUNT).signatures[100:]]
        node.first = 100
        assert await found.read() == 1
        assert notes == []
        await found.close()


async def test_books_that_are_read_on_know_up_to_where_they_were_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    redis = Redis()
    node = Node(100, ACCOUNT)
    monkeypatch.setattr(Node, "newest_slot", 500)
    async with serving(node.answer) as url:
        first = books(url, rows, monkeypatch, notes, redis)
        assert await first.read() == 100
        await first.close()
        node.first = 300  # its ledger begins after the last payment, and before the last look

        second = books(url, rows, monkeypatch, notes, redis)
        assert (await second.read(), notes) == (0, [])
        await second.close()

        del rows[50:]  # a backup was brought back: what was known of newer books is not of these
        third = books(url, rows, monkeypatch, notes, redis)
        with pytest.raises(BooksClosed, match="begins at slot 305, the books end at 54"):
            await third.read()
        await third.close()


async def test_books_that_another_process_keeps_too_know_up_to_where_they_were_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    redis = Redis()
    node = Node(6, ACCOUNT)
    node.lag = 2
    async with serving(node.answer) as url:
        writing, late = (books(url, rows, monkeypatch, notes, redis) for _ in range(2))
        assert (await writing.read(), await late.read()) == (4, 0)
        node.lag = 0
        monkeypatch.setattr(Node, "newest_slot", 500)
        assert (await writing.read(), await late.read()) == (2, 0)  # the last one to note
        await writing.close()
        await late.close()
        node.first = 300

        again = books(url, rows, monkeypatch, notes, redis)
        assert (await again.read(), notes) == (0, [])
        await again.close()


async def test_books_go_on_after_a_node_of_another_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    redis = Redis()
    node = Node(4, ACCOUNT)
    async with serving(node.answer) as url:
        first = books(url, rows, monkeypatch, redis=redis)
        assert await first.read() == 4
        await first.close()

    other = Node(0, ACCOUNT)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(Node, "newest_slot", 1_000_000)
        async with serving(other.answer) as url:
            wrong = books(url, rows, monkeypatch, redis=redis)
            assert await wrong.read() == 0
            await wrong.close()

    more = Node(6, ACCOUNT)
    async with serving(more.answer) as url:
        again = books(url, rows, monkeypatch, redis=redis)
        assert await again.read() == 2
        await again.close()


async def test_books_are_read_on_where_redis_takes_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(Redis):
        def answer(self, command: str, _: str, *values: Any) -> Any:
            if command == "SET":
                raise ResponseError("OOM command not allowed when used memory > 'maxmemory'.")
            return super().answer(command, _, *values)

    rows: list[Row] = []
    async with serving(Node(4, ACCOUNT).answer) as url:
        found = books(url, rows, monkeypatch, redis=Full())
        assert (await found.read(), await found.read()) == (4, 0)
        await found.close()


async def test_a_list_goes_on_where_it_ended_or_not_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = []
    node = Node(25, ACCOUNT)
    monkeypatch.setattr(bookkeeping, "AT_ONCE", 10)
    async with serving(node.answer) as url:
        found = books(url, rows, monkeypatch, [])
        answer = node.answer
        pages = 0

        async def forgets(method: str, params: list[Any]) -> Any:
            nonlocal pages
            pages += method == "getSignaturesForAddress"
            node.first = 24 if pages == 2 else 0  # another server, which does not know `before`
            return await answer(method, params)

        node.answer = forgets  # type: ignore[method-assign]
        async with serving(node.answer) as other:
            beside = books(other, rows, monkeypatch, [])
            with pytest.raises(BooksClosed, match="does not go on"):
                await beside.read()
            assert rows == []
            await beside.close()
        node.answer = answer  # type: ignore[method-assign]
        node.first = 0
        assert await found.read() == 25
        assert [row[0] for row in rows] == node.signatures
        await found.close()


async def test_a_gap_with_an_absent_transaction_closes_while_payments_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: list[Row] = []
    notes: list[Row] = []
    node = Node(100, ACCOUNT)
    known = node.signatures
    async with serving(node.answer) as url:
        node.signatures = known[:20]
        of_account = books(url, rows, monkeypatch, notes)
        assert await of_account.read() == 20
        node.signatures, node.first = known[:60], 40  # it began anew from a snapshot
        for _ in range(TRIES - 1):
            with pytest.raises(BooksClosed):
                await of_account.read()
        assert await of_account.read() == 20
        node.first, node.lacks = 0, {known[30]}
        for looks in range(1, TRIES):
            node.signatures = known[: 60 + looks]
            with pytest.raises(BooksClosed, match="does not have it"):
                await of_account.read()
        node.signatures = known[: 60 + TRIES]
        assert await of_account.read() == 20
        assert [row[0] for row in rows if row[0] in known[20:40]] == [*known[20:30], *known[31:40]]
        assert len(rows) == 60 + TRIES - 1
        await of_account.close()
