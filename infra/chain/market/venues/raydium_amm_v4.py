"""Raydium AMM v4: constant product over its two vaults, 25 bps taken from the input."""

from __future__ import annotations

from base64 import b64encode
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import OPENBOOK_V1, RAYDIUM_AMM_V4, TOKEN, derived
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, constant_product_out
from schemas.solana.addresses import key

AUTHORITY: Final = key("5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1")
_SWAP: Final = Struct("<BQQ").pack
_RAY_LOG: Final = Struct("<BQQQQQQQ").pack
_SWAP_V2_WRITABLE: Final = mask("-w- ww ww-")
_SWAP_18: Final = mask("-w- ww ww - wwww ww - ww-")
_SWAP_17: Final = mask("-w- w ww - wwww ww - ww-")
PC_TO_COIN: Final = 1
COIN_TO_PC: Final = 2


class AmmV4Pool(Pool):
    """A pool; sides are (coin, pc)."""

    __slots__ = ("_market", "form")

    DEX = "raydium-amm-v4"
    PROGRAM = RAYDIUM_AMM_V4
    SLIPPAGE_ERROR = 30
    ROUTE_STEP = b"\x07"

    def __init__(
        self, ledger: Ledger, address: bytes, sides: tuple[Mint, Mint], amounts: tuple[int, int]
    ) -> None:
        vaults = (derived("v4-coin", address), derived("v4-pc", address))
        super().__init__(ledger, address, sides, vaults)
        for vault, mint, amount in zip(vaults, sides, amounts, strict=True):
            ledger.endow(vault, mint, AUTHORITY, amount)
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
        tx.data_logs.append(len(tx.logs))
        tx.log("Program log: ray_log: " + b64encode(record).decode())
        self.check(out, min_out_raw)
        spl.transfer(tx, trader.source, vault_in, trader.authority, amount_in_raw)
        spl.transfer(tx, vault_out, trader.destination, AUTHORITY, out)
        tx.leave(21_000)
        moved = (amount_in_raw, out)
        leg = self.leg(tx, place, trader, mint_in, moved, moved)
        leg.fee_raw, leg.fee_mint = _fee(amount_in_raw), mint_in
        leg.reserves_raw = self.reserves()
        return out


def _fee(amount_in_raw: int) -> int:
    return ceil_div(amount_in_raw * 25, 10_000)
