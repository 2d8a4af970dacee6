"""Which values of Redis a flush changes: the members of the set `changed:{tag}:{group}`.

A member is one letter for the type, the key, a zero byte and the field. It names a value and does
not hold it: a value that changes a hundred times between two checkpoints is one member.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from schemas.redis_keys import METADATA

ALL_TRACKED: Final = b""
"""The member without which the set does not name everything that changed."""

_HASH, _SET, _ZSET, _STRING, _BIT = b"h", b"s", b"z", b"v", b"b"
_GONE, _TRIMMED = b"g", b"t"
# Arguments of a command after its key: (letter, first field, every how many).
_FIELDS: Final = {
    "HSET": (_HASH, 2),
    "HSETNX": (_HASH, 2),
    "HDEL": (_HASH, 1),
    "ZADD": (_ZSET, 2),
    "ZREM": (_ZSET, 1),
    "SADD": (_SET, 1),
    "SREM": (_SET, 1),
}
_ZADD_FLAGS: Final = frozenset({"NX", "XX", "GT", "LT", "CH"})
_NOT_BOOKS: Final = frozenset({"EXPIRE", "PERSIST"})  # of metadata
_METADATA: Final = METADATA.pattern.partition("{")[0]  # beside the books: ClickHouse has it


@dataclass(slots=True)
class Changed:
    """The members of a set, by what has to be read: fields by key."""

    hashes: defaultdict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    sets: defaultdict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    zsets: defaultdict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    strings: list[bytes] = field(default_factory=list)
    bits: defaultdict[bytes, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    gone: list[bytes] = field(default_factory=list)
    trimmed: dict[bytes, float] = field(default_factory=dict)
    """Key -> the score below which members were removed."""


def members(commands: Iterable[Sequence[Any]]) -> list[bytes]:
    """Return the members for the commands of a flush; raises ValueError for an unknown command."""
    found: list[bytes] = []
    for command in commands:
        name = command[0]
        if name in _FIELDS:
            letter, step = _FIELDS[name]
            head = letter + command[1].encode() + b"\0"
            first = 2
            if name == "ZADD":
                while command[first] in _ZADD_FLAGS:
                    first += 1
                first += 1  # the score is before the member
            found += [
                head + (each if isinstance(each, bytes) else each.encode())
                for each in command[first::step]
            ]
        elif name == "SETBIT":
            found.append(_BIT + command[1].encode() + b"\0%d" % command[2])
        elif name == "SET":
            if not command[1].startswith(_METADATA):
                found.append(_STRING + command[1].encode() + b"\0")
        elif name == "UNLINK":
            found += [
                _GONE + key.encode() + b"\0" for key in command[1:] if not key.startswith(_METADATA)
            ]
        elif name == "ZREMRANGEBYSCORE" and command[2] == "-inf" and command[3].startswith("("):
            found.append(_TRIMMED + command[1].encode() + b"\0" + command[3][1:].encode())
        elif name not in _NOT_BOOKS:
            raise ValueError(f"a checkpoint cannot follow {' '.join(map(str, command[:4]))}")
    return found


def parse(members: Iterable[bytes]) -> Changed:
    """Return what members name."""
    changed = Changed()
    by_field = {
        _HASH: changed.hashes,
        _SET: changed.sets,
        _ZSET: changed.zsets,
        _BIT: changed.bits,
    }
    for member in members:
        if member == ALL_TRACKED:
            continue
        letter, (key, _, rest) = member[:1], member[1:].partition(b"\0")
        if letter in by_field:
            by_field[letter][key].append(rest)
        elif letter == _STRING:
            changed.strings.append(key)
        elif letter == _GONE:
            changed.gone.append(key)
        else:
            changed.trimmed[key] = max(float(rest), changed.trimmed.get(key, float("-inf")))
    return changed
