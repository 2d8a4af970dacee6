"""Addresses that a user gives: 32 bytes in base58, or the reason why a text is none."""

import pytest

from schemas.solana.addresses import NoAddress, check

FORM = "must be a Solana address, 32 to 44 characters of base58"


@pytest.mark.parametrize(
    "text",
    [
        "1" * 32,
        "So11111111111111111111111111111111111111112",
        "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    ],
)
def test_32_bytes_in_base58_are_an_address(text):
    assert check(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", FORM),
        ("1" * 31, FORM),
        ("1" * 45, FORM),
        ("0" * 40, f"{FORM} ('0' is not in the base58 alphabet)"),
        ("1" * 33, f"{FORM} and 32 bytes (this is 33)"),
        ("z" * 32, f"{FORM} and 32 bytes (this is 24)"),  # 58**32 is less than 2**188
        ("z" * 44, f"{FORM} and 32 bytes (this is 33)"),  # 58**44 is more than 2**257
    ],
)
def test_any_other_text_is_none_and_the_reason_says_why(text, reason):
    with pytest.raises(NoAddress) as refused:
        check(text)
    assert str(refused.value) == reason
