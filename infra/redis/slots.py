"""Which hash slot of a Redis Cluster a command belongs to, by its key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

SLOTS: Final = REDIS_CLUSTER_HASH_SLOTS
_KEYLESS: Final = frozenset(
    {
        *("MULTI", "EXEC", "TIME", "PING", "INFO", "WAITAOF", "CONFIG", "SCRIPT", "CLUSTER"),
        *("ASKING", "SCAN", "DBSIZE"),
    }
)
_BEHIND_A_WORD: Final = frozenset({"XINFO", "MEMORY", "OBJECT"})
_BEHIND_A_COUNT: Final = frozenset({"EVAL", "EVALSHA"})


def slot_of(command: Sequence[Any]) -> int | None:
    """Return the slot of a command's first key, None for a command without one."""
    name = command[0]
    if name in _KEYLESS:
        return None
    if name in _BEHIND_A_COUNT:
        at = 3
    elif name == "XREAD":
        at = command.index("STREAMS") + 1
    else:
        at = 2 if name in _BEHIND_A_WORD else 1
    key = command[at]
    return key_slot(key if isinstance(key, bytes) else key.encode())
