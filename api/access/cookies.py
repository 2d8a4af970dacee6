"""Cookies that let a browser in: who sent one, on whose behalf.

A browser also sends cookies for pages of other sites and ports. SameSite stops the former; a
request that the browser attributes to any other origin has no session here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_OWN_SITES: Final = frozenset({b"same-origin", b"none"})  # none: the user's own doing


def secret_of(headers: Iterable[tuple[bytes, bytes]], prefix: bytes) -> str | None:
    """Return the value of the one cookie whose pair begins with `name=`, None on behalf of others.

    Of several cookies of the name some are not ours, so none counts.
    """
    values = []
    for name, value in headers:
        if name == b"sec-fetch-site" and value not in _OWN_SITES:
            return None
        if name == b"cookie":
            values += values_of(value, prefix)
    return values[0] if len(values) == 1 else None


def values_of(header: bytes, prefix: bytes) -> list[str]:
    """Return the values of a name in one header `cookie`."""
    pairs = (each.strip() for each in header.split(b";"))
    return [
        each.removeprefix(prefix).decode("latin-1") for each in pairs if each.startswith(prefix)
    ]
