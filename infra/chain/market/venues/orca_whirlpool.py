"""Orca Whirlpool: one range over all prices, fees in the input, event `Traded` in the logs."""

from __future__ import annotations

from math import isqrt
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    MEMO,
    ORCA_WHIRLPOOL,
    TOKEN,
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div

_SWAP_TAG: Final = anchor_tag("swap")
_SWAP_V2_TAG: Final = anchor_tag("swap_v2")
_TRADED: Final = event_tag("Traded")
_ARGS: Final = Struct("<QQ16s??").pack
_AMOUNTS: Final = Struct("<QQQQQQ").pack
_SWAP_WRITABLE: Final = mask("--w wwww www w")
_SWAP_V2_WRITABLE: Final = mask("---- w -- wwww www w")
MIN_SQRT_PRICE: Final = 4_295_048_016
MAX_SQRT_PRICE: Final = 79_226_673_515_401_279_992_447_579_055


class Whirlpool(Pool):
    """A pool; sides are (token A, token B)."""

    __slots__ = (
        "arrays",
        "fee_rate",
        "liquidity",
        "oracle",
        "protocol_rate",
        "sqrt_price",
        "v2",
    )

    DEX = "orca-whirlpool"
    PROGRAM = ORCA_WHIRLPOOL
    SLIPPAGE_ERROR = 6_036
    MUTABLE = ("alive", "sqrt_price")

    def __init__(
        self,
        ledger: Ledger,
        address: bytes,
        sides: tuple[Mint, Mint],
        amounts: tuple[int, int],
        fee_rate: int = 3_000,
        v2: bool = False,
    ) -> None:
        vaults = (derived("orca-a", address), derived("orca-b", address))
        super().__init__(ledger, address, sides, vaults)
        self.sqrt_price = sqrt_price.sqrt_price_of(*amounts)
        self.liquidity = isqrt(amounts[0] * amounts[1])
        self.fee_rate = fee_rate  # hundredths of a basis point
        self.protocol_rate = 1_300  # basis points of the fee
        self.v2 = v2 or any(side.program is not TOKEN for side in sides)
        held_a = sqrt_price.amount_a(self.liquidity, self.sqrt_price, MAX_SQRT_PRICE)
        held_b = sqrt_price.amount_b(self.liquidity, MIN_SQRT_PRICE, self.sqrt_price)
        ledger.endow(vaults[0], sides[0], address, held_a)
        ledger.endow(vaults[1], sides[1], address, held_b)
        self.oracle = pda(ORCA_WHIRLPOOL, b"oracle", address)
        self.arrays = tuple(
            pda(ORCA_WHIRLPOOL, b"tick_array", address, str(start).encode()) for start in (0, 1, 2)
        )

    def _fees(self, received: int) -> tuple[int, int]:
        fee = ceil_div(received * self.fee_rate, 1_000_000)
        protocol = fee * self.protocol_rate // 10_000
        return fee - protocol, protocol

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the range."""
        return float(self.liquidity), self.sqrt_price / ONE

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        received = amount_in_raw - mint_in.transfer_fee(amount_in_raw)
        used = received - sum(self._fees(received))
        a_to_b = mint_in is self.sides[0]
        out = sqrt_price.swap_in(self.liquidity, self.sqrt_price, a_to_b, used).amount_out
        return out - self.other(mint_in).transfer_fee(out)

    def owner_and_vaults(self, trader: Trader, a_to_b: bool) -> tuple[bytes, ...]:
        """Return owner account A, vault A, owner account B, vault B."""
        account_a, account_b = (
            (trader.source, trader.destination) if a_to_b else (trader.destination, trader.source)
        )
        return account_a, self.vaults[0], account_b, self.vaults[1]

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swap (11 accounts) or swap_v2 (15 accounts)."""
        a_to_b = mint_in is self.sides[0]
        limit = (MIN_SQRT_PRICE if a_to_b else MAX_SQRT_PRICE).to_bytes(16, "little")
        args = _ARGS(amount_in_raw, min_out_raw, limit, True, a_to_b)
        tail = (*self.owner_and_vaults(trader, a_to_b), *self.arrays, self.oracle)
        if not self.v2:
            head: tuple[bytes, ...] = (TOKEN.address, trader.authority, self.address)
            return Call((*head, *tail), _SWAP_WRITABLE, _SWAP_TAG + args)
        side_a, side_b = self.sides
        head = (
            side_a.program.address,
            side_b.program.address,
            MEMO.address,
            trader.authority,
            self.address,
            side_a.address,
            side_b.address,
        )
        return Call((*head, *tail), _SWAP_V2_WRITABLE, _SWAP_V2_TAG + args + b"\x00")

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        tx.log("Program log: Instruction: SwapV2" if self.v2 else "Program log: Instruction: Swap")
        received = self.exchange(tx, place, trader, mint_in, amount_in_raw, min_out_raw)
        tx.leave(40_000)
        return received

    def exchange(
        self,
        tx: Execution,
        place: int,
        trader: Trader,
        mint_in: Mint,
        amount_in_raw: int,
        min_out_raw: int,
    ) -> int:
        """Move price and tokens and emit the event, inside an instruction of the program."""
        mint_out = self.other(mint_in)
        a_to_b = mint_in is self.sides[0]
        fee_in = mint_in.transfer_fee(amount_in_raw)
        received = amount_in_raw - fee_in
        lp_fee, protocol_fee = self._fees(received)
        before = self.sqrt_price
        after, out = sqrt_price.swap_in(
            self.liquidity, before, a_to_b, received - lp_fee - protocol_fee
        )
        fee_out = mint_out.transfer_fee(out)
        self.check(out - fee_out, min_out_raw)
        if not MIN_SQRT_PRICE < after < MAX_SQRT_PRICE:
            raise InstructionError(6_011, "Error: SqrtPriceOutOfBounds")
        tx.touch(self)
        self.sqrt_price = after
        vault_in, vault_out = self.vaults if a_to_b else self.vaults[::-1]
        if self.v2:
            spl.transfer_checked(
                tx, trader.source, mint_in, vault_in, trader.authority, amount_in_raw
            )
            spl.transfer_checked(tx, vault_out, mint_out, trader.destination, self.address, out)
        else:
            spl.transfer(tx, trader.source, vault_in, trader.authority, amount_in_raw)
            spl.transfer(tx, vault_out, trader.destination, self.address, out)
        tx.emit_log(
            _TRADED
            + self.address
            + (b"\x01" if a_to_b else b"\x00")
            + before.to_bytes(16, "little")
            + after.to_bytes(16, "little")
            + _AMOUNTS(amount_in_raw, out, fee_in, fee_out, lp_fee, protocol_fee)
        )
        leg = self.leg(tx, place, trader, mint_in, (received, out), (amount_in_raw, out - fee_out))
        leg.fee_raw, leg.fee_mint = lp_fee + protocol_fee, mint_in
        leg.sqrt_price_x64 = after
        leg.reserves_raw = self.reserves()
        return out - fee_out
