"""Where the books of one partition's wallets are kept in Redis: names of keys, and reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, cast

from redis.asyncio import Redis

from pipeline.agents.settled.away import Away
from schemas import redis_keys
from schemas.positions import COLD_MARK
from schemas.redis_keys import tag_of_wallets

# One answer for many hashes: HGET by HGET costs the client six times as much.
_HGET_MANY: Final = """
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('HGET', key, ARGV[i]) end
return found
"""
_AT_ONCE: Final = 2_000  # keys a script is given: Redis does nothing else meanwhile
_FIELDS_AT_ONCE: Final = 100  # of a wallet's positions, of many wallets in one trip


class Store:
    """Reads of one partition, each one trip for many values. All raise RedisError."""

    def __init__(self, redis: Redis, partition: int) -> None:
        self._redis = redis
        self._ask: Callable[..., Awaitable[Any]] = redis.execute_command
        self._tag = tag_of_wallets(partition)
        self._hget_many = redis.register_script(_HGET_MANY)
        self.totals = redis_keys.WALLET_TOTALS.make(tag=self._tag)
        self.traded = redis_keys.TRADED.make(tag=self._tag)
        self.due = redis_keys.WALLETS_DUE.make(tag=self._tag)
        self.away = Away(redis, redis_keys.AWAY.make(tag=self._tag))
        self.clock = redis_keys.BOOKS_CLOCK.make(tag=self._tag)
        self._positions = redis_keys.POSITIONS.make(tag=self._tag, wallet="")
        self._balances = redis_keys.BALANCES.make(tag=self._tag, wallet="")

    # Names.

    def positions(self, wallet: str) -> str:
        """Return the key of a wallet's positions."""
        return self._positions + wallet

    def balances(self, wallet: str) -> str:
        """Return the key of a wallet's balances."""
        return self._balances + wallet

    def lots(self, wallet: str, mint: str, chunk: int) -> str:
        """Return the key of a full chunk of lots."""
        return redis_keys.LOTS.make(tag=self._tag, wallet=wallet, mint=mint, chunk=chunk)

    def days(self, day: int) -> str:
        """Return the key of a day's figures."""
        return redis_keys.WALLET_DAYS.make(tag=self._tag, day=day)

    def top(self, mint: str) -> str:
        """Return the key of a token's leaderboard."""
        return redis_keys.TOP_OF_MINT.make(tag=self._tag, mint=mint)

    async def prepare(self, due_hour: int) -> None:
        """Take the memory of the bitmap, which a full Redis would not have.

        And bring what an earlier version left into the form of this one: dead tokens, wallets.
        """
        await self.away.prepare()
        if await self._ask("EXISTS", self.due) or not await self._ask("EXISTS", self.totals):
            return
        cold, ranked = f"cold:{self._tag}", f"top:{self._tag}"
        pipe = self._redis.pipeline(transaction=True)
        for mint in await _answer(self._redis.smembers(cold)):
            pipe.execute_command(*self.away.mark(mint))
        wallets = await _answer(self._redis.hkeys(self.totals))
        pipe.zadd(self.due, dict.fromkeys(wallets, due_hour))
        pipe.unlink(cold, ranked)
        await pipe.execute()

    # Reads.

    async def read_clock_ms(self) -> int:
        """Return the latest block time of the books; 0 for new ones."""
        return int(await self._redis.get(self.clock) or 0)

    async def read_positions(self, places: Sequence[tuple[str, bytes]]) -> list[bytes | None]:
        """Return the packed positions of (wallet, raw mint), None where there is none."""
        found: list[bytes | None] = []
        for start in range(0, len(places), _AT_ONCE):
            part = places[start : start + _AT_ONCE]
            keys = [self._positions + wallet for wallet, _ in part]
            found += await self._hget_many(keys=keys, args=[mint for _, mint in part])
        return found

    async def read_wallets(
        self, wallets: Sequence[bytes], day: int
    ) -> tuple[list[bytes | None], list[bytes | None], list[float | None]]:
        """Return the packed totals of raw wallets, their figures of a day, and when each is due."""
        pipe = self._redis.pipeline(transaction=False)
        pipe.hmget(self.totals, wallets)
        pipe.hmget(self.days(day), wallets)
        pipe.zmscore(self.due, cast(Any, wallets))
        totals, days, dues = await pipe.execute()
        return totals, days, dues

    async def read_whole(
        self, wallets: Sequence[str]
    ) -> list[tuple[dict[bytes, bytes], dict[bytes, bytes]]]:
        """Return the packed positions of wallets by raw mint, and their balances by account."""
        pipe = self._redis.pipeline(transaction=False)
        for wallet in wallets:
            pipe.hgetall(self.positions(wallet))
            pipe.hgetall(self.balances(wallet))
        found = await pipe.execute()
        return list(zip(found[::2], found[1::2], strict=True))

    async def scan_day(self, day: int, count: int) -> AsyncIterator[dict[bytes, bytes]]:
        """Yield the packed figures of a day by raw wallet, about `count` in a part.

        A wallet may be in two parts.
        """
        cursor = 0
        while True:
            cursor, part = await self._redis.hscan(self.days(day), cursor, count=count)
            if part:
                yield cast(dict[bytes, bytes], part)
            if not cursor:
                return

    async def scan_positions(
        self, wallets: Iterable[str]
    ) -> AsyncIterator[tuple[str, dict[bytes, bytes]]]:
        """Yield wallets and packed positions by raw mint; those of a wallet in several parts.

        A position may be in two of them, and COLD_MARK is among the mints.
        """
        cursors = dict.fromkeys(wallets, 0)
        while cursors:
            pipe = self._redis.pipeline(transaction=False)
            for wallet, cursor in cursors.items():
                pipe.hscan(self.positions(wallet), cursor, count=_FIELDS_AT_ONCE)
            answers = dict(zip(cursors, await pipe.execute(), strict=True))
            for wallet, (_, part) in answers.items():
                yield wallet, part
            cursors = {wallet: cursor for wallet, (cursor, _) in answers.items() if cursor}

    async def read_lots(self, keys: Sequence[str]) -> list[bytes | None]:
        """Return full chunks of lots by their keys."""
        return await _answer(self._redis.mget(keys)) if keys else []

    async def may_be_away(self, mints: Sequence[bytes]) -> list[bool]:
        """Return which of the raw mints may be put away: in no order of those that moved.

        Their bit is set, which others may share.
        """
        if not mints:
            return []
        pipe = self._redis.pipeline(transaction=False)
        pipe.zmscore(self.traded, cast(Any, mints))
        pipe.execute_command(*self.away.look(mints))
        scores, bits = await pipe.execute()
        return [score is None and bool(is_set) for score, is_set in zip(scores, bits, strict=True)]

    async def read_due(self, hour: int, limit: int) -> list[tuple[bytes, int]]:
        """Return the raw wallets that are due by an hour, and since which hour they are.

        Those that are due for longest, at most `limit`; of one hour by their bytes.
        """
        return await self._read_lowest(self.due, hour, limit)

    async def read_idle(self, hour: int, limit: int) -> list[tuple[bytes, int]]:
        """Return the raw mints that have not moved after an hour, and the hour they did.

        Those that were idle for longest, at most `limit`; of one hour by their bytes.
        """
        return await self._read_lowest(self.traded, hour, limit)

    async def _read_lowest(self, name: str, hour: int, limit: int) -> list[tuple[bytes, int]]:
        found = await _answer(
            self._redis.zrangebyscore(name, "-inf", hour, 0, limit, withscores=True)
        )
        return [(member, int(score)) for member, score in found]

    async def read_holders(self, mints: Sequence[str]) -> list[list[bytes]]:
        """Return the raw wallets with a position in each of the mints."""
        pipe = self._redis.pipeline(transaction=False)
        for mint in mints:
            pipe.zrange(self.top(mint), 0, -1)
        return [
            [wallet for wallet in wallets if wallet != COLD_MARK]
            for wallets in await pipe.execute()
        ]


async def _answer(command: Any) -> Any:
    return await cast(Awaitable[Any], command)
