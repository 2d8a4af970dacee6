"""Meteora DBC: a virtual curve of one liquid range, fee always in the quote; moves to DAMM v2.

A swap emits both EvtSwap and EvtSwap2, after the transfers.
"""

from __future__ import annotations

from math import isqrt
from struct import Struct
from typing import Final, NamedTuple

from infra.chain.market.runtime import spl
from infra.chain.market.runtime.events import Launch, Move
from infra.chain.market.runtime.execution import Execution, InstructionError, mask
from infra.chain.market.runtime.ledger import Ledger, Mint, metadata_address
from infra.chain.market.runtime.programs import (
    METADATA,
    METEORA_DAMM_V2,
    METEORA_DBC,
    SYSTEM,
    TOKEN,
    TOKEN_2022,
    anchor_tag,
    derived,
    event_tag,
    pda,
)
from infra.chain.market.venues import sqrt_price
from infra.chain.market.venues.directory import Directory
from infra.chain.market.venues.launches import (
    borsh_texts,
    create_mint,
    create_state,
    create_vault,
    describe_with_metaplex,
    register,
)
from infra.chain.market.venues.meteora_damm_v2 import (
    AUTHORITY as DAMM_AUTHORITY,
)
from infra.chain.market.venues.meteora_damm_v2 import DammV2Pool
from infra.chain.market.venues.meteora_damm_v2_liquidity import initialize_pool, share
from infra.chain.market.venues.sqrt_price import ONE
from infra.chain.market.venues.venue import Call, Pool, Trader, ceil_div, pack_two_u64, pack_u64
from schemas.solana.addresses import key

AUTHORITY: Final = key("FhVo3mqL8PW5pH5U2CN4XE33DokiyZnUwuGpH2hmHLuM")
CONFIGS: Final = {
    "trends-fun": key("7UMR4yEaVYsQGbQGvxNUypFmPn15GkzVmwUEpUFJUPPX"),
    "meteora-dbc": derived("dbc-config"),
}
SUPPLY_RAW: Final = 1_000_000_000_000_000
THRESHOLD_LAMPORTS: Final = 80_000_000_000
FEE_RATE: Final = 10_000_000  # of a billion
PROTOCOL_PERCENT: Final = 20
# From 30 lamports a million raw tokens to thirteen times as much.
START_SQRT_PRICE: Final = isqrt(30 * ONE * ONE // 1_000_000)
END_SQRT_PRICE: Final = isqrt(390 * ONE * ONE // 1_000_000)
LIQUIDITY: Final = THRESHOLD_LAMPORTS * ONE // (END_SQRT_PRICE - START_SQRT_PRICE) + 1

_SWAP: Final = anchor_tag("swap")
_SWAP2: Final = anchor_tag("swap2")
_INITIALIZE: Final = anchor_tag("initialize_virtual_pool_with_spl_token")
_MIGRATE: Final = anchor_tag("migration_damm_v2")
_EVENT: Final = event_tag("EvtSwap")
_EVENT2: Final = event_tag("EvtSwap2")
_INITIALIZED: Final = event_tag("EvtInitializePool")
_COMPLETE: Final = event_tag("EvtCurveComplete")
_BODY: Final = Struct("<B?QQQQ16sQQQQQ").pack
_BODY2: Final = Struct("<B?QQBQQQQ16sQQQQQQ").pack
_WRITABLE: Final = mask("--wwwww--------")


class Outcome(NamedTuple):
    """A swap's numbers."""

    used_in: int
    out: int
    fee: int
    quote_delta: int
    next_sqrt_price: int


class DbcCurve(Pool):
    """A coin's curve; sides are (base, quote)."""

    __slots__ = ("born_slot", "config", "creator", "quote_raw", "sqrt_price", "swap2")

    DEX = "meteora-dbc"
    IS_CURVE = True
    PROGRAM = METEORA_DBC
    SLIPPAGE_ERROR = 6_002
    ROUTE_STEP = b"\x5c"
    MUTABLE = ("alive", "quote_raw", "sqrt_price")

    def __init__(self, ledger: Ledger, mint: Mint, sol: Mint, creator: bytes) -> None:
        config = CONFIGS[mint.platform]
        high, low = sorted((mint.address, sol.address), reverse=True)
        address = pda(METEORA_DBC, b"pool", config, high, low)
        vaults = (
            pda(METEORA_DBC, b"token_vault", mint.address, address),
            pda(METEORA_DBC, b"token_vault", sol.address, address),
        )
        super().__init__(ledger, address, (mint, sol), vaults)
        self.config = config
        self.creator = creator
        self.born_slot = 0
        self.quote_raw = 0  # raised, without fees
        self.sqrt_price = START_SQRT_PRICE
        self.swap2 = address[0] % 2 == 0

    @property
    def full(self) -> bool:
        """Whether the migration threshold is reached."""
        return self.quote_raw >= THRESHOLD_LAMPORTS

    def _outcome(self, buys: bool, amount_in: int) -> Outcome:
        if buys:
            fee = ceil_div(amount_in * FEE_RATE, 10**9)
            used = amount_in - fee
            after, out = sqrt_price.swap_in(LIQUIDITY, self.sqrt_price, False, used)
            return Outcome(used, out, fee, used, after)
        after, gross = sqrt_price.swap_in(LIQUIDITY, self.sqrt_price, True, amount_in)
        gross = min(gross, self.quote_raw)
        fee = ceil_div(gross * FEE_RATE, 10**9)
        return Outcome(amount_in, gross - fee, fee, -gross, max(after, START_SQRT_PRICE))

    def depth(self) -> tuple[float, float]:
        """Return liquidity and root price of the range."""
        return float(LIQUIDITY), self.sqrt_price / ONE

    def quote(self, mint_in: Mint, amount_in_raw: int) -> int:
        """Return the output for an input."""
        return self._outcome(mint_in is self.sides[1], amount_in_raw).out

    def call(self, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int) -> Call:
        """Return swap or swap2 (15 accounts)."""
        base, quote = self.sides
        accounts = (
            AUTHORITY,
            self.config,
            self.address,
            trader.source,
            trader.destination,
            *self.vaults,
            base.address,
            quote.address,
            trader.authority,
            base.program.address,
            quote.program.address,
            METEORA_DBC.address,  # no referral account
            METEORA_DBC.event_authority,
            METEORA_DBC.address,
        )
        args = pack_two_u64(amount_in_raw, min_out_raw)
        return Call(accounts, _WRITABLE, _SWAP2 + args + b"\x00" if self.swap2 else _SWAP + args)

    def swap(
        self, tx: Execution, trader: Trader, mint_in: Mint, amount_in_raw: int, min_out_raw: int
    ) -> int:
        """Swap an exact input."""
        place = self.enter(tx, self.call(trader, mint_in, amount_in_raw, min_out_raw))
        tx.log(f"Program log: Instruction: {'Swap2' if self.swap2 else 'Swap'}")
        if self.full:
            raise InstructionError(6_013, "Error: PoolIsCompleted")
        quote = self.sides[1]
        mint_out = self.other(mint_in)
        buys = mint_in is quote
        done = self._outcome(buys, amount_in_raw)
        self.check(max(done.out, 0), min_out_raw)
        tx.touch(self)
        self.sqrt_price = done.next_sqrt_price
        self.quote_raw += done.quote_delta
        vault_in, vault_out = self.vaults[::-1] if buys else self.vaults
        spl.transfer_checked(tx, trader.source, mint_in, vault_in, trader.authority, amount_in_raw)
        spl.transfer_checked(tx, vault_out, mint_out, trader.destination, AUTHORITY, done.out)
        self._emit(tx, buys, amount_in_raw, min_out_raw, done)
        if self.full:
            reserves = pack_two_u64(self.ledger.balance(self.vaults[0]), self.quote_raw)
            tx.emit_cpi(METEORA_DBC, _COMPLETE + self.address + self.config + reserves)
        tx.leave(32_000)
        moved = (amount_in_raw, done.out)
        leg = self.leg(tx, place, trader, mint_in, moved, moved)
        leg.fee_raw, leg.fee_mint = done.fee, quote
        leg.reserves_raw = (None, self.quote_raw)
        leg.migration_quote_raw = THRESHOLD_LAMPORTS
        leg.sqrt_price_x64 = done.next_sqrt_price
        return done.out

    def _emit(self, tx: Execution, buys: bool, amount: int, minimum: int, done: Outcome) -> None:
        protocol = done.fee * PROTOCOL_PERCENT // 100
        price = done.next_sqrt_price.to_bytes(16, "little")
        trading = done.fee - protocol
        direction = 1 if buys else 0
        who = self.address + self.config
        body = _BODY(
            direction,
            False,
            amount,
            minimum,
            done.used_in,
            done.out,
            price,
            trading,
            protocol,
            0,
            amount,
            tx.time_s,
        )
        tx.emit_cpi(METEORA_DBC, _EVENT + who + body)
        body = _BODY2(
            direction,
            False,
            amount,
            minimum,
            0,
            amount,
            done.used_in,
            0,
            done.out,
            price,
            trading,
            protocol,
            0,
            self.quote_raw,
            THRESHOLD_LAMPORTS,
            tx.time_s,
        )
        tx.emit_cpi(METEORA_DBC, _EVENT2 + who + body)


def initialize(tx: Execution, directory: Directory, curve: DbcCurve, payer: bytes) -> None:
    """Execute initialize_virtual_pool_with_spl_token."""
    coin, sol = curve.sides
    accounts = (
        curve.config,
        AUTHORITY,
        curve.creator,
        coin.address,
        sol.address,
        curve.address,
        *curve.vaults,
        metadata_address(coin),
        METADATA.address,
        payer,
        TOKEN.address,
        TOKEN.address,
        SYSTEM.address,
        METEORA_DBC.event_authority,
        METEORA_DBC.address,
    )
    data = _INITIALIZE + borsh_texts(coin.name, coin.symbol, coin.uri)
    place = tx.enter(METEORA_DBC, accounts, data, mask("---w-wwww-w-----"))
    tx.log("Program log: Instruction: InitializeVirtualPoolWithSplToken")
    register(tx, coin)
    create_mint(tx, payer, coin)
    create_state(tx, payer, curve.address, 424, METEORA_DBC)
    create_vault(tx, payer, curve.vaults[0], coin, AUTHORITY)
    create_vault(tx, payer, curve.vaults[1], sol, AUTHORITY)
    describe_with_metaplex(tx, coin, AUTHORITY, payer)
    spl.mint_to(tx, coin, curve.vaults[0], AUTHORITY, SUPPLY_RAW)
    spl.revoke_mint_authority(tx, coin, AUTHORITY)
    event = (
        _INITIALIZED
        + curve.address
        + curve.config
        + curve.creator
        + coin.address
        + b"\x00"
        + pack_u64(tx.slot)
    )
    tx.emit_cpi(METEORA_DBC, event)
    directory.open(tx, curve)
    tx.leave(70_000)
    tx.launches.append(
        Launch(place, coin, curve.creator, coin.platform, curve.DEX, curve.address, sol)
    )


def migrated_pool(ledger: Ledger, curve: DbcCurve) -> DammV2Pool:
    """Return the pool that a curve's coin will trade in."""
    coin, sol = curve.sides
    high, low = sorted((coin.address, sol.address), reverse=True)
    address = pda(METEORA_DAMM_V2, b"pool", curve.config, high, low)
    return DammV2Pool(ledger, address, curve.sides, None)


def migrate(
    tx: Execution, directory: Directory, curve: DbcCurve, pool: DammV2Pool, payer: bytes
) -> None:
    """Execute migration_damm_v2: what was raised and what fits beside it become a pool."""
    coin, sol = curve.sides
    ledger = tx.ledger
    position = share(pool, AUTHORITY, pool.first_nft)
    config = derived("damm-v2-config", curve.config)
    accounts = (
        curve.address,
        pda(METEORA_DBC, b"damm_v2", curve.address),
        curve.config,
        AUTHORITY,
        pool.address,
        *(pool.first_nft, position.nft_account, position.address),
        *(METEORA_DBC.address,) * 3,  # no second position
        DAMM_AUTHORITY,
        METEORA_DAMM_V2.address,
        coin.address,
        sol.address,
        *pool.vaults,
        *curve.vaults,
        payer,
        coin.program.address,
        sol.program.address,
        TOKEN_2022.address,
        METEORA_DAMM_V2.event_authority,
        SYSTEM.address,
        config,
    )
    writable = mask("w--wwwww-------wwwww------")
    place = tx.enter(METEORA_DBC, accounts, _MIGRATE, writable)
    tx.log("Program log: Instruction: MigrationDammV2")
    if not curve.alive or not curve.full:
        raise InstructionError(6_014, "Error: PoolIsIncompleted")
    lamports = curve.quote_raw * 99 // 100
    # As many tokens as the last price asks for.
    tokens = lamports * ONE // curve.sqrt_price * ONE // curve.sqrt_price
    spl.transfer_lamports(tx, payer, AUTHORITY, 30_000_000)
    sources = curve.vaults
    before = ledger.balance(sources[0]), ledger.balance(sources[1])
    initialize_pool(
        tx, directory, pool, payer, AUTHORITY, sources, (tokens, lamports), config, pool.first_nft
    )
    moved = before[0] - ledger.balance(sources[0]), before[1] - ledger.balance(sources[1])
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
            *moved,
        )
    )
