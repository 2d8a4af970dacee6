"""Credentials inside texts, never to be shown: those of addresses, user:password@host and
?api-key=..., and the keys of our API."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "(hidden)"
_IN_TEXT: Final = (
    (re.compile(r"(?<=://)[^/@\s]+@"), f"{HIDDEN}@"),
    (re.compile(r"soltape_[0-9A-Za-z]{39}"), HIDDEN),
    (re.compile(r"((?:api[-_]?key|token|password)=)[^&\s]+", re.IGNORECASE), rf"\1{HIDDEN}"),
    (re.compile(r"(auth_bytes=).+"), rf"\1{HIDDEN}"),  # aiokafka's login, where it logs requests
)


def hide(text: str) -> str:
    """Return the text without the credentials in it."""
    for pattern, replacement in _IN_TEXT:
        text = pattern.sub(replacement, text)
    return text
