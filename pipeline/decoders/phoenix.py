"""Phoenix v1: an order book; a taker's swap settles at once, by its two token transfers.

The market reports its fills by a call of instruction 15 (Log), in lots. A lot's size is not in
the transaction, but follows for the quote from the transfer and the lots filled, and with it
the fee. Source: phoenix-v1 idl/phoenix_v1.json and src/program/events.rs. Not decoded, and
counted as malformed where they met another order: limit orders and swaps on funds deposited
earlier, which may trade without moving a token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Malformed, Venue, swap_by_vaults
from schemas.solana.borsh import u64

DEX: Final = "phoenix"
PROGRAM: Final = "PhoeNiXZ8ByJGLkxNfZRnkUfjvmuYqLR89jjFHGqdXY"

MARKET, TRADER, BASE_VAULT, QUOTE_VAULT = 2, 3, 6, 7

_LOG: Final = bytes([15])
_FIRST_EVENT: Final = 93  # tag, event kind, instruction, 3 u64, market, signer, u16
_FILL_SUMMARY: Final = 6
_EVENT_BYTES: Final = {  # by the kind, which is a byte before them
    2: 66,  # Fill: order 2, maker 32, sequence number, price, lots filled, lots left
    3: 42,  # Place: order 2, sequence number, client's id 16, price, lots
    4: 34,  # Reduce: order 2, sequence number, price, lots removed, lots left
    5: 58,  # Evict: order 2, maker 32, sequence number, price, lots
    _FILL_SUMMARY: 42,  # order 2, client's id 16, base lots, quote lots, fee in quote lots
    7: 10,  # Fee
    8: 26,  # TimeInForce
    9: 58,  # ExpiredOrder
}


def _logs(ix: Instruction) -> Iterator[bytes]:
    """Yield the market's logs of an instruction; nobody but the program itself calls for one."""
    tx, program = ix.tx, ix.tx.programs[ix.position]
    end = tx.subtree_end(ix.position)
    for position in range(ix.position + 1, len(tx.programs)):
        is_log = tx.programs[position] == program and tx.data[position][:1] == _LOG
        if is_log:
            yield tx.data[position]
        elif position >= end:  # without heights the logs come after it
            return


def _fills(ix: Instruction) -> Iterator[tuple[int, int]]:
    """Yield (quote lots filled, fee included; fee in quote lots) of each order that was met."""
    for log in _logs(ix):
        at = _FIRST_EVENT
        while at < len(log):
            kind = log[at]
            after = at + 1 + _EVENT_BYTES.get(kind, len(log))
            if after > len(log):
                break
            if kind == _FILL_SUMMARY and u64(log, at + 19):
                yield u64(log, at + 27), u64(log, at + 35)
            at = after


def _swap(ix: Instruction) -> Leg | None:
    transfers = ix.transfers()
    if not transfers:
        return None  # the order met no other
    vaults = BASE_VAULT, QUOTE_VAULT
    leg = swap_by_vaults(ix, pool=MARKET, vaults=vaults, user=TRADER, transfers=transfers)
    quote_raw = leg.input_raw if leg.vault_in == ix.account(QUOTE_VAULT) else leg.output_raw
    for quote_lots, fee_lots in _fills(ix):
        if fee_lots <= quote_lots and quote_lots and quote_raw % quote_lots == 0:
            lot_raw = quote_raw // quote_lots
            leg.fee_raw, leg.fee_mint = fee_lots * lot_raw, leg.second_mint
    return leg


def _order(ix: Instruction) -> None:
    """Return an order that met another, of which the lots alone are known."""
    for quote_lots, _ in _fills(ix):
        raise Malformed(f"an order on the book met others for {quote_lots} quote lots")


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={
            bytes([0]): _swap,
            bytes([1]): _order,  # SwapWithFreeFunds
            bytes([2]): _order,  # PlaceLimitOrder
            bytes([3]): _order,  # PlaceLimitOrderWithFreeFunds
        },
        ignored=frozenset(
            bytes([tag])
            for tag in (
                4,  # ReduceOrder
                5,  # ReduceOrderWithFreeFunds
                6,  # CancelAllOrders
                7,  # CancelAllOrdersWithFreeFunds
                8,  # CancelUpTo
                9,  # CancelUpToWithFreeFunds
                10,  # CancelMultipleOrdersById
                11,  # CancelMultipleOrdersByIdWithFreeFunds
                12,  # WithdrawFunds
                13,  # DepositFunds
                14,  # RequestSeat
                15,  # Log
                16,  # PlaceMultiplePostOnlyOrders
                17,  # PlaceMultiplePostOnlyOrdersWithFreeFunds
                *range(100, 110),  # the market's authority
            )
        ),
    ),
)
