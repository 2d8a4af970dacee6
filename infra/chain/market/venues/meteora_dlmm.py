"""Meteora DLMM: bins of constant price; a swap empties one bin after the other.

Fees stay in the reserves, outside the bins. `swap` emits its event after the transfers, `swap2`
before them; the newest build adds Swap2Evt to Swap. `meteora_dlmm_liquidity` moves the bins to
where the price went.
"""

from __future__ import annotations

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
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, pack_two_u64

FEE_PRECISION: Final = 1_000_000_000
PROTOCOL_SHARE: Final = 500  # basis points of the fee
BINS_PER_ARRAY: Final = 70
BINS_PER_SIDE: Final = 60

_SWAP: Final = anchor_tag("swap")
_SWAP2: Final = anchor_tag("swap2")
_EVENT: Final = event_tag("Swap")
_EVENT2: Final = event_tag("Swap2Evt")
_BODY: Final = Struct("<iiQQ?QQ16sQ").pack
_BODY2: Final = Struct("<ii?16sQQQQQQQ??").pack
_SWAP_WRITABLE: Final = mask("w-wwww--w------ww")
_SWAP2_WRITABLE: Final = mask("w-wwww--w-------ww")


@lru_cache(maxsize=100_000)
def bin_price(bin_step: int, bin_id: int) -> int:
    """Return a bin's price as Q64.64: token Y a token X, raw."""
    # By squaring, in 128 binary places: exact powers have 100,000 digits and take milliseconds.
    base = ((10_000 + bin_step) << 128) // 10_000
    up, left = 1 << 128, abs(bin_id)
    while left:
        if left & 1:
            up = up * base >> 128
        base = base * base >> 128
        left >>= 1
    return up >> 64 if bin_id >= 0 else (1 << 192) // up


@lru_cache(maxsize=20_000)
def _bin_array(pool: bytes, number: int) -> bytes:
    index = number.to_bytes(8, "little", signed=True)
    return pda(METEORA_DLMM, b"bin_array", pool, index)


class Fill(NamedTuple):
    """What a swap does: output, fee, where it ends, and the bins it changes."""

    out: int
    fee: int
    end_bin: int
    changed: dict[int, tuple[int, int]]


class DlmmPool(Pool):
    """A pair; sides are (token X, token Y). One position holds all its bins."""

    __slots__ = (
        "active_bin",
        "bin_step",
        "bins",
        "center_bin",
        "fee_rate",
        "oracle",
        "position",
        "variant",
    )

    DEX = "meteora-dlmm"
    PROGRAM = METEORA_DLMM
    SLIPPAGE_ERROR = 6_003
    ROUTE_STEP = b"\x26"
    MUTABLE = ("active_bin", "alive", "bins", "center_bin")

    def __init__(
        self,
        ledger: Ledger,
        address: bytes,
        sides: tuple[Mint, Mint],
        amounts: tuple[int, int],
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
        self.fee_rate = 10_000 * bin_step * 10  # base factor 10,000
        self.active_bin = self.center_bin = self._bin_of(*amounts)
        self.bins = self.spread(amounts)
        for side in (0, 1):
            held = sum(amount[side] for amount in self.bins.values())
            ledger.endow(vaults[side], sides[side], address, held)
        self.oracle = pda(METEORA_DLMM, b"oracle", address)
        self.position = derived("dlmm-position", address)

    def bin_arrays(self) -> tuple[bytes, bytes]:
        """Return the account of the active bin's array and of the next one."""
        first = self.active_bin // BINS_PER_ARRAY
        return _bin_array(self.address, first), _bin_array(self.address, first + 1)

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

    def spread(self, amounts: tuple[int, int]) -> dict[int, tuple[int, int]]:
        """Return amounts in equal parts: X in the active bin and above, Y in it and below."""
        each_x, each_y = (amount // BINS_PER_SIDE for amount in amounts)
        bins = {self.active_bin: (each_x, each_y)}
        for distance in range(1, BINS_PER_SIDE):
            bins[self.active_bin + distance] = (each_x, 0)
            bins[self.active_bin - distance] = (0, each_y)
        return bins

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price at the active bin's price."""
        held_x, held_y = self.vault_balances()
        root = (bin_price(self.bin_step, self.active_bin) / ONE) ** 0.5
        return (held_x * root + held_y / root) / 2, root

    def trade_to(self, mid: float) -> tuple[Mint, int]:
        """Return the trade that ends in the bin whose price is nearest, or in the last bin."""
        step = log(1 + self.bin_step / 10_000)
        wanted = self.active_bin + round((log(mid) - log(self.mid())) / step)
        target = min(max(wanted, min(self.bins)), max(self.bins))
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
        held_x, held_y = self.bins[bin_id]
        room = ceil_div(held_y * ONE, price) if for_y else ceil_div(held_x * price, ONE)
        return room, ceil_div(room * self.fee_rate, FEE_PRECISION - self.fee_rate)

    def _fill(self, for_y: bool, amount_in: int) -> Fill:
        bins = self.bins
        changed: dict[int, tuple[int, int]] = {}
        current, left, out, fees = self.active_bin, amount_in, 0, 0
        rate = self.fee_rate
        while True:
            if current not in bins:
                raise InstructionError(6_039, "Error: InsufficientLiquidity")
            held_x, held_y = bins[current]
            price = bin_price(self.bin_step, current)
            stock = held_y if for_y else held_x
            room, room_fee = self._room(current, for_y)
            if left >= room + room_fee:
                used, fee, got = room, room_fee, stock
            else:
                fee = ceil_div(left * rate, FEE_PRECISION)
                used = left - fee
                got = used * price // ONE if for_y else used * ONE // price
                got = min(got, stock)
            changed[current] = (
                (held_x + used, held_y - got) if for_y else (held_x - got, held_y + used)
            )
            left -= used + fee
            out += got
            fees += fee
            if not left:
                return Fill(out, fees, current, changed)
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
        self.bins = {**self.bins, **fill.changed}
        self.active_bin = fill.end_bin
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
        protocol = fill.fee * PROTOCOL_SHARE // 10_000
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
