"""What may have changed in a slot that no stream brought: the writable keys of its transactions."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pipeline.ingest.accounts.tracked import Tracked
from pipeline.ingest.accounts.updates import keys_of, writable_keys
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM, key

_TOKEN_PROGRAMS = frozenset({TOKEN_PROGRAM, TOKEN_2022_PROGRAM})


def keys_to_ask(
    transactions: Iterable[SubscribeUpdateTransactionInfo],
    programs: Collection[bytes],
    tracked: Tracked,
) -> set[bytes]:
    """Return the accounts to ask for after a hole.

    A transaction that invokes one of `programs` may have changed every account it could write. Of
    one that invokes a token program alone, only the accounts that somebody keeps: `tracked` mints
    and token accounts, and those that its token balances name as a tracked wallet's.
    """
    others = frozenset(programs) - _TOKEN_PROGRAMS
    found: set[bytes] = set()
    for info in transactions:
        accounts = keys_of(info)
        writable = writable_keys(info)
        if others.intersection(accounts) and (
            METAPLEX_PROGRAM not in accounts or others.intersection(accounts) != {METAPLEX_PROGRAM}
        ):
            found.update(writable)
            continue
        if METAPLEX_PROGRAM in accounts and any(each in tracked.mints for each in accounts):
            found.update(writable)
        found.update(each for each in writable if each in tracked.mints or tracked.follows(each))
        for balance in (*info.meta.pre_token_balances, *info.meta.post_token_balances):
            if balance.account_index < len(accounts) and _is_tracked(balance.owner, tracked):
                found.add(accounts[balance.account_index])
    return found


def _is_tracked(owner: str, tracked: Tracked) -> bool:
    try:
        return bool(owner) and key(owner) in tracked.wallets
    except ValueError:
        return False  # nothing that a node writes
