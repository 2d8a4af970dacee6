"""Raydium AMM v4: constant product over its two vaults, 25 bps taken from the input.

What waits to be taken as Raydium's profit stays in the vaults and does not count as reserves. It
grows where liquidity comes or goes, by a part of what trades earned since then. Layouts: `AmmInfo`
and `TargetOrders` of raydium-amm, which have no tags; it uses no order book any more.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from math import isqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import OPENBOOK_V1, RAYDIUM_AMM_V4, TOKEN, derived
from infra.chain.market.runtime.stake import epoch_of
from infra.chain.market.venues.ranges import rent_lamports
from infra.chain.market.venues.shares import SharePool
from infra.chain.market.venues.venue import Call, Trader, ceil_div, constant_product_out
from schemas.solana.addresses import key

AUTHORITY: Final = key("5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1")
_SWAP: Final = Struct("<BQQ").pack
_RAY_LOG: Final = Struct("<BQQQQQQQ").pack
_SWAP_V2_WRITABLE: Final = mask("-w- ww ww-")
_SWAP_18: Final = mask("-w- ww ww - wwww ww - ww-")
_SWAP_17: Final = mask("-w- w ww - wwww ww - ww-")
PC_TO_COIN: Final = 1
COIN_TO_PC: Final = 2
BYTES: Final = 752
TARGETS_BYTES: Final = 2_208
PROFIT_OF: Final = (12, 100)  # Raydium's part of what trades earned
_SWAP_ONLY: Final = 6
_NONCE: Final = 254  # that takes the authority off the curve
_IDLE: Final = 1
_FEES: Final = (5, 10_000, 25, 10_000, *PROFIT_OF, 25, 10_000)
_POOL: Final = Struct("<16Q8QQQ128x32s32s32s32s32s32s32s32s32s64x32sQ8xQ8x").pack
_TARGETS: Final = Struct("<32s992x16s16s").pack
_FREE_SLOTS_AT: Final = 2_192
_AMM_OWNER: Final = derived("v4-owner")


class Profit(NamedTuple):
    """What Raydium's profit grows by where liquidity comes or goes, also in the scale of both."""

    coin_raw: int = 0
    pc_raw: int = 0
    pc_scaled: int = 0
    coin_scaled: int = 0


@dataclass(frozen=True, slots=True)
class Targets:
    """A pool's account of target orders; of them it has none, but what was last counted."""

    pool: AmmV4Pool

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return RAYDIUM_AMM_V4.address

    def data(self) -> bytes:
        """Return the account's 2,208 bytes."""
        counted = (each.to_bytes(16, "little") for each in self.pool.counted)
        head = _TARGETS(self.pool.address, *counted)
        return head.ljust(_FREE_SLOTS_AT, b"\0") + b"\xff" * (TARGETS_BYTES - _FREE_SLOTS_AT)


class AmmV4Pool(SharePool):
    """A pool; sides are (coin, pc)."""

    __slots__ = ("_market", "_scale", "counted", "form", "profit_raw")

    DEX = "raydium-amm-v4"
    PROGRAM = RAYDIUM_AMM_V4
    SLIPPAGE_ERROR = 30
    ROUTE_STEP = b"\x07"
    MUTABLE = (*SharePool.MUTABLE, "counted", "profit_raw")

    def __init__(
        self, ledger: Ledger, address: bytes, sides: tuple[Mint, Mint], amounts: tuple[int, int]
    ) -> None:
        vaults = (derived("v4-coin", address), derived("v4-pc", address))
        super().__init__(ledger, address, sides, vaults, derived("v4-lp", address))
        # Clients name all accounts, leave out the target orders, or use swapBaseInV2, which
        # needs none of the order book's: all are seen.
        self.form = address[0] % 3
        self._market = tuple(
            derived("v4-market", address, part)
            for part in (
                "orders",
                "targets",
                "market",
                "bids",
                "asks",
                "queue",
                "coin",
                "pc",
                "nonce",
            )
        )
        coin, pc = sides
        self._scale = 10 ** max(coin.decimals, pc.decimals)
        self.profit_raw = (0, 0)  # waiting in the vaults, of coin and pc
        self.counted = self.scaled(*amounts)  # pc and coin that the profit was last counted of
        lp = Mint(self.lp_mint, coin.decimals, 0, authority=AUTHORITY)
        self.found(lp, AUTHORITY, amounts, isqrt(amounts[0] * amounts[1]), lp.unit)
        ledger.natives[self.targets] = Targets(self)
        ledger.lamports[address] = rent_lamports(BYTES)
        ledger.lamports[self.targets] = rent_lamports(TARGETS_BYTES)

    @property
    def targets(self) -> bytes:
        """Return the address of the target orders."""
        return self._market[1]

    @property
    def market(self) -> tuple[bytes, ...]:
        """Return orders, targets, market, bids, asks, queue, vaults of coin and pc, and signer."""
        return self._market

    def data(self) -> bytes:
        """Return the account's 752 bytes."""
        coin, pc = self.sides
        orders, targets, market, *_ = self._market
        return _POOL(
            *(_SWAP_ONLY, _NONCE, 7, 3, coin.decimals, pc.decimals, _IDLE, 0),
            *(0, 500, self._scale * 5 // 1_000, 0, 0, 1, 10**9, self._scale),
            *(*_FEES, *self.profit_raw),
            *(*self.vaults, coin.address, pc.address, self.lp_mint),
            *(orders, market, OPENBOOK_V1.address, targets, _AMM_OWNER),
            *(self.lp_raw, self.recent_epoch),
        )

    def scaled(self, coin_raw: int, pc_raw: int) -> tuple[int, int]:
        """Return amounts of pc and coin with the decimals of the side that has more."""
        coin, pc = self.sides
        return pc_raw * self._scale // pc.unit, coin_raw * self._scale // coin.unit

    def reserves(self) -> tuple[int, int]:
        """Return what the price is made of: the vaults without the profit that waits in them."""
        coin, pc = self.vault_balances()
        return coin - self.profit_raw[0], pc - self.profit_raw[1]

    def profit(self) -> Profit:
        """Return Raydium's part of what trades earned since it was last counted, at the price now.

        The root of the product has grown; each division rounds down, in the program's order.
        """
        coin, pc = self.sides
        x, y = self.scaled(*self.reserves())
        last_x, last_y = self.counted
        x_then = isqrt(last_x * last_y * x // y)
        more_x, more_y = x - x_then, y - x_then * y // x
        part, whole = PROFIT_OF
        pc_raw = more_x * pc.unit // self._scale * part // whole
        coin_raw = more_y * coin.unit // self._scale * part // whole
        if not (pc_raw and coin_raw):
            return Profit()
        return Profit(coin_raw, pc_raw, more_x * part // whole, more_y * part // whole)

    def withdrawn(self, lp_raw: int) -> tuple[int, int]:
        """Return what LP tokens would be paid now of both tokens."""
        (coin, pc), profit = self.reserves(), self.profit()
        coin, pc = coin - profit.coin_raw, pc - profit.pc_raw
        return coin * lp_raw // self.lp_raw, pc * lp_raw // self.lp_raw

    def count(self, tx: Execution, profit: Profit, moved: tuple[int, int], lp_raw: int) -> None:
        """Count the profit until now; then coin and pc come or go for LP tokens."""
        x, y = self.scaled(*self.reserves())
        self.change(tx)
        self.ledger.rewritten.add(self.targets)
        self.profit_raw = (
            self.profit_raw[0] + profit.coin_raw,
            self.profit_raw[1] + profit.pc_raw,
        )
        pc, coin = self.scaled(abs(moved[0]), abs(moved[1]))
        if lp_raw < 0:
            pc, coin = -pc, -coin
        self.counted = (x + pc - profit.pc_scaled, y + coin - profit.coin_scaled)
        self.lp_raw += lp_raw

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        coin, pc = self.reserves()
        if mint_in is self.sides[1]:
            coin, pc = pc, coin
        return constant_product_out(coin, pc, amount_in_raw - _fee(amount_in_raw))

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swapBaseIn (tag 9, 17 or 18 accounts) or swapBaseInV2 (tag 16, 8 accounts)."""
        user = (trader.source, trader.destination, trader.authority)
        head = (TOKEN.address, self.address, AUTHORITY)
        if self.form == 0:
            data = _SWAP(16, amount_in_raw, min_out_raw)
            return Call((*head, *self.vaults, *user), _SWAP_V2_WRITABLE, data)
        orders, targets, market, bids, asks, queue, coin, pc, nonce = self._market
        accounts = (
            *head,
            *((orders,) if self.form == 1 else (orders, targets)),
            *self.vaults,
            OPENBOOK_V1.address,
            market,
            bids,
            asks,
            queue,
            coin,
            pc,
            nonce,
            *user,
        )
        writable = _SWAP_17 if self.form == 1 else _SWAP_18
        return Call(accounts, writable, _SWAP(9, amount_in_raw, min_out_raw))

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        coin, pc = self.reserves()
        from_coin = mint_in is self.sides[0]
        out = self.quote(mint_in, amount_in_raw)
        vault_in, vault_out = self.vaults if from_coin else self.vaults[::-1]
        record = _RAY_LOG(
            3,
            amount_in_raw,
            min_out_raw,
            COIN_TO_PC if from_coin else PC_TO_COIN,
            tx.ledger.balance(trader.source),
            coin,
            pc,
            out,
        )
        ray_log(tx, record)
        self.check(out, min_out_raw)
        if self.recent_epoch != epoch_of(tx.slot):
            self.change(tx)  # of a pool's account a swap changes nothing else
        spl.transfer(tx, trader.source, vault_in, trader.authority, amount_in_raw)
        spl.transfer(tx, vault_out, trader.destination, AUTHORITY, out)
        tx.leave(21_000)
        moved = (amount_in_raw, out)
        leg = self.leg(tx, place, trader, mint_in, moved, moved)
        leg.fee_raw, leg.fee_mint = _fee(amount_in_raw), mint_in
        leg.reserves_raw = self.reserves()
        return out


def ray_log(tx: Execution, record: bytes) -> None:
    """Log a record as the program does."""
    tx.data_logs.append(len(tx.logs))
    tx.log("Program log: ray_log: " + b64encode(record).decode())


def _fee(amount_in_raw: int) -> int:
    return ceil_div(amount_in_raw * 25, 10_000)
