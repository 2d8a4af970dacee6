"""Meteora DAMM v2: one range over all prices; fee in the output, or always in token B.

Liquidity is Q64.64, growths are fees of a unit of it with 128 bits behind the point, and wrap.
Layouts: `Pool` and `Position` of its IDL 0.2.5, Anchor; nothing is locked, there are no rewards.
Source: `cp_amm` `curve.rs`, `state/pool.rs`, `state/position.rs`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import isqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.accounts import mint_data
from infra.chain.market.runtime.execution import Execution, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    INSTRUCTIONS_SYSVAR,
    METEORA_DAMM_V2,
    TOKEN_2022,
    WSOL,
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.ranges import rent_lamports
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, pack_two_u64
from schemas.solana.addresses import key

AUTHORITY: Final = key("HLnpSz9h2S4hiLQ43rnSD9XkcUThA7B8hQMKmDaiTLcC")
MIN_SQRT_PRICE: Final = 4_295_048_016
MAX_SQRT_PRICE: Final = 79_226_673_521_066_979_257_578_248_091
FEE_IN_B: Final = 1  # the other collect fee mode, 0, takes it from the output
FEE_RATE: Final = 10_000_000  # of a billion: 1 %
PROTOCOL_PERCENT: Final = 20

_SWAP: Final = anchor_tag("swap")
_SWAP2: Final = anchor_tag("swap2")
_EVENT: Final = event_tag("EvtSwap2")
_HEAD: Final = Struct("<BB?QQB").pack
_RESULT: Final = Struct("<QQQQ16sQQQQ").pack
_TAIL: Final = Struct("<QQQQQQ").pack
_WRITABLE: Final = mask("-wwwww--------")
POOL_BYTES: Final = 1_112
POSITION_BYTES: Final = 408
_POOL_TAG: Final = bytes.fromhex("f19a6d0411b16dbc")
_POSITION_TAG: Final = bytes.fromhex("aabc8fe47a40f7d0")
_FEES: Final = Struct("<8sQ32xB").pack
_TOKENS: Final = Struct("<32s32s32s32s64x16s16xQQ16x16s16s16sQBBBBBBBx32s32s").pack
_METRICS: Final = Struct("<16s16sQQ16xQ8x32s").pack
_POSITION: Final = Struct("<8s32s32s32s32sQQ16s32xQQ").pack
_TOKENS_AT: Final = 168
_METRICS_AT: Final = 568
_BY_TIME: Final = 1  # ActivationType
_LIQUIDITY_BITS: Final = 64
_GROWTH_BITS: Final = 128
_U256: Final = 1 << 256
_Pair = tuple[int, int]


def _u128(number: int) -> bytes:
    return number.to_bytes(16, "little")


def _u256(number: int) -> bytes:
    return number.to_bytes(32, "little")


@lru_cache(maxsize=10_000)
def position_address(nft: bytes) -> bytes:
    """Return the address of the position of an NFT."""
    return pda(METEORA_DAMM_V2, b"position", nft)


@lru_cache(maxsize=10_000)
def nft_account(nft: bytes) -> bytes:
    """Return the address of the token account that has a position's NFT."""
    return pda(METEORA_DAMM_V2, b"position_nft_account", nft)


def position_nft(address: bytes) -> Mint:
    """Return the mint of a position's NFT, which describes itself."""
    name, symbol = "Meteora Position NFT", "MPN"
    return Mint(address, 0, 0, TOKEN_2022, authority=AUTHORITY, name=name, symbol=symbol)


@dataclass(frozen=True, slots=True)
class DammPosition:
    """A position's account; it belongs to the holder of its NFT."""

    pool: bytes
    nft: bytes
    liquidity: int = 0
    seen: _Pair = (0, 0)  # of the pool's growths
    pending: _Pair = (0, 0)
    claimed: _Pair = (0, 0)

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return METEORA_DAMM_V2.address

    def settled(self, now: _Pair) -> DammPosition:
        """Return the position with its fees until growths of its pool."""
        first, second = (
            raw + (self.liquidity * ((grown - before) % _U256) >> _GROWTH_BITS)
            for raw, grown, before in zip(self.pending, now, self.seen, strict=True)
        )
        return replace(self, seen=now, pending=(first, second))

    def data(self) -> bytes:
        """Return the account's 408 bytes."""
        head = _POSITION(
            *(_POSITION_TAG, self.pool, self.nft, *map(_u256, self.seen), *self.pending),
            *(_u128(self.liquidity), *self.claimed),
        )
        return head.ljust(POSITION_BYTES, b"\0")


class Outcome(NamedTuple):
    """A swap's numbers: what is used of the input, and what the vault pays."""

    used_in: int
    out: int
    fee: int
    fee_on_input: bool
    next_sqrt_price: int


class DammV2Pool(Pool):
    """A pool; sides are (token A, token B)."""

    __slots__ = (
        "collect_fee_mode",
        "creator",
        "earned_raw",
        "growths",
        "liquidity",
        "positions",
        "protocol_raw",
        "sqrt_price",
        "swap2",
    )

    DEX = "meteora-damm-v2"
    PROGRAM = METEORA_DAMM_V2
    SLIPPAGE_ERROR = 6_002
    ROUTE_STEP = b"\x5b"
    MUTABLE = (
        *("alive", "creator", "liquidity", "sqrt_price"),
        *("growths", "earned_raw", "protocol_raw", "positions"),
    )

    def __init__(
        self,
        ledger: Ledger,
        address: bytes,
        sides: tuple[Mint, Mint],
        amounts: tuple[int, int] | None,
        collect_fee_mode: int = FEE_IN_B,
        swap2: bool = False,
    ) -> None:
        vaults = (
            pda(METEORA_DAMM_V2, b"token_vault", sides[0].address, address),
            pda(METEORA_DAMM_V2, b"token_vault", sides[1].address, address),
        )
        super().__init__(ledger, address, sides, vaults)
        self.collect_fee_mode = collect_fee_mode
        self.swap2 = swap2
        self.creator = bytes(32)
        self.sqrt_price = self.liquidity = self.positions = 0
        self.growths = self.earned_raw = self.protocol_raw = (0, 0)
        if amounts is not None:
            for vault, side in zip(vaults, sides, strict=True):
                ledger.endow(vault, side, AUTHORITY, 0)
            ledger.natives[address] = self
            ledger.lamports[address] = rent_lamports(POOL_BYTES)
            self.sqrt_price = sqrt_price.sqrt_price_of(*amounts)
            self.creator = derived("provider", address)
            self.found(self.creator, liquidity_from(amounts))

    @property
    def owner(self) -> bytes:
        """Return the program."""
        return METEORA_DAMM_V2.address

    def data(self) -> bytes:
        """Return the account's 1,112 bytes; it does not track reserves."""
        side_a, side_b = self.sides
        data = bytearray(_FEES(_POOL_TAG, FEE_RATE, PROTOCOL_PERCENT).ljust(POOL_BYTES, b"\0"))
        tokens = _TOKENS(
            *(side_a.address, side_b.address, *self.vaults, _u128(self.liquidity)),
            *self.protocol_raw,
            *map(_u128, (MIN_SQRT_PRICE, MAX_SQRT_PRICE, self.sqrt_price)),
            *(0, _BY_TIME, 0, *(side.program is TOKEN_2022 for side in self.sides)),
            *(self.collect_fee_mode, 0, 0, *map(_u256, self.growths)),
        )
        data[_TOKENS_AT : _TOKENS_AT + len(tokens)] = tokens
        metrics = _METRICS(
            *map(_u128, self.earned_raw), *self.protocol_raw, self.positions, self.creator
        )
        data[_METRICS_AT : _METRICS_AT + len(metrics)] = metrics
        return bytes(data)

    @property
    def first_nft(self) -> bytes:
        """Return the mint of the NFT of the position that opens a pool."""
        return derived("position", self.address)

    # Liquidity.

    def amounts(self, liquidity: int, *, up: bool) -> _Pair:
        """Return what liquidity is of both tokens: rounded up to put in, down to take out."""
        price = self.sqrt_price
        first = liquidity * (MAX_SQRT_PRICE - price), price * MAX_SQRT_PRICE
        second = liquidity * (price - MIN_SQRT_PRICE), 1 << 2 * _LIQUIDITY_BITS
        if up:
            return ceil_div(*first), ceil_div(*second)
        return first[0] // first[1], second[0] // second[1]

    def liquidity_of(self, amounts: _Pair) -> int:
        """Return the most liquidity that amounts pay for."""
        unit = 1 << 2 * _LIQUIDITY_BITS
        needs = self.amounts(unit, up=True)
        return min(raw * unit // need for raw, need in zip(amounts, needs, strict=True))

    def add(self, liquidity: int) -> None:
        """Add liquidity, or take it where it is negative; the state must have been noted."""
        self.liquidity += liquidity
        self.ledger.rewritten.add(self.address)

    def found(self, holder: bytes, liquidity: int) -> bytes:
        """Give a holder a position before the first slot, with its tokens; returns its NFT."""
        ledger = self.ledger
        nft = position_nft(derived("position", self.address, holder))
        ledger.add_mint(nft, rent_lamports(len(mint_data(nft))))
        ledger.endow(nft_account(nft.address), nft, holder, 1)
        raw = self.amounts(liquidity, up=True)
        for vault, side, amount in zip(self.vaults, self.sides, raw, strict=True):
            ledger.tokens[vault].amount_raw += amount
            side.supply_raw += amount
            if side.address == WSOL:  # wrapped SOL is its lamports
                ledger.lamports[vault] += amount
        at = position_address(nft.address)
        ledger.natives[at] = DammPosition(self.address, nft.address, liquidity, self.growths)
        ledger.lamports[at] = rent_lamports(POSITION_BYTES)
        self.positions += 1
        self.add(liquidity)
        ledger.rewritten.clear()  # no slot wrote it
        return nft.address

    # Swaps.

    def _outcome(self, mint_in: Mint, received: int) -> Outcome:
        a_to_b = mint_in is self.sides[0]
        fee_on_input = self.collect_fee_mode == FEE_IN_B and not a_to_b
        fee = ceil_div(received * FEE_RATE, 10**9) if fee_on_input else 0
        after, out = self._moved(a_to_b, received - fee)
        if not fee_on_input:
            fee = ceil_div(out * FEE_RATE, 10**9)
            out -= fee
        return Outcome(received - (fee if fee_on_input else 0), out, fee, fee_on_input, after)

    def _moved(self, a_to_b: bool, used: int) -> _Pair:
        """Return the price after an input, and what the pool pays before fees."""
        liquidity, price = self.liquidity, self.sqrt_price
        if a_to_b:
            after = ceil_div(liquidity * price, liquidity + used * price)
            return after, liquidity * (price - after) >> 2 * _LIQUIDITY_BITS
        after = price + (used << 2 * _LIQUIDITY_BITS) // liquidity
        return after, liquidity * (after - price) // (after * price)

    def _earn(self, side: int, shared: int, protocol: int) -> None:
        """Share a fee among all liquidity, and keep the protocol's part."""
        growths, earned, kept = list(self.growths), list(self.earned_raw), list(self.protocol_raw)
        growths[side] = (growths[side] + (shared << _GROWTH_BITS) // self.liquidity) % _U256
        earned[side] += shared
        kept[side] += protocol
        self.growths = (growths[0], growths[1])
        self.earned_raw = (earned[0], earned[1])
        self.protocol_raw = (kept[0], kept[1])

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the range."""
        return self.liquidity / ONE, self.sqrt_price / ONE

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        received = amount_in_raw - mint_in.transfer_fee(amount_in_raw)
        out = self._outcome(mint_in, received).out
        return out - self.other(mint_in).transfer_fee(out)

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swap (14 accounts) or swap2 with the instructions sysvar (15 accounts)."""
        side_a, side_b = self.sides
        accounts: tuple[bytes, ...] = (
            AUTHORITY,
            self.address,
            trader.source,
            trader.destination,
            *self.vaults,
            side_a.address,
            side_b.address,
            trader.authority,
            side_a.program.address,
            side_b.program.address,
            METEORA_DAMM_V2.address,  # no referral account
            METEORA_DAMM_V2.event_authority,
            METEORA_DAMM_V2.address,
        )
        args = pack_two_u64(amount_in_raw, min_out_raw)
        if not self.swap2:
            return Call(accounts, _WRITABLE, _SWAP + args)
        return Call((*accounts, INSTRUCTIONS_SYSVAR), (*_WRITABLE, False), _SWAP2 + args + b"\x00")

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        tx.log(f"Program log: Instruction: {'Swap2' if self.swap2 else 'Swap'}")
        mint_out = self.other(mint_in)
        a_to_b = mint_in is self.sides[0]
        received = amount_in_raw - mint_in.transfer_fee(amount_in_raw)
        done = self._outcome(mint_in, received)
        net_out = done.out - mint_out.transfer_fee(done.out)
        self.check(net_out, min_out_raw)
        tx.touch(self)
        protocol = done.fee * PROTOCOL_PERCENT // 100
        self.sqrt_price = done.next_sqrt_price
        self._earn(1 if a_to_b or done.fee_on_input else 0, done.fee - protocol, protocol)
        self.ledger.rewritten.add(self.address)
        vault_in, vault_out = self.vaults if a_to_b else self.vaults[::-1]
        spl.transfer_checked(tx, trader.source, mint_in, vault_in, trader.authority, amount_in_raw)
        spl.transfer_checked(tx, vault_out, mint_out, trader.destination, AUTHORITY, done.out)
        reserves = self.reserves()
        event = (
            _EVENT
            + self.address
            + _HEAD(0 if a_to_b else 1, self.collect_fee_mode, False, amount_in_raw, min_out_raw, 0)
            + _RESULT(
                received,
                done.used_in,
                0,
                done.out,
                done.next_sqrt_price.to_bytes(16, "little"),
                done.fee - protocol,
                protocol,
                0,
                0,
            )
            + _TAIL(amount_in_raw, done.out, net_out, tx.time_s, *reserves)
        )
        tx.emit_cpi(METEORA_DAMM_V2, event)
        tx.leave(30_000)
        leg = self.leg(tx, place, trader, mint_in, (received, done.out), (amount_in_raw, net_out))
        leg.fee_raw, leg.fee_mint = done.fee, mint_in if done.fee_on_input else mint_out
        leg.reserves_raw = reserves
        leg.sqrt_price_x64 = done.next_sqrt_price
        return net_out


def liquidity_from(amounts: _Pair) -> int:
    """Return the liquidity of a pool whose price makes two amounts worth the same."""
    return isqrt(amounts[0] * amounts[1]) << _LIQUIDITY_BITS
