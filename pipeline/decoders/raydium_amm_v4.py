"""Raydium AMM v4: constant product, older layouts beside an order book; `ray_log` in the log.

The pool's authority signs what leaves a vault, so it identifies the two transfers of a swap,
whether the instruction has 17 accounts or 18 and whatever a router appends. Old swaps settle
the order book first: those transfers come before the two. Source: raydium-amm program/src
(instruction.rs, log.rs). Not decoded: pool creation, liquidity, fills of the order book.
"""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress
from typing import Final

from pipeline.decoding.contract import (
    Instruction,
    Leg,
    Venue,
    mint_listed_second,
    swap_by_authority,
)
from schemas.solana.borsh import u64

DEX: Final = "raydium-amm-v4"
PROGRAM: Final = "675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8"

AMM, AMM_AUTHORITY = 1, 2

FEE_NUMERATOR: Final = 25  # of the input, rounded up; LP and protocol share
FEE_DENOMINATOR: Final = 10_000

_RAY_LOG: Final = "ray_log: "
_SWAP_LOGS: Final = (3, 4)  # swap with exact input, with exact output
_SWAP_LOG_SIZE: Final = 57


def _swap(ix: Instruction) -> Leg:
    leg = swap_by_authority(ix, pool=AMM, authority=AMM_AUTHORITY)
    leg.second_mint = mint_listed_second(ix, leg)  # the pc vault follows the coin vault
    leg.fee_raw = -(-leg.input_raw * FEE_NUMERATOR // FEE_DENOMINATOR)
    leg.fee_mint = leg.input_mint
    log = _swap_log(ix)
    if log is not None:
        coin_before, pc_before = u64(log, 33), u64(log, 41)
        if leg.second_mint == leg.input_mint:
            leg.reserve_in_raw = pc_before + leg.input_raw
            leg.reserve_out_raw = coin_before - leg.output_raw
        else:
            leg.reserve_in_raw = coin_before + leg.input_raw
            leg.reserve_out_raw = pc_before - leg.output_raw
    return leg


def _swap_log(ix: Instruction) -> bytes | None:
    """Return the log of the swap: type, amounts, and at 33 and 41 the reserves before it."""
    for line in ix.log_texts():
        if line.startswith(_RAY_LOG):
            with suppress(ValueError):  # no base64: the transfers alone make the swap
                log = b64decode(line[len(_RAY_LOG) :])
                if len(log) >= _SWAP_LOG_SIZE and log[0] in _SWAP_LOGS:
                    return log
    return None


VENUES: Final = (
    Venue(
        dex=DEX,
        programs=(PROGRAM,),
        tag_size=1,
        handlers={
            bytes([9]): _swap,  # swapBaseIn
            bytes([11]): _swap,  # swapBaseOut
            bytes([16]): _swap,  # swapBaseInV2
            bytes([17]): _swap,  # swapBaseOutV2
        },
        ignored=frozenset(
            bytes([tag])
            for tag in (
                0,  # initialize
                1,  # initialize2
                2,  # monitorStep
                3,  # deposit
                4,  # withdraw
                5,  # migrateToOpenBook
                6,  # setParams
                7,  # withdrawPnl
                8,  # withdrawSrm
                10,  # preInitialize
                12,  # simulateInfo
                13,  # adminCancelOrders
                14,  # createConfigAccount
                15,  # updateConfigAccount
            )
        ),
    ),
)
