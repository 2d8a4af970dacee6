"""Raydium CLMM: positions between ticks, fee in the input, event after the transfers.

Layouts: `PoolState`, `TickArrayState` and `PersonalPositionState` of raydium-clmm, Anchor.
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
    RAYDIUM_CLMM,
    TOKEN,
    TOKEN_2022,
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.ranges import MILLION, RangedPool, RangedPosition
from infra.chain.market.venues.ticks import raydium_sqrt_price
from infra.chain.market.venues.venue import Call, Trader

_SWAP: Final = anchor_tag("swap")
_SWAP_V2: Final = anchor_tag("swap_v2")
_EVENT: Final = event_tag("SwapEvent")
_ARGS: Final = Struct("<QQ16s?").pack
_AMOUNTS: Final = Struct("<QQQQ?").pack
_SWAP_WRITABLE: Final = mask("--wwwwww-wwww")
_SWAP_V2_WRITABLE: Final = mask("--wwwwww-----www")


CONFIG_SPACINGS: Final = {100: 1, 400: 10, 2_500: 60}  # of ticks, by fee
_POOL_TAG: Final = bytes.fromhex("f7ede3f5d7c3de46")
_ARRAY_TAG: Final = bytes.fromhex("c09b55cd31f9812a")
_POSITION_TAG: Final = bytes.fromhex("466f967ee60f1975")
_PROTOCOL_RATE: Final = 120_000  # of a million of the fee
_FUND_RATE: Final = 40_000
_POOL: Final = Struct("<8sB32s32s32s32s32s32s32sBBH16s16si4x16s16sQQ").pack
_FUND: Final = Struct("<QQ").pack_into
_ARRAY: Final = Struct("<8s32si").pack
_TICK: Final = Struct("<i16s16s16s16s100x")
_POSITION: Final = Struct("<8sB32s32sii16s16s16sQQ136x").pack
_BITMAP_AT: Final = 904
_BITMAP_ARRAYS: Final = 1_024  # from the one that begins at half of them below tick 0
_ARRAY_COUNT_AT: Final = 10_124


class ClmmPosition(RangedPosition):
    """A position's account, `PersonalPositionState`."""

    __slots__ = ()

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return RAYDIUM_CLMM.address

    def data(self) -> bytes:
        """Return the account's 281 bytes."""
        return _POSITION(
            _POSITION_TAG,
            255,
            self.mint,
            self.pool,
            self.lower,
            self.upper,
            self.liquidity.to_bytes(16, "little"),
            *(each.to_bytes(16, "little") for each in self.checkpoints),
            *self.owed,
        )


@dataclass(frozen=True, slots=True)
class TickArray:
    """60 ticks of a pool, as they are now: `TickArrayState`."""

    pool: RangedPool
    start: int

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return RAYDIUM_CLMM.address

    def data(self) -> bytes:
        """Return the account's 10,240 bytes."""
        data = bytearray(_ARRAY(_ARRAY_TAG, self.pool.address, self.start).ljust(10_240, b"\0"))
        for number, at, tick in self.pool.initialized(self.start):
            _TICK.pack_into(
                data,
                44 + _TICK.size * number,
                at,
                tick.net.to_bytes(16, "little", signed=True),
                tick.gross.to_bytes(16, "little"),
                *(each.to_bytes(16, "little") for each in tick.outside),
            )
            data[_ARRAY_COUNT_AT] += 1
        return bytes(data)


class ClmmPool(RangedPool):
    """A pool; sides are (token 0, token 1). It has no rewards."""

    __slots__ = ("_config", "_extension", "_observation", "_ticks", "v2")

    DEX = "raydium-clmm"
    PROGRAM = RAYDIUM_CLMM
    SLIPPAGE_ERROR = 6_022
    ROUTE_STEP = b"\x1a"
    BYTES = 1_544
    ARRAY_BYTES = 10_240
    ARRAY_TICKS = 60
    POSITION_BYTES = 281

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
        price = sqrt_price.sqrt_price_of(*amounts)
        spacing = CONFIG_SPACINGS[fee_rate]
        super().__init__(ledger, address, sides, vaults, price, fee_rate, spacing)
        self.v2 = address[0] % 2 == 0 or any(side.program is not TOKEN for side in sides)
        self._observation = pda(RAYDIUM_CLMM, b"observation", address)
        self._extension = pda(RAYDIUM_CLMM, b"pool_tick_array_bitmap_extension", address)
        first = self.array_start(self.tick)
        self._ticks = (
            self.array_address(first),
            self.array_address(first + self.spacing * self.ARRAY_TICKS),
        )
        self.found(derived("provider", address), *self.widest, isqrt(amounts[0] * amounts[1]))

    sqrt_price_at = staticmethod(raydium_sqrt_price)

    def kept(self, fee: int) -> tuple[int, int]:
        """Return what the protocol and its fund keep of a fee."""
        return fee * _PROTOCOL_RATE // MILLION, fee * _FUND_RATE // MILLION

    def data(self) -> bytes:
        """Return the account's 1,544 bytes; what the bitmap has no place for is not in it."""
        first, second = self.sides
        fees = self.protocol_raw
        head = _POOL(
            _POOL_TAG,
            255,
            self._config,
            self._config,
            first.address,
            second.address,
            *self.vaults,
            self._observation,
            first.decimals,
            second.decimals,
            self.spacing,
            self.liquidity.to_bytes(16, "little"),
            self.sqrt_price.to_bytes(16, "little"),
            self.tick,
            *(each.to_bytes(16, "little") for each in self.growths),
            fees[0],
            fees[1],
        )
        data = bytearray(head.ljust(self.BYTES, b"\0"))
        size = self.spacing * self.ARRAY_TICKS
        for start in {self.array_start(tick) for tick in self.ticks}:
            place = start // size + _BITMAP_ARRAYS // 2
            if 0 <= place < _BITMAP_ARRAYS:
                data[_BITMAP_AT + place // 8] |= 1 << place % 8
        _FUND(data, 1_064, fees[2], fees[3])
        return bytes(data)

    def array_address(self, start: int) -> bytes:
        """Return the address of the array of ticks from `start`."""
        seed = start.to_bytes(4, "big", signed=True)
        return pda(RAYDIUM_CLMM, b"tick_array", self.address, seed)

    def array(self, start: int) -> TickArray:
        """Return the account of the array of ticks from `start`."""
        return TickArray(self, start)

    def position_address(self, mint: bytes) -> bytes:
        """Return the address of the position of an NFT."""
        return pda(RAYDIUM_CLMM, b"position", mint)

    def position(self, mint: bytes, lower: int, upper: int) -> ClmmPosition:
        """Return the account of an empty position."""
        return ClmmPosition(self.address, mint, lower, upper)

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
        walk = self.walk(zero_for_one, received)
        after, out = walk.sqrt_price, walk.amount_out
        fee_out = mint_out.transfer_fee(out)
        self.check(out - fee_out, min_out_raw)
        if walk.is_left:
            raise InstructionError(6_013, "AnchorError: SqrtPriceLimitOverflow.")
        tx.touch(self)
        self.follow(zero_for_one, walk)
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
            + self.tick.to_bytes(4, "little", signed=True)
        )
        tx.leave(50_000)
        leg = self.leg(tx, place, trader, mint_in, (received, out), (amount_in_raw, out - fee_out))
        leg.sqrt_price_x64 = after
        leg.reserves_raw = self.reserves()
        leg.liquidity = self.liquidity
        return out - fee_out
