"""Dead tokens: their markets leave Redis for ClickHouse, and come back when one moves again.

A token to which nothing happened for some days of the chain's time is put away whole: first its
row is in ClickHouse, then one MULTI takes its keys away and marks it cold. When it moves again
all is read back, written and the mark taken away with the same flush; balances come back exactly.
Who traded when is not kept: it is older than any window. The row stays, and counts for nothing
without the mark. It happens at the first slot of an hour. What RPC said of the token stays for
some months more: readers name it from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from redis.asyncio import Redis

from infra.redis.client import ask
from pipeline.agents.market.state import restore
from pipeline.agents.settled.quarantine import UNREADABLE, Quarantine
from pipeline.domain.market import MintMarket
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.markets import Fields, exact_field, pack_cold, unpack_account, unpack_cold
from schemas.redis_keys import (
    ACCOUNTS,
    ACTIVE,
    COLD_MARKETS,
    HOLDERS,
    MARKET,
    METADATA,
    TRADERS,
)
from schemas.rows import COLD_MARKETS as TABLE
from schemas.rows import Row
from schemas.times import DAY_MS, HOUR_MS

AT_ONCE: Final = 500  # markets read for putting away; the others wait for the next hour
_EXACT_SIZE: Final = len(exact_field(bytes(32)))

Hashes = tuple[Fields, Fields]  # of the market, of its accounts
ReadCold = Callable[[list[str]], Awaitable[dict[str, bytes]]]
"""Reads the packed markets of mints from ClickHouse; raises ClickHouseError."""


def reader(sink: ClickHouseSink) -> ReadCold:
    """Return what reads from ClickHouse."""

    async def read(mints: list[str]) -> dict[str, bytes]:
        client = await sink.client()
        answer = await client.query(
            f"SELECT mint, packed FROM {TABLE.name} FINAL "  # noqa: S608
            "WHERE mint IN {mints:Array(String)}",
            parameters={"mints": mints},
            column_formats={"packed": "bytes"},
        )
        return {mint: bytes(packed) for mint, packed in answer.result_rows}

    return read


class ColdMarketsLost(Exception):
    """ClickHouse does not have what Redis says was put there; the text says what to do."""

    def __init__(self, mints: list[str]) -> None:
        super().__init__(
            f"ClickHouse has no row of cold_markets for {', '.join(mints[:3])}"
            f"{f' and {len(mints) - 3} more' if mints[3:] else ''}, which Redis says are there: "
            "restore that table, or begin anew with an empty Redis and the log"
        )


class ColdMarkets:
    """Puts the markets of one partition away, and fetches them back."""

    def __init__(
        self, redis: Redis, tag: str, after_days: int, read: ReadCold, quarantine: Quarantine
    ) -> None:
        self._redis = redis
        self._quarantine = quarantine
        self._tag = tag
        self._after_ms = after_days * DAY_MS
        self._read = read
        # May be put away at the next turns of the hour: when it last moved, and all of it.
        self._idle: dict[str, tuple[int, Hashes]] = {}
        self._frozen: dict[str, Hashes] = {}  # put away since the last take,
        self._frozen_writing: dict[str, Hashes] = {}  # and by that
        self._rows: list[Row] = []
        self._commands: list[tuple[Any, ...]] = []

    async def wake(self, mints: Iterable[str]) -> list[MintMarket]:
        """Return the markets of those that are cold; they are not, from here on.

        All of a market counts as changed. Raises RedisError and ClickHouseError.
        """
        asked = [mint for mint in mints if self._put_away(mint) is None]
        found = {mint: away for mint in mints if (away := self._put_away(mint)) is not None}
        if asked:
            (marks,) = await ask(
                self._redis, [("SMISMEMBER", COLD_MARKETS.make(tag=self._tag), *asked)]
            )
            cold = [mint for mint, is_cold in zip(asked, marks, strict=True) if is_cold]
            if cold:
                packed = await self._read(cold)
                if missing := [mint for mint in cold if mint not in packed]:
                    raise ColdMarketsLost(missing)
                for mint in cold:
                    try:
                        found[mint] = unpack_cold(packed[mint])
                    except UNREADABLE as error:
                        self._quarantine.put(mint, f"{TABLE.name} {mint}", error)
        woken = [
            market
            for mint, hashes in found.items()
            if (market := self._thawed(mint, hashes, f"{TABLE.name} {mint}")) is not None
        ]
        for mint in (market.mint for market in woken):
            self._frozen.pop(mint, None)
            self._frozen_writing.pop(mint, None)
            self._commands += [
                ("SREM", COLD_MARKETS.make(tag=self._tag), mint),
                ("PERSIST", METADATA.make(tag=self._tag, mint=mint)),
            ]
        return woken

    async def find_idle(self, now_ms: int, later_ms: int) -> None:
        """Read the markets that the turn of the hour between two times may put away."""
        self._idle = {}
        if now_ms // HOUR_MS == later_ms // HOUR_MS or not now_ms:
            return
        until = later_ms // HOUR_MS * HOUR_MS - self._after_ms
        active = ACTIVE.make(tag=self._tag)
        limit = AT_ONCE + len(self._quarantine)
        (mints,) = await ask(
            self._redis,
            [
                ("ZRANGE", active, "-inf", f"({until}", "BYSCORE", "LIMIT", 0, limit, "WITHSCORES"),
            ],
        )
        mints = [each for each in mints if each[0].decode() not in self._quarantine]
        names = [mint.decode() for mint, _ in mints]
        commands = [
            ("HGETALL", key.make(tag=self._tag, mint=mint))
            for mint in names
            for key in (MARKET, ACCOUNTS)
        ]
        answers = await ask(self._redis, commands) if commands else []
        self._idle = {
            mint: (int(mints[at][1]), (answers[2 * at], answers[2 * at + 1]))
            for at, mint in enumerate(names)
            if answers[2 * at] and self._put_away(mint) is None
        }
        for mint, (_, hashes) in [*self._idle.items()]:
            if self._thawed(mint, hashes, MARKET.make(tag=self._tag, mint=mint)) is None:
                del self._idle[mint]

    def _thawed(self, mint: str, hashes: Hashes, place: str) -> MintMarket | None:
        """Return a market, None for one that cannot be read, which goes into quarantine."""
        try:
            return _thawed(mint, *hashes)
        except UNREADABLE as error:
            self._quarantine.put(mint, place, error)
            return None

    def turn(self, now_ms: int, moves: Callable[[str], int | None], slot: int) -> list[str]:
        """Put away what is idle as an hour begins; return the mints.

        `moves` tells when a mint that is in use moved last, None for one that is not; what is
        only about to move stays.
        """
        gone = []
        until = now_ms // HOUR_MS * HOUR_MS - self._after_ms
        for mint, (last_ms, hashes) in self._idle.items():
            moved_ms = moves(mint)
            if (last_ms if moved_ms is None else moved_ms) >= until:
                continue
            # Older than any window, whether the market goes or stays.
            self._commands.append(("UNLINK", TRADERS.make(tag=self._tag, mint=mint)))
            if moved_ms is None:
                gone.append(mint)
                self._freeze(mint, hashes, slot)
        for mint in gone:
            del self._idle[mint]
        return gone

    def _freeze(self, mint: str, hashes: Hashes, slot: int) -> None:
        self._frozen[mint] = hashes
        self._rows.append((mint, pack_cold(*hashes), slot))
        keys = [key.make(tag=self._tag, mint=mint) for key in (MARKET, ACCOUNTS, HOLDERS)]
        self._commands += [
            ("UNLINK", *keys),
            ("ZREM", ACTIVE.make(tag=self._tag), mint),
            ("SADD", COLD_MARKETS.make(tag=self._tag), mint),
            ("EXPIRE", METADATA.make(tag=self._tag, mint=mint), METADATA.ttl_s),
        ]

    def take(self) -> tuple[list[Row], list[tuple[Any, ...]]]:
        """Return rows of cold_markets, and commands that go before all others."""
        rows, self._rows = self._rows, []
        commands, self._commands = self._commands, []
        self._frozen_writing, self._frozen = self._frozen, {}
        return rows, commands

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        self._frozen_writing = {}

    def _put_away(self, mint: str) -> Hashes | None:
        """Return what was put away and may not be in the stores yet."""
        return self._frozen.get(mint) or self._frozen_writing.get(mint)


def _thawed(mint: str, fields: Fields, accounts: Fields) -> MintMarket:
    market = restore(mint, fields)
    market.is_stored = False
    market.traded = b"price" in fields
    market.changed_pools = set(market.pools)
    holders = market.holders
    for account, packed in accounts.items():
        if len(account) == _EXACT_SIZE:
            continue  # derived from the accounts
        record = unpack_account(packed)
        holders.accounts[account] = record
        holders.owners.setdefault(record.owner, 0)
        if not record.is_vault and holders.counts(record.owner):
            holders.owners[record.owner] += record.amount_raw
    holders.changed_accounts = set(holders.accounts)
    holders.changed_owners = {owner for owner, amount in holders.owners.items() if amount}
    holders.fill([], all_of_them=True)
    return market
