"""What a Redis holds, by family of keys: how many, how many entries, how many bytes."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from string import Formatter
from typing import Any, Final

import redis

from schemas import redis_keys
from schemas.redis_keys import Key

SAMPLED_KEYS: Final = 2_000  # of a family: the rest is taken to be alike
_SAMPLED_ENTRIES: Final = 50
_SCAN_COUNT: Final = 1_000
_COUNTS: Final = {
    "string": "STRLEN",
    "hash": "HLEN",
    "zset": "ZCARD",
    "set": "SCARD",
    "list": "LLEN",
    "stream": "XLEN",
}
OTHER: Final = "other"  # of no pattern in `schemas.redis_keys`

FAMILIES: Final[tuple[Key, ...]] = tuple(
    value for value in vars(redis_keys).values() if isinstance(value, Key)
)


@dataclass(frozen=True, slots=True)
class Family:
    """All keys of one pattern; `entries` and `bytes` are extrapolated from a sample."""

    keys: int
    entries: int  # fields, members; 1 of a string
    bytes: int


def _regex(key: Key) -> re.Pattern[bytes]:
    """Return what matches the names that a pattern makes."""
    made = ""
    for text, name, *_ in Formatter().parse(key.pattern):
        made += re.escape(text)
        if name is not None:
            made += r"\{[^{}]+\}" if name == "tag" else r"[^:]+"
    return re.compile(made.encode())


# The longest fixed text first: `markets:{tag}:active` also looks like a mint's market.
_PATTERNS: Final = sorted(
    ((key, _regex(key)) for key in FAMILIES),
    key=lambda pair: -len(re.sub(r"\{\w+\}", "", pair[0].pattern)),
)


def family_of(name: bytes) -> Key | None:
    """Return the kind of a key by its name; None for any other."""
    return next((key for key, pattern in _PATTERNS if pattern.fullmatch(name)), None)


def survey(store: redis.Redis) -> dict[str, Family]:
    """Return what is in a database by pattern of key; reads every name, and a sample of sizes."""
    names: dict[str, list[bytes]] = defaultdict(list)
    kinds: dict[str, Key | None] = {}
    counts: dict[str, int] = defaultdict(int)
    for name in store.scan_iter(count=_SCAN_COUNT):
        key = family_of(name)
        pattern = key.pattern if key else OTHER
        kinds[pattern] = key
        counts[pattern] += 1
        if len(names[pattern]) < SAMPLED_KEYS:  # a scan has no order: the first are as good as any
            names[pattern].append(name)
    return {
        pattern: _measure(store, kinds[pattern], sampled, counts[pattern])
        for pattern, sampled in names.items()
    }


def _measure(store: redis.Redis, key: Key | None, names: list[bytes], count: int) -> Family:
    with store.pipeline(transaction=False) as asked:
        for name in names:
            asked.memory_usage(name, samples=_SAMPLED_ENTRIES)
            if key is not None and key.type != "string":
                asked.execute_command(_COUNTS[key.type], name)  # type: ignore[no-untyped-call]
            else:
                asked.exists(name)
        answers: list[Any] = asked.execute()
    scale = count / len(names)
    sizes = sum(size or 0 for size in answers[::2])  # None: it went in the meantime
    return Family(count, round(sum(answers[1::2]) * scale), round(sizes * scale))
