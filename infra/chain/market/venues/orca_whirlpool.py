"""Orca Whirlpool: positions between ticks, fees in the input, event `Traded` in the logs.

Layouts: `Whirlpool`, `TickArray` and `Position` of its IDL, Anchor.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from infra.chain.market.venues.ranges import RangedPool, RangedPosition
from infra.chain.market.venues.ticks import orca_sqrt_price
from infra.chain.market.venues.venue import Call, Trader

_SWAP_TAG: Final = anchor_tag("swap")
_SWAP_V2_TAG: Final = anchor_tag("swap_v2")
_TRADED: Final = event_tag("Traded")
_ARGS: Final = Struct("<QQ16s??").pack
_AMOUNTS: Final = Struct("<QQQQQQ").pack
_SWAP_WRITABLE: Final = mask("--w wwww www w")
_SWAP_V2_WRITABLE: Final = mask("---- w -- wwww www w")
MIN_SQRT_PRICE: Final = 4_295_048_016
MAX_SQRT_PRICE: Final = 79_226_673_515_401_279_992_447_579_055
CONFIG: Final = derived("orca-config")
_SPACINGS: Final = {100: 1, 400: 4, 3_000: 64}  # of ticks, by fee
_POOL_TAG: Final = bytes.fromhex("3f95d10ce1806309")
_ARRAY_TAG: Final = bytes.fromhex("4561bdbe6e0742bb")
_POSITION_TAG: Final = bytes.fromhex("aabc8fe47a40f7d0")
_POOL: Final = Struct("<8s32sBHHHH16s16siQQ32s32s16s32s32s16s392x").pack
_TICK: Final = Struct("<?16s16s16s16s48x")
_POSITION: Final = Struct("<8s32s32s16sii16sQ16sQ72x").pack


class WhirlpoolPosition(RangedPosition):
    """A position's account."""

    __slots__ = ()

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return ORCA_WHIRLPOOL.address

    def data(self) -> bytes:
        """Return the account's 216 bytes."""
        growth_a, growth_b = (each.to_bytes(16, "little") for each in self.checkpoints)
        owed_a, owed_b = self.owed
        return _POSITION(
            _POSITION_TAG,
            self.pool,
            self.mint,
            self.liquidity.to_bytes(16, "little"),
            self.lower,
            self.upper,
            growth_a,
            owed_a,
            growth_b,
            owed_b,
        )


@dataclass(frozen=True, slots=True)
class TickArray:
    """88 ticks of a pool, as they are now."""

    pool: RangedPool
    start: int

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return ORCA_WHIRLPOOL.address

    def data(self) -> bytes:
        """Return the account's 9,988 bytes."""
        data = bytearray(_ARRAY_TAG + self.start.to_bytes(4, "little", signed=True))
        data += bytes(_TICK.size * self.pool.ARRAY_TICKS) + self.pool.address
        for number, _, tick in self.pool.initialized(self.start):
            _TICK.pack_into(
                data,
                12 + _TICK.size * number,
                True,
                tick.net.to_bytes(16, "little", signed=True),
                tick.gross.to_bytes(16, "little"),
                *(each.to_bytes(16, "little") for each in tick.outside),
            )
        return bytes(data)


class Whirlpool(RangedPool):
    """A pool; sides are (token A, token B). It has no rewards, and fixed arrays of ticks."""

    __slots__ = ("arrays", "oracle", "protocol_rate", "v2")

    DEX = "orca-whirlpool"
    PROGRAM = ORCA_WHIRLPOOL
    SLIPPAGE_ERROR = 6_036
    BYTES = 653
    ARRAY_BYTES = 9_988
    ARRAY_TICKS = 88
    POSITION_BYTES = 216

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
        price = sqrt_price.sqrt_price_of(*amounts)
        self.protocol_rate = 1_300  # basis points of the fee
        super().__init__(ledger, address, sides, vaults, price, fee_rate, _SPACINGS[fee_rate])
        self.v2 = v2 or any(side.program is not TOKEN for side in sides)
        self.oracle = pda(ORCA_WHIRLPOOL, b"oracle", address)
        first, size = self.array_start(self.tick), self.spacing * self.ARRAY_TICKS
        self.arrays = tuple(self.array_address(first + size * number) for number in (0, 1, 2))
        self.found(derived("provider", address), *self.widest, isqrt(amounts[0] * amounts[1]))

    sqrt_price_at = staticmethod(orca_sqrt_price)

    def kept(self, fee: int) -> tuple[int, int]:
        """Return what the protocol keeps of a fee; there is no fund."""
        return fee * self.protocol_rate // 10_000, 0

    def data(self) -> bytes:
        """Return the account's 653 bytes."""
        side_a, side_b = self.sides
        return _POOL(
            _POOL_TAG,
            CONFIG,
            255,
            self.spacing,
            self.spacing,
            self.fee_rate,
            self.protocol_rate,
            self.liquidity.to_bytes(16, "little"),
            self.sqrt_price.to_bytes(16, "little"),
            self.tick,
            self.protocol_raw[0],
            self.protocol_raw[1],
            side_a.address,
            self.vaults[0],
            self.growths[0].to_bytes(16, "little"),
            side_b.address,
            self.vaults[1],
            self.growths[1].to_bytes(16, "little"),
        )

    def array_address(self, start: int) -> bytes:
        """Return the address of the array of ticks from `start`."""
        return pda(ORCA_WHIRLPOOL, b"tick_array", self.address, str(start).encode())

    def array(self, start: int) -> TickArray:
        """Return the account of the array of ticks from `start`."""
        return TickArray(self, start)

    def position_address(self, mint: bytes) -> bytes:
        """Return the address of the position of an NFT."""
        return pda(ORCA_WHIRLPOOL, b"position", mint)

    def position(self, mint: bytes, lower: int, upper: int) -> WhirlpoolPosition:
        """Return the account of an empty position."""
        return WhirlpoolPosition(self.address, mint, lower, upper)

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
        before = self.sqrt_price
        walk = self.walk(a_to_b, received)
        after, out = walk.sqrt_price, walk.amount_out
        protocol_fee = walk.kept[0]
        lp_fee = walk.fee - protocol_fee
        fee_out = mint_out.transfer_fee(out)
        self.check(out - fee_out, min_out_raw)
        if walk.is_left:
            raise InstructionError(6_011, "Error: SqrtPriceOutOfBounds")
        tx.touch(self)
        self.follow(a_to_b, walk)
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
