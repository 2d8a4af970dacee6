"""Raydium LaunchLab: a constant product curve on virtual reserves; full, it moves to CPMM.

The quote side pays a protocol fee, which stays in the vault, and platform and creator fees,
which leave it with the trade. The event comes twice, before the transfers.
"""

from __future__ import annotations

from math import sqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.events import Launch, Move
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint, metadata_address
from infra.chain.market.runtime.programs import (
    ASSOCIATED_TOKEN,
    METADATA,
    RAYDIUM_CPMM,
    RAYDIUM_LAUNCHLAB,
    RAYDIUM_LOCK,
    RENT_SYSVAR,
    SYSTEM,
    TOKEN,
    anchor_tag,
    event_tag,
    pda,
)
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.launches import (
    borsh_texts,
    create_mint,
    create_state,
    create_vault,
    describe_with_metaplex,
    register,
)
from infra.chain.market.venues.raydium_cpmm import (
    AMM_CONFIG,
    CREATE_POOL_FEE,
    CpmmPool,
    initialize_with_permission,
    sorted_sides,
)
from infra.chain.market.venues.raydium_cpmm import (
    AUTHORITY as CPMM_AUTHORITY,
)
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div
from schemas.solana.addresses import key

AUTHORITY: Final = key("WLHv2UAZm6z4KyaaELi5pjdbJh6RESMva1Rnn8pJVVh")
GLOBAL_CONFIG: Final = key("6s1xP3hpbAfFoNtUNF8mfHsjr2Bd97JxFJRWLbL6aHuX")
PLATFORMS: Final = {
    "letsbonk": key("FfYek5vEz23cMkWsdJwG2oa6EphsvXSHrGpdALN4g6W1"),
    "raydium-launchlab": key("4Bu96XjU84XjPDSpveTVf6LYGCkfW5FK7SNkREWcEfV4"),
}

SUPPLY_RAW: Final = 1_000_000_000_000_000
FOR_SALE_RAW: Final = 793_100_000_000_000
RAISED_LAMPORTS: Final = 85_000_000_000
VIRTUAL_BASE_RAW: Final = 1_073_025_605_596_382
VIRTUAL_QUOTE_RAW: Final = 30_000_852_951
PROTOCOL_FEE: Final = 2_500  # of a million
PLATFORM_FEE: Final = 7_500
CREATOR_FEE: Final = 500
TOTAL_FEE: Final = PROTOCOL_FEE + PLATFORM_FEE + CREATOR_FEE
FUNDING, MIGRATING = 0, 1

_BUY: Final = anchor_tag("buy_exact_in")
_SELL: Final = anchor_tag("sell_exact_in")
_INITIALIZE: Final = anchor_tag("initialize")
_MIGRATE: Final = anchor_tag("migrate_to_cpswap")
_TRADE: Final = event_tag("TradeEvent")
_CREATED: Final = event_tag("PoolCreateEvent")
_ARGS: Final = Struct("<QQQ").pack
_BODY: Final = Struct("<13QBB?").pack
_CURVE: Final = Struct("<BQQQBQQQ").pack
_WRITABLE: Final = mask("----wwwww-------ww")


class Fees(NamedTuple):
    """Fees of a trade, in the quote."""

    protocol: int
    platform: int
    creator: int


def fees_of(amount: int) -> Fees:
    """Return the fees on a quote amount."""
    return Fees(
        ceil_div(amount * PROTOCOL_FEE, 1_000_000),
        ceil_div(amount * PLATFORM_FEE, 1_000_000),
        ceil_div(amount * CREATOR_FEE, 1_000_000),
    )


class LaunchLabCurve(Pool):
    """A coin's curve; sides are (base, quote)."""

    __slots__ = (
        "_creator_fees",
        "_platform_fees",
        "base_raw",
        "born_slot",
        "creator",
        "platform_config",
        "quote_raw",
    )

    DEX = "raydium-launchlab"
    IS_CURVE = True
    PROGRAM = RAYDIUM_LAUNCHLAB
    SLIPPAGE_ERROR = 6_003
    ROUTE_STEP = b"\x5f"
    MUTABLE = ("alive", "base_raw", "quote_raw")

    def __init__(self, ledger: Ledger, mint: Mint, sol: Mint, creator: bytes) -> None:
        address = pda(RAYDIUM_LAUNCHLAB, b"pool", mint.address, sol.address)
        vaults = (
            pda(RAYDIUM_LAUNCHLAB, b"pool_vault", address, mint.address),
            pda(RAYDIUM_LAUNCHLAB, b"pool_vault", address, sol.address),
        )
        super().__init__(ledger, address, (mint, sol), vaults)
        self.creator = creator
        self.born_slot = 0
        self.platform_config = PLATFORMS[mint.platform]
        self.base_raw = 0  # sold
        self.quote_raw = 0  # raised
        self._platform_fees = pda(RAYDIUM_LAUNCHLAB, self.platform_config, sol.address)
        self._creator_fees = pda(RAYDIUM_LAUNCHLAB, creator, sol.address)
        for account in (self._platform_fees, self._creator_fees):
            if account not in ledger.tokens:
                ledger.endow(account, sol, AUTHORITY, 0)

    @property
    def full(self) -> bool:
        """Whether everything for sale is sold."""
        return self.base_raw >= FOR_SALE_RAW or self.quote_raw >= RAISED_LAMPORTS

    def _bought(self, net: int) -> int:
        out = (VIRTUAL_BASE_RAW - self.base_raw) * net // (VIRTUAL_QUOTE_RAW + self.quote_raw + net)
        return min(out, FOR_SALE_RAW - self.base_raw)

    def _cost(self, base: int) -> int:
        left = VIRTUAL_BASE_RAW - self.base_raw
        return ceil_div((VIRTUAL_QUOTE_RAW + self.quote_raw) * base, left - base)

    def _sold(self, base: int) -> int:
        return (
            (VIRTUAL_QUOTE_RAW + self.quote_raw) * base // (VIRTUAL_BASE_RAW - self.base_raw + base)
        )

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the virtual reserves."""
        tokens, quote = VIRTUAL_BASE_RAW - self.base_raw, VIRTUAL_QUOTE_RAW + self.quote_raw
        return sqrt(tokens) * sqrt(quote), sqrt(quote / tokens)

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        if mint_in is self.sides[1]:
            return self._bought(amount_in_raw - sum(fees_of(amount_in_raw)))
        gross = self._sold(amount_in_raw)
        return gross - sum(fees_of(gross))

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return buy_exact_in or sell_exact_in (18 accounts)."""
        base, quote = self.sides
        buys = mint_in is quote
        user_base, user_quote = (
            (trader.destination, trader.source) if buys else (trader.source, trader.destination)
        )
        accounts = (
            trader.authority,
            AUTHORITY,
            GLOBAL_CONFIG,
            self.platform_config,
            self.address,
            user_base,
            user_quote,
            *self.vaults,
            base.address,
            quote.address,
            base.program.address,
            quote.program.address,
            RAYDIUM_LAUNCHLAB.event_authority,
            RAYDIUM_LAUNCHLAB.address,
            SYSTEM.address,
            self._platform_fees,
            self._creator_fees,
        )
        data = (_BUY if buys else _SELL) + _ARGS(amount_in_raw, min_out_raw, 0)
        return Call(accounts, _WRITABLE, data)

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        if self.full:
            raise InstructionError(6_008, "Error: PoolMigrated")
        base, quote = self.sides
        buys = mint_in is quote
        tx.log(f"Program log: Instruction: {'BuyExactIn' if buys else 'SellExactIn'}")
        before = (self.base_raw, self.quote_raw)
        tx.touch(self)
        spent = amount_in_raw
        if buys:
            fees = fees_of(spent)
            net = spent - sum(fees)
            out = received = self._bought(net)
            if out == FOR_SALE_RAW - self.base_raw:  # the last of the curve: pay what it costs
                net = self._cost(out)
                fees = fees_of(net * 1_000_000 // (1_000_000 - TOTAL_FEE))
                spent = net + sum(fees)
            self.base_raw += out
            self.quote_raw += net
        elif amount_in_raw > self.base_raw:  # more than there is outside: its transfer would fail
            raise InstructionError(spl.INSUFFICIENT_FUNDS, "Error: insufficient funds")
        else:
            gross = self._sold(amount_in_raw)
            fees = fees_of(gross)
            received = gross - sum(fees)
            out = received + fees.platform + fees.creator
            self.base_raw -= amount_in_raw
            self.quote_raw -= gross
        self.check(max(received, 0), min_out_raw)
        self._emit(tx, before, (spent, received), fees, buys)
        vault_base, vault_quote = self.vaults
        user = trader.authority
        if buys:
            spl.transfer_checked(tx, trader.source, quote, vault_quote, user, spent)
            spl.transfer_checked(tx, vault_base, base, trader.destination, AUTHORITY, out)
        else:
            spl.transfer_checked(tx, trader.source, base, vault_base, user, amount_in_raw)
            spl.transfer_checked(tx, vault_quote, quote, trader.destination, AUTHORITY, received)
        spl.transfer_checked(tx, vault_quote, quote, self._platform_fees, AUTHORITY, fees.platform)
        spl.transfer_checked(tx, vault_quote, quote, self._creator_fees, AUTHORITY, fees.creator)
        tx.leave(45_000)
        vault_in = spent - fees.platform - fees.creator if buys else spent
        leg = self.leg(tx, place, trader, mint_in, (vault_in, out), (spent, received))
        leg.fee_raw, leg.fee_mint = sum(fees), quote
        leg.reserves_raw = (FOR_SALE_RAW - self.base_raw, self.quote_raw)
        leg.virtual_raw = (VIRTUAL_BASE_RAW - self.base_raw, VIRTUAL_QUOTE_RAW + self.quote_raw)
        leg.for_sale_raw = FOR_SALE_RAW
        return received

    def _emit(
        self,
        tx: Execution,
        before: tuple[int, int],
        amounts: tuple[int, int],
        fees: Fees,
        buys: bool,
    ) -> None:
        event = (
            _TRADE
            + self.address
            + _BODY(
                FOR_SALE_RAW,
                VIRTUAL_BASE_RAW,
                VIRTUAL_QUOTE_RAW,
                *before,
                self.base_raw,
                self.quote_raw,
                *amounts,
                *fees,
                0,
                0 if buys else 1,
                MIGRATING if self.full else FUNDING,
                True,
            )
        )
        tx.emit_cpi(RAYDIUM_LAUNCHLAB, event)
        tx.emit_log(event)


def initialize(tx: Execution, directory: Directory, curve: LaunchLabCurve, payer: bytes) -> None:
    """Execute initialize: mint, vaults, metadata and curve of a new coin."""
    coin, sol = curve.sides
    accounts = (
        payer,
        curve.creator,
        GLOBAL_CONFIG,
        curve.platform_config,
        AUTHORITY,
        curve.address,
        coin.address,
        sol.address,
        *curve.vaults,
        metadata_address(coin),
        TOKEN.address,
        TOKEN.address,
        METADATA.address,
        SYSTEM.address,
        RENT_SYSVAR,
        RAYDIUM_LAUNCHLAB.event_authority,
        RAYDIUM_LAUNCHLAB.address,
    )
    texts = borsh_texts(coin.name, coin.symbol, coin.uri)
    curve_args = _CURVE(0, SUPPLY_RAW, FOR_SALE_RAW, RAISED_LAMPORTS, 1, 0, 0, 0)
    data = _INITIALIZE + bytes((coin.decimals,)) + texts + curve_args
    place = tx.enter(RAYDIUM_LAUNCHLAB, accounts, data, mask("w----ww-www-------"))
    tx.log("Program log: Instruction: Initialize")
    register(tx, coin)
    create_mint(tx, payer, coin)
    create_state(tx, payer, curve.address, 429, RAYDIUM_LAUNCHLAB)
    create_vault(tx, payer, curve.vaults[0], coin, AUTHORITY)
    create_vault(tx, payer, curve.vaults[1], sol, AUTHORITY)
    spl.mint_to(tx, coin, curve.vaults[0], AUTHORITY, SUPPLY_RAW)
    describe_with_metaplex(tx, coin, AUTHORITY, payer)
    spl.revoke_mint_authority(tx, coin, AUTHORITY)
    event = (
        _CREATED
        + curve.address
        + curve.creator
        + GLOBAL_CONFIG
        + bytes((coin.decimals,))
        + texts
        + curve_args
        + b"\x00"  # amm_fee_on: quote token
    )
    tx.emit_cpi(RAYDIUM_LAUNCHLAB, event)
    tx.emit_log(event)
    directory.open(tx, curve)
    tx.leave(60_000)
    tx.launches.append(
        Launch(place, coin, curve.creator, coin.platform, curve.DEX, curve.address, sol)
    )


def migrated_pool(ledger: Ledger, curve: LaunchLabCurve) -> CpmmPool:
    """Return the pool that a curve's coin will trade in."""
    return CpmmPool(ledger, sorted_sides(*curve.sides), creator=AUTHORITY)


def migrate(
    tx: Execution, directory: Directory, curve: LaunchLabCurve, pool: CpmmPool, payer: bytes
) -> None:
    """Execute migrate_to_cpswap: what was raised and what is left become a CPMM pool."""
    coin, sol = curve.sides
    ledger = tx.ledger
    lp_account = ledger.associated(AUTHORITY, Mint(pool.lp_mint, 9, 0))
    base_side = 0 if pool.sides[0] is coin else 1
    pool_vaults = pool.vaults if base_side == 0 else pool.vaults[::-1]
    permission = pda(RAYDIUM_CPMM, b"permission", AUTHORITY)
    accounts = (
        payer,
        coin.address,
        sol.address,
        curve.platform_config,
        RAYDIUM_CPMM.address,
        pool.address,
        CPMM_AUTHORITY,
        pool.lp_mint,
        *pool_vaults,
        AMM_CONFIG,
        CREATE_POOL_FEE,
        pool.observation,
        permission,
        RAYDIUM_LOCK.address,
        pda(RAYDIUM_LOCK, b"lock_cp_authority_seed"),
        pda(RAYDIUM_LOCK, b"lp_vault", pool.lp_mint),
        AUTHORITY,
        curve.address,
        GLOBAL_CONFIG,
        *curve.vaults,
        lp_account,
        coin.program.address,
        sol.program.address,
        ASSOCIATED_TOKEN.address,
        SYSTEM.address,
        RENT_SYSVAR,
        METADATA.address,
    )
    writable = mask("w----w-www-ww---w-w-www------")
    place = tx.enter(RAYDIUM_LAUNCHLAB, accounts, _MIGRATE, writable)
    tx.log("Program log: Instruction: MigrateToCpswap")
    if not curve.alive or not curve.full:
        raise InstructionError(6_009, "Error: PoolFunding")
    tokens = ledger.balance(curve.vaults[0])
    lamports = curve.quote_raw
    amounts, sources = (tokens, lamports), curve.vaults
    if base_side == 1:
        amounts, sources = amounts[::-1], (sources[1], sources[0])
    lp_account, liquidity = initialize_with_permission(
        tx, directory, pool, payer, AUTHORITY, sources, amounts, permission
    )
    lp = ledger.tokens[lp_account].mint
    spl.burn(tx, lp_account, lp, AUTHORITY, liquidity)
    tx.touch(curve)
    directory.close(tx, curve)
    tx.leave(60_000)
    tx.moves.append(
        Move(
            place,
            coin,
            coin.platform,
            curve.DEX,
            curve.address,
            pool.DEX,
            pool.address,
            sol,
            tokens,
            lamports,
        )
    )
