"""The text of an API key, and what is kept of it.

    soltape_ + 192 random bits in base62 (33 characters) + CRC-32 of those in base62 (6 characters)

The fixed prefix and length are there for secret scanners: `soltape_[0-9A-Za-z]{39}`. The checksum
rejects a mistyped or made-up key without a lookup. The text is not
stored: a key is known by its fingerprint, the SHA-256 of the text in hex. With 192 random bits
nothing slower is needed.
"""

from __future__ import annotations

import secrets
from binascii import crc32
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

PREFIX: Final = "soltape_"
SECRET_BITS: Final = 192
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_PAIRS: Final = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
_SECRET_LENGTH: Final = 33  # of 2**192 in base62
_CHECK_LENGTH: Final = 6  # of 2**32 in base62
_CHECK_AT: Final = len(PREFIX) + _SECRET_LENGTH
LENGTH: Final = _CHECK_AT + _CHECK_LENGTH
ID_LENGTH: Final = 12
MAX_WORDS: Final = 100
"""Characters of a name or of an owner."""


class KeyMalformed(ValueError):
    """A text is not a key. The message says why, and never repeats the text."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a key. The key itself cannot be had from it."""

    fingerprint: str
    name: str
    plan: str
    owner: str
    last4: str  # last characters of the text, for people to recognise keys by
    created_ms: int
    last_used_ms: int | None = None
    revoked_ms: int | None = None
    credits: Mapping[str, int] = field(default_factory=dict)  # spent, by month: 2026-11

    @property
    def id(self) -> str:
        """The short name of the key; it may be shown to anybody."""
        return key_id(self.fingerprint)

    @property
    def display(self) -> str:
        """The key's text without what is secret in it; of a user's session there is none."""
        if not self.last4:
            return "session"
        return f"{PREFIX}...{self.last4}"


def new() -> str:
    """Return the text of a new key."""
    secret = _base62(secrets.randbits(SECRET_BITS), _SECRET_LENGTH)
    return PREFIX + secret + _checksum(secret)


def parse(text: str) -> str:
    """Return the fingerprint of a key, under which it is kept; raises KeyMalformed."""
    if not text.startswith(PREFIX):
        raise KeyMalformed(f"A key begins with {PREFIX}")
    if len(text) != LENGTH:
        raise KeyMalformed(f"A key has {LENGTH} characters, got {len(text)}")
    if not (text.isascii() and text[len(PREFIX) :].isalnum()):
        raise KeyMalformed(f"A key has only letters and digits after {PREFIX}")
    if text[_CHECK_AT:] != _checksum(text[len(PREFIX) : _CHECK_AT]):
        raise KeyMalformed("The checksum of the key is wrong: it was mistyped or made up")
    return sha256(text.encode()).hexdigest()


def check_words(words: str) -> str:
    """Return the name or owner of a key; raises ValueError where it cannot be shown in a line."""
    if len(words) > MAX_WORDS:
        raise ValueError(f"longer than {MAX_WORDS} characters")
    if not words.isprintable():
        raise ValueError("it has characters that cannot be shown")
    return words


def key_id(fingerprint: str) -> str:
    """Return the short name of the key with a fingerprint."""
    return fingerprint[:ID_LENGTH]


def _checksum(secret: str) -> str:
    return _base62(crc32(secret.encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    text = ""
    for _ in range(0, length, 2):  # two digits at a time: each request has a checksum
        number, pair = divmod(number, 62 * 62)
        text = _PAIRS[pair] + text
    return text[-length:]
