"""What the books are measured against: a plain Faust agent with tables, one event a message.

The arithmetic is the same (`domain.lots`), the state a Faust table with its changelog in Kafka,
in memory as Faust keeps it by default. It writes nothing else: no rows, no balances, no
leaderboards. Run as a process; prints a JSON line now and then: swaps done, CPU seconds so far.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

import faust
import orjson

from infra.settings import load
from pipeline.domain.lots import Holding, Match
from pipeline.domain.netting import BUY, value
from schemas.positions import (
    WalletDay,
    full_chunks,
    pack_cold,
    pack_wallet_day,
    unpack_cold,
    unpack_wallet_day,
)
from schemas.proto.tape_pb2 import Swap
from schemas.times import DAY_MS, HOUR_MS
from schemas.topics import SETTLED_BY_WALLET, Topic

PARTITIONS: Final = SETTLED_BY_WALLET.partitions
BASELINE: Final = Topic(
    "bench-swaps", "Swap", "wallet", PARTITIONS, HOUR_MS, "one swap a message, for the baseline"
)


def create_app() -> faust.App:
    """Return the app: one agent, two tables."""
    settings = load()
    app = faust.App(
        "bench-pnl-baseline",
        broker=f"kafka://{settings.kafka_bootstrap}",
        consumer_auto_offset_reset="earliest",
        store="memory://",
        datadir=str(settings.soltape_data / "baseline"),
        topic_partitions=PARTITIONS,
        topic_replication_factor=1,
        web_enabled=False,
        key_serializer="raw",
        value_serializer="raw",
    )
    swaps = app.topic(BASELINE.name, key_serializer="raw", value_serializer="raw")
    kept: dict[str, Any] = {"key_type": bytes, "value_type": bytes, "partitions": PARTITIONS}
    positions: Any = app.Table("positions", **kept)
    days: Any = app.Table("days", **kept)
    done = 0

    @app.agent(swaps)
    async def pnl(stream: Any) -> None:
        nonlocal done
        async for event in stream:
            apply(Swap.FromString(event), positions, days)
            done += 1

    @app.task  # type: ignore[untyped-decorator]
    async def report() -> None:
        while True:
            await asyncio.sleep(0.2)
            line = orjson.dumps({"swaps": done, "cpu_s": time.process_time()})
            print(line.decode(), file=sys.__stdout__, flush=True)  # Faust logs what goes to stdout

    return app


def apply(swap: Swap, positions: Any, days: Any) -> None:
    """Apply one swap to the tables."""
    place = f"{swap.wallet}:{swap.mint}".encode()
    holding = _holding(positions.get(place))
    today = f"{swap.wallet}:{swap.block_time_ms // DAY_MS}".encode()
    packed_day = days.get(today)
    day = unpack_wallet_day(packed_day) if packed_day else WalletDay()
    lamports, usd_micros = value(swap)
    matches: list[Match] = []
    if swap.side == BUY:
        holding.buy(
            swap.wallet_amount_raw,
            lamports,
            usd_micros,
            swap.slot,
            swap.tx_index,
            swap.block_time_ms,
        )
        day.buys += 1
        day.bought_lamports += lamports or 0
        day.bought_usd_micros += usd_micros or 0
    else:
        realized = holding.sell(
            swap.wallet_amount_raw, lamports, usd_micros, swap.slot, swap.block_time_ms, matches
        )
        day.sells += 1
        day.sold_lamports += lamports or 0
        day.sold_usd_micros += usd_micros or 0
        day.matched_proceeds_lamports += realized.proceeds_lamports
        day.matched_proceeds_usd_micros += realized.proceeds_usd_micros
        day.matched_cost_lamports += realized.cost_lamports
        day.matched_cost_usd_micros += realized.cost_usd_micros
    holding.pay(swap.fee_lamports, swap.priority_fee_lamports, swap.tip_lamports)
    day.fee_lamports += swap.fee_lamports
    day.tip_lamports += swap.tip_lamports
    chunks = [holding.chunks[number] for number in full_chunks(holding.position)]
    positions[place] = pack_cold(holding.pack(), chunks)
    days[today] = pack_wallet_day(day)


def _holding(packed: bytes | None) -> Holding:
    """Return a holding with all its lots."""
    if packed is None:
        return Holding.empty()
    position, chunks = unpack_cold(packed)
    holding = Holding.unpack(position)
    for number, chunk in zip(full_chunks(holding.position), chunks, strict=True):
        holding.add(number, chunk)
    return holding


if __name__ == "__main__":
    create_app().main()
