"""What Redis knows of wallets: each wallet one state, many wallets in one trip.

Of a wallet at rest it knows nothing but a bit, which others may share (`schemas.away`): those are
read in ClickHouse, with one query for all.

The reads about a wallet are one MULTI, so they are of one watermark: its answer's `as_of_slot`.
No read is larger than its bound, whatever a wallet has: HSCAN returns a hash whole up to about as
many fields as asked for, and a part of a larger one. HLEN says which of the two it was. A
wallet's own SOL is one field among its accounts, asked for by name: no part may lack it.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from itertools import islice
from typing import Any, Final

from api.stores.clients import Stores
from api.wallets.known_position import KnownPosition, KnownPositions
from infra.clickhouse.sql import load
from schemas.away import bit
from schemas.positions import (
    COLD_MARK,
    Balance,
    WalletDay,
    unpack_balance,
    unpack_cold_wallet,
    unpack_wallet_day,
)
from schemas.redis_keys import (
    AWAY,
    BALANCES,
    BOOKS_CLOCK,
    POSITIONS,
    TRADED,
    WALLET_DAYS,
    WALLET_TOTALS,
    WALLETS_DUE,
    WATERMARK,
    wallet_tag,
)
from schemas.solana.base58 import decode, encode
from schemas.times import DAY_MS

GROUP: Final = "pnl"
SUMMARY_DAYS: Final = 7
MOST_POSITIONS: Final = 1_000  # of a wallet, that are read at once; those in ClickHouse apart
MOST_ACCOUNTS: Final = 2_000
_COLD: Final = load(__package__, "cold_wallets")
IDLE: Final = WalletDay()  # of a day on which nothing happened; it is read only

Command = tuple[Any, ...]


class Part(Flag):
    """What to read of a wallet, beside its totals."""

    TOTALS = 0
    POSITIONS = auto()
    DAYS = auto()
    BALANCES = auto()


@dataclass(slots=True)
class WalletState:
    """What Redis knows of a wallet; what was not asked for is empty."""

    wallet: str
    as_of_slot: int  # of the partition's watermark
    as_of_ms: int
    clock_ms: int  # latest block time of the books
    total: WalletDay
    is_away: bool  # Redis has nothing of it, ClickHouse may
    positions: dict[str, KnownPosition] = field(default_factory=dict)  # by mint
    position_count: int = 0  # in Redis; if there are more than in `positions`, that is empty
    has_cold: bool = False  # or had: positions in ClickHouse
    days: list[tuple[int, WalletDay]] = field(default_factory=list)  # oldest first
    balances: list[tuple[bytes, str, Balance]] = field(default_factory=list)  # account, mint
    account_count: int = 0  # in Redis; if there are more than in `balances`, those are a part

    @property
    def is_whole(self) -> bool:
        """Return whether all positions that Redis has were read."""
        return self.position_count == len(self.positions)

    @property
    def has_all_accounts(self) -> bool:
        """Return whether all accounts that Redis has were read."""
        return self.account_count == len(self.balances)


class WalletReader:
    """Reads wallets; knows what day it was when it last asked."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.known = KnownPositions()
        self._today = 0

    async def read(
        self, wallets: Sequence[str], parts: Part, most_positions: int = MOST_POSITIONS
    ) -> list[WalletState]:
        """Return the states of wallets, in their order; raises Problem.

        The keys of the last seven days are known once the day is: where a new one has begun
        since the last call it asks twice.
        """
        while True:
            today = self._today
            days = range(today - SUMMARY_DAYS + 1, today + 1)
            commands: list[Command] = []
            sizes: list[int] = []
            for wallet in wallets:
                asked = _commands(wallet, parts, days, most_positions)
                sizes.append(len(asked))
                commands += asked
            answers = await self.stores.ask(commands)
            states: list[WalletState] = []
            end = 0
            for wallet, size in zip(wallets, sizes, strict=True):
                end += size
                states.append(_state(self.known, wallet, parts, days, answers[end - 1]))
            newest = max((state.clock_ms for state in states), default=0) // DAY_MS
            if Part.DAYS not in parts or newest == today:
                await self._read_away([state for state in states if state.is_away], parts)
                return states
            self._today = newest

    async def _read_away(self, states: Sequence[WalletState], parts: Part) -> None:
        """Read what ClickHouse has of wallets that Redis has not; raises Problem."""
        if not states:
            return
        rows = await self.stores.query(
            _COLD,
            {
                "wallets": [state.wallet for state in states],
                "slots": [state.as_of_slot for state in states],
            },
        )
        found = {row["wallet"]: unpack_cold_wallet(b64decode(row["packed"])) for row in rows}
        for state in states:
            if (away := found.get(state.wallet)) is None:
                continue
            state.has_cold = True
            if away.total:
                state.total = unpack_wallet_day(away.total)
            if Part.BALANCES in parts:
                for account, packed in away.balances.items():
                    balance = unpack_balance(packed)
                    state.balances.append((account, encode(balance.mint), balance))
                state.account_count = len(state.balances)

    async def read_positions_of(
        self, wallet: str, mints: Sequence[str]
    ) -> tuple[WalletState, set[str]]:
        """Return a wallet with some of its positions, and which others may be in ClickHouse.

        Those are all of a wallet that was put away, else those of tokens that are cold in its
        partition. Raises Problem.
        """
        tag = wallet_tag(wallet)
        raws = [decode(mint) for mint in mints]
        name = POSITIONS.make(tag=tag, wallet=wallet)
        commands: list[Command] = [
            *_begin(wallet, tag),
            ("HMGET", name, *raws),
            ("ZMSCORE", TRADED.make(tag=tag), *raws),
            *(("GETBIT", AWAY.make(tag=tag), bit(raw)) for raw in raws),
            ("EXEC",),
        ]
        left = iter((await self.stores.ask(commands))[-1])
        state = _empty(wallet, left)
        found, moved, *bits = left
        await self._read_away([state] if state.is_away else [], Part.TOTALS)
        absent = set()
        for mint, packed, hour, may_be_away in zip(mints, found, moved, bits, strict=True):
            if packed is not None:
                state.positions[mint] = self.known.unpack(packed)
            elif state.is_away or (hour is None and may_be_away):
                absent.add(mint)
        state.position_count = len(state.positions)
        return state, absent


def _begin(wallet: str, tag: str) -> Iterator[Command]:
    yield ("MULTI",)
    yield ("HMGET", WATERMARK.make(tag=tag, group=GROUP), "slot", "time_ms")
    yield ("GET", BOOKS_CLOCK.make(tag=tag))
    yield from presence(wallet, tag)


def presence(wallet: str, tag: str) -> Iterator[Command]:
    """Yield the commands whose answers `is_away` takes; the first is the wallet's total."""
    raw = decode(wallet)
    yield ("HGET", WALLET_TOTALS.make(tag=tag), raw)
    yield ("ZSCORE", WALLETS_DUE.make(tag=tag), raw)
    yield ("GETBIT", AWAY.make(tag=tag), bit(raw))


def is_away(total: bytes | None, due: object, may_be_away: int) -> bool:
    """Return whether ClickHouse is where a wallet is, if it is anywhere."""
    return total is None and due is None and bool(may_be_away)


def _commands(wallet: str, parts: Part, days: range, most_positions: int) -> list[Command]:
    tag = wallet_tag(wallet)
    commands = list(_begin(wallet, tag))
    if Part.POSITIONS in parts:
        name = POSITIONS.make(tag=tag, wallet=wallet)
        commands += (("HLEN", name), ("HSCAN", name, 0, "COUNT", most_positions + 1))
    if Part.DAYS in parts:
        raw = decode(wallet)
        commands += (("HGET", WALLET_DAYS.make(tag=tag, day=day), raw) for day in days)
    if Part.BALANCES in parts:
        name = BALANCES.make(tag=tag, wallet=wallet)
        commands += (
            ("HLEN", name),
            ("HSCAN", name, 0, "COUNT", MOST_ACCOUNTS),
            ("HGET", name, decode(wallet)),
        )
    commands.append(("EXEC",))
    return commands


def _empty(wallet: str, answers: Iterator[Any]) -> WalletState:
    """Return a wallet's state from the answers to `_begin`, which are taken."""
    (slot, time_ms), clock, total, due, may_be_away = islice(answers, 5)
    return WalletState(
        wallet,
        int(slot or 0),
        int(time_ms or 0),
        int(clock or 0),
        unpack_wallet_day(total) if total else WalletDay(),
        is_away(total, due, may_be_away),
    )


def _state(
    known: KnownPositions, wallet: str, parts: Part, days: range, answers: list[Any]
) -> WalletState:
    left = iter(answers)
    state = _empty(wallet, left)
    if Part.POSITIONS in parts:
        count, fields = next(left), dict(_pairs(next(left)))
        is_whole = len(fields) == count
        state.has_cold = COLD_MARK in fields or not is_whole
        fields.pop(COLD_MARK, None)
        if is_whole:
            state.position_count = len(fields)
            state.positions = {
                encode(mint): known.unpack(packed) for mint, packed in fields.items()
            }
        else:
            state.position_count = count
    if Part.DAYS in parts:
        for day, packed in zip(days, left, strict=False):
            if day >= 0:
                state.days.append((day, unpack_wallet_day(packed) if packed else IDLE))
    if Part.BALANCES in parts:
        state.account_count, scanned, own = answers[-3:]
        fields = dict(_pairs(scanned))
        if own is not None:
            fields[decode(wallet)] = own
        for account, packed in fields.items():
            balance = unpack_balance(packed)
            state.balances.append((account, encode(balance.mint), balance))
    return state


def _pairs(scanned: list[Any]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the fields and values that an HSCAN returned."""
    _, flat = scanned
    return zip(flat[::2], flat[1::2], strict=True)
