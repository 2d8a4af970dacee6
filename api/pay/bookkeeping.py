"""The operator's books: what arrived at PAY_TO by the chain, as rows in ClickHouse.

The chain is the book: transactions that name the seller's token account are read oldest first, and
each that left more in it than before is a row. So a payment that was settled as its process was
killed is in the books like any other. What was sold for it is added where Redis still has it.

A node may list a transaction and not have it, for a while or for ever, or have it in a form that
cannot be read here. After some tries, or at once where it cannot be read, it is noted by name and
cause in a table of its own and the books go on; it is asked for again until it can be booked.

A node answers from what its ledger has and calls none of the rest missing: one that lags does not
know the newest payment, one that has begun anew does not know the older ones. So it must have come
as far as the books (`minContextSlot`), and slots before its first block are noted as a gap, like a
transaction that is not there. A row that is there is not written again: what was sold for it may
not be known any more.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import aiohttp
import orjson
import structlog
from clickhouse_connect.driver.asyncclient import AsyncClient
from prometheus_client import Counter, Gauge
from redis.exceptions import RedisError
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from api.access.script import Asks
from infra.backoff import Backoff
from infra.clickhouse.client import ClickHouseError, connect_async
from infra.clickhouse.replication import INSERT_SETTINGS
from infra.settings import Settings
from schemas.redis_keys import PAYMENT, PAYMENT_BOOKS
from schemas.rows import PAYMENTS, PAYMENTS_UNRESOLVED, Row, Table
from schemas.solana.addresses import TOKEN_PROGRAM

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 5.0
AT_ONCE: Final = 1_000
"""Signatures of one answer of the node, which is its most."""
PART: Final = 100
"""Transactions that are read before what they paid is written."""
TRIES: Final = 5
"""Looks at a transaction that is listed and not there, some 30 s, before the books go on."""
MENDED_AT_ONCE: Final = 10
"""Unresolved transactions that a look asks for again."""
LAG_SLOTS: Final = 32
"""Slots by which the servers behind one address may differ without being refused."""
_BEHIND_SLOTS: Final = 9_000
"""Slots by which a node may be behind what was noted: an hour. One beyond is of another chain."""
MOST_UNRESOLVED: Final = 10_000
"""Unresolved transactions; with more of them the books wait."""
_ABSENT: Final = "the node lists it and does not have it"
_UNSUPPORTED_VERSION: Final = -32015  # of a transaction, later than the one that is asked for
_LONGEST_CAUSE: Final = 500
_WITHIN_S: Final = 10.0
_BACKOFF_S: Final = (1.0, 60.0)
_ASSOCIATED: Final = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
_NEWEST: Final = """
SELECT argMax(signature, slot), max(slot) FROM payments
WHERE pay_to = {pay_to:String} AND network = {network:String} AND asset = {asset:String}
"""
_BOOKED: Final = """
SELECT signature FROM payments
WHERE pay_to = {pay_to:String} AND network = {network:String} AND asset = {asset:String}
AND block_time BETWEEN fromUnixTimestamp64Milli({first_ms:Int64}, 'UTC')
AND fromUnixTimestamp64Milli({last_ms:Int64}, 'UTC')
AND has({signatures:Array(String)}, signature)
"""
_UNRESOLVED: Final = """
SELECT signature, slot FROM payments_unresolved FINAL
WHERE pay_to = {pay_to:String} AND network = {network:String} AND asset = {asset:String}
AND NOT is_resolved ORDER BY slot, signature
"""
_GAP: Final = "slots "  # no signature begins so: they are base58
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

BOOKED: Final = Counter("soltape_pay_booked_total", "Payments that were written into the books.")
BEHIND: Final = Gauge("soltape_pay_books_unread", "Transactions of PAY_TO that are not read yet.")
UNRESOLVED: Final = Gauge(
    "soltape_pay_books_unresolved",
    "Transactions of PAY_TO that the node does not have, or that cannot be read: what they paid is "
    "not booked.",
)
UNREADABLE: Final = Counter(
    "soltape_pay_books_unreadable_total",
    "Transactions of PAY_TO that were put aside because they cannot be read.",
)


class BooksClosed(Exception):
    """A system that the books need does not answer; the text says which."""


class Unreadable(Exception):
    """A transaction is there, and what it paid cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A transaction that left more of the asset in the seller's account than before."""

    id: str  # SHA-256 of its message, in hex: that of `api.pay.payment`
    signature: str
    slot: int
    block_time_s: int
    payer: str  # owner of the account that lost as much; "" where no single one did
    amount_raw: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A transaction as the node lists it, or a gap: what it would list is not known."""

    signature: str  # of a gap: its name
    slot: int  # of a gap: its first

    @classmethod
    def gap(cls, first: int, last: int) -> Listed:
        """Return slots that no node has listed."""
        return cls(f"{_GAP}{first}-{last}", first)

    @property
    def gap_end(self) -> int | None:
        """The last slot of a gap; None of a transaction."""
        return int(self.signature.rpartition("-")[2]) if self.signature.startswith(_GAP) else None


def token_account(settings: Settings) -> str:
    """Return the seller's associated account of the asset."""
    assert settings.pay_to is not None
    seeds = [
        bytes(Pubkey.from_string(settings.pay_to)),
        TOKEN_PROGRAM,
        bytes(Pubkey.from_string(settings.pay_asset)),
    ]
    return str(Pubkey.find_program_address(seeds, _ASSOCIATED)[0])


def arrival(found: Any, signature: str, account: str) -> Arrival | None:
    """Return what a transaction paid, None if it paid nothing; raises Unreadable."""
    try:
        meta = found["meta"]
        transaction = VersionedTransaction.from_bytes(b64decode(found["transaction"][0]))
        message = transaction.message
        keys = [str(each) for each in message.account_keys]
        loaded = meta.get("loadedAddresses") or {}
        keys += [*loaded.get("writable", ()), *loaded.get("readonly", ())]
        changes = dict(_changes(meta, keys))
        amount_raw = changes.pop(account, (0, ""))[0]
        if meta["err"] is not None or amount_raw <= 0:
            return None
        payers = [owner for change, owner in changes.values() if change == -amount_raw]
        return Arrival(
            sha256(bytes(to_bytes_versioned(message))).hexdigest(),
            signature,
            int(found["slot"]),
            int(found["blockTime"] or 0),
            payers[0] if len(payers) == 1 else "",
            amount_raw,
        )
    except Exception as error:  # a node's answer, and solders' own kinds of errors
        raise Unreadable(f"it cannot be read: {error!r}"[:_LONGEST_CAUSE]) from None


def _changes(meta: Any, keys: list[str]) -> Iterator[tuple[str, tuple[int, str]]]:
    """Yield token accounts with what a transaction changed them by, and their owner."""
    before = {each["accountIndex"]: each for each in meta["preTokenBalances"]}
    after = {each["accountIndex"]: each for each in meta["postTokenBalances"]}
    for index in before.keys() | after.keys():
        had, has = (
            int(each[index]["uiTokenAmount"]["amount"]) if index in each else 0
            for each in (before, after)
        )
        owner = (after.get(index) or before[index]).get("owner") or ""
        yield keys[index], (has - had, owner)


class Books:
    """Reads what arrived, and writes it; one process at a time does."""

    def __init__(self, settings: Settings, redis: Asks) -> None:
        """`redis` is where the payments are. PAY_TO and RPC_ENDPOINT must be set."""
        self._settings = settings
        self._redis = redis
        self._account = token_account(settings)
        self._http: aiohttp.ClientSession | None = None
        self._client: AsyncClient | None = None
        self._last: Listed | None = None  # newest transaction in the books; "" if there is none
        self._newest_slot = 0  # of a payment in the books
        self._whole = 0  # slot up to which the books lack only what is unresolved
        self._begins = 0  # first slot of the node's ledger
        self._unlisted_looks = 0  # in a row, at a node whose ledger begins after `_whole`
        self._gaps: list[Listed] = []
        self._unresolved: deque[Listed] = deque()  # the one to ask for next first
        self._tries: Tally[str] = Tally()  # of transactions that are not there, not unresolved yet

    async def run(self) -> None:
        """Keep the books until cancelled; a system that is away is waited for.

        Whatever a node answers ends nothing but this look: wallets are watched beside it.
        """
        backoff = Backoff(*_BACKOFF_S)
        try:
            while True:
                try:
                    await self.read()
                    backoff.reset()
                    await asyncio.sleep(LOOK_EVERY_S)
                except BooksClosed as error:
                    log.warning("payments are not booked now", reason=str(error))
                    await backoff.wait()
                except Exception:
                    log.exception("payments cannot be booked now")
                    await backoff.wait()
        finally:
            await self.close()

    async def read(self) -> int:
        """Write all that arrived since the last time; return how much. Raises BooksClosed.

        Written by parts, oldest first: what ends this leaves the parts before in the books.
        """
        if self._last is None:
            lacking = await self._read_unresolved()
            self._unresolved = deque(each for each in lacking if each.gap_end is None)
            self._gaps = [each for each in lacking if each.gap_end is not None]
            self._count_unresolved()
            newest = await self._newest()
            self._newest_slot = newest.slot
            gap_ends = (each.gap_end or 0 for each in self._gaps)
            self._whole = max(newest.slot, await self._read_whole(), *gap_ends)
            self._last = newest
        least = await self._least()
        unread = await self._list(self._last.slot, least, self._last.signature)
        booked = 0
        BEHIND.set(len(unread))
        for begin in range(0, len(unread), PART):
            part = unread[begin : begin + PART]
            booked += await self._write(part)
            self._last = part[-1]
            BEHIND.set(len(unread) - begin - len(part))
        self._whole = max(least, self._last.slot)
        booked += await self._mend() + await self._close_gaps()
        await self._write_whole()
        return booked

    async def _least(self) -> int:
        """Return the slot that a list must have come to. Raises BooksClosed.

        Notes a gap where the node's ledger still begins after the books end.
        """
        newest = await self._newest_at_node()
        self._begins = await self._slot("getFirstAvailableBlock")
        if self._whole and self._begins > self._whole + 1:
            cause = (
                f"the node's ledger begins at slot {self._begins}, the books end at {self._whole}"
            )
            self._unlisted_looks += 1  # another server behind the address may have it
            if self._unlisted_looks < TRIES:
                raise BooksClosed(cause)
            gap = Listed.gap(self._whole + 1, self._begins - 1)
            await self._insert(PAYMENTS_UNRESOLVED, self._notes({gap: cause}, is_resolved=False))
            self._gaps.append(gap)
            self._count_unresolved()
            self._whole = self._begins - 1
            log.error("payments may be missing from the books", gap=gap.signature, cause=cause)
        self._unlisted_looks = 0
        return max(self._whole, newest - LAG_SLOTS)

    async def _close_gaps(self) -> int:
        """Book what is in gaps that the node's ledger has; return how many rows that is."""
        booked = 0
        for gap in [each for each in self._gaps if each.slot >= self._begins]:
            end = gap.gap_end or 0
            listed = await self._list(gap.slot, self._whole)
            inside = [each for each in listed if each.slot <= end]
            for begin in range(0, len(inside), PART):
                booked += await self._write(inside[begin : begin + PART])
            await self._insert(PAYMENTS_UNRESOLVED, self._notes({gap: ""}, is_resolved=True))
            self._gaps.remove(gap)
            self._count_unresolved()
            log.info("a gap in the books is closed", gap=gap.signature)
        return booked

    def _count_unresolved(self) -> None:
        UNRESOLVED.set(len(self._unresolved) + len(self._gaps))

    async def _write(self, part: list[Listed]) -> int:
        """Write what transactions paid; return how many rows that is. Raises BooksClosed."""
        rows: list[Row] = []
        lacking: dict[Listed, str] = {}
        for each in part:
            try:
                if (found := await self._transaction(each)) is None:
                    lacking[each] = _ABSENT
                elif (paid := arrival(found, each.signature, self._account)) is not None:
                    rows.append(await self._row(paid))
            except Unreadable as error:
                lacking[each] = str(error)
        for each in part:
            if each not in lacking:
                self._tries.pop(each.signature, None)
        await self._give_up(lacking)  # first: once later rows are there nothing lists them again
        return await self._book(rows)

    async def _give_up(self, lacking: dict[Listed, str]) -> None:
        """Note transactions that are not booked, with the cause.

        Raises BooksClosed until it is time for those that may only not be there yet.
        """
        known = {each.signature for each in self._unresolved}
        new = {each: cause for each, cause in lacking.items() if each.signature not in known}
        absent = [each.signature for each, cause in new.items() if cause == _ABSENT]
        self._tries.update(absent)
        for each in absent:
            if self._tries[each] < TRIES:
                raise BooksClosed(f"the node lists {each} and does not have it")
        if not new:
            return
        if len(self._unresolved) + len(new) > MOST_UNRESOLVED:
            raise BooksClosed(
                f"more than {MOST_UNRESOLVED:,} transactions are not there or cannot be read"
            )
        await self._insert(PAYMENTS_UNRESOLVED, self._notes(new, is_resolved=False))
        self._unresolved += new
        for noted in new:
            self._tries.pop(noted.signature, None)
        self._count_unresolved()
        UNREADABLE.inc(len(new) - len(absent))
        for listed, cause in new.items():
            log.error("a payment is not booked", signature=listed.signature, cause=cause)

    async def _mend(self) -> int:
        """Book some of what could not be booked before; return how many rows that is."""
        rows: list[Row] = []
        found_now: dict[Listed, str] = {}
        for _ in range(min(MENDED_AT_ONCE, len(self._unresolved))):
            each = self._unresolved[0]
            self._unresolved.rotate(-1)  # what cannot be read holds up no other
            try:
                if (found := await self._transaction(each)) is None:
                    continue
                if (paid := arrival(found, each.signature, self._account)) is not None:
                    rows.append(await self._row(paid))
            except Unreadable:
                continue
            found_now[each] = ""
        booked = 0
        if found_now:
            booked = await self._book(rows)
            await self._insert(PAYMENTS_UNRESOLVED, self._notes(found_now, is_resolved=True))
            for each in found_now:
                self._unresolved.remove(each)
                log.info("a payment is booked that was unresolved", signature=each.signature)
        self._count_unresolved()
        return booked

    async def _book(self, rows: list[Row]) -> int:
        """Write the rows that are not there yet; return how many."""
        there = await self._booked(rows) if rows else set()
        new = [row for row in rows if row[0] not in there]
        if new:
            await self._insert(PAYMENTS, new)
            BOOKED.inc(len(new))
        self._newest_slot = max(self._newest_slot, *(row[2] for row in rows), 0)
        return len(new)

    async def _transaction(self, listed: Listed) -> Any:
        """Return a transaction, None where the node does not have it.

        Raises BooksClosed, and Unreadable where it is of a version that no node gives us.
        """
        config = {
            "encoding": "base64",
            "commitment": "finalized",
            "maxSupportedTransactionVersion": 0,
        }
        return await self._ask("getTransaction", listed.signature, config)

    def _notes(self, listed: dict[Listed, str], *, is_resolved: bool) -> list[Row]:
        of, now = self._settings, datetime.now(UTC)
        return [
            (
                *(each.signature, each.slot, of.pay_to, of.pay_network, of.pay_asset),
                *(is_resolved, now, cause),
            )
            for each, cause in listed.items()
        ]

    async def close(self) -> None:
        """Give the connections back."""
        if self._http is not None:
            await self._http.close()
        if self._client is not None:
            await self._client.close()

    async def _list(self, oldest: int, least: int, until: str = "") -> list[Listed]:
        """Return the transactions from a slot on, oldest first, those before `until` left out.

        `least` is the slot that the node must have come to. It answers an unknown `until` with all
        that it has, and an unknown `before` with nothing.
        """
        found: list[Listed] = []
        config = {"limit": AT_ONCE, "commitment": "finalized", "minContextSlot": least}
        if until:
            config["until"] = until
        overlap = ""
        while True:
            listed = await self._ask("getSignaturesForAddress", self._account, config)
            try:
                is_end = len(listed) < AT_ONCE or int(listed[-1]["slot"]) < oldest
                if overlap:
                    if not listed or listed[0]["signature"] != overlap:
                        raise BooksClosed("the node does not go on with its list")
                    listed = listed[1:]
                found += [
                    Listed(str(each["signature"]), int(each["slot"]))
                    for each in listed
                    if each["err"] is None and int(each["slot"]) >= oldest
                ]
                if is_end:
                    return found[::-1]
                config["before"], overlap = (str(each["signature"]) for each in listed[-2:])
            except (LookupError, TypeError, ValueError) as error:
                raise BooksClosed(f"the node's list cannot be read: {error!r}"[:500]) from None

    async def _slot(self, method: str, *params: Any) -> int:
        """Return a slot that the node names; raises BooksClosed."""
        slot = await self._ask(method, *params)
        if type(slot) is not int:
            raise BooksClosed(f"RPC_ENDPOINT, {method}: no slot")
        return slot

    async def _newest_at_node(self) -> int:
        return await self._slot("getSlot", {"commitment": "finalized"})

    async def _read_whole(self) -> int:
        """Return the slot up to which a process before has read, 0 if it is not known.

        Nor is it of other books than these, which a backup may have brought back, or of the node of
        another chain, to which RPC_ENDPOINT led by mistake.
        """
        found = await self._ask_redis("GET", self._whole_key())
        newest, _, whole = (found or b"").partition(b" ")
        is_ours = self._newest_slot > 0 and newest == b"%d" % self._newest_slot
        if not is_ours or int(whole) > await self._newest_at_node() + _BEHIND_SLOTS:
            return 0
        return int(whole)

    async def _write_whole(self) -> None:
        """Note up to which slot the books were read; a full Redis leaves the note before."""
        value = f"{self._newest_slot} {self._whole}"
        with suppress(BooksClosed):
            await self._ask_redis("SET", self._whole_key(), value, "EX", PAYMENT_BOOKS.ttl_s)

    def _whole_key(self) -> str:
        of = self._settings
        seller = f"{of.pay_to} {of.pay_network} {of.pay_asset}"
        return PAYMENT_BOOKS.make(id=sha256(seller.encode()).hexdigest())

    async def _ask_redis(self, *command: object) -> Any:
        try:
            [answer] = await self._redis.ask([command])
        except (RedisError, OSError) as error:
            raise BooksClosed(f"the Redis of the keys does not answer: {error}") from None
        return answer

    async def _row(self, paid: Arrival) -> Row:
        path = await self._ask_redis("HGET", PAYMENT.make(id=paid.id), "path")
        return (
            paid.signature,
            paid.id,
            paid.slot,
            _EPOCH + timedelta(seconds=paid.block_time_s),
            paid.payer,
            self._settings.pay_to,
            self._settings.pay_network,
            self._settings.pay_asset,
            paid.amount_raw,
            path.decode("utf-8", "replace") if path else None,
        )

    async def _newest(self) -> Listed:
        """Return the newest transaction in the books, one without a signature if there is none."""
        [(signature, slot)] = await self._query(_NEWEST)
        return Listed(str(signature), int(slot))

    async def _booked(self, rows: list[Row]) -> set[str]:
        """Return the signatures among those of rows that are in the books."""
        times_ms = [(row[3] - _EPOCH) // timedelta(milliseconds=1) for row in rows]
        found = await self._query(
            _BOOKED,
            first_ms=min(times_ms),
            last_ms=max(times_ms),
            signatures=[row[0] for row in rows],
        )
        return {str(signature) for (signature,) in found}

    async def _read_unresolved(self) -> list[Listed]:
        """Return what the books lack, oldest first."""
        rows = await self._query(_UNRESOLVED)
        return [Listed(str(signature), int(slot)) for signature, slot in rows]

    async def _query(self, sql: str, **more: Any) -> Sequence[Sequence[Any]]:
        assert self._settings.pay_to is not None
        try:
            if self._client is None:
                self._client = await connect_async(self._settings)
            answer = await self._client.query(
                sql,
                {
                    "pay_to": self._settings.pay_to,
                    "network": self._settings.pay_network,
                    "asset": self._settings.pay_asset,
                    **more,
                },
            )
            return answer.result_rows
        except (ClickHouseError, OSError, TimeoutError, aiohttp.ClientError) as error:
            raise BooksClosed(_first_line("ClickHouse", error)) from None

    async def _insert(self, table: Table, rows: list[Row]) -> None:
        own: dict[str, Any] = {"async_insert": 0, "wait_end_of_query": 1}
        if self._settings.clickhouse_replicated:
            own |= INSERT_SETTINGS
        try:
            if self._client is None:
                self._client = await connect_async(self._settings)
            await self._client.insert(
                table.name,
                rows,
                column_names=list(table.columns),
                column_type_names=list(table.columns.values()),
                settings=own,
            )
        except (ClickHouseError, OSError, TimeoutError, aiohttp.ClientError) as error:
            raise BooksClosed(_first_line("ClickHouse", error)) from None

    async def _ask(self, method: str, *params: Any) -> Any:
        if self._http is None:
            self._http = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        assert self._settings.rpc_endpoint is not None
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            async with self._http.post(
                self._settings.rpc_endpoint,
                data=orjson.dumps(call),
                headers={"content-type": "application/json"},
                timeout=aiohttp.ClientTimeout(total=_WITHIN_S),
            ) as answer:
                said = orjson.loads(await answer.read())
                refusal = said.get("error") if isinstance(said, dict) else None  # some send null
                if refusal is not None and refusal["code"] == _UNSUPPORTED_VERSION:
                    raise Unreadable(f"{method}: {refusal['message']}"[:_LONGEST_CAUSE])
                return said["result"]
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            LookupError,
            TypeError,
            ValueError,
        ) as error:
            raise BooksClosed(f"RPC_ENDPOINT, {method}: {type(error).__name__}") from None


def _first_line(system: str, error: Exception) -> str:
    return f"{system}: {str(error).strip().partition(chr(10))[0][:500]}"
