"""Token accounts of both token programs: what a wallet holds."""

from __future__ import annotations

from typing import Final

from schemas.protocols.contract import Kind, Protocol
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM

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
    wallets=(OWNER_AT,),
    group="tokens",
)

PROTOCOL: Final = Protocol("token", (TOKEN, TOKEN_2022, TOKEN_2022_EXTENDED))
