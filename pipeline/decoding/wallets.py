"""Whose the swaps of a transaction are, beside who signed it: what `decode --check` counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from pipeline.decoding.exchanges import Net
from pipeline.solana.transaction import Transaction
from schemas.events import Side, Swap


class Whose(StrEnum):
    """Whose a wallet's swaps are."""

    SIGNER = "signer"
    ORDER = "order"  # a keeper signed
    ACCOUNT = "account"  # of a program: it did not sign, and nobody keeps it
    PASSED_ON = "passed_on"  # it signed, and what came out another has


def whose(
    tx: Transaction, gained: Mapping[str, Net], swaps: Iterable[Swap]
) -> Iterator[tuple[str, Whose]]:
    """Yield each wallet of a transaction's swaps; `gained` is what each owner's balances gained."""
    nets: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    kept = set()
    for swap in swaps:
        sign = 1 if swap.side is Side.BUY else -1
        nets[swap.wallet][swap.mint] += sign * swap.wallet_amount_raw
        nets[swap.wallet][swap.quote_mint] -= sign * swap.wallet_quote_amount_raw
        if swap.keeper:
            kept.add(swap.wallet)
    for wallet, net in nets.items():
        came = [mint for mint, amount_raw in net.items() if amount_raw > 0]
        if wallet in kept:
            yield wallet, Whose.ORDER
        elif wallet not in tx.signer_addresses:
            yield wallet, Whose.ACCOUNT
        elif came and all(_others_have(gained, wallet, mint) for mint in came):
            yield wallet, Whose.PASSED_ON
        else:
            yield wallet, Whose.SIGNER


def _others_have(gained: Mapping[str, Net], wallet: str, mint: str) -> bool:
    """Return whether a wallet has no more of a mint than before, and somebody else has."""
    return gained.get(wallet, {}).get(mint, 0) <= 0 and any(
        net.get(mint, 0) > 0 for owner, net in gained.items() if owner != wallet
    )
