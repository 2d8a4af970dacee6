"""Amounts and token accounts in JSON, read back by other means."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.account_json import parsed_token, ui_amount
from schemas.solana import base58
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support.account_writes import address, mint_account, token_account, write


@given(st.integers(0, 2**64 - 1), st.integers(0, 255))
def test_amounts_are_written_without_zeros_behind(amount_raw: int, decimals: int) -> None:
    said = ui_amount(amount_raw, decimals)
    assert said["amount"] == str(amount_raw)
    with localcontext() as exact:
        exact.prec = 300
        assert Decimal(said["uiAmountString"]) == Decimal(amount_raw).scaleb(-decimals)
    text = said["uiAmountString"]
    assert text == "0" or not text.startswith("00")
    assert "." not in text or text[-1] not in "0."
    if decimals > 19:
        assert said["uiAmount"] is None
    else:
        assert said["uiAmount"] == pytest.approx(amount_raw / 10**decimals, rel=1e-15)


def test_a_delegated_native_account_says_so() -> None:
    data = bytearray(token_account(address(1), address(2), 5))
    data[72:108] = b"\1\0\0\0" + address(3)
    data[109:121] = b"\1\0\0\0" + (2_039_280).to_bytes(8, "little")
    data[121:129] = (4).to_bytes(8, "little")
    data[129:165] = b"\1\0\0\0" + address(4)
    parsed = parsed_token(write(address(9), TOKEN_PROGRAM, 1, bytes(data)), {address(1): 9})
    assert parsed is not None
    info = parsed["parsed"]["info"]
    assert info["isNative"]
    assert info["delegate"] == base58.encode(address(3))
    assert info["delegatedAmount"]["amount"] == "4"
    assert info["rentExemptReserve"]["uiAmountString"] == "0.00203928"
    assert info["closeAuthority"] == base58.encode(address(4))


def test_extensions_are_named_or_unparseable() -> None:
    withheld = b"\2\0\x08\0" + (17).to_bytes(8, "little")
    other = b"\x0f\0\2\0\1\2"
    data = token_account(address(1), address(2), extended=True) + withheld + other + bytes(8)
    account = write(address(9), TOKEN_2022_PROGRAM, 1, data)
    parsed = parsed_token(account, {address(1): 0})
    assert parsed is not None
    assert parsed["parsed"]["info"]["extensions"] == [
        {"extension": "immutableOwner"},
        {"extension": "transferFeeAmount", "state": {"withheldAmount": 17}},
        {"extension": "unparseableExtension"},
    ]


@pytest.mark.parametrize(
    ("program", "data"),
    [
        (STAKE_PROGRAM, token_account(address(1), address(2))),
        (TOKEN_PROGRAM, token_account(address(7), address(2))),  # its mint is not known
        (TOKEN_PROGRAM, token_account(address(1), address(2), state=0)),
        (TOKEN_PROGRAM, token_account(address(1), address(2), extended=True)),
        (TOKEN_PROGRAM, mint_account(1, 1, extended=True)),
        (TOKEN_PROGRAM, bytes(82)),
        (TOKEN_2022_PROGRAM, bytes(355)),
    ],
)
def test_others_are_not_parsed(program: bytes, data: bytes) -> None:
    assert parsed_token(write(address(9), program, 1, data), {address(1): 6}) is None
