"""Dead tokens: their positions leave Redis for ClickHouse, and come back when one moves again.

A token that did not move for some days of the chain's time is put away whole, per partition:
first its rows are in ClickHouse, then one MULTI takes its keys away and marks it cold. When it
moves again all its positions are read back, written and the mark taken away with the same flush.
Its row in ClickHouse stays, and counts for nothing without the mark. A wallet that ever had a
position put away is marked as well, for good: a reader of its positions looks into ClickHouse.

When that happens depends on the slots alone: at the first slot of an hour, some at a time: after
a pause of days all tokens are dead at once. What is put away has the bytes that it comes back with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple

from pipeline.agents.pnl.store import Store
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.positions import COLD_MARK, pack_cold, unpack_cold
from schemas.rows import COLD_POSITIONS, Row
from schemas.times import HOUR_MS

AT_ONCE: Final = 4_000  # tokens put away as an hour begins, idle longest first; the others wait


class Asleep(NamedTuple):
    """A position of a dead token."""

    wallet: str
    mint: str
    packed: bytes
    chunks: list[bytes]  # its full chunks of lots


ReadCold = Callable[[int, list[str]], Awaitable[list[Asleep]]]
"""Reads the positions that a partition has of some mints from ClickHouse."""


def reader(sink: ClickHouseSink) -> ReadCold:
    """Return what reads from ClickHouse; it raises ClickHouseError."""

    async def read(partition: int, mints: list[str]) -> list[Asleep]:
        client = await sink.client()
        answer = await client.query(
            f"SELECT wallet, mint, packed FROM {COLD_POSITIONS.name} FINAL "  # noqa: S608
            "WHERE partition = {partition:UInt8} AND mint IN {mints:Array(String)}",
            parameters={"partition": partition, "mints": mints},
            column_formats={"packed": "bytes"},
        )
        return [
            Asleep(wallet, mint, *unpack_cold(bytes(packed)))
            for wallet, mint, packed in answer.result_rows
        ]

    return read


class ColdMints:
    """Which mints of one partition moved when, and which are in ClickHouse."""

    def __init__(
        self, store: Store, partition: int, after_hours: int, read: ReadCold, hour: int
    ) -> None:
        self._store = store
        self._partition = partition
        self._after_hours = after_hours
        self._read = read
        self._hour = hour
        self._here: set[str] = set()  # known not to be cold; begun anew each hour
        self._moved: dict[str, int] = {}  # mint -> hour, since the last take,
        self._moved_writing: dict[str, int] = {}  # and of that
        # May be put away by the slots loaded: mint -> hour and raw mint, Redis's order of them.
        self._idle: dict[str, tuple[int, bytes]] = {}
        self._passed: dict[str, int] = {}  # of these that would be back by now -> hour they moved
        self._frozen: dict[str, list[Asleep]] = {}  # put away since the last take,
        self._frozen_writing: dict[str, list[Asleep]] = {}  # and by that
        self._woken: set[str] = set()  # marked cold in Redis, but back since the last take,
        self._woken_writing: set[str] = set()  # and with that
        self._marked: set[str] = set()  # wallets with a position put away since the last take
        self._rows: list[Row] = []
        self._commands: list[tuple[Any, ...]] = []

    # Coming back.

    async def wake(self, mints: Iterable[str], raw: Callable[[str], bytes]) -> list[Asleep]:
        """Return the positions of those of the mints that are cold; they are not, from here on."""
        unknown = [mint for mint in mints if mint not in self._here]
        if not unknown:
            return []
        woken: list[Asleep] = []
        cold: list[str] = []
        if asked := [mint for mint in unknown if self._only_redis_knows(mint)]:
            is_cold = await self._store.read_cold([raw(mint) for mint in asked])
            cold = [mint for mint, away in zip(asked, is_cold, strict=True) if away]
            if cold:
                woken += await self._read(self._partition, cold)
        # Nothing is changed before this point: a read that failed is done again.
        for mint in unknown:
            if (asleep := self._put_away(mint)) is not None:
                woken += asleep
                cold.append(mint)
                self._frozen.pop(mint, None)
                self._frozen_writing.pop(mint, None)
        if cold:
            self._commands.append(("SREM", self._store.cold, *map(raw, cold)))
            self._woken.update(cold)
        self._here.update(unknown)
        return woken

    def _only_redis_knows(self, mint: str) -> bool:
        """Return whether the mark in Redis is all that tells if a mint is cold."""
        here = mint in self._woken or mint in self._woken_writing
        return not here and self._put_away(mint) is None

    def _put_away(self, mint: str) -> list[Asleep] | None:
        """Return what was put away and may not be in ClickHouse yet."""
        asleep = self._frozen.get(mint)
        return self._frozen_writing.get(mint) if asleep is None else asleep

    # Going away.

    def moved(self, mint: str) -> None:
        """Note that a mint moves in this hour."""
        if self._moved.get(mint) != self._hour:
            self._moved[mint] = self._hour

    async def find_idle(
        self,
        times_ms: Iterable[int],
        moving: dict[str, int],
        raw: Callable[[str], bytes],
        text: Callable[[bytes], str],
    ) -> list[str]:
        """Return the mints that may be put away by the slots loaded, which are at `times_ms`.

        `moving` are the mints that move in them, and the hour they first do.
        """
        self._idle, self._passed = {}, {}
        hours = {time_ms // HOUR_MS for time_ms in times_ms}
        turns = sum(hour > self._hour for hour in hours)
        if not turns:
            return []
        until = max(hours) - self._after_hours
        # Redis may not have heard yet of what moved, and of what was put away last.
        newer = self._moved_writing | self._moved
        away = len(self._frozen) + len(self._frozen_writing)
        limit = turns * AT_ONCE + len(newer) + len(moving) + away
        idle = {
            text(mint): (hour, mint) for mint, hour in await self._store.read_idle(until, limit)
        }
        for mint, hour in newer.items():
            idle[mint] = hour, raw(mint)
        for mint, hour in moving.items():
            if mint not in idle:
                idle[mint] = hour, raw(mint)
        self._idle = {
            mint: (hour, mint_raw)
            for mint, (hour, mint_raw) in idle.items()
            if hour <= until and self._put_away(mint) is None
        }
        return list(self._idle)

    def turn(self, hour: int, moves_later: Callable[[], set[str]]) -> tuple[list[str], list[str]]:
        """Begin an hour; return the mints to be put away with it.

        Then those that would be, but move again before the next load: they would only come and
        go. They take their places, and their wallets are to be marked, as if they had gone.
        """
        if hour <= self._hour:
            return [], []
        self._hour = hour
        self._here = set()
        until = hour - self._after_hours
        idle = sorted(
            (moved, mint_raw, mint)
            for mint, (found, mint_raw) in self._idle.items()
            if (moved := max(found, self._moved.get(mint, 0))) <= until
            and self._passed.get(mint) != moved
        )[:AT_ONCE]
        if not idle:
            return [], []
        later = moves_later()
        gone: list[str] = []
        passing: list[str] = []
        for moved, _, mint in idle:
            if mint in later:
                passing.append(mint)
                self._passed[mint] = moved
            else:
                gone.append(mint)
                del self._idle[mint]
        return gone, passing

    def freeze(self, mint: str, mint_raw: bytes, asleep: list[Asleep], slot: int) -> None:
        """Put a mint away."""
        self._frozen[mint] = asleep
        self._moved.pop(mint, None)
        self._woken.discard(mint)
        self._woken_writing.discard(mint)
        self._rows += [
            (mint, self._partition, each.wallet, pack_cold(each.packed, each.chunks), slot)
            for each in asleep
        ]
        store = self._store
        self._commands += [("HDEL", store.positions(each.wallet), mint_raw) for each in asleep]
        self.mark(each.wallet for each in asleep)
        self._commands += [
            ("UNLINK", store.top(mint)),
            ("ZREM", store.traded, mint_raw),
            ("SADD", store.cold, mint_raw),
        ]

    def mark(self, wallets: Iterable[str]) -> None:
        """Note that wallets have, or had, positions in ClickHouse: their readers look there."""
        self._marked.update(wallets)

    # Writing.

    def take(self, raw: Callable[[str], bytes]) -> tuple[list[Row], list[tuple[Any, ...]]]:
        """Return rows of cold_positions, and commands that go before all others."""
        rows, self._rows = self._rows, []
        commands, self._commands = self._commands, []
        marked, self._marked = self._marked, set()
        commands += [("HSET", self._store.positions(wallet), COLD_MARK, b"") for wallet in marked]
        moved: list[int | bytes] = []
        for mint, hour in self._moved.items():
            moved += (hour, raw(mint))
        if moved:
            commands.append(("ZADD", self._store.traded, *moved))
        self._moved_writing, self._moved = self._moved, {}
        self._frozen_writing, self._frozen = self._frozen, {}
        self._woken_writing, self._woken = self._woken, set()
        return rows, commands

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        self._moved_writing, self._frozen_writing, self._woken_writing = {}, {}, set()
