"""Base58 as Solana writes keys, signatures and instruction data; any length."""

from __future__ import annotations

from typing import Final

from solders.pubkey import Pubkey
from solders.signature import Signature

_ALPHABET: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS: Final = {character: value for value, character in enumerate(_ALPHABET)}

# Ten digits fit a machine word, so the big integer is touched once in ten.
_CHUNK: Final = 10
_CHUNK_BASE: Final = 58**_CHUNK

# The cost still grows with the square of the length: text beyond this (instruction data is at
# most 10 KiB) is refused instead of stalling its reader.
MAX_CHARACTERS: Final = 16_384


def encode(data: bytes) -> str:
    """Return the base58 text of the bytes."""
    if len(data) == 32:  # keys and signatures are most of what there is, and Rust is faster
        return str(Pubkey(data))
    if len(data) == 64:
        return str(Signature(data))
    number = int.from_bytes(data)
    text = []
    while number:
        number, chunk = divmod(number, _CHUNK_BASE)
        for _ in range(_CHUNK):
            chunk, digit = divmod(chunk, 58)
            text.append(_ALPHABET[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(text)).lstrip("1")


def decode(text: str) -> bytes:
    """Return the bytes of base58 text.

    Raises ValueError on a character outside the alphabet or on too long a text.
    """
    if 32 <= len(text) <= 44:
        try:
            return bytes(Pubkey.from_string(text))
        except ValueError:
            pass  # not a key: another length, or refused below
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"base58 text of {len(text)} characters, at most {MAX_CHARACTERS}")
    number = 0
    try:
        for start in range(0, len(text), _CHUNK):
            part = text[start : start + _CHUNK]
            chunk = 0
            for character in part:
                chunk = chunk * 58 + _DIGITS[character]
            number = number * 58 ** len(part) + chunk
    except KeyError:
        raise ValueError(f"{character!r} is not in the base58 alphabet") from None
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8)
