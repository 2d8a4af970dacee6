"""A token's name, symbol and URI, as the instructions that wrote them down say.

Sources: Token-2022's metadata extension (spl-token-metadata-interface `initialize`) and
Metaplex Token Metadata (`Create`, `CreateMetadataAccountV2` and `V3`).
"""

from __future__ import annotations

from typing import Final

from pipeline.solana.transaction import Transaction
from schemas.solana.addresses import METAPLEX_PROGRAM, TOKEN_2022_PROGRAM
from schemas.solana.borsh import Reader

_INITIALIZE: Final = bytes.fromhex("d2e11ea258b84d8d")
_CREATE: Final = b"\x2a\x00"
_CREATE_ACCOUNT: Final = (b"\x10", b"\x21")  # V2, V3

INITIALIZE_MINT, CREATE_MINT, CREATE_ACCOUNT_MINT = 2, 2, 1


def token_metadata(tx: Transaction, mint: int) -> tuple[str, str, str] | None:
    """Return (name, symbol, uri) of a mint by its index, if the transaction writes them.

    Raises struct.error and IndexError where the bytes do not fit.
    """
    for position, program_index in enumerate(tx.programs):
        program = tx.keys[program_index]
        data, accounts = tx.data[position], tx.accounts[position]
        if program == TOKEN_2022_PROGRAM and data[:8] == _INITIALIZE:
            at, offset = accounts[INITIALIZE_MINT], 8
        elif program != METAPLEX_PROGRAM:
            continue
        elif data[:2] == _CREATE:
            at, offset = accounts[CREATE_MINT], 2
        elif data[:1] in _CREATE_ACCOUNT:
            at, offset = accounts[CREATE_ACCOUNT_MINT], 1
        else:
            continue
        if at == mint:
            text = Reader(data, offset)
            return text.string(), text.string(), text.string()
    return None
