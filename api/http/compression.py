"""Large bodies as gzip, where the caller takes it."""

from __future__ import annotations

import asyncio
import zlib
from functools import lru_cache
from typing import Final

LARGE_BYTES: Final = 4 * 1024
_IN_A_THREAD_BYTES: Final = 64 * 1024  # a millisecond of work: others would wait for it
_LEVEL: Final = 1  # JSON shrinks to a fifth; level 6 takes three times as long for a tenth more
_GZIP: Final = 16 + zlib.MAX_WBITS


@lru_cache(maxsize=64)
def accepts_gzip(accept_encoding: bytes) -> bool:
    """Return whether a header `accept-encoding` takes gzip."""
    weights = {}
    for part in accept_encoding.lower().split(b","):
        coding, _, parameters = part.partition(b";")
        weights[coding.strip()] = _weight(parameters)
    return weights.get(b"gzip", weights.get(b"*", 0.0)) > 0


def _weight(parameters: bytes) -> float:
    name, _, value = parameters.partition(b"=")
    if name.strip() != b"q":
        return 1.0
    try:
        return float(value)
    except ValueError:
        return 0.0


async def compress(body: bytes) -> bytes:
    """Return a body as gzip."""
    if len(body) < _IN_A_THREAD_BYTES:
        return zlib.compress(body, _LEVEL, _GZIP)
    return await asyncio.to_thread(zlib.compress, body, _LEVEL, _GZIP)


async def decompress(body: bytes) -> bytes:
    """Return what was compressed here; nobody else's bytes."""
    if len(body) < _IN_A_THREAD_BYTES:
        return zlib.decompress(body, _GZIP)
    return await asyncio.to_thread(zlib.decompress, body, _GZIP)
