"""The oracle's balances and movements, from the flows that the market itself wrote down.

Written from the rules as `pipeline.decoding.balances` and `pipeline.ingest.lanes` state them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, NamedTuple

from pipeline.chaos.truth import Slot, Tx
from pipeline.chaos.values import MONEY, SOL

SOL_DECIMALS: Final = 9


class Movement(NamedTuple):
    """What moved of a wallet's tokens in one transaction beside its swaps."""

    received_raw: int
    sent_raw: int
    burned_raw: int


class Balance(NamedTuple):
    """What an account of an owner holds after a slot in which it changed."""

    account: str
    owner: str
    mint: str
    decimals: int
    amount_raw: int
    is_vault: bool
    is_token_2022: bool


def movements(tx: Tx) -> dict[tuple[str, str], Movement]:
    """Return what moved by wallet and mint, money apart."""
    moved: defaultdict[tuple[str, str], int] = defaultdict(int)
    burned: defaultdict[tuple[str, str], int] = defaultdict(int)
    vaults = vaults_of(tx)
    for account, owner, mint, _, before, after, _ in tx.flow["tokens"]:
        if account not in vaults:
            moved[owner, mint] += (after or 0) - (before or 0)
    for account, owner, mint, raw in tx.flow["burned"]:
        if account not in vaults:
            burned[owner, mint] += raw
    for swap in tx.swaps:
        sign = 1 if swap["side"] == "buy" else -1
        moved[swap["wallet"], swap["mint"]] -= sign * swap["wallet_amount_raw"]
        moved[swap["wallet"], swap["quote_mint"]] += sign * swap["wallet_quote_amount_raw"]
    found = {}
    for key in moved.keys() | burned.keys():
        net = moved[key] + burned[key]
        if key[1] not in MONEY and (net or burned[key]):
            found[key] = Movement(max(net, 0), max(-net, 0), burned[key])
    return found


def vaults_of(tx: Tx) -> set[str]:
    """Return the accounts that a transaction shows to be vaults: of pools that its events name.

    Where a leg moved its pool's sides, and whatever such a pool itself owns, unless it signed.
    """
    traded = {swap["pool"] for swap in tx.swaps}
    named = tx.pools.difference(tx.flow["signers"])
    return {
        account
        for account, owner, _, _, _, _, pool in tx.flow["tokens"]
        if pool in traded or owner in named
    }


def balances(slot: Slot) -> list[Balance]:
    """Return what accounts hold after a slot that changed them, money vaults apart.

    What was a vault in one of the slot's transactions is one.
    """
    last: dict[tuple[str, str, str], Balance] = {}
    vaults: set[tuple[str, str, str]] = set()
    for tx in slot.transactions:
        of_pools = vaults_of(tx)
        mints_2022 = tx.flow["token_2022"]
        for account, owner, mint, decimals, before, after, _ in tx.flow["tokens"]:
            is_vault = account in of_pools
            if (before or 0) == (after or 0) or (is_vault and mint in MONEY):
                continue
            key = account, owner, mint
            if is_vault:
                vaults.add(key)
            last[key] = Balance(
                account, owner, mint, decimals, after or 0, False, mint in mints_2022
            )
        payer = tx.flow["signers"][0]  # the others are mints that sign once, new
        for account, _, lamports, _ in tx.flow["sol"]:
            if account == payer:
                last[account, account, SOL] = Balance(
                    account, account, SOL, SOL_DECIMALS, lamports, False, False
                )
    return [balance._replace(is_vault=key in vaults) for key, balance in last.items()]


def of_mints(changed: Iterable[Balance]) -> list[Balance]:
    """Return those that the lane by mint carries."""
    return [balance for balance in changed if balance.mint not in MONEY]
