from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.pubkey import Pubkey

from schemas.solana import base58


@given(st.binary(max_size=300))
def test_what_is_encoded_decodes_to_itself(data: bytes) -> None:
    assert base58.decode(base58.encode(data)) == data


def test_no_length_is_a_special_one() -> None:
    for size in range(70):
        for data in (bytes(size), b"\xff" * size, bytes(range(size))):
            assert base58.decode(base58.encode(data)) == data


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("", b""),
        ("1", b"\0"),
        ("2", b"\x01"),
        ("11111111111111111111111111111111", bytes(32)),
        ("JxF12TrwUP45BMd", b"Hello World"),
        ("StV1DL6CwTryKyV", b"hello world"),
    ],
)
def test_known_texts(text: str, data: bytes) -> None:
    assert base58.decode(text) == data
    assert base58.encode(data) == text


@given(st.binary(min_size=32, max_size=32))
def test_keys_read_as_solders_writes_them(data: bytes) -> None:
    assert base58.decode(str(Pubkey(data))) == data


@pytest.mark.parametrize(
    "text", ["0", "abcO", "l" * 40, "é", "3p36wGRa191szhME5kRbg41cv9sXPPYvozk "]
)
def test_other_characters_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not in the base58 alphabet"):
        base58.decode(text)


def test_endless_text_is_refused_before_it_costs() -> None:
    with pytest.raises(ValueError, match="at most"):
        base58.decode("2" * 1_000_000)
