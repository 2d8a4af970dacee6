"""Which accounts of the token programs are a wallet's."""

from __future__ import annotations

from schemas.protocols.mint import MINT_2022_EXTENDED
from schemas.protocols.registry import kind_of
from schemas.protocols.token import TOKEN_2022_EXTENDED
from schemas.solana.addresses import TOKEN_2022_PROGRAM

WALLET = bytes([1]) * 32


def test_a_multisig_is_no_token_account_whatever_its_signers_are() -> None:
    for kind, type_byte in ((TOKEN_2022_EXTENDED, 2), (MINT_2022_EXTENDED, 1)):
        multisig = bytearray(355)  # signers fill it: any key can be one without signing
        multisig[32:64] = WALLET
        multisig[165] = type_byte
        assert kind_of(bytes(32), TOKEN_2022_PROGRAM, bytes(multisig)) is None
        assert kind_of(bytes(32), TOKEN_2022_PROGRAM, bytes(multisig) + b"\0") is kind
