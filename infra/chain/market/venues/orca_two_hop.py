"""Orca's two_hop_swap: two Whirlpools in one instruction, joined by the user's own account.

It has no instruction of its own for the second leg, whose place is its first token transfer.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from infra.chain.market.runtime.execution import Execution, Step, mask
from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.runtime.programs import TOKEN, anchor_tag
from infra.chain.market.venues.orca_whirlpool import MAX_SQRT_PRICE, MIN_SQRT_PRICE, Whirlpool
from infra.chain.market.venues.venue import Call, Trader

_TAG: Final = anchor_tag("two_hop_swap")
_ARGS: Final = Struct("<QQ???16s16s").pack
_WRITABLE: Final = mask("--ww wwwwwwww wwwwww ww")


def two_hop_step(
    first: Whirlpool,
    second: Whirlpool,
    owner: bytes,
    accounts: tuple[bytes, ...],
    amount_in_raw: int,
    min_out_raw: int,
) -> Step:
    """Return the outer instruction; `accounts` hold the input, the middle and the output."""
    source, middle, destination = accounts
    mint_in = _mint_apart(first, second)
    between = first.other(mint_in)
    one = Trader(owner, source, middle, owner)
    two = Trader(owner, middle, destination, owner)
    a_to_b = (mint_in is first.sides[0], between is second.sides[0])
    limits = [
        (MIN_SQRT_PRICE if down else MAX_SQRT_PRICE).to_bytes(16, "little") for down in a_to_b
    ]
    call = Call(
        (
            TOKEN.address,
            owner,
            first.address,
            second.address,
            *first.owner_and_vaults(one, a_to_b[0]),
            *second.owner_and_vaults(two, a_to_b[1]),
            *first.arrays,
            *second.arrays,
            first.oracle,
            second.oracle,
        ),
        _WRITABLE,
        _TAG + _ARGS(amount_in_raw, min_out_raw, True, *a_to_b, *limits),
    )

    def step(tx: Execution) -> None:
        place = first.enter(tx, call)
        tx.log("Program log: Instruction: TwoHopSwap")
        received = first.exchange(tx, place, one, mint_in, amount_in_raw, 0)
        second_place = len(tx.instructions)
        second.exchange(tx, second_place, two, between, received, min_out_raw)
        tx.leave(70_000)

    return step


def _mint_apart(first: Whirlpool, second: Whirlpool) -> Mint:
    return next(side for side in first.sides if side not in second.sides)
