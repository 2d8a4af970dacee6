"""A market from a seed: its live events in the flushes that agent `live` writes, and in memory.

Tokens fall off in popularity as 1/rank does, wallets more slowly. A token has one venue; its price
goes out with a swap, if the last went out a tenth of a second ago or more. Frames are made as
`schemas.channels` makes them of real messages, at some 1.5 kB a swap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import Final

from schemas import channels
from schemas.amounts import sol
from schemas.channels import Channel, LiveEvent
from schemas.money import WSOL
from schemas.proto import tape_pb2
from schemas.solana.base58 import encode

FLUSH_MS: Final = 20
SLOT_MS: Final = 400
PRICE_EVERY_MS: Final = 100
CREATIONS_PER_SWAP: Final = 0.004
SOL_USD: Final = 160.0
_DECIMALS: Final = 6
_FIRST_SLOT: Final = 400_000_000
_FIRST_MS: Final = 1_790_000_000_000

VENUES: Final = {
    "pump-swap": 34,
    "pump-fun": 24,
    "meteora-dlmm": 9,
    "raydium-amm-v4": 8,
    "raydium-cpmm": 6,
    "raydium-clmm": 6,
    "raydium-launchlab": 5,
    "orca-whirlpool": 5,
    "meteora-damm-v2": 3,
}
"""The nine venues, and of 100 tokens how many trade there."""

PLATFORMS: Final = {"pump-fun": 70, "letsbonk": 14, "bags": 9, "moonit": 4, "boop": 3}
"""Launch platforms, and of 100 creations how many are theirs."""

Events = dict[Channel, list[LiveEvent]]


@dataclass(frozen=True, slots=True)
class Flush:
    """What is written at one moment, `at_ms` after the first."""

    at_ms: int
    events: Events


@dataclass(slots=True)
class _Token:
    mint: str
    pool: str
    dex: str
    platform: str
    price_sol: float
    priced_ms: int = 0  # when its price was last published


class Market:
    """So many tokens and wallets, and what happens among them."""

    def __init__(self, seed: int = 1, *, tokens: int = 2_000, wallets: int = 20_000) -> None:
        self._random = Random(seed)  # noqa: S311 - it shall come out the same each time
        self._tokens = [self._token() for _ in range(tokens)]
        self._wallets = [self.address() for _ in range(wallets)]
        self._token_weights = [*accumulate(1 / rank for rank in range(1, tokens + 1))]
        self._wallet_weights = [*accumulate(rank**-0.6 for rank in range(1, wallets + 1))]
        self._swaps = 0

    def address(self) -> str:
        """Return an address that nobody else has."""
        return encode(self._random.randbytes(32))

    def mints(self, count: int) -> list[str]:
        """Return some tokens, each as likely as it is traded; the same one may come again."""
        return [token.mint for token in self._drawn(count)]

    def wallets(self, count: int) -> list[str]:
        """Return some wallets, each as likely as it trades; the same one may come again."""
        return self._random.choices(self._wallets, cum_weights=self._wallet_weights, k=count)

    def flushes(self, seconds: float, swaps_per_second: float) -> Iterator[Flush]:
        """Generate some seconds of flushes, at a steady rate."""
        made = 0
        for token in self._tokens:
            token.priced_ms = -PRICE_EVERY_MS
        for at_ms in range(0, round(seconds * 1000), FLUSH_MS):
            due = round((at_ms + FLUSH_MS) / 1000 * swaps_per_second)
            events: Events = {}
            for token in self._drawn(due - made):
                events.setdefault(channels.SWAPS, []).append(self._swap(token, at_ms))
                if at_ms - token.priced_ms >= PRICE_EVERY_MS:
                    token.priced_ms = at_ms
                    events.setdefault(channels.PRICES, []).append(_price(token, at_ms))
                if self._random.random() < CREATIONS_PER_SWAP:
                    events.setdefault(channels.CREATIONS, []).append(self._creation(at_ms))
            made = due
            if at_ms % SLOT_MS == 0:
                events[channels.STATUS] = _statuses(at_ms)
            if events:
                yield Flush(at_ms, events)

    def _drawn(self, count: int) -> list[_Token]:
        return self._random.choices(self._tokens, cum_weights=self._token_weights, k=count)

    def _token(self) -> _Token:
        random = self._random
        [dex] = random.choices([*VENUES], [*VENUES.values()])
        platform = {"pump-fun": "pump-fun", "raydium-launchlab": "letsbonk"}.get(dex, "")
        return _Token(self.address(), self.address(), dex, platform, 10 ** random.uniform(-8, -3))

    def _swap(self, token: _Token, at_ms: int) -> LiveEvent:
        random = self._random
        self._swaps += 1
        token.price_sol *= random.lognormvariate(0, 0.01)
        lamports = int(random.lognormvariate(20, 1.5))
        amount = int(sol(lamports) / token.price_sol * 10**_DECIMALS)
        [wallet] = self.wallets(1)
        swap = tape_pb2.Swap(
            signature=encode(random.randbytes(64)),
            slot=_slot(at_ms),
            tx_index=self._swaps % 1_500,
            event_index=random.randrange(12),
            block_time_ms=_FIRST_MS + at_ms,
            dex=token.dex,
            program_id=token.pool,
            pool=token.pool,
            wallet=wallet,
            fee_payer=wallet,
            mint=token.mint,
            quote_mint=WSOL,
            side=random.choice((tape_pb2.BUY, tape_pb2.SELL)),
            amount_raw=amount,
            decimals=_DECIMALS,
            quote_amount_raw=lamports,
            quote_decimals=9,
            wallet_amount_raw=amount,
            wallet_quote_amount_raw=lamports,
            price=token.price_sol,
            price_sol=token.price_sol,
            price_usd=token.price_sol * SOL_USD,
            sol_value=sol(lamports),
            usd_value=sol(lamports) * SOL_USD,
            pool_fee_raw=lamports // 400,
            pool_fee_mint=WSOL,
            fee_lamports=random.randrange(5_000, 2_000_000),
            priority_fee_lamports=random.randrange(1_000_000),
            platform=token.platform,
            reserve_raw=amount * 1_000,
            quote_reserve_raw=lamports * 1_000,
            sol_value_lamports=lamports,
            usd_value_micros=lamports * 160 // 1_000,
        )
        return channels.swap_event(swap)

    def _creation(self, at_ms: int) -> LiveEvent:
        random = self._random
        [platform] = random.choices([*PLATFORMS], [*PLATFORMS.values()])
        mint = self.address()
        creation = tape_pb2.Creation(
            signature=encode(random.randbytes(64)),
            slot=_slot(at_ms),
            block_time_ms=_FIRST_MS + at_ms,
            mint=mint,
            name=f"Coin of {mint[:6]}",
            symbol=mint[:4].upper(),
            uri=f"https://example.com/metadata/{mint}.json",
            creator=self.wallets(1)[0],
            platform=platform,
            dex="pump-fun" if platform == "pump-fun" else "raydium-launchlab",
            pool=self.address(),
            quote_mint=WSOL,
            decimals=_DECIMALS,
            supply_raw=10**15,
        )
        return channels.creation_event(creation)


def _price(token: _Token, at_ms: int) -> LiveEvent:
    return channels.price_event(
        tape_pb2.PriceUpdate(
            mint=token.mint,
            price_sol=token.price_sol,
            price_usd=token.price_sol * SOL_USD,
            timestamp=_FIRST_MS + at_ms,
            slot=_slot(at_ms),
            pool=token.pool,
        )
    )


def _statuses(at_ms: int) -> list[LiveEvent]:
    slot = _slot(at_ms)
    statuses = (
        (slot, tape_pb2.SlotStatus.PROCESSED),
        (slot - 2, tape_pb2.SlotStatus.CONFIRMED),
        (slot - 32, tape_pb2.SlotStatus.FINALIZED),
    )
    return [
        channels.status_event(
            tape_pb2.SlotStatus(slot=each, parent=each - 1, status=status, transactions=800)
        )
        for each, status in statuses
    ]


def _slot(at_ms: int) -> int:
    return _FIRST_SLOT + at_ms // SLOT_MS
