"""OpenBook v2: an order book; a taker's order settles at once, by its two token transfers.

An order placed on an open-orders account trades on deposited funds: the program logs what the
taker paid and received, not in which mints, and as the taker that account: the swap is the
signer's, who owns it or acts for who does. The vault it deposits into has one, and the market's
other vault the other, where the transaction settles, too; else it is malformed, as is one without a
fill whose log was cut off. Not decoded, and counted as unknown: several orders in one instruction,
pegged ones. Fills of resting orders are no swaps of their makers. Source: openbook-v2
idl/openbook_v2.json and its place_order. Fees are in the quote's transfer.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Malformed, Venue, named, swap_by_vaults
from schemas.solana.borsh import Reader

DEX: Final = "openbook-v2"
PROGRAM: Final = "opnb2LAfJYbRMAHHvqjCwQxanZn7ReEHp1k81EohpZb"

SIGNER, MARKET, MARKET_BASE_VAULT, MARKET_QUOTE_VAULT = 0, 2, 6, 7
ORDER_SIGNER, ORDER_MARKET, ORDER_MARKET_VAULT = 0, 4, 8  # of place_order

TOTAL_ORDER_FILL: Final = bytes.fromhex("08eb303aae4c9c69")


def _place_take_order(ix: Instruction) -> Leg | None:
    transfers = ix.transfers()
    if not transfers:
        return None  # the order met no other
    vaults = MARKET_BASE_VAULT, MARKET_QUOTE_VAULT
    return swap_by_vaults(ix, pool=MARKET, vaults=vaults, user=SIGNER, transfers=transfers)


def _place_order(ix: Instruction) -> Leg | None:
    body = ix.event(TOTAL_ORDER_FILL)
    if body is None:
        if fault := ix.log_fault():
            raise Malformed(f"a fill may be missing: {fault}")
        return None  # the order met no other
    event = Reader(body, 8)
    is_bid = event.u8() == 0
    event.skip(32)  # the open-orders account
    paid_raw, received_raw = event.u64(), event.u64()
    if not paid_raw or not received_raw:
        return None
    vault = ix.token(ORDER_MARKET_VAULT)
    if vault is None:
        raise Malformed("the market's vault is no token account")
    other = {
        account.mint
        for account in ix.tx.token_accounts.values()
        if account.owner == vault.owner and account.mint != vault.mint
    }
    if len(other) != 1:
        raise Malformed(f"{received_raw} received of a mint that nothing names")
    (received_mint,) = other
    return Leg(
        pool=ix.address(ORDER_MARKET),
        input_mint=vault.mint,
        output_mint=received_mint,
        input_raw=paid_raw,
        output_raw=received_raw,
        owner=ix.address(ORDER_SIGNER),
        second_mint=vault.mint if is_bid else received_mint,
    )


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            bytes.fromhex("032c47031ac7cb55"): _place_take_order,
            bytes.fromhex("33c29baf6d82606a"): _place_order,
        },
        ignored=named(
            "cancel_all_orders",
            "cancel_order",
            "cancel_order_by_client_order_id",
            "close_market",
            "close_open_orders_account",
            "close_open_orders_indexer",
            "consume_events",
            "consume_given_events",
            "create_market",
            "create_open_orders_account",
            "create_open_orders_indexer",
            "deposit",
            "prune_orders",
            "refill",
            "set_delegate",
            "set_market_expired",
            "settle_funds",
            "settle_funds_expired",
            "stub_oracle_close",
            "stub_oracle_create",
            "stub_oracle_set",
            "sweep_fees",
        ),
    ),
)
