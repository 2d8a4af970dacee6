"""The slugs of venues and launch platforms, as the pipeline publishes them for filters.

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
    """All slugs, in the order of publication."""

    dexes: tuple[str, ...]
    platforms: tuple[str, ...]

    def pack(self) -> bytes:
        """Return the value of the key."""
        return orjson.dumps({"dexes": self.dexes, "platforms": self.platforms})


def unpack(value: bytes) -> Slugs:
    """Parse a value of the key; raises ValueError if it is malformed."""
    try:
        record = orjson.loads(value)
        return Slugs(_slugs(record["dexes"]), _slugs(record["platforms"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"no vocabulary: {error}") from None


def _slugs(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError("a list of slugs is expected")
    if wrong := [slug for slug in values if not is_slug(slug)]:
        raise ValueError(f"{wrong[0][:MAX_SLUG]!r} is no slug")
    return tuple(values)
