"""The slugs of venues and launch platforms, as the pipeline tells them to those who filter by them.

The value of `redis_keys.VOCABULARY`: JSON, `dexes` and `platforms`, each a list of slugs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

MAX_SLUG: Final = 64
_SLUG: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*", re.ASCII)


def is_slug(text: str) -> bool:
    """Whether a text is made like a slug: kebab-case, at most 64 characters."""
    return len(text) <= MAX_SLUG and _SLUG.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Slugs:
    """What there is, in the order it is told in."""

    dexes: tuple[str, ...]
    platforms: tuple[str, ...]

    def pack(self) -> bytes:
        """Return the value of the key."""
        return orjson.dumps({"dexes": self.dexes, "platforms": self.platforms})


def unpack(value: bytes) -> Slugs:
    """Return what a value tells; raises ValueError for one of another form."""
    try:
        told = orjson.loads(value)
        return Slugs(_slugs(told["dexes"]), _slugs(told["platforms"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no vocabulary: {error}") from None


def _slugs(told: Any) -> tuple[str, ...]:
    if not isinstance(told, list) or not all(isinstance(each, str) for each in told):
        raise ValueError("a list of slugs is expected")
    if wrong := [slug for slug in told if not is_slug(slug)]:
        raise ValueError(f"{wrong[0][:MAX_SLUG]!r} is no slug")
    return tuple(told)
