"""How long an answer about positions may take: which bars the figures have broken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple


class Bar(NamedTuple):
    """What one route may take at most, at its rate."""

    p99_ms: float
    cpu_us: float | None = None  # of a request, in the server's process


PROTOCOL: Final = Bar(15.0)
AGGREGATE: Final = Bar(40.0)
ANALYSIS: Final = Bar(60.0, 10_000.0)
BARS: Final[Mapping[str, Bar]] = {
    "whirlpools": PROTOCOL,
    "marginfi": PROTOCOL,
    "all-lp": AGGREGATE,
    "all-lending": AGGREGATE,
    "all-rewards": AGGREGATE,
    "analyze": ANALYSIS,
}
"""By the name of what is asked (`measure.ASKED`)."""


def broken(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Name the bars that the figures of `measure.positions` have broken."""
    return [f"{name}: {bar}" for name, figures in found.items() for bar in _of(BARS[name], figures)]


def _of(bar: Bar, figures: Mapping[str, Any]) -> Iterator[str]:
    if figures["p99_ms"] > bar.p99_ms:
        yield f"p99 {figures['p99_ms']:g} ms (bar: {bar.p99_ms:g} ms)"
    if bar.cpu_us is not None and figures["cpu_us"] > bar.cpu_us:
        yield f"{figures['cpu_us'] / 1_000:g} ms of CPU a request (bar: {bar.cpu_us / 1_000:g} ms)"
