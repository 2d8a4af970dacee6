"""What accounts take in Redis, by kind: the books of all partitions write them, as agents do."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import redis
from redis.asyncio import Redis

from infra.bench import progress
from infra.redis.families import survey
from infra.settings import Settings
from pipeline.agents.accounts.agent import GROUP, open_accounts
from pipeline.agents.settled.books import Books
from pipeline.bench.account_tape import KINDS, AccountTape
from pipeline.bench.storage_player import Player, dataset_bytes
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.redis_keys import tag_of_partition
from schemas.topics import SETTLED_ACCOUNTS

_A_SLOT: Final = 5_000


async def _open(settings: Settings, redis: Redis, _: ClickHouseSink, partition: int) -> Books:
    return await open_accounts(settings, redis, partition)


def measure(settings: Settings, accounts: int) -> dict[str, Any]:
    """Return the bytes that Redis takes for an account, by kind; as many of each kind."""
    store = redis.Redis.from_url(str(settings.redis_url))
    store.config_set("maxmemory", "0")
    of_kind = -(-accounts // len(KINDS))
    figures: dict[str, float] = {}

    async def play() -> None:
        tape = AccountTape(1, accounts)
        player = Player(
            settings,
            GROUP,
            SETTLED_ACCOUNTS,
            lambda partition: tag_of_partition(SETTLED_ACCOUNTS, partition),
            _open,
        )
        await player.open()
        for kind in KINDS:
            before = dataset_bytes(store)
            for slot in tape.slots(tape.new(kind, of_kind), _A_SLOT):
                await player.play([slot])
            figures[kind] = round((dataset_bytes(store) - before) / of_kind, 1)
            progress(f"{kind}: {figures[kind]} bytes")
        await player.close()

    asyncio.run(play())
    found = survey(store)
    return {
        "gb_a_million": round(sum(figures.values()) / len(KINDS) / 1000, 3),
        "bytes_by_kind": figures,
        "families": {
            pattern: {"keys": family.keys, "entries": family.entries, "bytes": family.bytes}
            for pattern, family in sorted(found.items(), key=lambda item: -item[1].bytes)
        },
        "accounts": of_kind * len(KINDS),
    }
