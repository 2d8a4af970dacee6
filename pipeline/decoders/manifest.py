"""Manifest: an order book; a taker's swap settles at once, by its two token transfers.

A market may first draw on its makers' global vaults: those transfers are not the trader's.
Source: CKS-Systems/manifest programs/manifest/src/program/instruction.rs. Not decoded: batch
updates, which may trade against balances held in a seat without moving a token.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Handler, Instruction, Leg, Venue, swap_by_vaults

DEX: Final = "manifest"
PROGRAM: Final = "MNFSTqtC93rEfYHB6hF82sKdZpUDFWkViLByLd1k1Ms"

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


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={
            bytes([4]): _swap(market=1, owner=0),  # Swap
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
                6,  # BatchUpdate
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
