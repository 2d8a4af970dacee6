"""Meteora DAMM v2: one range over all prices; fee in the output, or always in token B."""

from __future__ import annotations

from math import isqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    INSTRUCTIONS_SYSVAR,
    METEORA_DAMM_V2,
    NO_ADDRESS,
    SYSTEM,
    TOKEN_2022,
    anchor_tag,
    event_tag,
    pda,
)
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, pack_two_u64, pack_u64
from schemas.solana.addresses import key

AUTHORITY: Final = key("HLnpSz9h2S4hiLQ43rnSD9XkcUThA7B8hQMKmDaiTLcC")
MIN_SQRT_PRICE: Final = 4_295_048_016
MAX_SQRT_PRICE: Final = 79_226_673_521_066_979_257_578_248_091
FEE_IN_B: Final = 1  # the other collect fee mode, 0, takes it from the output
FEE_RATE: Final = 10_000_000  # of a billion: 1 %
PROTOCOL_PERCENT: Final = 20

_SWAP: Final = anchor_tag("swap")
_SWAP2: Final = anchor_tag("swap2")
_INITIALIZE: Final = anchor_tag("initialize_pool_with_dynamic_config")
_EVENT: Final = event_tag("EvtSwap2")
_INITIALIZED: Final = event_tag("EvtInitializePool")
_HEAD: Final = Struct("<BB?QQB").pack
_RESULT: Final = Struct("<QQQQ16sQQQQ").pack
_TAIL: Final = Struct("<QQQQQQ").pack
_WRITABLE: Final = mask("-wwwww--------")


class Outcome(NamedTuple):
    """A swap's numbers: what is used of the input, and what the vault pays."""

    used_in: int
    out: int
    fee: int
    fee_on_input: bool
    next_sqrt_price: int


class DammV2Pool(Pool):
    """A pool; sides are (token A, token B)."""

    __slots__ = ("collect_fee_mode", "liquidity", "sqrt_price", "swap2")

    DEX = "meteora-damm-v2"
    PROGRAM = METEORA_DAMM_V2
    SLIPPAGE_ERROR = 6_002
    ROUTE_STEP = b"\x5b"
    MUTABLE = ("alive", "liquidity", "sqrt_price")

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
        self.sqrt_price = self.liquidity = 0
        if amounts is not None:
            needed = self.fund(amounts)
            for vault, mint, amount in zip(vaults, sides, needed, strict=True):
                ledger.endow(vault, mint, AUTHORITY, amount)

    def fund(self, amounts: tuple[int, int]) -> tuple[int, int]:
        """Set price and liquidity; returns what the vaults must hold for them."""
        self.sqrt_price = sqrt_price.sqrt_price_of(*amounts)
        self.liquidity = isqrt(amounts[0] * amounts[1])
        return (
            sqrt_price.amount_a(self.liquidity, self.sqrt_price, MAX_SQRT_PRICE),
            sqrt_price.amount_b(self.liquidity, MIN_SQRT_PRICE, self.sqrt_price),
        )

    def _outcome(self, mint_in: Mint, received: int) -> Outcome:
        a_to_b = mint_in is self.sides[0]
        fee_on_input = self.collect_fee_mode == FEE_IN_B and not a_to_b
        fee = ceil_div(received * FEE_RATE, 10**9) if fee_on_input else 0
        after, out = sqrt_price.swap_in(self.liquidity, self.sqrt_price, a_to_b, received - fee)
        if not fee_on_input:
            fee = ceil_div(out * FEE_RATE, 10**9)
            out -= fee
        return Outcome(received - (fee if fee_on_input else 0), out, fee, fee_on_input, after)

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the range."""
        return float(self.liquidity), self.sqrt_price / ONE

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
        self.sqrt_price = done.next_sqrt_price
        vault_in, vault_out = self.vaults if a_to_b else self.vaults[::-1]
        spl.transfer_checked(tx, trader.source, mint_in, vault_in, trader.authority, amount_in_raw)
        spl.transfer_checked(tx, vault_out, mint_out, trader.destination, AUTHORITY, done.out)
        protocol = done.fee * PROTOCOL_PERCENT // 100
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


def initialize_pool(
    tx: Execution,
    directory: Directory,
    pool: DammV2Pool,
    payer: bytes,
    creator: bytes,
    sources: tuple[bytes, bytes],
    amounts: tuple[int, int],
    config: bytes,
    position: tuple[bytes, bytes],
) -> None:
    """Open a pool from another program; `position` is its NFT's mint and account."""
    side_a, side_b = pool.sides
    position_state = pda(METEORA_DAMM_V2, b"position", position[0])
    accounts = (
        creator,
        *position,
        payer,
        creator,
        config,
        AUTHORITY,
        pool.address,
        position_state,
        side_a.address,
        side_b.address,
        *pool.vaults,
        *sources,
        side_a.program.address,
        side_b.program.address,
        TOKEN_2022.address,
        SYSTEM.address,
        METEORA_DAMM_V2.event_authority,
        METEORA_DAMM_V2.address,
    )
    if tx.ledger.lamports.get(pool.address):
        raise InstructionError(0, "Create Account: account already in use")
    tx.touch(pool)
    needed = pool.fund(amounts)
    sqrt = pool.sqrt_price.to_bytes(16, "little")
    liquidity = (pool.liquidity << 64).to_bytes(16, "little")
    low, high = (bound.to_bytes(16, "little") for bound in (MIN_SQRT_PRICE, MAX_SQRT_PRICE))
    fees = FEE_RATE.to_bytes(8, "little").ljust(27, b"\0") + bytes(3) + b"\x00"
    data = fees + low + high + b"\x00" + liquidity + sqrt + bytes((1, pool.collect_fee_mode, 0))
    tx.enter(METEORA_DAMM_V2, accounts, _INITIALIZE + data)
    tx.log("Program log: Instruction: InitializePoolWithDynamicConfig")
    spl.create_account(tx, payer, pool.address, 8_630_400, 1_112, METEORA_DAMM_V2)
    spl.create_account(tx, payer, position_state, 3_730_560, 408, METEORA_DAMM_V2)
    for vault, side in zip(pool.vaults, pool.sides, strict=True):
        spl.create_account(tx, payer, vault, side.account_rent_lamports, 165, side.program)
        spl.initialize_account(tx, vault, side, AUTHORITY)
    for source, side, vault, amount in zip(sources, pool.sides, pool.vaults, needed, strict=True):
        spl.transfer_checked(tx, source, side, vault, creator, amount)
    flags = bytes(0 if side.program is not TOKEN_2022 else 1 for side in pool.sides)
    event = (
        _INITIALIZED
        + pool.address
        + side_a.address
        + side_b.address
        + creator
        + payer
        + NO_ADDRESS
        + fees
        + low
        + high
        + bytes((1, pool.collect_fee_mode))
        + liquidity
        + sqrt
        + pack_u64(tx.time_s)
        + flags
        + Struct("<QQQQ").pack(*needed, *needed)
        + b"\x01"
    )
    tx.emit_cpi(METEORA_DAMM_V2, event)
    directory.open(tx, pool)
    tx.leave(80_000)
