"""What the API counts. Labels are route templates, statuses, codes: never an address or a key."""

from __future__ import annotations

from functools import cache
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_BUCKETS_MS: Final = (1, 2, 5, 10, 15, 25, 50, 100, 150, 250, 500, 1000, 2500, 5000, 10_000)

_REQUESTS: Final = Counter(
    "soltape_api_requests_total", "Requests that were answered.", ["route", "status"]
)
_LATENCY: Final = Histogram(
    "soltape_api_request_ms",
    "From the end of a request's head to the end of its answer.",
    ["route", "status"],
    buckets=_BUCKETS_MS,
)
PROBLEMS: Final = Counter("soltape_api_problems_total", "Error answers.", ["code"])
RUNNING: Final = Gauge("soltape_api_running_requests", "Requests being answered now.")
CONNECTIONS: Final = Gauge("soltape_api_connections", "Connections that are open now.")
REFUSED: Final = Counter(
    "soltape_api_refused_total",
    "Connections that were ended before a request was read from them.",
    ["reason"],
)

_Answered = tuple[Counter, Histogram]


def answered(route: str, status: int, duration_ms: float) -> None:
    """Count a request. `route` is a template, or "" where no route took the request."""
    requests, latency = _of(route, status)
    requests.inc()
    latency.observe(duration_ms)


@cache  # looking labels up costs as much as all the rest; routes and statuses are few
def _of(route: str, status: int) -> _Answered:
    labels = (route, str(status))
    return _REQUESTS.labels(*labels), _LATENCY.labels(*labels)
