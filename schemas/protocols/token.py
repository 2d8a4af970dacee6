"""Token accounts of both token programs: what a wallet holds."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from schemas.protocols.contract import Account, Kind, Protocol
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.token_accounts import (
    ACCOUNT_SIZE,
    BadAccount,
    TokenAccountState,
    read_token_account,
)
from schemas.solana.token_extensions import MULTISIG_SIZE

_CACHED_STATES: Final = 1 << 13  # 1 kB each

MINT_AT: Final = 0
OWNER_AT: Final = 32
_TYPE_AT: Final = 165  # of an account with extensions
_ACCOUNT: Final = b"\x02"

TOKEN: Final = Kind("token", TOKEN_PROGRAM, size=165, wallets=(OWNER_AT,), group="tokens")
TOKEN_2022: Final = Kind(
    "token_2022", TOKEN_2022_PROGRAM, size=165, wallets=(OWNER_AT,), group="tokens"
)
TOKEN_2022_EXTENDED: Final = Kind(
    "token_2022_extended",
    TOKEN_2022_PROGRAM,
    tag=_ACCOUNT,
    tag_at=_TYPE_AT,
    not_size=MULTISIG_SIZE,
    wallets=(OWNER_AT,),
    group="tokens",
)

PROTOCOL: Final = Protocol("token", (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED))
_KINDS: Final = frozenset({TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED})


def state_of(program: bytes, data: bytes) -> TokenAccountState:
    """Return a token account of one of the token programs; raises BadAccount."""
    return _plain(program, data) if len(data) == ACCOUNT_SIZE else read_token_account(program, data)


# Holdings and positions of a request read the same accounts; those with extensions may be large.
_plain: Final = lru_cache(_CACHED_STATES)(read_token_account)


def held_tokens(accounts: Iterable[Account]) -> dict[bytes, int]:
    """Return the raw amounts by mint of the token accounts among some; unreadable ones are none."""
    amounts: dict[bytes, int] = {}
    for account in accounts:
        if account.kind in _KINDS:
            try:
                state = state_of(account.kind.program, account.data)
            except BadAccount:
                continue
            amounts[state.mint] = amounts.get(state.mint, 0) + state.amount_raw
    return amounts
