"""What is known of watched wallets, in Redis: read as one, written with the alerts of it.

A write names the version it was computed from. It is refused where another process has written
since, or has the lease: then the next reading of the wallet finds what is so. A write whose answer
was lost is found done, or not, by the next reading. So no alert is lost and none comes twice, for
as long as Redis keeps what it has acknowledged; after that the alert comes again under the same id.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import structlog

from api.access.script import Asks, load
from api.watch.crossings import Change, Seen
from api.watch.lease import Lease
from schemas import channels
from schemas.redis_keys import LIVE_POSITIONS, WATCHED

log = structlog.get_logger(__name__)

MOST_ENTRIES: Final = 10_000  # of the stream
EPOCH: Final = "1"
"""Nothing is ever dropped by the writer: what Redis lost is found and written again."""
_TTL_MS: Final = (WATCHED.ttl_s or 0) * 1000
_VERSION: Final = b"version"
_HOUR: Final = b"hour"
_WHOLE: Final = b"whole"
_WRITE: Final = load("write", __package__)


@dataclass(slots=True)
class Known:
    """What is known of a wallet."""

    version: int = 0
    positions: dict[str, Seen] = field(default_factory=dict)
    hour_ms: int | None = None  # of the last snapshot that ClickHouse has
    is_whole: bool = False  # that snapshot is complete


class Book:
    """What is known of all wallets. Every method raises RedisError."""

    def __init__(self, redis: Asks, lease: Lease) -> None:
        self._redis = redis
        self._lease = lease

    async def read(self, wallet: str) -> Known:
        """Return what is known of a wallet, and keep it for another time to live."""
        name = WATCHED.make(wallet=wallet)
        found, _ = await self._redis.ask([("HGETALL", name), ("PEXPIRE", name, _TTL_MS)])
        stored = dict(found)
        known = Known(
            version=int(stored.pop(_VERSION, 0)),
            hour_ms=int(hour) if (hour := stored.pop(_HOUR, None)) else None,
            is_whole=stored.pop(_WHOLE, b"") == b"1",
        )
        for raw, value in stored.items():
            try:
                known.positions[raw.decode()] = Seen.unpack(value)
            except ValueError as error:  # it is written anew
                log.warning("unreadable", wallet=wallet, reason=str(error))
        return known

    async def write(self, wallet: str, known: Known, change: Change) -> bool:
        """Write a change and its alerts; return False where nothing was written."""
        if not (change.put or change.gone):
            return True
        arguments: list[str | bytes | int] = [self._lease.token, known.version]
        arguments += (_TTL_MS, MOST_ENTRIES, len(change.put))
        for name, seen in change.put.items():
            arguments += (name, seen.pack())
        arguments += (len(change.gone), *change.gone)
        if change.alerts:
            events = [channels.position_event(each.data, each.fell) for each in change.alerts]
            packed = channels.pack(EPOCH, events)
            arguments += (packed["epoch"], packed["index"], packed["frames"])
        keys = [self._lease.key, WATCHED.make(wallet=wallet), LIVE_POSITIONS.make()]
        return bool(await _WRITE.run(self._redis, keys, arguments))

    async def note_snapshots(self, written: dict[str, tuple[int, bool]]) -> None:
        """Note which hour's snapshots ClickHouse has: wallet -> beginning in ms, completeness."""
        commands: list[tuple[str | int, ...]] = []
        for wallet, (hour_ms, is_whole) in written.items():
            name = WATCHED.make(wallet=wallet)
            commands += (
                ("HSET", name, "hour", hour_ms, "whole", int(is_whole)),
                ("PEXPIRE", name, _TTL_MS),
            )
        await self._redis.ask(commands)
