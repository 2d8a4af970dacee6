"""The events of the tape as values: a swap, a creation, a migration; what balances did; perps.

Amounts are integers in the token's smallest unit, addresses and signatures base58 text,
times milliseconds since the Unix epoch. `schemas.codec` turns them into Protobuf and JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Side(IntEnum):
    """What the wallet did with `mint`."""

    BUY = 1
    SELL = 2


class Commitment(IntEnum):
    """How sure the chain is of a slot."""

    PROCESSED = 0
    CONFIRMED = 1
    FINALIZED = 2


@dataclass(slots=True)
class Swap:
    """One pool leg of one transaction; its identity is (signature, event_index).

    `amount_raw` and `quote_amount_raw` are what the pool's vaults moved;
    `wallet_amount_raw` and `wallet_quote_amount_raw` what the wallet gave or received:
    they differ by Token-2022 transfer fees and by fees that a venue takes outside its vault.

    `wallet` is the owner of what came out: the trader; where a keeper executes a user's order
    (limit order, DCA, value average), the order's owner, and `keeper` is who executed it, else
    empty.

    Reserves are those that the venue reports after the swap; of concentrated pools, what
    their vaults hold after the transaction, fees that wait there included.

    The virtual reserves are those a curve computes its price from: after the swap it is
    `virtual_quote_reserve_raw / virtual_reserve_raw`. A curve migrates when it has sold its
    `for_sale_raw` of the token (`reserve_raw` is left of that), or when it has gathered its
    `migration_quote_raw` of the quote (`quote_reserve_raw` is there of that).
    """

    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    dex: str
    program_id: str
    pool: str
    wallet: str
    fee_payer: str
    mint: str
    quote_mint: str
    side: Side
    amount_raw: int
    decimals: int
    quote_amount_raw: int
    quote_decimals: int
    wallet_amount_raw: int
    wallet_quote_amount_raw: int
    pool_fee_raw: int | None
    pool_fee_mint: str
    fee_lamports: int
    priority_fee_lamports: int
    tip_lamports: int
    router: str
    platform: str
    reserve_raw: int | None
    quote_reserve_raw: int | None
    liquidity: int | None
    sqrt_price_x64: int | None
    commitment: Commitment = Commitment.PROCESSED
    sol_value_lamports: int | None = None  # of `quote_amount_raw`; None while its price is unknown
    usd_value_micros: int | None = None  # millionths of a dollar
    virtual_reserve_raw: int | None = None
    virtual_quote_reserve_raw: int | None = None
    for_sale_raw: int | None = None
    migration_quote_raw: int | None = None
    keeper: str = ""

    @property
    def price(self) -> float:
        """Quote per token in human units; 0.0 where no token moved."""
        if not self.amount_raw:
            return 0.0
        return (
            self.quote_amount_raw / self.amount_raw * 10.0 ** (self.decimals - self.quote_decimals)
        )


@dataclass(slots=True)
class Creation:
    """A token is created on a launch platform, or with its first pool."""

    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    mint: str
    name: str
    symbol: str
    uri: str
    creator: str
    platform: str
    dex: str
    pool: str
    quote_mint: str
    decimals: int | None
    supply_raw: int | None
    token_program: str
    commitment: Commitment = Commitment.PROCESSED


@dataclass(slots=True)
class Migration:
    """A token leaves its bonding curve for a pool."""

    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    mint: str
    platform: str
    from_dex: str
    from_pool: str
    dex: str
    pool: str
    quote_mint: str
    amount_raw: int | None
    quote_amount_raw: int | None
    commitment: Commitment = Commitment.PROCESSED


Event = Swap | Creation | Migration


@dataclass(slots=True)
class TokenBalance:
    """What a token account holds after a transaction that changed it.

    A wallet's own SOL has the same form: its account is the wallet itself, its mint wrapped SOL's.
    """

    account: bytes
    owner: str
    mint: str
    decimals: int
    amount_raw: int
    is_vault: bool  # a pool or curve was seen to pay from or into it
    is_token_2022: bool
    tx_index: int


@dataclass(slots=True, frozen=True)
class Movement:
    """What became of a wallet's tokens in one transaction beside its swaps; amounts are net."""

    signature: str
    tx_index: int
    wallet: str
    mint: str
    decimals: int
    received_raw: int
    sent_raw: int
    burned_raw: int


@dataclass(slots=True)
class FundingPayment:
    """What a perpetual position paid or received as funding; (signature, event_index, log_index).

    Amounts are in the program's own units: of Drift quote 1e6, base 1e9, cumulative rates 1e9.
    """

    signature: str
    slot: int
    tx_index: int
    event_index: int  # place of the instruction that logged it
    log_index: int  # place among the events that this instruction logged
    block_time_ms: int
    dex: str
    program_id: str
    wallet: str
    account: str  # sub-account of the wallet
    market_index: int
    payment_raw: int  # negative: the wallet paid
    base_raw: int  # of the position; negative: short
    last_cumulative_funding: int  # of the position, before this payment
    cumulative_funding_long: int  # of the market, up to which it is paid
    cumulative_funding_short: int


@dataclass(slots=True)
class PerpChange:
    """A perpetual position grew, shrank or was liquidated; (signature, event_index).

    Money is in millionths of a dollar, as the program's event names it; None where the event of
    that kind has no such field.
    """

    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    dex: str
    program_id: str
    wallet: str
    position: str
    pool: str
    custody: str
    collateral_custody: str
    mint: str  # traded
    is_long: bool
    change: str  # "increase", "decrease", "liquidate"
    is_instant: bool
    size_usd_micros: int
    size_delta_usd_micros: int | None
    collateral_delta_usd_micros: int | None
    price_usd_micros: int
    pnl_usd_micros: int | None
    fee_usd_micros: int
    position_fee_usd_micros: int | None
    funding_fee_usd_micros: int | None
    price_impact_fee_usd_micros: int | None
    liquidation_fee_usd_micros: int | None
    paid_out_usd_micros: int | None
    collateral_usd_micros: int | None
    entry_price_usd_micros: int | None


@dataclass(slots=True)
class PerpGap:
    """Perp events of an instruction could not be read; (signature, event_index, wallet)."""

    signature: str
    slot: int
    tx_index: int
    event_index: int
    block_time_ms: int
    dex: str
    reason: str
    wallet: str  # whose they may be; empty: anybody's


PerpEvent = FundingPayment | PerpChange | PerpGap
