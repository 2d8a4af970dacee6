"""Accounts of Jupiter Perpetuals and Adrena by their figures, for tests that state some of them.

Anchor's coder checks in `test_perp_coders.py` that they are where the programs have them.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from typing import Any

from schemas.protocols import adrena, jupiter_perps


def jupiter_position(of: Mapping[str, Any]) -> bytes:
    """Return a bet with the figures of `of`; those that it lacks are a usual one's."""
    data = bytearray(216)
    data[:8] = jupiter_perps.POSITION.tag
    for at, name in ((8, "owner"), (40, "pool"), (72, "custody"), (104, "lender")):
        data[at : at + 32] = of.get(name, bytes(32))
    data[152] = of.get("side", 1)
    struct.pack_into("<QQQ", data, 153, of.get("entry", 1), of.get("size", 1), of.get("kept", 0))
    data[185:201] = int(of.get("snapshot", 0)).to_bytes(16, "little")
    return bytes(data)


def jupiter_custody(of: Mapping[str, Any]) -> bytes:
    """Return a custody with the figures of `of`; those that it lacks are zero."""
    data = bytearray(2_000)
    data[:8] = jupiter_perps.CUSTODY.tag
    for at, name in ((8, "pool"), (40, "mint"), (384, "feed")):
        data[at : at + 32] = of.get(name, bytes(32))
    data[104] = of.get("decimals", 9)
    struct.pack_into("<Q", data, 151, of.get("scalar", 0))
    struct.pack_into("<Q", data, 175, of.get("most_leverage", 5_000_000))
    struct.pack_into("<QQ", data, 222, of.get("owned", 0), of.get("locked", 0))
    data[262:278] = int(of.get("rate", 0)).to_bytes(16, "little")
    struct.pack_into("<qQ", data, 278, of.get("updated_s", 0), of.get("hourly_dbps", 0))
    struct.pack_into("<Q", data, 304, of.get("decrease_bps", 0))
    struct.pack_into("<4Q", data, 352, *of.get("jump", (0, 0, 0, 0)))
    for second, change in of.get("changes", {}).items():
        struct.pack_into("<q", data, 416 + 8 * int(second), change)
    struct.pack_into("<qQf", data, 896, of.get("impact_updated_s", 0), of.get("factor", 0), 1.0)
    struct.pack_into("<Q", data, 916, of.get("threshold", 0))
    for at, name in ((1004, "debt"), (1020, "accrued")):
        data[at : at + 16] = int(of.get(name, 0)).to_bytes(16, "little")
    return bytes(data)


def jupiter_feed(price: int, exponent: int, updated_s: int) -> bytes:
    """Return a price of the oracle."""
    data = bytearray(266)
    data[:8] = jupiter_perps.FEED.tag
    struct.pack_into("<Qbq", data, 168, price, exponent, updated_s)
    return bytes(data)


NOW_S = 1_790_000_000


def jupiter_world(seed: int) -> dict[str, Any]:
    """Return figures of a bet and a custody that Jupiter's own examples were asked about."""
    chance = random.Random(seed)
    below = chance.randrange
    owned = below(1, 10 ** chance.choice((6, 12, 16)))
    some = below(owned + 1)
    debt = chance.choice((0, 0, below(10**20)))
    least = below(2_000)
    at_target = least + below(4_000)
    snapshot = below(10**12)
    return {
        "size": below(1, 10 ** chance.choice((6, 9, 12, 13))),
        "snapshot": snapshot,
        "owned": owned,
        "locked": chance.choice((0, owned, some, some, owned + below(1, 1_000))),
        "debt": debt,
        "accrued": chance.choice((0, below(debt + 1))),
        "rate": snapshot + below(10**9),
        "updated_s": NOW_S - chance.choice((0, 1, below(5_000), -3)),
        "hourly_dbps": chance.choice((0, 0, below(1, 50))),
        "jump": (
            least,
            at_target + below(20_000),
            at_target,
            chance.choice((800_000_000, below(1, 10**9))),
        ),
        "scalar": chance.choice((0, 3_750_000_000_000_000, below(10**10, 10**16))),
        "decrease_bps": below(50),
        "factor": chance.choice((0, 1, 1)),
        "threshold": chance.choice((1_500_000_000_000, below(10**12))),
        "impact_updated_s": NOW_S - chance.choice((0, 1, 30, 59, 60, 61, below(300))),
        "changes": {below(60): below(-(10**12), 10**12) for _ in range(below(8))},
    }


def _split(value: int) -> bytes:
    return struct.pack("<QQ", value >> 64, value & (1 << 64) - 1)


def adrena_position(of: Mapping[str, Any], length: int = adrena.POSITION_SIZE) -> bytes:
    """Return a bet of Adrena with the figures of `of`; those that it lacks are zero."""
    data = bytearray(length)
    data[:8] = adrena.POSITION.tag
    data[9] = of.get("side", 1)
    for at, name in ((16, "owner"), (48, "pool"), (80, "custody"), (112, "lender")):
        data[at : at + 32] = of.get(name, bytes(32))
    struct.pack_into("<q", data, 144, of.get("opened_s", 0))
    names = ("entry", "size", "borrowed", "kept", "booked")
    struct.pack_into("<5Q", data, 160, *(of.get(name, 0) for name in names))
    data[200:216] = _split(of.get("snapshot", 0))
    names = ("locked", "collateral", "exit_fee", "liquidation_fee")
    struct.pack_into("<4Q", data, 216, *(of.get(name, 0) for name in names))
    struct.pack_into("<Q", data, 264, of.get("paid", 0))
    return bytes(data)


def adrena_custody(of: Mapping[str, Any], length: int = adrena.CUSTODY_SIZE) -> bytes:
    """Return a custody of Adrena with the figures of `of`; those that it lacks are zero."""
    data = bytearray(length)
    data[:8] = adrena.CUSTODY.tag
    data[12] = of.get("decimals", 9)
    for at, name in ((16, "pool"), (48, "mint")):
        data[at : at + 32] = of.get(name, bytes(32))
    for at, name in ((112, "oracle"), (144, "trade_oracle")):
        data[at : at + 32] = adrena_name(of.get(name, ""))
    struct.pack_into("<I", data, 180, of.get("most_leverage", 0))
    struct.pack_into("<Qq", data, 792, of.get("hourly", 0), of.get("updated_s", 0))
    data[808:824] = _split(of.get("cumulative", 0))
    return bytes(data)


def adrena_name(text: str) -> bytes:
    """Return a text of at most 31 bytes, and its length."""
    return text.encode().ljust(31, b"\0") + bytes([len(text)])


def adrena_oracle(prices: Mapping[str, tuple[int, int, int, int]]) -> bytes:
    """Return the oracle; a price is a number, its confidence, its time, and its exponent."""
    data = bytearray(adrena.ORACLE_SIZE)
    data[:8] = adrena.ORACLE.tag
    for at, (name, (price, spread, time_s, exponent)) in zip(
        range(24, len(data), 64), prices.items(), strict=False
    ):
        struct.pack_into("<QQqi", data, at, price, spread, time_s, exponent)
        data[at + 32 : at + 64] = adrena_name(name)
    return bytes(data)


def adrena_stakes(liquid: int, locked: Mapping[int, Mapping[str, int]]) -> bytes:
    """Return a wallet's stakes in a token: what is liquid, and locks by their place."""
    data = bytearray(adrena.USER_STAKING.size or 0)
    data[:8] = adrena.USER_STAKING.tag
    struct.pack_into("<Q", data, 24, liquid)
    for place, of in locked.items():
        at = 64 + 120 * place
        struct.pack_into("<Q", data, at, of["amount"])
        struct.pack_into("<q", data, at + 24, of["ends_s"])
        data[at + 88] = of.get("early_exit", 0)
        struct.pack_into("<Q", data, at + 96, of.get("fee", 0))
    return bytes(data)
