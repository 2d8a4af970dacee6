"""What the pay door counts. Labels are outcomes: never a wallet."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter, Gauge

CHALLENGES: Final = Counter("soltape_pay_challenges_total", "Requests that were answered 402.")
PAYMENTS: Final = Counter("soltape_pay_payments_total", "Payments that were settled.")
REVENUE: Final = Counter(
    "soltape_pay_revenue_raw_total", "What settled payments paid, in units of 10^-6 USDC."
)
FAILURES: Final = Counter(
    "soltape_pay_failures_total",
    "Payments that bought nothing, by cause: refused, bound, conflict, facilitator, settlement, "
    "unknown, answer, room, body.",
    ["cause"],
)
ANSWER_BYTES: Final = Gauge(
    "soltape_pay_answer_bytes",
    "Bytes of answers that are kept for payers in Redis, as this process saw it last.",
)
