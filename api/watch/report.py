"""What the process that watches says of itself, and what `/api/health` makes of it.

The report is written under the lease: one that lost it writes none. Who ends in order takes the
report along; a report without a lease is of a process that ended otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from api.access.script import Asks, load
from api.system.health_answers import Watching
from api.watch.lease import Lease
from schemas.redis_keys import WATCH_LEASE, WATCH_REPORT

EVERY_S: Final = 2.0
COMMANDS: Final = (("GET", WATCH_LEASE.make()), ("HGETALL", WATCH_REPORT.make()))
"""What to ask Redis for `watching`."""

_REPORT: Final = load("report", __package__)


class Report(NamedTuple):
    """How the watching goes."""

    since_ms: int  # when this process began
    wallets: int
    left_out: int  # tracked, and beyond WATCH_WALLETS_MAX
    overdue_ms: int  # of the wallet that is read next
    snapshots_waiting: int
    keeps_books: int  # 1 or 0


async def write(redis: Asks, lease: Lease, report: Report) -> bool:
    """Write a report; return False where the lease is another's. Raises RedisError."""
    fields: list[str | int] = ["owner", lease.token, "at_ms", time.time_ns() // 1_000_000]
    for name, value in report._asdict().items():
        fields += (name, value)
    keys = [lease.key, WATCH_REPORT.make()]
    return bool(await _REPORT.run(redis, keys, [lease.token, *fields]))


def watching(owner: bytes | None, stored: Mapping[bytes, bytes], now_ms: int) -> Watching:
    """Return what health says, from the answers to COMMANDS."""
    age_ms = max(0, now_ms - int(stored[b"at_ms"])) if stored else None
    found: Watching = {
        "is_active": owner is not None,
        "since_ms": None,
        "report_age_ms": age_ms,
        "wallets": None,
        "left_out": None,
        "overdue_ms": None,
        "snapshots_waiting": None,
        "keeps_books": None,
    }
    if owner is None or stored.get(b"owner") != owner:
        return found
    report = Report(*(int(stored[name.encode()]) for name in Report._fields))
    return {
        "is_active": True,
        "since_ms": report.since_ms,
        "report_age_ms": age_ms,
        "wallets": report.wallets,
        "left_out": report.left_out,
        "overdue_ms": report.overdue_ms,
        "snapshots_waiting": report.snapshots_waiting,
        "keeps_books": bool(report.keeps_books),
    }
