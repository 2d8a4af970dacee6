"""Swaps on bonding curves that hold SOL as lamports of an account of theirs."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.decoding.contract import Instruction, Leg
from schemas.money import WSOL


class LamportCurve(NamedTuple):
    """Places in the instruction's accounts."""

    mint: int
    pool: int
    sol_vault: int
    token_vault: int
    trader_account: int  # of the token
    trader: int
    fees_to: tuple[int, ...]
    other_sol: tuple[int, ...] = ()  # accounts of the curve, beside its vault, that take SOL


class Moved(NamedTuple):
    """What a swap moved; the fee comes on top of a purchase, and out of the SOL of a sale."""

    sol_raw: int
    token_raw: int
    fee_raw: int


def moved(ix: Instruction, curve: LamportCurve, *, is_buy: bool) -> Moved:
    """Return the leg that the transfers of lamports and tokens show."""
    sol = [ix.account(place) for place in (curve.sol_vault, *curve.other_sol)]
    fees_to = [ix.account(place) for place in curve.fees_to]
    token_vault = ix.account(curve.token_vault)
    sent = ix.tx.lamport_transfers(ix.position)
    tokens = ix.transfers()
    if is_buy:
        sol_raw = sum(move.amount_raw for move in sent if move.destination in sol)
        token_raw = sum(move.amount_raw for move in tokens if move.source == token_vault)
    else:
        sent = [move for move in sent if move.source in sol]
        sol_raw = sum(move.amount_raw for move in sent)
        token_raw = sum(move.amount_raw for move in tokens if move.destination == token_vault)
    fee_raw = sum(move.amount_raw for move in sent if move.destination in fees_to)
    return Moved(sol_raw, token_raw, fee_raw)


def leg(ix: Instruction, curve: LamportCurve, amounts: Moved, *, is_buy: bool) -> Leg:
    """Return the swap of a curve."""
    mint, trader_account = ix.address(curve.mint), ix.account(curve.trader_account)
    sol_vault, token_vault = ix.account(curve.sol_vault), ix.account(curve.token_vault)
    sol_raw, token_raw, fee_raw = amounts
    return Leg(
        pool=ix.address(curve.pool),
        input_mint=WSOL if is_buy else mint,
        output_mint=mint if is_buy else WSOL,
        input_raw=sol_raw if is_buy else token_raw,
        output_raw=token_raw if is_buy else sol_raw,
        paid_raw=sol_raw + fee_raw if is_buy else None,
        received_raw=None if is_buy else sol_raw - fee_raw,
        source=None if is_buy else trader_account,
        destination=trader_account if is_buy else None,
        user=ix.account(curve.trader),
        vault_in=sol_vault if is_buy else token_vault,
        vault_out=token_vault if is_buy else sol_vault,
        second_mint=WSOL,
        fee_raw=fee_raw,
        fee_mint=WSOL,
    )
