"""What wallets leave in Redis: the books over simulated days of chain time.

Every hour new wallets are seen, each once. Half of them are sent a token, the others buy one and
sell all of it, and close their accounts. Every day has new tokens, but for one that somebody
trades every hour to the end, of which one in ten wallets is sent some. When the last day is over,
that token alone goes on until all wallets are at rest.

Two bars, at any scale: while wallets keep coming, what Redis holds stays level once those of the
first day are at rest; and when all are at rest, a wallet has left next to nothing.

The books of all partitions run in this process, as the agent does it, on a real Valkey and
ClickHouse.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, linear_regression
from typing import Any, Final

import redis

from infra.bench import progress
from infra.redis.families import Family, survey
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
MAX_BYTES_A_WALLET: Final = 60.0
MAX_GROWTH: Final = 0.05  # over the level days, of what they hold on average
LEAST_LEVEL_DAYS: Final = 3  # fewer say nothing about growth
SHARED_BY: Final = 1_000_000  # wallets, at least, that what Redis takes at the start is for
_LAMPORTS: Final = 10**9
_DAYS_OF_FIGURES: Final = 9  # a wallet's figures of a day are gone by then


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
        self._trade(batches, self._keeper, self._immortal, 0)
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


@dataclass(frozen=True, slots=True)
class Held:
    """What Redis holds beside what it takes at the start, in bytes, as each day ends."""

    fixed: int  # taken at the start: bitmaps
    by_day: Sequence[int]
    days: int  # with new wallets; the others follow, until all are at rest
    level_from: int  # number of the first day on which as many wallets go as come
    wallets: int

    @property
    def growth(self) -> float | None:
        """What is gained on level days, as a share of what they hold; None: too few days."""
        level = self.by_day[self.level_from : self.days]
        if len(level) < LEAST_LEVEL_DAYS:
            return None
        slope = linear_regression(range(len(level)), level).slope
        return slope * (len(level) - 1) / fmean(level)

    @property
    def is_flat(self) -> bool | None:
        """Whether level days gain next to nothing; None: too few days to say."""
        return None if self.growth is None else self.growth <= MAX_GROWTH

    @property
    def bytes_a_wallet(self) -> float:
        """What a wallet at rest has left, with its share of what is taken at the start."""
        return self.by_day[-1] / self.wallets + self.fixed / max(self.wallets, SHARED_BY)

    def broken(self) -> list[str]:
        """Name the bars that are broken."""
        bars = []
        if self.is_flat is False:
            bars.append(f"flat: Redis grows by {self.growth:.1%} on level days ({MAX_GROWTH:.0%})")
        if self.bytes_a_wallet > MAX_BYTES_A_WALLET:
            bars.append(
                f"bytes_a_wallet: a wallet at rest leaves {self.bytes_a_wallet:.1f} B"
                f" ({MAX_BYTES_A_WALLET:.0f} B)"
            )
        return bars

    def figures(self) -> dict[str, Any]:
        """Return what is printed."""
        growth = self.growth
        return {
            "bytes_a_wallet": round(self.bytes_a_wallet, 1),
            "flat": self.is_flat,
            "growth_pct": None if growth is None else round(growth * 100, 2),
            "limits": {"bytes_a_wallet": MAX_BYTES_A_WALLET, "growth_pct": MAX_GROWTH * 100},
            "level_days": [self.level_from + 1, self.days],
            "fixed_mib": round(self.fixed / 2**20, 1),
            "mib_by_day": [round(held / 2**20, 2) for held in self.by_day],
            "wallets": self.wallets,
            "days": self.days,
        }


def measure(settings: Settings, wallets: int, days: int) -> tuple[Held, dict[str, Family]]:
    """Return what Redis holds day by day, and its families when all wallets are at rest."""
    store = redis.Redis.from_url(str(settings.redis_url))
    store.config_set("maxmemory", "0")
    fixed = [dataset_bytes(store)]
    by_day: list[int] = []
    an_hour = -(-wallets // (days * 24))
    # Until the last wallet is at rest, and its last day's figures are gone.
    rest_days = max(settings.pnl_cold_after_days + 1, _DAYS_OF_FIGURES)

    async def play() -> None:
        tape = Tape(1)
        player = Player(settings, GROUP, SETTLED_BY_WALLET, tag_of_wallets, open_pnl)
        await player.open()
        await player.play([tape.next(0) for _ in range(HOURS_A_FLUSH)])
        fixed.append(dataset_bytes(store))
        for day in range(days + rest_days):
            for _ in range(0, 24, HOURS_A_FLUSH):
                new = an_hour if day < days else 0
                await player.play([tape.next(new) for _ in range(HOURS_A_FLUSH)])
            by_day.append(dataset_bytes(store) - fixed[1])
            progress(f"day {day + 1}: {by_day[-1] / 2**20:.1f} MiB")
        await player.close()

    asyncio.run(play())
    held = Held(fixed[1] - fixed[0], by_day, days, rest_days - 1, an_hour * 24 * days)
    return held, survey(store)
