"""JSON that is kept takes the memory it is counted with."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from api.http.encoding import encode
from schemas.channels import SWAPS
from schemas.compact_json import compact_json

PYMALLOC_BYTES = 512  # larger blocks are the C library's, which says how large they are


def block_bytes(value: bytes) -> int:
    """Return the size of the memory block of an object that is larger than pymalloc takes."""
    assert sys.getsizeof(value) > PYMALLOC_BYTES
    usable = ctypes.CDLL(None).malloc_usable_size
    usable.argtypes, usable.restype = [ctypes.c_void_p], ctypes.c_size_t
    return int(usable(id(value)))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="asks glibc for the size of a block")
@pytest.mark.parametrize("size", [600, 5_000, 20_000, 200_000])
@pytest.mark.parametrize(
    "dump",
    [compact_json, lambda value: encode(value).body, lambda value: SWAPS.frame({"text": value})],
    ids=["compact_json", "answer", "frame"],
)
def test_the_block_is_as_large_as_the_json(dump: Callable[[Any], bytes], size: int) -> None:
    json = dump("x" * size)
    over = 8_192 if size > 100_000 else 64  # the largest blocks are whole pages
    assert block_bytes(json) < sys.getsizeof(json) + over


@pytest.mark.parametrize("value", [None, 1, "é", {"a": [1, 2.5, "x" * 9_000]}])
def test_it_is_what_orjson_writes(value: Any) -> None:
    assert compact_json(value) == orjson.dumps(value)
