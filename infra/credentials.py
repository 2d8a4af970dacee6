"""Credentials inside addresses: user:password@host and ?api-key=..., never to be shown."""

from __future__ import annotations

import re
from typing import Final

HIDDEN: Final = "(hidden)"
_IN_ADDRESS: Final = (
    (re.compile(r"(?<=://)[^/@\s]+@"), f"{HIDDEN}@"),
    (re.compile(r"((?:api[-_]?key|token|password)=)[^&\s]+", re.IGNORECASE), rf"\1{HIDDEN}"),
)


def hide(text: str) -> str:
    """Return the text without the credentials of addresses in it."""
    for pattern, replacement in _IN_ADDRESS:
        text = pattern.sub(replacement, text)
    return text
