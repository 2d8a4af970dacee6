"""The keys of one partition's accounts, and reads of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from redis.asyncio import Redis

from infra.redis.client import ask
from infra.redis.cluster import Cluster
from pipeline.agents.settled.away import Away
from pipeline.sinks.redis import Watermark, read_watermark
from schemas import redis_keys
from schemas.solana.addresses import key, text

KEYS_AT_ONCE: Final = 1_000  # of a command: Redis does nothing else meanwhile
FINDERS_AT_ONCE: Final = 100
HEADER_BYTES: Final = 64


class Store:
    """The accounts of one partition in Redis. All reads raise RedisError."""

    def __init__(self, redis: Redis, tag: str, group: str) -> None:
        self.away = Away(redis, redis_keys.ACCOUNTS_AWAY.make(tag=tag))
        self.closed = redis_keys.ACCOUNTS_CLOSED.make(tag=tag)
        self.floor = redis_keys.COVERAGE_FLOOR.make(tag=tag)
        self._redis = redis
        self._tag = tag
        self._group = group
        self._prefix = self.account(b"")

    def account(self, address: bytes) -> str:
        """Return the key of an account."""
        name = text(address) if address else ""
        return redis_keys.ACCOUNT.make(tag=self._tag, address=name)

    def found_by(self, finder: bytes) -> str:
        """Return the key of the accounts that a wallet or mint finds."""
        return redis_keys.FOUND_BY.make(tag=self._tag, address=text(finder))

    def pools_of(self, mint: bytes) -> str:
        """Return the key of the accounts that a mint represents: positions of an NFT, pools."""
        return redis_keys.POOLS_OF.make(tag=self._tag, mint=text(mint))

    def covered(self, address: bytes) -> str:
        """Return the key of the coverage of a program, wallet or other subject."""
        return redis_keys.COVERED.make(tag=self._tag, address=text(address))

    async def read_watermark(self) -> Watermark | None:
        """Return how far the books are."""
        name = redis_keys.WATERMARK.make(tag=self._tag, group=self._group)
        return await read_watermark(self._redis, name)

    async def read(self, addresses: Sequence[bytes]) -> list[bytes | None]:
        """Return stored accounts, None where there is none."""
        parts = [
            [self.account(address) for address in addresses[at : at + KEYS_AT_ONCE]]
            for at in range(0, len(addresses), KEYS_AT_ONCE)
        ]
        found: list[bytes | None] = []
        for part in parts:  # one trip each: wallets that leave may have very many
            [answer] = await ask(self._redis, [("MGET", *part)])
            found += answer
        return found

    async def read_found(self, finders: Sequence[bytes]) -> list[set[bytes]]:
        """Return the raw addresses that each wallet or mint finds."""
        found: list[set[bytes]] = []
        for at in range(0, len(finders), FINDERS_AT_ONCE):
            some = finders[at : at + FINDERS_AT_ONCE]
            answers = await ask(self._redis, [("SMEMBERS", self.found_by(each)) for each in some])
            found += map(set, answers)
        return found

    async def read_floors(self, programs: Sequence[bytes]) -> list[int]:
        """Return the slot below which what is stored of each program is not alive, 0 for none."""
        names = [self.covered(program) for program in programs]
        answers = await ask(self._redis, [("HGET", name, "slot") for name in names])
        return [int(slot or 0) for slot in answers]

    async def read_closed(self, until_ms: int, limit: int) -> list[bytes]:
        """Return raw addresses that were closed by a block time, the longest ago first."""
        limits = ("BYSCORE", "LIMIT", 0, limit)
        [found] = await ask(self._redis, [("ZRANGE", self.closed, "-inf", until_ms, *limits)])
        return list(found)

    async def scan(self, cursor: int) -> tuple[int, list[bytes]]:
        """Return the next cursor, 0 after the last, and the raw addresses of some accounts."""
        node = self._redis
        if isinstance(node, Cluster):
            node = await node.nodes.of_key(self.closed)
        command: Any = node.execute_command
        pattern = f"{self._prefix}*"
        cursor, names = await command("SCAN", cursor, "MATCH", pattern, "COUNT", KEYS_AT_ONCE)
        start = len(self._prefix)
        return int(cursor), [key(name[start:].decode()) for name in names]

    async def read_headers(self, addresses: Sequence[bytes]) -> list[bytes]:
        """Return the first bytes of stored accounts, empty where there is none."""
        names = [self.account(address) for address in addresses]
        return await ask(self._redis, [("GETRANGE", n, 0, HEADER_BYTES - 1) for n in names])
