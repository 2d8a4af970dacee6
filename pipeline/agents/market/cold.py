"""Markets at rest leave Redis for ClickHouse, and come back when something happens to their token.

A market to which nothing happened for some days of the chain's time is put away whole: first its
row is in ClickHouse, then one MULTI takes its keys away. Of its token Redis keeps a bit, which
others may share (`schemas.away`): what is in no order of the active tokens and has its bit set is
looked up in ClickHouse. When the token moves again all is read back and written with the same
flush; balances come back exactly, and so does what RPC said. Rows stay, and count for nothing
while Redis has the market. Who traded when is not kept: it is older than any window.

That happens at the first slot of five minutes, some at a time, those that rest for longest first.
What the slots loaded move, or what is not in Redis yet, waits for the next turn.

A full Redis has markets put away before that (`evict`): then those who traded of late go with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from redis.asyncio import Redis

from infra.redis.client import ask
from pipeline.agents.market.cold_rows import ColdRows, row, thawed
from pipeline.agents.market.registry import Known, packed_metadata
from pipeline.agents.settled.away import Away
from pipeline.agents.settled.books import Writes
from pipeline.agents.settled.quarantine import UNREADABLE, Quarantine
from pipeline.domain.market import MintMarket
from pipeline.domain.rolling import oldest_score
from schemas.markets import ColdMarket, unpack_cold
from schemas.redis_keys import ACCOUNTS, ACTIVE, HOLDERS, MARKET, MARKETS_AWAY, METADATA, TRADERS
from schemas.rows import COLD_MARKETS, Row
from schemas.solana.addresses import key as raw
from schemas.times import DAY_MS

AT_ONCE: Final = 500  # markets put away at a turn: 1.1 million a day over all partitions
TURN_MS: Final = 5 * 60_000
EVICTED_AT_ONCE: Final = 500  # markets, when Redis is full


class Woken(NamedTuple):
    """A market that comes back, and what RPC said of its token if that is known."""

    market: MintMarket
    known: Known | None


class ColdMarkets:
    """Puts the markets of one partition away, and fetches them back."""

    def __init__(
        self, redis: Redis, tag: str, after_days: int, rows: ColdRows, quarantine: Quarantine
    ) -> None:
        self._redis = redis
        self._quarantine = quarantine
        self._tag = tag
        self._after_ms = after_days * DAY_MS
        self._read = rows
        self._active = ACTIVE.make(tag=tag)
        self._away = Away(redis, MARKETS_AWAY.make(tag=tag))
        # May be put away by the slots loaded, those that rest for longest first: when the token
        # last moved as Redis has it, and its market, None while that is in use.
        self._idle: dict[str, tuple[int, ColdMarket | None]] = {}
        self._frozen: dict[str, ColdMarket] = {}  # put away since the last take,
        self._frozen_writing: dict[str, ColdMarket] = {}  # and by that
        self._rows: list[Row] = []
        self._commands: list[tuple[Any, ...]] = []

    async def prepare(self) -> None:
        """Take the bitmap's memory, and note in it what an earlier version put away."""
        await self._away.prepare()
        earlier = f"markets:{self._tag}:cold"  # a set of the mints
        (mints,) = await ask(self._redis, [("SMEMBERS", earlier)])
        if mints:
            marks = [self._away.mark(raw(mint.decode())) for mint in mints]
            await ask(self._redis, [("MULTI",), *marks, ("UNLINK", earlier), ("EXEC",)])

    # Coming back.

    async def wake(self, mints: Sequence[str], slot: int) -> list[Woken]:
        """Return the markets of those of the mints that are put away before a slot.

        They are not, from here on; all of a market counts as changed. None of the mints is in
        memory. Raises RedisError and ClickHouseError.
        """
        found = {mint: away for mint in mints if (away := self._put_away(mint)) is not None}
        asked = [mint for mint in mints if mint not in found]
        if may_be := await self._may_be_away(asked):
            found |= self._unpacked(await self._read.markets(may_be, slot))
        if not found:
            return []
        metadata = await self._read.metadata(list(found))
        # Nothing is changed before this point: a read that failed is done again.
        woken = []
        for mint, cold in found.items():
            self._frozen.pop(mint, None)
            self._frozen_writing.pop(mint, None)
            known = metadata.get(mint)
            if known is not None:
                key = METADATA.make(tag=self._tag, mint=mint)
                self._commands.append(("SET", key, packed_metadata(known), "NX"))
            if (market := self._thawed(mint, cold)) is not None:
                woken.append(Woken(market, known))
        return woken

    async def read(self, mints: Sequence[str], slot: int) -> dict[str, MintMarket]:
        """Return markets put away before a slot, which stay so; raises ClickHouseError."""
        found = self._unpacked(await self._read.markets(mints, slot)) if mints else {}
        markets = {mint: self._thawed(mint, cold) for mint, cold in found.items()}
        return {mint: market for mint, market in markets.items() if market is not None}

    def _unpacked(self, rows: dict[str, bytes]) -> dict[str, ColdMarket]:
        """Return the markets of rows; one that cannot be read goes into quarantine."""
        found = {}
        for mint, packed in rows.items():
            try:
                found[mint] = unpack_cold(packed)
            except UNREADABLE as error:
                self._quarantine.put(mint, f"{COLD_MARKETS.name} {mint}", error)
        return found

    def _thawed(self, mint: str, cold: ColdMarket) -> MintMarket | None:
        """Return a market, None for one that cannot be read, which goes into quarantine."""
        try:
            return thawed(mint, cold)
        except UNREADABLE as error:
            self._quarantine.put(mint, f"{COLD_MARKETS.name} {mint}", error)
            return None

    async def _may_be_away(self, mints: Sequence[str]) -> list[str]:
        """Return those of the mints that are not in Redis, and may be in ClickHouse."""
        if not mints:
            return []
        scores, bits = await ask(
            self._redis,
            [("ZMSCORE", self._active, *mints), self._away.look([raw(mint) for mint in mints])],
        )
        return [
            mint
            for mint, score, bit in zip(mints, scores, bits, strict=True)
            if score is None and bit
        ]

    def _put_away(self, mint: str) -> ColdMarket | None:
        """Return what was put away and may not be in the stores yet."""
        return self._frozen.get(mint) or self._frozen_writing.get(mint)

    def leave_out(self, mint: str) -> None:
        """Put a mint away at no turn: it is in quarantine."""
        self._idle.pop(mint, None)

    # Going away.

    @property
    def pending(self) -> set[str]:
        """The mints that were put away, and Redis may not know it yet."""
        return {*self._frozen, *self._frozen_writing}

    async def find_idle(self, now_ms: int, times_ms: Iterable[int], in_use: set[str]) -> None:
        """Read the markets that slots of these times may put away.

        `in_use` are those that these slots move, or that are newer in memory than in Redis.
        """
        self._idle = {}
        before = now_ms // TURN_MS
        turns = {time_ms // TURN_MS for time_ms in times_ms if time_ms // TURN_MS > before}
        if not turns or not now_ms:
            return
        until = max(turns) * TURN_MS - self._after_ms
        waiting = self.pending
        most = len(turns) * AT_ONCE
        found = await self._least_active(until, most + len(in_use) + len(waiting))
        found = [each for each in found if each[0] not in waiting]
        resting = [mint for mint, _ in found if mint not in in_use][:most]
        markets = await self._read_whole(resting)
        self._idle = {
            mint: (time_ms, markets.get(mint))
            for mint, time_ms in found
            if mint in in_use or mint in markets
        }

    def turn(self, now_ms: int, last_moved_ms: Callable[[str], int], slot: int) -> list[str]:
        """Put away what is idle as five minutes begin; return the mints.

        `last_moved_ms` is called for markets that are in use; those stay.
        """
        until = now_ms // TURN_MS * TURN_MS - self._after_ms
        due: dict[str, ColdMarket | None] = {}
        for mint, (last_ms, market) in self._idle.items():
            if len(due) == AT_ONCE or last_ms >= until:
                break
            if market is not None or last_moved_ms(mint) < until:
                due[mint] = market
        gone = []
        for mint, market in due.items():
            del self._idle[mint]
            if market is None:
                # What it would have left by going and coming back.
                traders = TRADERS.make(tag=self._tag, mint=mint)
                self._commands += [("UNLINK", traders), self._away.mark(raw(mint))]
            else:
                gone.append(mint)
                self._frozen[mint] = market
                self._rows.append(row(mint, market, slot))
                self._commands += self._removal(mint)
        return gone

    async def evict(
        self, before_ms: int, skip: set[str], slot: int
    ) -> tuple[list[str], Writes] | None:
        """Return markets to be put away at once, and what does that; None where there is none.

        They have not moved since `before_ms`, and are as Redis has them at the watermark of that
        slot. Raises RedisError.
        """
        least = await self._least_active(before_ms, EVICTED_AT_ONCE + len(skip))
        mints = [mint for mint, _ in least if mint not in skip][:EVICTED_AT_ONCE]
        markets = await self._read_whole(mints, traders_since=oldest_score(before_ms // 60_000))
        if not markets:
            return None
        rows = [row(mint, market, slot) for mint, market in markets.items()]
        commands = [command for mint in markets for command in self._removal(mint)]
        return list(markets), Writes({COLD_MARKETS.name: rows}, commands, len(markets))

    async def _least_active(self, before_ms: int, limit: int) -> list[tuple[str, int]]:
        """Return mints that have not moved since a time, and when they did, longest ago first.

        None of them is in quarantine: what cannot be read stays where it is.
        """
        limits = ("BYSCORE", "LIMIT", 0, limit + len(self._quarantine), "WITHSCORES")
        (found,) = await ask(
            self._redis, [("ZRANGE", self._active, "-inf", f"({before_ms}", *limits)]
        )
        least = [(mint.decode(), int(time_ms)) for mint, time_ms in found]
        return [each for each in least if each[0] not in self._quarantine]

    async def _read_whole(
        self, mints: Sequence[str], traders_since: int | None = None
    ) -> dict[str, ColdMarket]:
        """Return markets as Redis has them, with the traders of a score and more.

        Those that cannot be read are left out: they go into quarantine.
        """
        commands: list[tuple[Any, ...]] = []
        least = "+inf" if traders_since is None else traders_since
        for mint in mints:
            market, accounts, traders = (
                key.make(tag=self._tag, mint=mint) for key in (MARKET, ACCOUNTS, TRADERS)
            )
            commands += [("HGETALL", market), ("HGETALL", accounts)]
            commands.append(("ZRANGE", traders, least, "+inf", "BYSCORE", "WITHSCORES"))
        answers = iter(await ask(self._redis, commands) if commands else [])
        found = {}
        for mint in mints:
            fields, accounts, traders = next(answers), next(answers), next(answers)
            scores = {trader: int(score) for trader, score in traders}
            cold = ColdMarket(fields, accounts, scores)
            if fields and self._can_be_read(mint, cold):
                found[mint] = cold
        return found

    def _can_be_read(self, mint: str, market: ColdMarket) -> bool:
        try:
            thawed(mint, market)
        except UNREADABLE as error:
            self._quarantine.put(mint, MARKET.make(tag=self._tag, mint=mint), error)
            return False
        return True

    def _removal(self, mint: str) -> list[tuple[Any, ...]]:
        """Return what takes a market out of Redis."""
        keys = (MARKET, ACCOUNTS, HOLDERS, TRADERS, METADATA)
        return [
            ("UNLINK", *(key.make(tag=self._tag, mint=mint) for key in keys)),
            ("ZREM", self._active, mint),
            self._away.mark(raw(mint)),
        ]

    # Writing.

    def take(self) -> tuple[list[Row], list[tuple[Any, ...]]]:
        """Return rows of cold_markets, and commands that go before all others."""
        rows, self._rows = self._rows, []
        commands, self._commands = self._commands, []
        self._frozen_writing, self._frozen = self._frozen, {}
        return rows, commands

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        self._frozen_writing = {}
