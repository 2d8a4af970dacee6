"""One stored value that cannot be read any more: the fault `bad-value`."""

from __future__ import annotations

from random import Random
from typing import Any, Final, NamedTuple

from schemas import redis_keys
from schemas.positions import unpack_wallet_day
from schemas.solana.base58 import encode
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET

BUSIEST: Final = 10  # wallets or mints of a partition
LEFT_BYTES: Final = 5  # fewer than any record has

Connection = Any  # a redis.asyncio.Redis: its types leave open whether answers are bytes or text


class Spoiled(NamedTuple):
    """What was spoiled."""

    group: str
    name: str  # wallet or mint
    record: str  # the key in which its group says so
    place: str


async def spoil(redis: Connection, random: Random, group: str) -> Spoiled | None:
    """Cut a random value of a busy wallet (pnl) or mint (market) short; None where there is none.

    Raises RedisError.
    """
    return await (_spoil_wallet if group == "pnl" else _spoil_mint)(redis, random)


async def _spoil_wallet(redis: Connection, random: Random) -> Spoiled | None:
    for partition in _shuffled(random, SETTLED_BY_WALLET.partitions):
        tag = redis_keys.tag_of_wallets(partition)
        totals_key = redis_keys.WALLET_TOTALS.make(tag=tag)
        totals = await redis.hgetall(totals_key)
        trades = {
            raw: day.buys + day.sells
            for raw, day in ((raw, unpack_wallet_day(each)) for raw, each in totals.items())
        }
        busy = sorted(trades, key=lambda raw: (-trades[raw], raw))[:BUSIEST]
        if not busy:
            continue
        raw = random.choice(busy)
        wallet = encode(raw)
        positions_key = redis_keys.POSITIONS.make(tag=tag, wallet=wallet)
        mints = sorted(mint for mint in await redis.hkeys(positions_key) if len(mint) == len(raw))
        places = [(totals_key, raw), *((positions_key, mint) for mint in mints)]
        key, field = random.choice(places)
        return await _cut(redis, "pnl", tag, wallet, key, field)
    return None


async def _spoil_mint(redis: Connection, random: Random) -> Spoiled | None:
    for partition in _shuffled(random, SETTLED_BY_MINT.partitions):
        tag = redis_keys.tag_of_mints(partition)
        active = redis_keys.ACTIVE.make(tag=tag)
        busy = await redis.zrange(active, 0, BUSIEST - 1, desc=True)
        if not busy:
            continue
        mint = random.choice(busy).decode()
        key = redis_keys.MARKET.make(tag=tag, mint=mint)
        fields = sorted(
            name for name, value in (await redis.hgetall(key)).items() if len(value) > LEFT_BYTES
        )
        field = random.choice(fields)
        return await _cut(redis, "market", tag, mint, key, field)
    return None


def _shuffled(random: Random, partitions: int) -> list[int]:
    return random.sample(range(partitions), partitions)


async def _cut(
    redis: Connection, group: str, tag: str, name: str, key: str, field: bytes
) -> Spoiled:
    value = await redis.hget(key, field)
    await redis.hset(key, field, value[:LEFT_BYTES])
    # The next checkpoint reads all of the partition, also what nobody trades.
    await redis.delete(redis_keys.CHANGED.make(tag=tag, group=group))
    record = redis_keys.QUARANTINE.make(tag=tag, group=group)
    return Spoiled(group, name, record, f"{key} {field!r}")
