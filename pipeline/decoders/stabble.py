"""Stabble's stable and weighted pools: tokens lie in a vault program's accounts.

The pool program moves the input itself, the vault program the output and, out of the same
vault, the beneficiary's fee. Vault accounts are shared by the pools of one vault. Source:
stabble programs' IDL as carbon lists it, checked on chain for `swap`. Not decoded: liquidity.
"""

from __future__ import annotations

from typing import Final

from pipeline.decoding.contract import Instruction, Leg, Venue, named, swap_by_vaults

USER: Final = 0  # of both swaps
# Accounts of swap.
VAULT_TOKEN_IN, VAULT_TOKEN_OUT, POOL = 3, 4, 6
# Accounts of swap_v2.
V2_VAULT_TOKEN_IN, V2_VAULT_TOKEN_OUT, V2_POOL = 5, 6, 8


def _swap(ix: Instruction) -> Leg:
    return _read(ix, pool=POOL, vaults=(VAULT_TOKEN_IN, VAULT_TOKEN_OUT))


def _swap_v2(ix: Instruction) -> Leg:
    return _read(ix, pool=V2_POOL, vaults=(V2_VAULT_TOKEN_IN, V2_VAULT_TOKEN_OUT))


def _read(ix: Instruction, *, pool: int, vaults: tuple[int, int]) -> Leg:
    transfers = ix.transfers(nested=True)
    leg = swap_by_vaults(ix, pool=pool, vaults=vaults, user=USER, transfers=transfers)
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
