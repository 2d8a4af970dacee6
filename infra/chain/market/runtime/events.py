"""What happened inside a transaction: pool legs, launches, moves off a curve, perps.

Execution collects these values from the venues; `truth` writes them down.
"""

from __future__ import annotations

from dataclasses import dataclass

from infra.chain.market.runtime.anchor_events import EventLayout, Values
from infra.chain.market.runtime.ledger import Mint


@dataclass(slots=True)
class Leg:
    """One pool leg: what went into the pool, what came out, and the wallet at the other side.

    `vault_*` is what the pool's vaults moved, `trader_*` what the wallet gave or received.
    """

    place: int  # of the venue's swap instruction in the flattened order
    dex: str
    program_id: str
    pool: bytes
    trader: bytes
    mint_in: Mint
    mint_out: Mint
    vault_in_raw: int
    vault_out_raw: int
    trader_in_raw: int
    trader_out_raw: int
    pool_sides: tuple[Mint, Mint]  # first and second side, as the venue names them
    vaults_raw: tuple[int, int]  # balances after the swap, in the order of pool_sides
    fee_raw: int | None = None  # None where the venue does not say
    fee_mint: Mint | None = None
    reserves_raw: tuple[int | None, int | None] = (None, None)  # after it, as the venue reports
    virtual_raw: tuple[int | None, int | None] = (None, None)  # likewise a curve's virtual ones
    for_sale_raw: int | None = None  # what a curve sells before it migrates
    migration_quote_raw: int | None = None  # what a curve gathers before it migrates
    liquidity: int | None = None
    sqrt_price_x64: int | None = None
    token_owner: bytes = b""  # owner of the accounts that moved, where it is not the trader
    keeper: bytes = b""  # who executed the trader's order, if it was one


@dataclass(slots=True)
class Launch:
    """A token was created."""

    place: int
    mint: Mint
    creator: bytes
    platform: str
    dex: str
    pool: bytes
    quote: Mint


@dataclass(slots=True)
class Move:
    """A token left its bonding curve for a pool."""

    place: int
    mint: Mint
    platform: str
    from_dex: str
    from_pool: bytes
    dex: str
    pool: bytes
    quote: Mint
    amount_raw: int
    quote_amount_raw: int


@dataclass(slots=True)
class PerpChange:
    """A position of Jupiter Perps grew, shrank or was liquidated."""

    place: int  # of the program's own instruction
    cpi_place: int  # of its call to itself, which has the event
    layout: EventLayout
    values: Values
    mint: bytes
    collateral_mint: bytes
    is_long: bool


@dataclass(slots=True)
class FundingPayment:
    """A user of Drift paid funding, or received it."""

    place: int
    log_place: int  # of the line that has the event
    layout: EventLayout
    values: Values
