"""What `soltape ingest accounts` reports to Prometheus, beside `pipeline.ingest.metrics`."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

UPDATES: Final = Counter("soltape_accounts_updates_total", "Account updates taken from streams.")
CLOSINGS: Final = Counter(
    "soltape_accounts_closings_by_balance_total", "Closings read from balances of transactions."
)
VERSIONS: Final = Counter("soltape_accounts_versions_total", "Versions written to the lane.")
LATE: Final = Counter(
    "soltape_accounts_late_total", "Updates whose slot was settled without them; asked again."
)
DUPLICATES: Final = Gauge("soltape_accounts_duplicates", "Updates that repeated another one.")
TRACKED: Final = Gauge("soltape_accounts_tracked", "Addresses that are kept as asked for.", ["of"])
ASKED: Final = Counter("soltape_accounts_asked_total", "Subjects asked of RPC.", ["of"])
REFUSED: Final = Counter("soltape_accounts_refused_total", "Requests that RPC refused for good.")
TOO_LARGE: Final = Counter(
    "soltape_accounts_too_large_total", "Wallets let go, as they have too many accounts."
)
WAITING: Final = Gauge("soltape_accounts_answers", "Answers that wait for their slot.")
HOLES: Final = Counter(
    "soltape_accounts_hole_slots_total", "Slots lacking, by what became.", ["as"]
)
WITHDRAWN: Final = Counter(
    "soltape_accounts_withdrawn_total", "Times the coverage of all programs was withdrawn."
)
BOOT_PARTS: Final = Gauge(
    "soltape_accounts_bootstrap_parts",
    "Answers of bootstrap, of a kind or of a part of it: left, or done and in the lane.",
    ["state"],
)
AUDITED: Final = Counter("soltape_accounts_audited_total", "Stored accounts compared with RPC.")
DIFFERENCES: Final = Counter(
    "soltape_accounts_differences_total", "Stored accounts that differed from RPC; mended."
)
