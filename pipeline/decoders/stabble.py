"""Stabble's stable and weighted pools: tokens lie in a vault program's accounts.

The pool program moves the input itself, the vault program the output and, out of the same
vault, the beneficiary's fee. Vault accounts are shared by the pools of one vault. Source:
stabble programs' IDL as carbon lists it, checked on chain for `swap`. Not decoded: liquidity.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults


def _swap(ix: Instruction) -> Leg:
    """Read a swap: 0 user, 1/2 user accounts, 3/4 vaults of input and output, 6 pool."""
    return _read(ix, pool=6, vaults=(3, 4))


def _swap_v2(ix: Instruction) -> Leg:
    """Read a swap: 0 user, 3/4 user accounts, 5/6 vaults of input and output, 8 pool."""
    return _read(ix, pool=8, vaults=(5, 6))


def _read(ix: Instruction, *, pool: int, vaults: tuple[int, int]) -> Leg:
    transfers = ix.transfers(nested=True)
    leg = swap_by_vaults(ix, pool=pool, vaults=vaults, user=0, transfers=transfers)
    leg.second_mint = ""  # a pool may hold more than two tokens
    return leg


def _venue(dex: str, program: str) -> Venue:
    return Venue(
        dex=dex,
        programs=(program,),
        handlers={
            bytes.fromhex("f8c69e91e17587c8"): _swap,
            bytes.fromhex("2b04ed0b1ac91e62"): _swap_v2,
        },
        ignored=named(
            "accept_owner",
            "approve_strategy",
            "change_amp_factor",
            "change_max_supply",
            "change_swap_fee",
            "create_strategy",
            "deposit",
            "exec_strategy",
            "initialize",
            "pause",
            "reject_owner",
            "shutdown",
            "transfer_owner",
            "unpause",
            "withdraw",
        ),
    )


VENUES: Final = (
    _venue("stabble-stable", "swapNyd8XiQwJ6ianp9snpu4brUqFxadzvHebnAXjJZ"),
    _venue("stabble-weighted", "swapFpHZwjELNnjvThjajtiVmkz3yPQEHjLtka2fwHW"),
)
