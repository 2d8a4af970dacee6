"""Meteora DLMM: bins of constant price; a swap empties one bin after the other.

Fees stay in the reserves, outside the bins. `swap` emits its event after the transfers, `swap2`
before them; the newest build adds Swap2Evt to Swap. `meteora_dlmm_liquidity` has what positions do.
Layouts: `LbPair`, `BinArray` and `PositionV2` of its IDL 0.12.0, Anchor; without rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import log
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    MEMO,
    METEORA_DLMM,
    TOKEN_2022,
    WSOL,
    anchor_tag,
    event_tag,
    pda,
)
from infra.chain.market.venues.bins import (
    BINS_PER_ARRAY,
    Bin,
    BinnedPosition,
    Pair,
    Part,
    bin_price,
    moved,
    spread,
)
from infra.chain.market.venues.ranges import rent_lamports
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, pack_two_u64

FEE_PRECISION: Final = 1_000_000_000
PROTOCOL_SHARE: Final = 500  # basis points of the fee
BINS_PER_SIDE: Final = 60  # of the keeper's position, with the middle
PAIR_BYTES: Final = 904
ARRAY_BYTES: Final = 10_136
MOST_BINS_AT_FIRST: Final = 70  # of a position; a longer one grows after it was opened

_BASE_FACTOR: Final = 10_000
_MAX_BIN: Final = 443_636
_SWAP: Final = anchor_tag("swap")
_SWAP2: Final = anchor_tag("swap2")
_EVENT: Final = event_tag("Swap")
_EVENT2: Final = event_tag("Swap2Evt")
_BODY: Final = Struct("<iiQQ?QQ16sQ").pack
_BODY2: Final = Struct("<ii?16sQQQQQQQ??").pack
_SWAP_WRITABLE: Final = mask("w-wwww--w------ww")
_SWAP2_WRITABLE: Final = mask("w-wwww--w-------ww")
_PAIR_TAG: Final = bytes.fromhex("210b3162b565b10d")
_ARRAY_TAG: Final = bytes.fromhex("5c8e5cdc059446b5")
_POSITION_TAG: Final = bytes.fromhex("75b0d4c7f5b485b6")
_PARAMETERS: Final = Struct("<HHHHIIiiHBBB3x").pack
_PAIR: Final = Struct("<8s32s32xB2sBiHBB2sBB32s32s32s32sQQ").pack
_PERMISSIONLESS: Final = 3  # PairType PermissionlessV2
_LIQUIDITY_MINING: Final = 1  # FunctionType
_ORACLE_AT: Final = 552
_BITMAP_AT: Final = 584
_BITMAP_ARRAYS: Final = 1_024
_FLAGS_AT: Final = 880
_BIN: Final = Struct("<QQ16s16s32x16s16s32x")
_BINS_AT: Final = 56
_FEES_AT: Final = 4_552
_FEES: Final = Struct("<16s16sQQ")
_BOUNDS: Final = Struct("<iiqQQ").pack_into
_BOUNDS_AT: Final = 7_912
_VERSION_AT: Final = 8_033
_POSITION_BYTES: Final = 8_120
_PART: Final = Struct("<16s48x16s16sQQ").pack  # of a bin beyond the first 70


@lru_cache(maxsize=20_000)
def array_address(pool: bytes, number: int) -> bytes:
    """Return the address of an array of bins."""
    index = number.to_bytes(8, "little", signed=True)
    return pda(METEORA_DLMM, b"bin_array", pool, index)


@lru_cache(maxsize=20_000)
def position_address(pool: bytes, holder: bytes, lower: int, width: int) -> bytes:
    """Return the address of the position that a holder opened with such bins."""
    bounds = (each.to_bytes(4, "little", signed=True) for each in (lower, width))
    return pda(METEORA_DLMM, b"position", pool, holder, *bounds)


def position_bytes(width: int) -> int:
    """Return the size of a position of so many bins."""
    return _POSITION_BYTES + 112 * max(width - MOST_BINS_AT_FIRST, 0)


def _u128(number: int) -> bytes:
    return number.to_bytes(16, "little")


class DlmmPosition(BinnedPosition):
    """A position's account; its holder owns its fees, and nobody else may act for it."""

    __slots__ = ()

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return METEORA_DLMM.address

    def data(self) -> bytes:
        """Return the account's bytes: columns of the first 70 bins, then the others one by one."""
        data = bytearray(_POSITION_BYTES)
        data[:72] = _POSITION_TAG + self.pool + self.holder
        for number, part in enumerate(self.parts[:MOST_BINS_AT_FIRST]):
            data[72 + 16 * number : 88 + 16 * number] = _u128(part.share)
            seen = map(_u128, part.seen)
            _FEES.pack_into(data, _FEES_AT + _FEES.size * number, *seen, *part.pending)
        _BOUNDS(data, _BOUNDS_AT, self.lower, self.upper, self.time_s, *self.claimed)
        data[_VERSION_AT] = 1
        for part in self.parts[MOST_BINS_AT_FIRST:]:
            data += _PART(_u128(part.share), *map(_u128, part.seen), *part.pending)
        return bytes(data)


@dataclass(frozen=True, slots=True)
class BinArray:
    """70 bins of a pool, as they are now."""

    pool: DlmmPool
    number: int

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return METEORA_DLMM.address

    def data(self) -> bytes:
        """Return the account's 10,136 bytes."""
        pool, first = self.pool, self.number * BINS_PER_ARRAY
        data = bytearray(ARRAY_BYTES)
        data[:17] = _ARRAY_TAG + self.number.to_bytes(8, "little", signed=True) + b"\1"
        data[24:_BINS_AT] = pool.address
        bins = pool.bins
        for place in range(BINS_PER_ARRAY):
            if (held := bins.get(first + place)) is not None:
                _BIN.pack_into(
                    data,
                    _BINS_AT + _BIN.size * place,
                    held.x,
                    held.y,
                    _u128(bin_price(pool.bin_step, first + place)),
                    _u128(held.supply),
                    *map(_u128, held.growths),
                )
        return bytes(data)


class Fill(NamedTuple):
    """What a swap does: output, fee, the protocol's part, where it ends, the bins it changes."""

    out: int
    fee: int
    protocol: int
    end_bin: int
    changed: dict[int, Bin]


_EMPTY: Final = Bin()


class DlmmPool(Pool):
    """A pair; sides are (token X, token Y). Its keeper has a position around the price."""

    __slots__ = (
        "active_bin",
        "bin_step",
        "bins",
        "center_bin",
        "fee_rate",
        "keeper",
        "oracle",
        "protocol_raw",
        "variant",
    )

    DEX = "meteora-dlmm"
    PROGRAM = METEORA_DLMM
    SLIPPAGE_ERROR = 6_003
    ROUTE_STEP = b"\x26"
    MUTABLE = ("active_bin", "alive", "bins", "center_bin", "protocol_raw")

    def __init__(
        self,
        ledger: Ledger,
        address: bytes,
        sides: tuple[Mint, Mint],
        amounts: tuple[int, int],
        keeper: bytes,
        bin_step: int = 100,
        variant: int = 0,
    ) -> None:
        vaults = (
            pda(METEORA_DLMM, address, sides[0].address),
            pda(METEORA_DLMM, address, sides[1].address),
        )
        super().__init__(ledger, address, sides, vaults)
        self.bin_step = bin_step
        self.variant = variant  # 0: swap; 1: swap2; 2: swap2 with both events
        self.fee_rate = _BASE_FACTOR * bin_step * 10
        self.active_bin = self.center_bin = self._bin_of(*amounts)
        self.bins: dict[int, Bin] = {}  # never changed in place; they stay
        self.protocol_raw = (0, 0)
        self.oracle = pda(METEORA_DLMM, b"oracle", address)
        self.keeper = keeper
        for vault, side in zip(vaults, sides, strict=True):
            ledger.endow(vault, side, address, 0)
        ledger.natives[address] = self
        ledger.lamports[address] = rent_lamports(PAIR_BYTES)
        self.found(keeper, *self.kept_bins, amounts)

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return METEORA_DLMM.address

    @property
    def kept_bins(self) -> tuple[int, int]:
        """Return the first and the last bin of the keeper's position."""
        return self.center_bin - BINS_PER_SIDE + 1, self.center_bin + BINS_PER_SIDE - 1

    def data(self) -> bytes:
        """Return the account's 904 bytes; what the bitmap has no place for is not in it."""
        parameters = _PARAMETERS(
            *(_BASE_FACTOR, 30, 600, 5_000, 0, 0, -_MAX_BIN, _MAX_BIN),
            *(PROTOCOL_SHARE, 0, _LIQUIDITY_MINING, 0),
        )
        step = self.bin_step.to_bytes(2, "little")
        factor = _BASE_FACTOR.to_bytes(2, "little")
        head = _PAIR(
            *(_PAIR_TAG, parameters, 255, step, _PERMISSIONLESS, self.active_bin, self.bin_step),
            *(0, 0, factor, 0, 0, *(side.address for side in self.sides), *self.vaults),
            *self.protocol_raw,
        )
        data = bytearray(head.ljust(PAIR_BYTES, b"\0"))
        data[_ORACLE_AT : _ORACLE_AT + 32] = self.oracle
        for number in {at // BINS_PER_ARRAY for at, held in self.bins.items() if held.supply}:
            place = number + _BITMAP_ARRAYS // 2
            if 0 <= place < _BITMAP_ARRAYS:
                data[_BITMAP_AT + place // 8] |= 1 << place % 8
        flags = bytes(side.program is TOKEN_2022 for side in self.sides)
        data[_FLAGS_AT : _FLAGS_AT + 3] = flags + b"\1"
        return bytes(data)

    # Bins.

    def change(self, changed: Mapping[int, Bin]) -> None:
        """Put bins in their place; the state must have been noted before."""
        self.bins = {**self.bins, **changed}
        rewritten = self.ledger.rewritten
        rewritten.add(self.address)
        for number in {at // BINS_PER_ARRAY for at in changed}:
            rewritten.add(array_address(self.address, number))

    def arrays(self, lower: int, upper: int) -> dict[int, bytes]:
        """Return number and address of the arrays that have bins of a range."""
        numbers = range(lower // BINS_PER_ARRAY, upper // BINS_PER_ARRAY + 1)
        return {number: array_address(self.address, number) for number in numbers}

    def found(self, holder: bytes, lower: int, upper: int, amounts: Pair) -> bytes:
        """Give a holder a position before the first slot, with its tokens; returns its address."""
        ledger = self.ledger
        for number, at in self.arrays(lower, upper).items():
            ledger.natives[at] = BinArray(self, number)
            ledger.lamports[at] = rent_lamports(ARRAY_BYTES)
        width = upper - lower + 1
        empty = DlmmPosition(self.address, holder, lower, (Part(),) * width)
        placed = spread(self.active_bin, lower, upper, amounts)
        position, changed = empty.added(self.bins, placed, self.bin_step)
        raw = moved(self.bins, changed)
        for vault, side, amount in zip(self.vaults, self.sides, raw, strict=True):
            ledger.tokens[vault].amount_raw += amount
            side.supply_raw += amount
            if side.address == WSOL:  # wrapped SOL is its lamports
                ledger.lamports[vault] += amount
        at = position_address(self.address, holder, lower, min(width, MOST_BINS_AT_FIRST))
        ledger.natives[at] = position
        ledger.lamports[at] = rent_lamports(position_bytes(width))
        self.change(changed)
        ledger.rewritten.clear()  # no slot wrote it
        return at

    def bin_arrays(self) -> tuple[bytes, bytes]:
        """Return the account of the active bin's array and of the next one."""
        first = self.active_bin // BINS_PER_ARRAY
        return array_address(self.address, first), array_address(self.address, first + 1)

    def moving_accounts(self) -> tuple[bytes, ...]:
        """Return the bin arrays."""
        return self.bin_arrays()

    def _bin_of(self, amount_x: int, amount_y: int) -> int:
        target = amount_y * ONE // amount_x
        low, high = -300_000 // self.bin_step, 300_000 // self.bin_step  # prices from e**-30
        while low < high:
            middle = (low + high + 1) // 2
            if bin_price(self.bin_step, middle) <= target:
                low = middle
            else:
                high = middle - 1
        return low

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price at the active bin's price."""
        held_x, held_y = self.vault_balances()
        root = (bin_price(self.bin_step, self.active_bin) / ONE) ** 0.5
        return (held_x * root + held_y / root) / 2, root

    def trade_to(self, mid: float) -> tuple[Mint, int]:
        """Return the trade that ends in the bin whose price is nearest, or in the last bin."""
        step = log(1 + self.bin_step / 10_000)
        wanted = self.active_bin + round((log(mid) - log(self.mid())) / step)
        first, last = self.kept_bins
        target = min(max(wanted, first), last)
        for_y = target < self.active_bin
        down = -1 if for_y else 1
        amount = sum(
            sum(self._room(passed, for_y)) for passed in range(self.active_bin, target, down)
        )
        if target != self.active_bin:
            amount += max(self._room(target, for_y)[0] // 10, 1_000)
        return self.sides[0 if for_y else 1], amount

    def _room(self, bin_id: int, for_y: bool) -> tuple[int, int]:
        """Return the input that empties a bin, and the fee on it."""
        price = bin_price(self.bin_step, bin_id)
        held = self.bins.get(bin_id, _EMPTY)
        room = ceil_div(held.y * ONE, price) if for_y else ceil_div(held.x * price, ONE)
        return room, ceil_div(room * self.fee_rate, FEE_PRECISION - self.fee_rate)

    def _fill(self, for_y: bool, amount_in: int) -> Fill:
        bins, step, rate = self.bins, self.bin_step, self.fee_rate
        changed: dict[int, Bin] = {}
        current, left, out, fees, protocol = self.active_bin, amount_in, 0, 0, 0
        while True:
            held = bins.get(current)
            if held is None and not min(bins) <= current <= max(bins):
                raise InstructionError(6_012, "Error: PairInsufficientLiquidity")
            if held is not None and (stock := held.y if for_y else held.x):
                price = bin_price(step, current)
                room, room_fee = self._room(current, for_y)
                if left >= room + room_fee:
                    used, fee, got = room, room_fee, stock
                else:
                    fee = ceil_div(left * rate, FEE_PRECISION)
                    used = left - fee
                    got = min(used * price // ONE if for_y else used * ONE // price, stock)
                kept = fee * PROTOCOL_SHARE // 10_000
                x, y = (used, -got) if for_y else (-got, used)
                after = held._replace(x=held.x + x, y=held.y + y)
                changed[current] = after.earning(0 if for_y else 1, fee - kept)
                left -= used + fee
                out += got
                fees += fee
                protocol += kept
            if not left:
                return Fill(out, fees, protocol, current, changed)
            current += -1 if for_y else 1

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input; 0 where the bins do not hold as much."""
        try:
            return self._fill(mint_in is self.sides[0], amount_in_raw).out
        except InstructionError:
            return 0

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swap (17 accounts) or swap2 (18 accounts)."""
        side_x, side_y = self.sides
        head = (
            self.address,
            METEORA_DLMM.address,  # no bitmap extension
            *self.vaults,
            trader.source,
            trader.destination,
            side_x.address,
            side_y.address,
            self.oracle,
            METEORA_DLMM.address,  # no host fee
            trader.authority,
            side_x.program.address,
            side_y.program.address,
        )
        tail = (METEORA_DLMM.event_authority, METEORA_DLMM.address, *self.bin_arrays())
        args = pack_two_u64(amount_in_raw, min_out_raw)
        if not self.variant:
            return Call((*head, *tail), _SWAP_WRITABLE, _SWAP + args)
        return Call((*head, MEMO.address, *tail), _SWAP2_WRITABLE, _SWAP2 + args + bytes(4))

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        tx.log(f"Program log: Instruction: {'Swap2' if self.variant else 'Swap'}")
        mint_out = self.other(mint_in)
        for_y = mint_in is self.sides[0]
        start = self.active_bin
        fill = self._fill(for_y, amount_in_raw)
        self.check(fill.out, min_out_raw)
        if self.variant:
            self._emit(tx, trader, start, amount_in_raw, for_y, fill)
        tx.touch(self)
        self.change(fill.changed)
        self.active_bin = fill.end_bin
        kept_x, kept_y = self.protocol_raw
        self.protocol_raw = (
            (kept_x + fill.protocol, kept_y) if for_y else (kept_x, kept_y + fill.protocol)
        )
        vault_in, vault_out = self.vaults if for_y else self.vaults[::-1]
        spl.transfer_checked(tx, trader.source, mint_in, vault_in, trader.authority, amount_in_raw)
        spl.transfer_checked(tx, vault_out, mint_out, trader.destination, self.address, fill.out)
        if not self.variant:
            self._emit(tx, trader, start, amount_in_raw, for_y, fill)
        tx.leave(45_000)
        moved = (amount_in_raw, fill.out)
        leg = self.leg(tx, place, trader, mint_in, moved, moved)
        leg.fee_raw, leg.fee_mint = fill.fee, mint_in
        leg.reserves_raw = self.reserves()
        return fill.out

    def _emit(
        self, tx: Execution, trader: Trader, start: int, amount_in: int, for_y: bool, fill: Fill
    ) -> None:
        protocol = fill.protocol
        rate = self.fee_rate.to_bytes(16, "little")
        who = self.address + trader.authority
        body = _BODY(start, fill.end_bin, amount_in, fill.out, for_y, fill.fee, protocol, rate, 0)
        tx.emit_cpi(METEORA_DLMM, _EVENT + who + body)
        if self.variant == 2:
            body = _BODY2(
                start,
                fill.end_bin,
                for_y,
                rate,
                amount_in,
                0,
                fill.out,
                fill.fee - protocol,
                protocol,
                0,
                0,
                True,
                for_y,
            )
            tx.emit_cpi(METEORA_DLMM, _EVENT2 + who + body)
