"""Which accounts of the token programs are a wallet's, and what they hold."""

from __future__ import annotations

import pytest

from schemas.protocols.contract import Account
from schemas.protocols.mint import MINT_2022_EXTENDED
from schemas.protocols.registry import kind_of
from schemas.protocols.token import (
    TOKEN,
    TOKEN_2022,
    TOKEN_2022_EXTENDED,
    held_tokens,
    state_of,
)
from schemas.solana.addresses import SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from schemas.solana.token_accounts import BadAccount, read_token_account

WALLET = bytes([1]) * 32


def test_a_multisig_is_no_token_account_whatever_its_signers_are() -> None:
    for kind, type_byte in ((TOKEN_2022_EXTENDED, 2), (MINT_2022_EXTENDED, 1)):
        multisig = bytearray(355)  # signers fill it: any key can be one without signing
        multisig[32:64] = WALLET
        multisig[165] = type_byte
        assert kind_of(bytes(32), TOKEN_2022_PROGRAM, bytes(multisig)) is None
        assert kind_of(bytes(32), TOKEN_2022_PROGRAM, bytes(multisig) + b"\0") is kind


def test_a_token_account_is_what_its_bytes_say_also_when_it_is_read_again() -> None:
    extended = b"\x02" + bytes.fromhex("07000000")  # its owner cannot change
    for amount_raw in (1, 2, 1):
        plain = bytes(32) + WALLET + amount_raw.to_bytes(8, "little") + bytes(36) + b"\x01"
        plain += bytes(56)
        for program, data in (
            (TOKEN_PROGRAM, plain),
            (TOKEN_2022_PROGRAM, plain),
            (TOKEN_2022_PROGRAM, plain + extended),
        ):
            found = state_of(program, data)
            assert found == read_token_account(program, data)
            assert (found.owner, found.amount_raw) == (WALLET, amount_raw)


def test_what_is_no_token_account_is_none_each_time() -> None:
    for program, data in ((SYSTEM_PROGRAM, bytes(165)), (TOKEN_PROGRAM, bytes(165))):
        for _ in range(2):
            with pytest.raises(BadAccount):
                state_of(program, data)


def test_what_is_held_is_the_sum_by_mint_of_the_token_accounts_that_can_be_read() -> None:
    one, other = bytes([2]) * 32, bytes([3]) * 32

    def data(mint: bytes, amount_raw: int) -> bytes:
        return mint + WALLET + amount_raw.to_bytes(8, "little") + bytes(36) + b"\x01" + bytes(56)

    extended = b"\x02" + bytes.fromhex("07000000")
    accounts = (
        (TOKEN, data(one, 5)),
        (TOKEN_2022, data(one, 7)),
        (TOKEN_2022_EXTENDED, data(other, 3) + extended),
        (TOKEN, bytes(165)),  # it was not initialized
        (MINT_2022_EXTENDED, data(one, 11)),
    )
    assert held_tokens(Account(WALLET, kind, 1, each, 9) for kind, each in accounts) == {
        one: 12,
        other: 3,
    }
