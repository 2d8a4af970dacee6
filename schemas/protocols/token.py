"""Token accounts of both token programs: what a wallet holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from schemas.protocols.contract import Account, Kind, Protocol
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.token_accounts import BadAccount, read_token_account
from schemas.solana.token_extensions import MULTISIG_SIZE

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


def held_tokens(accounts: Iterable[Account]) -> dict[bytes, int]:
    """Return the raw amounts by mint of the token accounts among some; unreadable ones are none."""
    amounts: Counter[bytes] = Counter()
    for account in accounts:
        if account.kind in _KINDS:
            try:
                state = read_token_account(account.kind.program, account.data)
            except BadAccount:
                continue
            amounts[state.mint] += state.amount_raw
    return dict(amounts)
