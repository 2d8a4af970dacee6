"""Raydium CPMM: constant product, Token-2022 aware; SwapEvent in the log."""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, swap_by_vaults, tags
from pipeline.solana.layout import Reader

DEX: Final = "raydium-cpmm"
PROGRAM: Final = "CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C"

SWAP_EVENT: Final = bytes.fromhex("40c6cde8260871e2")


def _swap(ix: Instruction) -> Leg:
    """Read a swap: 0 payer, 3 pool, 4/5 user accounts, 6/7 vaults of input and output."""
    leg = swap_by_vaults(ix, pool=3, vaults=(6, 7), user=0)
    leg.second_mint = max(leg.input_mint, leg.output_mint)  # token 1 is the greater key
    body = ix.event(SWAP_EVENT)
    if body is not None:
        event = Reader(body, 8)
        event.skip(32)  # pool
        before_in, before_out = event.u64(), event.u64()  # net of fees that wait in the vaults
        event.skip(8 + 8 + 8 + 8 + 1)  # amounts, transfer fees, base_input
        if event.has(72):
            event.skip(64)  # mints
            leg.fee_raw, leg.fee_mint = event.u64(), leg.input_mint
        leg.reserve_in_raw = before_in + leg.input_raw
        leg.reserve_out_raw = before_out - leg.output_raw
    return leg


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        handlers={
            bytes.fromhex("8fbe5adac41e33de"): _swap,  # swap_base_input
            bytes.fromhex("37d96256a34ab4ad"): _swap,  # swap_base_output
        },
        ignored=tags("b712469c946da122"),  # withdraw
    ),
)
