"""Raydium CLMM: one range over all prices, fee in the input, event after the transfers."""

from __future__ import annotations

from math import isqrt
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    MEMO,
    RAYDIUM_CLMM,
    TOKEN,
    TOKEN_2022,
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div

_SWAP: Final = anchor_tag("swap")
_SWAP_V2: Final = anchor_tag("swap_v2")
_EVENT: Final = event_tag("SwapEvent")
_ARGS: Final = Struct("<QQ16s?").pack
_AMOUNTS: Final = Struct("<QQQQ?").pack
_SWAP_WRITABLE: Final = mask("--wwwwww-wwww")
_SWAP_V2_WRITABLE: Final = mask("--wwwwww-----www")
_MIN_SQRT_PRICE: Final = 4_295_048_016
_MAX_SQRT_PRICE: Final = 79_226_673_521_066_979_257_578_248_091


class ClmmPool(Pool):
    """A pool; sides are (token 0, token 1)."""

    __slots__ = (
        "_config",
        "_extension",
        "_observation",
        "_ticks",
        "fee_rate",
        "liquidity",
        "sqrt_price",
        "v2",
    )

    DEX = "raydium-clmm"
    PROGRAM = RAYDIUM_CLMM
    SLIPPAGE_ERROR = 6_022
    ROUTE_STEP = b"\x1a"
    MUTABLE = ("alive", "sqrt_price")

    def __init__(
        self,
        ledger: Ledger,
        sides: tuple[Mint, Mint],
        amounts: tuple[int, int],
        fee_rate: int = 2_500,
    ) -> None:
        self._config = derived("clmm-config", fee_rate)
        seeds = (self._config, sides[0].address, sides[1].address)
        address = pda(RAYDIUM_CLMM, b"pool", *seeds)
        vaults = (
            pda(RAYDIUM_CLMM, b"pool_vault", address, sides[0].address),
            pda(RAYDIUM_CLMM, b"pool_vault", address, sides[1].address),
        )
        super().__init__(ledger, address, sides, vaults)
        self.sqrt_price = sqrt_price.sqrt_price_of(*amounts)
        self.liquidity = isqrt(amounts[0] * amounts[1])
        self.fee_rate = fee_rate  # of a million
        self.v2 = address[0] % 2 == 0 or any(side.program is not TOKEN for side in sides)
        held_0 = sqrt_price.amount_a(self.liquidity, self.sqrt_price, _MAX_SQRT_PRICE)
        held_1 = sqrt_price.amount_b(self.liquidity, _MIN_SQRT_PRICE, self.sqrt_price)
        ledger.endow(vaults[0], sides[0], address, held_0)
        ledger.endow(vaults[1], sides[1], address, held_1)
        self._observation = pda(RAYDIUM_CLMM, b"observation", address)
        self._extension = pda(RAYDIUM_CLMM, b"pool_tick_array_bitmap_extension", address)
        self._ticks = (
            pda(RAYDIUM_CLMM, b"tick_array", address, (0).to_bytes(4, "big")),
            pda(RAYDIUM_CLMM, b"tick_array", address, (60).to_bytes(4, "big")),
        )

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the range."""
        return float(self.liquidity), self.sqrt_price / ONE

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        received = amount_in_raw - mint_in.transfer_fee(amount_in_raw)
        used = received - ceil_div(received * self.fee_rate, 1_000_000)
        zero_for_one = mint_in is self.sides[0]
        out = sqrt_price.swap_in(self.liquidity, self.sqrt_price, zero_for_one, used).amount_out
        return out - self.other(mint_in).transfer_fee(out)

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swap (13 accounts) or swap_v2 (16 accounts)."""
        args = _ARGS(amount_in_raw, min_out_raw, bytes(16), True)
        vault_in, vault_out = self.vaults if mint_in is self.sides[0] else self.vaults[::-1]
        head = (
            trader.authority,
            self._config,
            self.address,
            trader.source,
            trader.destination,
            vault_in,
            vault_out,
            self._observation,
            TOKEN.address,
        )
        if not self.v2:
            first, second = self._ticks
            accounts: tuple[bytes, ...] = (*head, first, self._extension, first, second)
            return Call(accounts, _SWAP_WRITABLE, _SWAP + args)
        mints = (mint_in.address, self.other(mint_in).address)
        accounts = (
            *head,
            TOKEN_2022.address,
            MEMO.address,
            *mints,
            self._extension,
            *self._ticks,
        )
        return Call(accounts, _SWAP_V2_WRITABLE, _SWAP_V2 + args)

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        call = self.call(trader, mint_in, amount_in_raw, min_out_raw)
        place = self.enter(tx, call)
        tx.log("Program log: Instruction: SwapV2" if self.v2 else "Program log: Instruction: Swap")
        mint_out = self.other(mint_in)
        zero_for_one = mint_in is self.sides[0]
        fee_in = mint_in.transfer_fee(amount_in_raw)
        received = amount_in_raw - fee_in
        fee = ceil_div(received * self.fee_rate, 1_000_000)
        after, out = sqrt_price.swap_in(
            self.liquidity, self.sqrt_price, zero_for_one, received - fee
        )
        fee_out = mint_out.transfer_fee(out)
        self.check(out - fee_out, min_out_raw)
        tx.touch(self)
        self.sqrt_price = after
        vault_in, vault_out = call.accounts[5:7]
        user = trader.authority
        if self.v2:
            spl.transfer_checked(tx, trader.source, mint_in, vault_in, user, amount_in_raw)
            spl.transfer_checked(tx, vault_out, mint_out, trader.destination, self.address, out)
        else:
            spl.transfer(tx, trader.source, vault_in, user, amount_in_raw)
            spl.transfer(tx, vault_out, trader.destination, self.address, out)
        users = (trader.source, trader.destination)
        if zero_for_one:
            amounts = (received, fee_in, out, fee_out)
        else:
            amounts, users = (out, fee_out, received, fee_in), users[::-1]
        tx.emit_log(
            _EVENT
            + self.address
            + user
            + users[0]
            + users[1]
            + _AMOUNTS(*amounts, zero_for_one)
            + after.to_bytes(16, "little")
            + self.liquidity.to_bytes(16, "little")
            + sqrt_price.tick_of(after).to_bytes(4, "little", signed=True)
        )
        tx.leave(50_000)
        leg = self.leg(tx, place, trader, mint_in, (received, out), (amount_in_raw, out - fee_out))
        leg.sqrt_price_x64 = after
        leg.reserves_raw = self.reserves()
        leg.liquidity = self.liquidity
        return out - fee_out
