"""Settled slots by wallet to measure the books with: seeded, and like a market in its habits.

Half of the swaps are of a fiftieth of the wallets, the rest of all of them alike; tokens fall off
in popularity; who holds something sells part of it, all of it, or buys more. A swap changes two
balances, one in thirty transactions moves tokens beside its swaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Final

from schemas.money import SOL_DECIMALS, WSOL
from schemas.proto.tape_pb2 import BUY, CONFIRMED, SELL, SlotBatch, Swap
from schemas.solana.base58 import encode
from schemas.topics import SETTLED_BY_WALLET

SWAPS_PER_SLOT: Final = 160
FIRST_SLOT: Final = 400_000_000
FIRST_MS: Final = 1_790_000_000_000
SLOT_MS: Final = 400
LOT_RAW: Final = 1_000_000

Slot = list[SlotBatch]  # a batch for each partition


class Tape:
    """Slots one after the other; `holdings` is what the wallets hold of which mint."""

    def __init__(self, seed: int, wallets: int, mints: int = 5_000) -> None:
        self._random = random = Random(seed)  # noqa: S311 - figures to be had again
        self.wallets = [encode(random.randbytes(32)) for _ in range(wallets)]
        self.mints = [encode(random.randbytes(32)) for _ in range(mints)]
        self._pools = [encode(random.randbytes(32)) for _ in range(mints)]
        self._accounts = [random.randbytes(32) for _ in range(4_096)]
        self._partitions = [SETTLED_BY_WALLET.partition(wallet) for wallet in self.wallets]
        self.holdings: list[dict[int, int]] = [{} for _ in range(wallets)]
        self.sell_all = True  # now and then; else a lot or two
        self.slot = FIRST_SLOT

    def slots(self, swaps: int) -> Iterator[Slot]:
        """Yield slots with so many swaps."""
        for _ in range(max(1, swaps // SWAPS_PER_SLOT)):
            self.slot += 1
            time_ms = FIRST_MS + (self.slot - FIRST_SLOT) * SLOT_MS
            slot = [
                SlotBatch(slot=self.slot, block_time_ms=time_ms, complete=True, sol_usd="160")
                for _ in range(SETTLED_BY_WALLET.partitions)
            ]
            for number in range(SWAPS_PER_SLOT):
                self._transaction(slot, 4 * number, time_ms)
            yield slot

    def _transaction(self, slot: Slot, tx_index: int, time_ms: int) -> None:
        random = self._random
        count = len(self.wallets)
        at = random.randrange(max(1, count // 50) if random.random() < 0.5 else count)
        held = self.holdings[at]
        sells = bool(held) and random.random() < 0.5
        if sells:
            mint = random.choice([*held]) if len(held) < 8 else next(iter(held))
            quantity = min(
                held[mint],
                random.choice([LOT_RAW, 2 * LOT_RAW, held[mint] if self.sell_all else LOT_RAW]),
            )
            held[mint] -= quantity
            if not held[mint]:
                del held[mint]
        else:
            mint = next(iter(held)) if held and random.random() < 0.3 else self._any_mint()
            quantity = random.randrange(LOT_RAW // 2, 2 * LOT_RAW)
            held[mint] = held.get(mint, 0) + quantity
        lamports = quantity * random.randrange(50, 150)
        batch, wallet = slot[self._partitions[at]], self.wallets[at]
        batch.events.add().swap.MergeFrom(
            _swap(
                slot=self.slot,
                signature=encode(random.randbytes(64)),
                tx_index=tx_index,
                block_time_ms=time_ms,
                pool=self._pools[mint],
                wallet=wallet,
                fee_payer=wallet,
                mint=self.mints[mint],
                side=SELL if sells else BUY,
                amount_raw=quantity,
                wallet_amount_raw=quantity,
                quote_amount_raw=lamports,
                wallet_quote_amount_raw=lamports + lamports // 100,
                sol_value_lamports=lamports,
                usd_value_micros=lamports * 16 // 100,
            )
        )
        for token, amount_raw, decimals in (
            (self.mints[mint], held.get(mint, 0), 6),
            (WSOL, lamports, SOL_DECIMALS),
        ):
            batch.balances.add(
                account=self._accounts[(at * 7 + decimals * mint) % 4_096],
                owner=wallet,
                mint=token,
                decimals=decimals,
                amount_raw=amount_raw,
                tx_index=tx_index,
            )
        if random.random() < 1 / 30:
            batch.movements.add(
                signature="moved",
                tx_index=tx_index + 1,
                wallet=wallet,
                mint=self.mints[mint],
                decimals=6,
                received_raw=LOT_RAW,
            )

    def _any_mint(self) -> int:
        return int(len(self.mints) * self._random.random() ** 3)


def _swap(**what: Any) -> Swap:
    """Return a swap with what is alike in all of them."""
    return Swap(
        event_index=3,
        dex="pump-swap",
        program_id="pAMMBay6oceH9fJKBRHGP5D4bD4sWpmSwMn52FMfXEA",
        quote_mint=WSOL,
        decimals=6,
        quote_decimals=9,
        price=0.0001,
        fee_lamports=25_000,
        priority_fee_lamports=20_000,
        tip_lamports=100_000,
        router="jupiter",
        platform="pump-fun",
        commitment=CONFIRMED,
        reserve_raw=10**15,
        quote_reserve_raw=10**11,
        **what,
    )
