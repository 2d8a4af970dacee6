"""What tokens leave in Redis: their markets over simulated days of chain time.

Every hour new tokens are seen, each once: three wallets buy some, one of them sells all of it. The
creation of every second is seen too, RPC names the others. One token is traded every hour to the
end. When the last day is over, that one alone goes on until all others are at rest.

The books of all partitions run in this process, as the agent does it, on a real Valkey and
ClickHouse.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any, Final

import redis
from redis.asyncio import Redis

from infra.bench import progress
from infra.redis.families import survey
from infra.settings import Settings
from pipeline.agents.market.agent import GROUP
from pipeline.agents.market.books import MarketBooks, open_books
from pipeline.agents.market.cold_rows import ColdTables
from pipeline.agents.market.registry import Known, Registry
from pipeline.bench.storage_player import FIRST_MS, HOURS_A_FLUSH, Player, dataset_bytes
from pipeline.sinks.clickhouse import ClickHouseSink
from schemas.money import WSOL
from schemas.proto.tape_pb2 import BUY, SELL, SlotBatch
from schemas.redis_keys import tag_of_mints
from schemas.solana.addresses import TOKEN_PROGRAM, text
from schemas.solana.base58 import decode, encode
from schemas.times import HOUR_MS
from schemas.topics import SETTLED_BY_MINT

DEX: Final = "pump-fun"
WALLETS_A_TOKEN: Final = 3
SUPPLY_RAW: Final = 10**15


class Tape:
    """An hour after the other, a batch for each partition."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - figures to be had again
        self._immortal = self._address()
        self._pool = self._address()
        self._traders = self._wallets()
        self.hour = 0

    def next(self, tokens: int) -> tuple[list[SlotBatch], list[str]]:
        """Return an hour with so many new tokens, and those of which no creation is seen."""
        self.hour += 1
        time_ms = FIRST_MS + self.hour * HOUR_MS
        batches = [
            SlotBatch(slot=1000 + self.hour, block_time_ms=time_ms, complete=True, sol_usd="160")
            for _ in range(SETTLED_BY_MINT.partitions)
        ]
        self._trade(batches, self._immortal, self._pool, self._traders, 0)
        unnamed = []
        for number in range(1, tokens + 1):
            mint, pool = self._address(), self._address()
            if number % 2:
                self._create(batches, mint, pool, number)
            else:
                unnamed.append(mint)
            self._trade(batches, mint, pool, self._wallets(), number)
        return batches, unnamed

    def _address(self) -> str:
        return encode(self._random.randbytes(32))

    def _wallets(self) -> list[str]:
        return [self._address() for _ in range(WALLETS_A_TOKEN)]

    def _create(self, batches: list[SlotBatch], mint: str, pool: str, tx_index: int) -> None:
        batch = batches[SETTLED_BY_MINT.partition(mint)]
        creation = batch.events.add().creation
        creation.signature, creation.slot, creation.tx_index = (
            encode(bytes(64)),
            batch.slot,
            tx_index,
        )
        creation.block_time_ms = batch.block_time_ms
        creation.mint, creation.pool, creation.quote_mint = mint, pool, WSOL
        creation.name, creation.symbol = f"Token {tx_index}", f"T{tx_index}"
        creation.uri = f"https://ipfs.io/ipfs/{mint}"
        creation.creator, creation.dex, creation.platform = self._address(), DEX, DEX
        creation.decimals, creation.supply_raw = 6, SUPPLY_RAW
        creation.token_program = text(TOKEN_PROGRAM)

    def _trade(
        self, batches: list[SlotBatch], mint: str, pool: str, wallets: list[str], tx_index: int
    ) -> None:
        batch = batches[SETTLED_BY_MINT.partition(mint)]
        vault = decode(pool)[::-1]
        for number, wallet in enumerate(wallets):
            account = decode(wallet)[::-1]
            sides = (BUY, SELL) if not number else (BUY,)
            for side in sides:
                swap = batch.events.add().swap
                swap.signature, swap.slot, swap.tx_index = encode(bytes(64)), batch.slot, tx_index
                swap.block_time_ms = batch.block_time_ms
                swap.dex, swap.pool, swap.platform = DEX, pool, DEX
                swap.wallet = swap.fee_payer = wallet
                swap.mint, swap.quote_mint, swap.side = mint, WSOL, side
                swap.amount_raw = swap.wallet_amount_raw = 10**6
                swap.quote_amount_raw = swap.wallet_quote_amount_raw = 10**9
                swap.decimals, swap.quote_decimals = 6, 9
                swap.reserve_raw, swap.quote_reserve_raw = SUPPLY_RAW, 30 * 10**9
                swap.sol_value_lamports, swap.usd_value_micros = 10**9, 160 * 10**6
            held_raw = 0 if len(sides) > 1 else 10**6
            for owned, owner, amount_raw in (
                (account, wallet, held_raw),
                (vault, pool, SUPPLY_RAW),
            ):
                batch.balances.add(
                    account=owned, owner=owner, mint=mint, amount_raw=amount_raw, decimals=6,
                    is_vault=owned is vault,
                )  # fmt: skip


def measure(settings: Settings, tokens: int, days: int) -> dict[str, Any]:
    """Return what Redis holds day by day, and per token when all are at rest.

    Beside what the books of empty partitions take, bitmaps among it (`fixed_mib`).
    """
    store = redis.Redis.from_url(str(settings.redis_url))
    store.config_set("maxmemory", "0")
    by_day: list[int] = []
    an_hour = -(-tokens // (days * 24))
    fixed = [dataset_bytes(store)]

    async def play() -> None:
        player = Player(settings, GROUP, SETTLED_BY_MINT, tag_of_mints, _open_on)
        registry = Registry(settings, player.redis, player.sink)
        await player.open()
        fixed.append(dataset_bytes(store))
        tape = Tape(1)
        for day in range(days + settings.market_cold_after_days + 1):
            for _ in range(0, 24, HOURS_A_FLUSH):
                hours = [tape.next(an_hour if day < days else 0) for _ in range(HOURS_A_FLUSH)]
                await player.play([batches for batches, _ in hours])
                await registry.keep({mint: _named(mint) for _, found in hours for mint in found})
            by_day.append(dataset_bytes(store) - fixed[1])
            progress(f"day {day + 1}: {by_day[-1] / 2**20:.1f} MiB")
        await player.close()

    asyncio.run(play())
    in_window = an_hour * 24 * min(days, settings.market_cold_after_days)
    found = survey(store)
    return {
        "bytes_per_token_at_rest": round(by_day[-1] / (an_hour * 24 * days), 2),
        "bytes_per_token_in_the_window": round(by_day[days - 1] / in_window, 1),
        "mib_by_day": [round(used / 2**20, 1) for used in by_day],
        "fixed_mib": round((fixed[1] - fixed[0]) / 2**20, 1),
        "families": {
            pattern: {"keys": family.keys, "entries": family.entries, "bytes": family.bytes}
            for pattern, family in sorted(found.items(), key=lambda item: -item[1].bytes)
        },
        "tokens": an_hour * 24 * days,
        "days": days,
    }


def _named(mint: str) -> Known:
    """Return what RPC says of a token."""
    uri = f"https://arweave.net/{mint}"
    return Known(f"Token {mint[:4]}", mint[:4], uri, 6, SUPPLY_RAW, text(TOKEN_PROGRAM), "found", 1)


async def _open_on(
    settings: Settings, store: Redis, sink: ClickHouseSink, partition: int
) -> MarketBooks:
    registry = Registry(settings.model_copy(update={"rpc_endpoint": None}), store, sink)
    days = settings.market_cold_after_days
    return await open_books(store, partition, registry, ColdTables(sink), days)
