"""OpenBook v1, and Serum before it: an order book whose taker settles by an instruction of its own.

An immediate-or-cancel order deposits what it may spend; `settle_funds` on the same open-orders
account pays out what was bought and what was left over. Both together are the swap, wherever they
are in the transaction. `send_take` settles at once. Not decoded: other orders. What of them rests
on the book cannot be had, nor what fills of a resting order were: the event queue is not in the
transaction. What was not settled before comes with the amounts. Source: serum-dex
dex/src/instruction.rs.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_vaults
from schemas.solana.borsh import u32

# Accounts of new_order_v3 and of settle_funds.
MARKET, OPEN_ORDERS = 0, 1
# Accounts of settle_funds.
OWNER, COIN_VAULT, PC_VAULT, COIN_WALLET, PC_WALLET = 2, 3, 4, 5, 6
# Accounts of send_take.
TAKE_SIGNER, TAKE_COIN_VAULT, TAKE_PC_VAULT = 7, 8, 9

_NEW_ORDER_V3: Final = b"\x00\x0a\x00\x00\x00"  # a version, then the instruction
_SETTLE_FUNDS: Final = b"\x00\x05\x00\x00\x00"
_SEND_TAKE: Final = b"\x00\x0d\x00\x00\x00"
_ORDER_TYPE: Final = 37  # in the data of new_order_v3
_IMMEDIATE_OR_CANCEL: Final = 1


def _settle_funds(ix: Instruction) -> Leg | None:
    orders = _orders(ix)
    if not orders:
        return None
    tx = ix.tx
    transfers = [moved for at in (*orders, ix.position) for moved in tx.transfers(at)]
    coin, pc = ix.account(COIN_VAULT), ix.account(PC_VAULT)
    gained = {coin: 0, pc: 0}
    for moved in transfers:
        if moved.destination in gained:
            gained[moved.destination] += moved.received_raw
        if moved.source in gained:
            gained[moved.source] -= moved.amount_raw
    if gained[coin] * gained[pc] >= 0:
        return None  # the orders met no other
    buys = gained[pc] > 0
    vault_in, vault_out = (pc, coin) if buys else (coin, pc)
    wallet_in, wallet_out = (PC_WALLET, COIN_WALLET) if buys else (COIN_WALLET, PC_WALLET)
    source = next((moved.source for moved in transfers if moved.destination == vault_in), None)
    return Leg(
        pool=ix.address(MARKET),
        input_mint=ix.mint_of(vault_in),
        output_mint=ix.mint_of(vault_out),
        input_raw=gained[vault_in],
        output_raw=-gained[vault_out],
        source=source if source == ix.account(wallet_in) else None,
        destination=ix.account(wallet_out),
        user=ix.account(OWNER),
        vault_in=vault_in,
        vault_out=vault_out,
        second_mint=ix.mint_of(pc),
        parts=orders,
    )


def _orders(ix: Instruction) -> tuple[int, ...]:
    """Return the orders that an instruction settles: since the account was last settled."""
    tx, program = ix.tx, ix.tx.programs[ix.position]
    of = ix.account(MARKET), ix.account(OPEN_ORDERS)
    found: list[int] = []
    for at in range(ix.position):
        if tx.programs[at] != program or tuple(tx.accounts[at][:2]) != of:
            continue
        tag = tx.data[at][:5]
        if tag == _SETTLE_FUNDS:
            found = []
        elif tag == _NEW_ORDER_V3:
            if u32(tx.data[at], _ORDER_TYPE) != _IMMEDIATE_OR_CANCEL:
                return ()
            found.append(at)
    return tuple(found)


def _send_take(ix: Instruction) -> Leg | None:
    transfers = ix.transfers()
    if not transfers:
        return None  # the order met no other
    vaults = TAKE_COIN_VAULT, TAKE_PC_VAULT
    return swap_by_vaults(ix, pool=MARKET, vaults=vaults, user=TAKE_SIGNER, transfers=transfers)


def _venue(dex: str, program: str) -> Venue:
    return Venue(
        dex=dex,
        programs=(program,),
        tag_size=5,
        handlers={_SETTLE_FUNDS: _settle_funds, _SEND_TAKE: _send_take},
        ignored=frozenset(
            b"\x00" + tag.to_bytes(4, "little")
            for tag in (
                0,  # InitializeMarket
                1,  # NewOrder
                2,  # MatchOrders
                3,  # ConsumeEvents
                4,  # CancelOrder
                6,  # CancelOrderByClientId
                7,  # DisableMarket
                8,  # SweepFees
                9,  # NewOrderV2
                10,  # NewOrderV3: read with the instruction that settles it
                11,  # CancelOrderV2
                12,  # CancelOrderByClientIdV2
                14,  # CloseOpenOrders
                15,  # InitOpenOrders
                16,  # Prune
                17,  # ConsumeEventsPermissioned
                18,  # CancelOrdersByClientIds
                19,  # ReplaceOrderByClientId
                20,  # ReplaceOrdersByClientIds
            )
        ),
    )


VENUES: Final = (
    _venue("openbook-v1", "srmqPvymJeFKQ4zGQed1GFppgkRHL9kaELCbyksJtPX"),
    _venue("serum", "9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin"),
)
