"""What `soltape watch` counts."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

ACTIVE: Final = Gauge("soltape_watch_active", "1 while this process has the lease, 0 on standby.")
WALLETS: Final = Gauge("soltape_watch_wallets", "Tracked wallets that are watched.")
LEFT_OUT: Final = Gauge(
    "soltape_watch_left_out", "Tracked wallets beyond WATCH_WALLETS_MAX: nobody watches them."
)
OVERDUE_S: Final = Gauge(
    "soltape_watch_overdue_seconds",
    "How late the wallet is that is read next: WATCH_WALLETS_PER_S is too low where it grows.",
)
READINGS: Final = Counter(
    "soltape_watch_readings_total",
    "Readings of wallets: whole, partial, failed; early: none is settled.",
    ["outcome"],
)
ALERTS: Final = Counter("soltape_watch_alerts_total", "Alerts that were written.", ["kind"])
REFUSED: Final = Counter(
    "soltape_watch_refused_total",
    "Changes that were not written, as another process had written, or has the lease.",
)
SNAPSHOTS: Final = Counter(
    "soltape_watch_snapshots_total", "Rows of net worth that ClickHouse has.", ["completeness"]
)
SNAPSHOTS_WAITING: Final = Gauge(
    "soltape_watch_snapshots_waiting", "Rows of net worth that wait for ClickHouse."
)
SNAPSHOTS_DROPPED: Final = Counter(
    "soltape_watch_snapshots_dropped_total", "Rows that were dropped as too many waited."
)
TAKEOVERS: Final = Counter("soltape_watch_takeovers_total", "Times that this process began.")
