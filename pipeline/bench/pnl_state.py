"""Books that are there before a measurement begins, as the agent would have written them."""

from __future__ import annotations

from typing import Any, Final

import redis

from pipeline.bench.pnl_tape import FIRST_MS, FIRST_SLOT, LOT_RAW, Tape
from pipeline.domain.lots import Holding
from schemas import redis_keys
from schemas.positions import WalletDay, pack_wallet_day
from schemas.redis_keys import wallet_tag
from schemas.solana import addresses
from schemas.times import DAY_MS, HOUR_MS

_AT_ONCE: Final = 5_000  # commands
_MOVED_HOUR: Final = FIRST_MS // HOUR_MS
_DUE_HOUR: Final = _MOVED_HOUR + 24 * 7  # when a wallet that rests is put away


def open_lots(store: redis.Redis, tape: Tape, lots: int) -> None:
    """Give every wallet so many open lots of the first mint, of LOT_RAW each."""
    holding = _holding(lots)
    packed, chunks = holding.pack(), holding.changed_chunks()[0]
    tape.sell_all = False
    write = _Writer(store)
    for at, wallet in enumerate(tape.wallets):
        tape.holdings[at] = {0: lots * LOT_RAW}
        write.position(wallet, tape.mints[0], packed)
        tag = wallet_tag(wallet)
        for number, chunk in chunks.items():
            key = redis_keys.LOTS.make(tag=tag, wallet=wallet, mint=tape.mints[0], chunk=number)
            write.set(key, chunk)
    write.flush()


def open_positions(store: redis.Redis, tape: Tape) -> None:
    """Give every wallet one open lot of some mint."""
    packed = _holding(1).pack()
    write = _Writer(store)
    for at, wallet in enumerate(tape.wallets):
        mint = at % len(tape.mints)
        tape.holdings[at] = {mint: LOT_RAW}
        write.position(wallet, tape.mints[mint], packed)
    write.flush()


def _holding(lots: int) -> Holding:
    holding = Holding.empty()
    for number in range(lots):
        holding.buy(LOT_RAW, 100 * LOT_RAW, 16 * LOT_RAW, FIRST_SLOT, number, FIRST_MS)
    return holding


class _Writer:
    """Writes in large pipelines."""

    def __init__(self, store: redis.Redis) -> None:
        self._pipe = store.pipeline(transaction=False)

    def position(self, wallet: str, mint: str, packed: bytes) -> None:
        """Write a position and what goes with it."""
        tag, raw, day = wallet_tag(wallet), addresses.key(wallet), FIRST_MS // DAY_MS
        total = pack_wallet_day(WalletDay(buys=1))
        hset: Any = self._pipe.hset
        hset(redis_keys.POSITIONS.make(tag=tag, wallet=wallet), addresses.key(mint), packed)
        hset(redis_keys.WALLET_TOTALS.make(tag=tag), raw, total)
        hset(redis_keys.WALLET_DAYS.make(tag=tag, day=day), raw, total)
        self._pipe.zadd(redis_keys.TOP_OF_MINT.make(tag=tag, mint=mint), {raw: 0})
        self._pipe.zadd(redis_keys.WALLETS_DUE.make(tag=tag), {raw: _DUE_HOUR})
        self._pipe.zadd(redis_keys.TRADED.make(tag=tag), {addresses.key(mint): _MOVED_HOUR})
        self._now_and_then()

    def set(self, key: str, value: bytes) -> None:
        """Write a string."""
        self._pipe.set(key, value)
        self._now_and_then()

    def flush(self) -> None:
        """Write what waits."""
        self._pipe.execute()

    def _now_and_then(self) -> None:
        if len(self._pipe) >= _AT_ONCE:
            self.flush()
