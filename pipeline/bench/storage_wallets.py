"""What wallets leave in Redis: the books over simulated days of chain time.

Every hour new wallets are seen, each once. Half of them are sent a token, the others buy one and
sell all of it, and close their accounts. Every day has new tokens, but for one that somebody keeps
alive to the end, of which one in ten wallets is sent some. When the last day is over, that token
alone goes on until all wallets are at rest.

The books of all partitions run in this process, as the agent does it, on a real Valkey and
ClickHouse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any, Final

import redis

from infra.bench import progress
from infra.redis.families import survey
from infra.settings import Settings
from pipeline.agents.pnl.agent import GROUP, open_pnl
from pipeline.bench.storage_player import FIRST_MS, HOURS_A_FLUSH, Player, dataset_bytes
from schemas.money import SOL_DECIMALS, WSOL
from schemas.proto.tape_pb2 import BUY, SELL, SlotBatch
from schemas.redis_keys import tag_of_wallets
from schemas.solana.base58 import encode
from schemas.times import HOUR_MS
from schemas.topics import SETTLED_BY_WALLET

MINTS_A_DAY: Final = 100
_LAMPORTS: Final = 10**9


class Tape:
    """An hour after the other, a batch for each partition."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - figures to be had again
        self._immortal = self._address()
        self._keeper = self._address()
        self._mints: list[str] = []
        self.hour = 0

    def next(self, wallets: int) -> list[SlotBatch]:
        """Return an hour with so many new wallets."""
        if self.hour % 24 == 0:
            self._mints = [self._address() for _ in range(MINTS_A_DAY)]
        self.hour += 1
        time_ms = FIRST_MS + self.hour * HOUR_MS
        batches = [
            SlotBatch(slot=1000 + self.hour, block_time_ms=time_ms, complete=True)
            for _ in range(SETTLED_BY_WALLET.partitions)
        ]
        self._send(batches, self._keeper, self._immortal, 0)
        for number in range(1, wallets + 1):
            wallet = self._address()
            mint = self._random.choice(self._mints)
            if number % 2:
                self._trade(batches, wallet, mint, 2 * number)
            else:
                self._send(batches, wallet, mint if number % 10 else self._immortal, 2 * number)
        return batches

    def _address(self) -> str:
        return encode(self._random.randbytes(32))

    def _send(self, batches: Sequence[SlotBatch], wallet: str, mint: str, tx_index: int) -> None:
        batch = batches[SETTLED_BY_WALLET.partition(wallet)]
        batch.movements.add(
            signature="sent", tx_index=tx_index, wallet=wallet, mint=mint, received_raw=1
        )
        batch.balances.add(
            account=self._random.randbytes(32), owner=wallet, mint=mint, amount_raw=1, decimals=6
        )

    def _trade(self, batches: Sequence[SlotBatch], wallet: str, mint: str, tx_index: int) -> None:
        batch = batches[SETTLED_BY_WALLET.partition(wallet)]
        for side in (BUY, SELL):
            swap = batch.events.add().swap
            swap.signature, swap.slot, swap.tx_index = encode(bytes(64)), batch.slot, tx_index
            swap.block_time_ms = batch.block_time_ms
            swap.wallet = swap.fee_payer = wallet
            swap.mint, swap.quote_mint, swap.side = mint, WSOL, side
            swap.amount_raw = swap.wallet_amount_raw = 10**6
            swap.quote_amount_raw = swap.wallet_quote_amount_raw = _LAMPORTS + 10**6 * side
            swap.sol_value_lamports = _LAMPORTS + 10**6 * side
            swap.usd_value_micros = 160 * swap.sol_value_lamports // 1000
            swap.fee_lamports = 5_000
            tx_index += 1
        account = self._random.randbytes(32)
        for owned, token, amount_raw, decimals in (
            (account, mint, 0, 6),
            (account[::-1], WSOL, 0, SOL_DECIMALS),
        ):
            batch.balances.add(
                account=owned, owner=wallet, mint=token, amount_raw=amount_raw, decimals=decimals
            )


def measure(settings: Settings, wallets: int, days: int) -> dict[str, Any]:
    """Return what Redis holds day by day, and per wallet when all are at rest."""
    store = redis.Redis.from_url(str(settings.redis_url))
    store.config_set("maxmemory", "0")
    empty = dataset_bytes(store)
    by_day: list[int] = []

    async def play() -> None:
        tape = Tape(1)
        player = Player(settings, GROUP, SETTLED_BY_WALLET, tag_of_wallets, open_pnl)
        await player.open()
        an_hour = -(-wallets // (days * 24))
        # Until the last wallet is at rest, and its last day's figures are gone.
        rest_days = max(settings.pnl_cold_after_days + 1, 9)
        for day in range(days + rest_days):
            for _ in range(0, 24, HOURS_A_FLUSH):
                new = an_hour if day < days else 0
                await player.play([tape.next(new) for _ in range(HOURS_A_FLUSH)])
            by_day.append(dataset_bytes(store) - empty)
            progress(f"day {day + 1}: {by_day[-1] / 2**20:.1f} MiB")
        await player.close()

    asyncio.run(play())
    seen = -(-wallets // (days * 24)) * days * 24
    found = survey(store)
    return {
        "bytes_per_wallet_at_rest": round(by_day[-1] / seen, 1),
        "mib_by_day": [round(used / 2**20, 1) for used in by_day],
        "families": {
            pattern: {"keys": family.keys, "entries": family.entries, "bytes": family.bytes}
            for pattern, family in sorted(found.items(), key=lambda item: -item[1].bytes)
        },
        "wallets": seen,
        "days": days,
    }
