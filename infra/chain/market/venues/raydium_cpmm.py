"""Raydium CPMM: constant product, token programs of either kind, event before the transfers.

Protocol and fund fees stay in the vaults but do not count as reserves; the event's reserves
leave them out. Layout: `PoolState` of raydium-cp-swap, Anchor, packed.
"""

from __future__ import annotations

from math import isqrt, sqrt
from struct import Struct
from typing import Final

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    RAYDIUM_CPMM,
    RENT_SYSVAR,
    SYSTEM,
    TOKEN,
    anchor_tag,
    event_tag,
    pda,
    pda_and_bump,
)
from infra.chain.market.runtime.stake_program import set_native
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.shares import SharePool
from infra.chain.market.venues.venue import (
    Call,
    Trader,
    ceil_div,
    constant_product_out,
    pack_two_u64,
)
from schemas.solana.addresses import key

AUTHORITY, _AUTHORITY_BUMP = pda_and_bump(RAYDIUM_CPMM, b"vault_and_lp_mint_auth_seed")
AMM_CONFIG: Final = key("D4FPEruKEHrG5TenZ2mpDGEfu1iUvTiqBxvpU8HLBvC2")
CREATE_POOL_FEE: Final = key("DNXgeM9EiiaAbaWvwjHj9fQQLAX5ZsfHyvmYUNRAdNC8")
TRADE_FEE: Final = 2_500  # of a million
PROTOCOL_SHARE: Final = 120_000  # of the trade fee, of a million
FUND_SHARE: Final = 40_000
LOCKED_LP: Final = 100  # counted as supply, and minted to nobody
LP_DECIMALS: Final = 9
BYTES: Final = 637
RENT_LAMPORTS: Final = 5_324_400

_SWAP: Final = anchor_tag("swap_base_input")
_INITIALIZE: Final = anchor_tag("initialize_with_permission")
_SWAP_EVENT: Final = event_tag("SwapEvent")
LP_EVENT: Final = event_tag("LpChangeEvent")
_AMOUNTS: Final = Struct("<6Q?").pack
_POOL_TAG: Final = bytes.fromhex("f7ede3f5d7c3de46")
_POOL: Final = Struct("<5B7Q").pack
_SWAP_WRITABLE: Final = mask("---wwwww----w")


def pool_address(mint_0: Mint, mint_1: Mint) -> bytes:
    """Return the pool of two mints under the standard fee configuration."""
    return pda(RAYDIUM_CPMM, b"pool", AMM_CONFIG, mint_0.address, mint_1.address)


def sorted_sides(one: Mint, other: Mint) -> tuple[Mint, Mint]:
    """Return the mints as the venue orders them: by address."""
    return (one, other) if one.address < other.address else (other, one)


class CpmmPool(SharePool):
    """A pool; sides are (token 0, token 1). Its creator takes no fee."""

    __slots__ = ("_head", "fees_raw", "observation", "opens_s")

    DEX = "raydium-cpmm"
    PROGRAM = RAYDIUM_CPMM
    SLIPPAGE_ERROR = 6_005
    ROUTE_STEP = b"\x35"
    MUTABLE = (*SharePool.MUTABLE, "fees_raw", "opens_s")

    def __init__(
        self,
        ledger: Ledger,
        sides: tuple[Mint, Mint],
        amounts: tuple[int, int] | None = None,
        creator: bytes | None = None,
    ) -> None:
        address = pool_address(*sides)
        vaults = (
            pda(RAYDIUM_CPMM, b"pool_vault", address, sides[0].address),
            pda(RAYDIUM_CPMM, b"pool_vault", address, sides[1].address),
        )
        lp_mint = pda(RAYDIUM_CPMM, b"pool_lp_mint", address)
        super().__init__(ledger, address, sides, vaults, lp_mint)
        self.observation = pda(RAYDIUM_CPMM, b"observation", address)
        creator = creator or self.provider
        self._head = b"".join(
            (
                *(_POOL_TAG, AMM_CONFIG, creator, *vaults, lp_mint),
                *(side.address for side in sides),
                *(side.program.address for side in sides),
                self.observation,
            )
        )
        self.fees_raw = (0, 0, 0, 0)  # waiting in the vaults: the protocol's, then its fund's
        self.opens_s = 0
        if amounts is not None:
            lp = Mint(lp_mint, LP_DECIMALS, 0, authority=AUTHORITY)
            self.found(lp, AUTHORITY, amounts, isqrt(amounts[0] * amounts[1]), LOCKED_LP)
            ledger.lamports[address] = RENT_LAMPORTS

    def data(self) -> bytes:
        """Return the account's 637 bytes."""
        first, second = self.sides
        body = _POOL(
            *(_AUTHORITY_BUMP, 0, LP_DECIMALS, first.decimals, second.decimals),
            *(self.lp_raw, *self.fees_raw, self.opens_s, self.recent_epoch),
        )
        return (self._head + body).ljust(BYTES, b"\0")

    def withdrawn(self, lp_raw: int) -> tuple[int, int]:
        """Return what LP tokens would be paid now of both tokens, before transfer fees."""
        first, second = self.reserves_without_fees()
        return first * lp_raw // self.lp_raw, second * lp_raw // self.lp_raw

    def reserves_without_fees(self) -> tuple[int, int]:
        """Return what the price is made of: the vaults without the fees that wait in them."""
        reserve_0, reserve_1 = self.reserves()
        protocol_0, protocol_1, fund_0, fund_1 = self.fees_raw
        return reserve_0 - protocol_0 - fund_0, reserve_1 - protocol_1 - fund_1

    def _tradable(self, from_0: bool) -> tuple[int, int]:
        reserve_0, reserve_1 = self.reserves_without_fees()
        return (reserve_0, reserve_1) if from_0 else (reserve_1, reserve_0)

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the reserves without fees."""
        first, second = self.reserves_without_fees()
        return sqrt(first) * sqrt(second), sqrt(second / first)

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        before = self._tradable(mint_in is self.sides[0])
        received = amount_in_raw - mint_in.transfer_fee(amount_in_raw)
        fee = ceil_div(received * TRADE_FEE, 1_000_000)
        out = constant_product_out(*before, received - fee)
        return out - self.other(mint_in).transfer_fee(out)

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swap_base_input (13 accounts)."""
        mint_out = self.other(mint_in)
        from_0 = mint_in is self.sides[0]
        vault_in, vault_out = self.vaults if from_0 else self.vaults[::-1]
        accounts = (
            trader.authority,
            AUTHORITY,
            AMM_CONFIG,
            self.address,
            trader.source,
            trader.destination,
            vault_in,
            vault_out,
            mint_in.program.address,
            mint_out.program.address,
            mint_in.address,
            mint_out.address,
            self.observation,
        )
        return Call(accounts, _SWAP_WRITABLE, _SWAP + pack_two_u64(amount_in_raw, min_out_raw))

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        call = self.call(trader, mint_in, amount_in_raw, min_out_raw)
        place = self.enter(tx, call)
        tx.log("Program log: Instruction: SwapBaseInput")
        mint_out = self.other(mint_in)
        from_0 = mint_in is self.sides[0]
        before_in, before_out = self._tradable(from_0)
        fee_in = mint_in.transfer_fee(amount_in_raw)
        received = amount_in_raw - fee_in
        fee = ceil_div(received * TRADE_FEE, 1_000_000)
        out = constant_product_out(before_in, before_out, received - fee)
        fee_out = mint_out.transfer_fee(out)
        self.check(out - fee_out, min_out_raw)
        tx.emit_log(
            _SWAP_EVENT
            + self.address
            + _AMOUNTS(before_in, before_out, received, out, fee_in, fee_out, True)
            + mint_in.address
            + mint_out.address
            + pack_two_u64(fee, 0)  # trade fee; no creator fee
            + b"\x01"
        )
        vault_in, vault_out = call.accounts[6:8]
        spl.transfer_checked(tx, trader.source, mint_in, vault_in, trader.authority, amount_in_raw)
        spl.transfer_checked(tx, vault_out, mint_out, trader.destination, AUTHORITY, out)
        self.change(tx)
        self._keep(0 if from_0 else 1, fee)
        tx.leave(24_000)
        leg = self.leg(tx, place, trader, mint_in, (received, out), (amount_in_raw, out - fee_out))
        leg.fee_raw, leg.fee_mint = fee, mint_in
        leg.reserves_raw = self._tradable(from_0=True)
        return out - fee_out

    def _keep(self, side: int, fee: int) -> None:
        """Keep the protocol's and the fund's part of a fee in the vault of a side."""
        fees = list(self.fees_raw)
        fees[side] += fee * PROTOCOL_SHARE // 1_000_000
        fees[side + 2] += fee * FUND_SHARE // 1_000_000
        self.fees_raw = (fees[0], fees[1], fees[2], fees[3])


def initialize_with_permission(
    tx: Execution,
    directory: Directory,
    pool: CpmmPool,
    payer: bytes,
    creator: bytes,
    sources: tuple[bytes, bytes],
    amounts: tuple[int, int],
    permission: bytes,
) -> tuple[bytes, int]:
    """Open a pool from another program; returns the creator's LP account and LP amount."""
    side_0, side_1 = pool.sides
    lp = Mint(pool.lp_mint, LP_DECIMALS, 0, authority=AUTHORITY)
    ledger = tx.ledger
    lp_account = ledger.associated(creator, lp)
    accounts = (
        payer,
        creator,
        AMM_CONFIG,
        AUTHORITY,
        pool.address,
        side_0.address,
        side_1.address,
        pool.lp_mint,
        *sources,
        lp_account,
        *pool.vaults,
        CREATE_POOL_FEE,
        pool.observation,
        permission,
        TOKEN.address,
        side_0.program.address,
        side_1.program.address,
        ASSOCIATED_TOKEN.address,
        SYSTEM.address,
        RENT_SYSVAR,
    )
    tx.enter(RAYDIUM_CPMM, accounts, _INITIALIZE + pack_two_u64(*amounts) + bytes(8))
    tx.log("Program log: Instruction: InitializeWithPermission")
    if ledger.lamports.get(pool.address):
        raise InstructionError(0, "Create Account: account already in use")
    spl.create_account(tx, payer, pool.address, RENT_LAMPORTS, BYTES, RAYDIUM_CPMM, has_bytes=True)
    for vault, side in zip(pool.vaults, pool.sides, strict=True):
        spl.create_account(tx, payer, vault, side.account_rent_lamports, 165, side.program)
        spl.initialize_account(tx, vault, side, AUTHORITY)
    spl.create_account(tx, payer, pool.observation, 29_030_400, 4_043, RAYDIUM_CPMM)
    spl.create_account(tx, payer, pool.lp_mint, 1_461_600, 82, TOKEN)
    tx.enter(TOKEN, (pool.lp_mint,), b"\x14\x09" + AUTHORITY + b"\x00")
    tx.log("Program log: Instruction: InitializeMint2")
    tx.leave(2_780)
    ledger.mints[pool.lp_mint] = lp
    tx.changes.undo.append(lambda: ledger.mints.pop(pool.lp_mint, None))
    spl.create_associated(tx, payer, creator, lp, idempotent=False)
    for source, side, vault, amount in zip(sources, pool.sides, pool.vaults, amounts, strict=True):
        spl.transfer_checked(tx, source, side, vault, creator, amount)
    pool.change(tx)
    pool.lp_raw = isqrt(amounts[0] * amounts[1])
    pool.opens_s = tx.time_s + 1
    set_native(tx, pool.address, pool)
    liquidity = pool.lp_raw - LOCKED_LP
    spl.mint_to(tx, lp, lp_account, AUTHORITY, liquidity)
    tx.emit_log(LP_EVENT + pool.address + Struct("<7QB").pack(0, 0, 0, *amounts, 0, 0, 0))
    directory.open(tx, pool)
    tx.leave(90_000)
    return lp_account, liquidity
