"""Vertigo: launch pools whose first side is the quote (mint A) and second the token (mint B).

Amounts are those of the token transfers; BuyEvent and SellEvent, by self-CPI or in the log,
add the fee (in mint A) and the reserves after the trade. Source: carbon's vertigo decoder
(layouts); no mainnet transaction was at hand.

`create` takes a token that may be of any age: it creates one where the same transaction makes the
mint, as Vertigo's factories do; name, symbol and URI are known where that writes them, too. A pool
of an older token is no creation, and a trade in one names no launch platform. Reserves of mint A
are the real ones, without the virtual shift of the curve.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Created, Instruction, Leg, Venue, named, swap_by_vaults
from pipeline.solana.metadata import token_metadata
from schemas.solana.borsh import Reader

DEX: Final = "vertigo"
PROGRAM: Final = "vrTGoBuy5rYSxAfV3jaRJWHH6nN9WK4NRExGxsk1bCJ"

BUY: Final = bytes.fromhex("66063d1201daebea")
SELL: Final = bytes.fromhex("33e685a4017f83ad")
CREATE: Final = bytes.fromhex("181ec828051c0777")

BUY_EVENT: Final = bytes.fromhex("67f4521f2cf57777")
SELL_EVENT: Final = bytes.fromhex("3e2f370aa503dc2a")

# Accounts of buy and sell.
POOL, USER, VAULT_A, VAULT_B = 0, 1, 7, 8
# Accounts of create.
CREATE_OWNER, CREATE_MINT_A, CREATE_MINT_B, CREATE_POOL, CREATE_TOKEN_PROGRAM_B = 1, 3, 4, 6, 10


def _buy(ix: Instruction) -> Leg:
    leg = _trade(ix)
    body = ix.event(BUY_EVENT)
    if body is not None:
        leg.reserve_in_raw, leg.reserve_out_raw, leg.fee_raw = _reserves_and_fee(body)
        leg.fee_mint = leg.second_mint
    return leg


def _sell(ix: Instruction) -> Leg:
    leg = _trade(ix)
    body = ix.event(SELL_EVENT)
    if body is not None:
        leg.reserve_out_raw, leg.reserve_in_raw, leg.fee_raw = _reserves_and_fee(body)
        leg.fee_mint = leg.second_mint
    return leg


def _trade(ix: Instruction) -> Leg:
    return swap_by_vaults(ix, pool=POOL, vaults=(VAULT_B, VAULT_A), user=USER)


def _reserves_and_fee(body: bytes) -> tuple[int, int, int]:
    """Return the reserves of A and B after the trade and the fee."""
    event = Reader(body, 8)
    event.skip(32 + 32 + 8 + 8)  # pool, user, amounts of A and B
    return event.u128(), event.u128(), event.u64()


def _create(ix: Instruction) -> Created | None:
    mint = ix.account(CREATE_MINT_B)
    if not ix.tx.makes_mint(mint):
        return None
    name, symbol, uri = token_metadata(ix.tx, mint) or ("", "", "")
    return Created(
        mint=ix.address(CREATE_MINT_B),
        name=name,
        symbol=symbol,
        uri=uri,
        creator=ix.address(CREATE_OWNER),
        pool=ix.address(CREATE_POOL),
        quote_mint=ix.address(CREATE_MINT_A),
        token_program=ix.address(CREATE_TOKEN_PROGRAM_B),
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={BUY: _buy, SELL: _sell, CREATE: _create},
        ignored=named("claim", "quote_buy", "quote_sell"),
    ),
)
