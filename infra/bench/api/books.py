"""The books of the data set's wallets in Redis, computed from what ClickHouse has of them."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import Any, Final

from clickhouse_connect.driver.client import Client

from infra.bench.api.redis_writer import RedisWriter
from infra.bench.api.world import DECIMALS, LAST_MS, LAST_SLOT, World
from infra.clickhouse.sql import load
from schemas.amounts import LAMPORTS
from schemas.positions import (
    CHUNK_LOTS,
    LOT,
    Position,
    WalletDay,
    full_chunks,
    pack_balance,
    pack_position,
    pack_wallet_day,
    summary,
    tail_lots,
)
from schemas.redis_keys import (
    BALANCES,
    BOOKS_CLOCK,
    HOLDERS,
    LOTS,
    POSITIONS,
    TOP_OF_MINT,
    TRADED,
    WALLET_DAYS,
    WALLET_TOTALS,
    WATERMARK,
    mint_tag,
    tag_of_wallets,
    wallet_tag,
)
from schemas.solana.base58 import decode
from schemas.times import HOUR_MS
from schemas.topics import SETTLED_BY_WALLET

_POSITIONS: Final = load(__package__, "wallet_positions")
_FIGURES: Final = load(__package__, "wallet_figures")
_SOL: Final = decode("So11111111111111111111111111111111111111112")

Lots = list[tuple[int, int, int, int, int]]  # slot, tx_index, time_ms, lamports, millionths of $


async def write_progress(write: RedisWriter) -> None:
    """Write how far the books have come: to the last slot."""
    for partition in range(SETTLED_BY_WALLET.partitions):
        tag = tag_of_wallets(partition)
        await write.hash(
            WATERMARK.make(tag=tag, group="pnl"),
            *("slot", LAST_SLOT, "time_ms", LAST_MS, "offset", LAST_SLOT),
            *("at_ms", time.time_ns() // 10**6),
        )
        await write.command("SET", BOOKS_CLOCK.make(tag=tag), LAST_MS)


async def write_books(
    write: RedisWriter, clickhouse: Client, world: World, slice_: int, slices: int
) -> None:
    """Write positions, lots, balances and days of a slice of the wallets, and their rankings."""
    parameters = world.parameters(slice=slice_, slices=slices)
    with clickhouse.query_rows_stream(_POSITIONS, parameters=parameters) as rows:
        for row in rows:
            raw_wallet, raw_mint, wallet, mint, lots, *figures = row
            await _position(write, raw_wallet, raw_mint, wallet, mint, lots, figures)
    by_wallet: dict[tuple[bytes, str], list[WalletDay]] = {}
    with clickhouse.query_rows_stream(_FIGURES, parameters=parameters) as rows:
        for raw_wallet, wallet, day, *figures in rows:
            record = WalletDay(*figures)
            by_wallet.setdefault((raw_wallet, wallet), []).append(record)
            key = WALLET_DAYS.make(tag=wallet_tag(wallet), day=day)
            await write.hash(key, raw_wallet, pack_wallet_day(record))
    for (raw_wallet, wallet), records in by_wallet.items():
        total = summary(records)
        tag = wallet_tag(wallet)
        await write.hash(WALLET_TOTALS.make(tag=tag), raw_wallet, pack_wallet_day(total))
    await write.flush()


async def _position(
    write: RedisWriter,
    raw_wallet: bytes,
    raw_mint: bytes,
    wallet: str,
    mint: str,
    lots: Lots,
    figures: Any,
) -> None:
    held, held_known, bought, sold, unmatched, *rest = figures
    position = Position(held, held_known, 0, bought, sold, 0, 0, 0, unmatched, *rest)
    # What a lot has left of its cost is what the agent kept of it: here all.
    position.held_cost_lamports = sum(lot[3] for lot in lots)
    position.held_cost_usd_micros = sum(lot[4] for lot in lots)
    quantity = held // len(lots) if lots else 0
    packed = [
        LOT.pack(quantity, lamports, micros, slot, time_ms, tx_index, 1)
        for slot, tx_index, time_ms, lamports, micros in lots
    ]
    tag = wallet_tag(wallet)
    tail = b"".join(packed[len(packed) - len(tail_lots(position)) :])
    await write.hash(
        POSITIONS.make(tag=tag, wallet=wallet), raw_mint, pack_position(position, tail)
    )
    for chunk in full_chunks(position):
        begin = max(chunk * CHUNK_LOTS, position.lots_closed) - position.lots_closed
        end = (chunk + 1) * CHUNK_LOTS - position.lots_closed
        key = LOTS.make(tag=tag, wallet=wallet, mint=mint, chunk=chunk)
        await write.command("SET", key, b"".join(packed[begin:end]))
    await write.ranked(
        TOP_OF_MINT.make(tag=tag, mint=mint), position.realized_usd_micros, raw_wallet
    )
    await write.ranked(TRADED.make(tag=tag), position.last_trade_ms // HOUR_MS, raw_mint)
    balances = BALANCES.make(tag=tag, wallet=wallet)
    sol = pack_balance(_SOL, LAMPORTS, 9, is_token_2022=False)
    await write.hash(balances, raw_wallet, sol)
    if held:
        account = sha256(raw_wallet + raw_mint).digest()
        balance = pack_balance(raw_mint, held, DECIMALS, is_token_2022=False)
        await write.hash(balances, account, balance)
        await write.ranked(HOLDERS.make(tag=mint_tag(mint), mint=mint), held, raw_wallet)
