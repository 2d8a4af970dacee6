"""Jupiter's orders that keepers execute: limit orders (v1, v2), DCA, value average.

A keeper takes the order's input out of escrow, swaps it by other instructions, and hands the
output over: those swaps are the order's owner's. Limit orders may also be filled out of the
keeper's own tokens: that is a swap itself, with the order as its pool. What is between the pools'
output and what the owner received is the keeper's, and fees; of value average it is not read.
Sources: the programs' IDLs, mainnet transactions; of value average its Fill event alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from pipeline.decoding.contract import (
    Filled,
    Handler,
    Instruction,
    Leg,
    Malformed,
    Venue,
    named,
)
from pipeline.decoding.flows import Flow, flows
from pipeline.solana.transaction import DESTINATION, SOURCE
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.borsh import Reader

# Accounts of flash_fill_order: order, maker, taker, output mint.
V1_ORDER, V1_MAKER, V1_TAKER, V1_OUTPUT_MINT = 0, 2, 3, 11
V2_ORDER, V2_MAKER, V2_TAKER, V2_OUTPUT_MINT = 2, 1, 0, 8
DCA_KEEPER, DCA_ORDER = 0, 1  # of every instruction of a fill
ORDER_BEFORE: Final = 3  # the order is among the first accounts of what takes its input

_DCA_FILLED: Final = bytes.fromhex("8604113fdd2db1ad")
_VALUE_AVERAGE_FILL: Final = bytes.fromhex("4ee1c79a56dbe0a9")
_FLASH_FILL_ORDER: Final = bytes.fromhex("fc681286a44e128c")
_FILL_ORDER: Final = bytes.fromhex("e87a7319c78f88a2")
_CLOSE_ACCOUNT: Final = b"\x09"
_TOKEN_PROGRAMS: Final = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})
_BEGINS: Final = named("pre_flash_fill_order", "initiate_flash_fill", "initiate_dlmm_fill")


def _begin(ix: Instruction, order: int) -> int:
    """Return where the keeper took the order's input: the program's own instruction before."""
    tx, program = ix.tx, ix.tx.programs[ix.position]
    for at in reversed(range(ix.position)):
        if (
            tx.programs[at] == program
            and tx.data[at][:8] in _BEGINS
            and ix.account(order) in tx.accounts[at][:ORDER_BEFORE]
        ):
            return at
    return ix.position


def _flash_fill_order(*, order: int, maker: int, taker: int, output_mint: int) -> Handler:
    """Return a handler; the arguments are places in the instruction's accounts."""

    def read(ix: Instruction) -> Filled:
        owner, mint = ix.address(maker), ix.address(output_mint)
        closed = _closed_to(ix, ix.account(maker))
        received_raw = sum(
            flow.amount_raw
            for flow in flows(ix.tx, ix.position + 1, ix.tx.subtree_end(ix.position))
            if flow.mint == mint and (flow.owner == owner or flow.account in closed)
        )
        # A fill pays its maker: where it does so out of sight the amount is not known.
        return Filled(owner, ix.address(taker), _begin(ix, order), mint, received_raw or None)

    return read


def _closed_to(ix: Instruction, index: int) -> set[int]:
    """Return the accounts that an instruction closed to another: what was wrapped SOL is its."""
    tx = ix.tx
    return {
        tx.accounts[at][SOURCE]
        for at in range(ix.position + 1, tx.subtree_end(ix.position))
        if tx.data[at][:1] == _CLOSE_ACCOUNT
        and tx.accounts[at][DESTINATION] == index
        and tx.program(at) in _TOKEN_PROGRAMS
    }


def _fill_order(ix: Instruction) -> Leg | Filled:
    """Read a fill: the taker signs, gives the output and receives the input."""
    tx, end = ix.tx, ix.tx.subtree_end(ix.position)
    moved = list(flows(tx, ix.position + 1, end))
    nets: defaultdict[tuple[str, str], int] = defaultdict(int)
    for flow in moved:
        nets[flow.owner, flow.mint] += flow.amount_raw
    taker = next((owner for owner, _ in nets if owner in tx.signer_addresses), "")
    output_mint = next((m for (o, m), raw in nets.items() if o == taker and raw < 0), "")
    input_mint = next((m for (o, m), raw in nets.items() if o == taker and raw > 0), "")
    received = _largest(flow for flow in moved if flow.mint == output_mint and flow.amount_raw > 0)
    paid = _largest(flow for flow in moved if flow.mint == input_mint and flow.amount_raw > 0)
    given = _largest(
        Flow(flow.account, flow.owner, flow.mint, -flow.amount_raw)
        for flow in moved
        if flow.mint == input_mint and flow.amount_raw < 0
    )
    if received is None or paid is None or given is None:
        raise Malformed(f"{len(moved)} flows, none from an order's escrow or none to its maker")
    return Leg(
        pool=given.owner,
        input_mint=input_mint,
        output_mint=output_mint,
        input_raw=paid.amount_raw,
        output_raw=received.amount_raw,
        owner=received.owner,
        keeper=taker,
    )


def _largest(found: Iterable[Flow]) -> Flow | None:
    return max(found, key=attrgetter("amount_raw"), default=None)


def _dca_fill(ix: Instruction) -> Filled:
    for body in ix.cpi_events():
        if body[:8] == _DCA_FILLED:
            event = Reader(body, 8)
            owner = event.pubkey()
            event.skip(32 + 32)  # the order, its input's mint
            output_mint = event.pubkey()
            event.skip(8)  # of the input
            keeper, begin = ix.address(DCA_KEEPER), _begin(ix, DCA_ORDER)
            return Filled(owner, keeper, begin, output_mint, event.u64())
    raise Malformed("no event names the order's owner")


def _value_average_fill(ix: Instruction) -> Filled | None:
    for body in ix.cpi_events():
        if body[:8] == _VALUE_AVERAGE_FILL:
            event = Reader(body, 8)
            event.skip(32)  # the order
            owner, keeper = event.pubkey(), event.pubkey()
            return Filled(owner, keeper, 0)
    return None


VENUES: Final = (
    Venue(
        dex="jupiter-limit",
        programs=("jupoNjAxXgZ4rjzxzPMP4oxduvQsQtZzyknqvzYNrNu",),
        handlers={
            _FLASH_FILL_ORDER: _flash_fill_order(
                order=V1_ORDER, maker=V1_MAKER, taker=V1_TAKER, output_mint=V1_OUTPUT_MINT
            ),
            _FILL_ORDER: _fill_order,
        },
        ignored=named(
            "cancel_expired_order",
            "cancel_order",
            "init_fee",
            "initialize_order",
            "pre_flash_fill_order",
            "update_fee",
            "withdraw_fee",
        ),
    ),
    Venue(
        dex="jupiter-trigger",
        programs=("j1o2qRpjcyUwEvwtcfhEQefh773ZgjxcVRry7LDqg5X",),
        handlers={
            _FLASH_FILL_ORDER: _flash_fill_order(
                order=V2_ORDER, maker=V2_MAKER, taker=V2_TAKER, output_mint=V2_OUTPUT_MINT
            ),
            _FILL_ORDER: _fill_order,
        },
        ignored=named(
            "cancel_order", "initialize_order", "pre_flash_fill_order", "update_fee", "withdraw_fee"
        ),
    ),
    Venue(
        dex="jupiter-dca",
        programs=("DCA265Vj8a9CEuX1eb1LWRnDT7uK6q1xMipnNyatn23M",),
        handlers=dict.fromkeys(named("fulfill_flash_fill", "fulfill_dlmm_fill"), _dca_fill),
        ignored=named(
            "close_dca",
            "deposit",
            "end_and_close",
            "initiate_dlmm_fill",
            "initiate_flash_fill",
            "open_dca",
            "open_dca_v2",
            "transfer",
            "withdraw",
            "withdraw_fees",
        ),
    ),
    Venue(
        dex="jupiter-value-average",
        programs=("VALaaymxQh2mNy2trH9jUqHT1mTow76wpTcGmSWSwJe",),
        any_tag=_value_average_fill,
    ),
)
