"""Manifest: an order book; a taker's swap settles at once, by its two token transfers.

A market may first draw on its makers' global vaults: those transfers are not the trader's. A
batch update trades on funds deposited earlier, and moves no token: the market logs each fill with
taker, mints and amounts. The decimals of the mints are not in the log: where the transaction's
balances do not have them either, it is malformed, as is one whose log was cut off. Fills of the
maker's resting order are no swaps of the maker. Source: CKS-Systems/manifest
programs/manifest/src/program/instruction.rs, logs.rs.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import (
    Handler,
    Instruction,
    Leg,
    Malformed,
    Venue,
    swap_by_vaults,
)
from schemas.solana.borsh import Reader

DEX: Final = "manifest"
PROGRAM: Final = "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms"

FILL_LOG: Final = bytes.fromhex("3ae6f2034b7104a9")

BATCH_MARKET: Final = 1  # after the payer

# Accounts of both swaps, counted from the market.
TRADER_BASE, TRADER_QUOTE, BASE_VAULT, QUOTE_VAULT = 2, 3, 4, 5


def _swap(*, market: int, owner: int) -> Handler:
    """Return a handler; market and owner are places in the instruction's accounts."""
    trader_accounts = (market + TRADER_BASE, market + TRADER_QUOTE)
    vaults = (market + BASE_VAULT, market + QUOTE_VAULT)

    def read(ix: Instruction) -> Leg | None:
        trader = [ix.account(place) for place in trader_accounts]
        transfers = [
            transfer
            for transfer in ix.transfers()
            if transfer.source in trader or transfer.destination in trader
        ]
        if not transfers:
            return None  # the order met no other
        return swap_by_vaults(ix, pool=market, vaults=vaults, user=owner, transfers=transfers)

    return read


def _batch_update(ix: Instruction) -> Leg | None:
    """Read what the orders of a batch took from the book, as one swap."""
    if fault := ix.log_fault():
        raise Malformed(f"fills may be missing: {fault}")
    base_raw = quote_raw = 0  # of the taker's funds
    last = None
    for body in ix.log_events():
        if body[:8] == FILL_LOG:
            event = Reader(body, 8)
            event.skip(32 + 32)  # market, maker
            last = event.pubkey(), event.pubkey(), event.pubkey()
            event.skip(16)  # price
            base, quote = event.u64(), event.u64()
            event.skip(8 + 8)  # sequence numbers
            sign = 1 if event.u8() else -1  # the taker buys
            base_raw, quote_raw = base_raw + sign * base, quote_raw - sign * quote
    if last is None or base_raw * quote_raw >= 0:
        return None
    taker, base_mint, quote_mint = last
    buys = base_raw > 0
    return Leg(
        pool=ix.address(BATCH_MARKET),
        input_mint=quote_mint if buys else base_mint,
        output_mint=base_mint if buys else quote_mint,
        input_raw=abs(quote_raw if buys else base_raw),
        output_raw=abs(base_raw if buys else quote_raw),
        owner=taker,
        second_mint=quote_mint,
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={
            bytes([4]): _swap(market=1, owner=0),  # Swap
            bytes([6]): _batch_update,
            bytes([13]): _swap(market=2, owner=1),  # SwapV2: payer and owner
        },
        ignored=frozenset(
            bytes([tag])
            for tag in (
                0,  # CreateMarket
                1,  # ClaimSeat
                2,  # Deposit
                3,  # Withdraw
                5,  # Expand
                7,  # GlobalCreate
                8,  # GlobalAddTrader
                9,  # GlobalDeposit
                10,  # GlobalWithdraw
                11,  # GlobalEvict
                12,  # GlobalClean
            )
        ),
    ),
)
