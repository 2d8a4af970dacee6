"""What a raise asks of Redis before it begins."""

from __future__ import annotations

import pytest

# private `_require_room`: the refusal alone; a full Redis would need its memory.
from pipeline.partitions.raising import CannotRaise, _require_room

MIB = 1 << 20


class Redis:
    def __init__(self, used_bytes, most_bytes):
        self._memory = {"used_memory": used_bytes, "maxmemory": most_bytes}

    async def info(self, section):
        assert section == "memory"
        return self._memory


@pytest.mark.parametrize("most_bytes", [0, 164 * MIB], ids=["no limit", "just enough"])
async def test_eight_mib_for_each_new_partition(most_bytes):
    assert await _require_room(Redis(100 * MIB, most_bytes), 8) is None


async def test_without_room_nothing_is_begun():
    with pytest.raises(CannotRaise, match="uses 100 of 163 MiB, and 8 more partitions take 64 MiB"):
        await _require_room(Redis(100 * MIB, 163 * MIB), 8)
