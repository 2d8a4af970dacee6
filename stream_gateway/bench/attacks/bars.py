"""What an attack may bring about at most: which bars it breaks, by its figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from stream_gateway.bench.attacks.kinds import DOORS, OVERLOADED, Attack

REFUSED_WITHIN_S: Final = 2.0
MAX_P99_MS: Final = 100.0  # of other users


def broken(kind: Attack, found: Mapping[str, Any], *, is_timed: bool) -> list[str]:
    """Name the bars that an attack has broken; those of time only where it `is_timed`."""
    bars = [*_let_in(kind, found), *_left_out(found)]
    if is_timed:
        bars += _slow(found)
    return [f"{kind.name}: {bar}" for bar in bars]


def _let_in(kind: Attack, found: Mapping[str, Any]) -> Iterator[str]:
    """Refused: what bounds do not let in is answered so, or its connection is ended."""
    if kind.refused:
        if not any(found["statuses"].get(str(status)) for status in kind.refused):
            yield "nothing was refused"
    elif not found["closed"]:
        yield "no connection was ended"
    allowed = {*kind.refused, *kind.answered, OVERLOADED}
    if others := sorted(set(map(int, found["statuses"])) - allowed):
        yield f"answered {', '.join(map(str, others))}"
    if kind.refused and found["waiting"] > kind.at_once:
        yield (
            f"{found['waiting']} requests had no answer after {REFUSED_WITHIN_S:g} s"
            f" (at most {kind.at_once})"
        )


def _left_out(found: Mapping[str, Any]) -> Iterator[str]:
    """All others are answered."""
    for door in DOORS:
        others = found["others"][door]
        if others["failed"] or not others["answered"]:
            failures = ", ".join(others["failures"])
            yield f"{others['failed']} questions of others to {door} failed: {failures}"


def _slow(found: Mapping[str, Any]) -> Iterator[str]:
    if found["slowest_refusal_s"] > REFUSED_WITHIN_S:
        yield f"refused after {found['slowest_refusal_s']:g} s (bar: {REFUSED_WITHIN_S:g} s)"
    for door in DOORS:
        p99_ms = found["others"][door]["p99_ms"]
        if p99_ms is not None and p99_ms > MAX_P99_MS:
            yield f"p99 of others at {door} {p99_ms:g} ms (bar: {MAX_P99_MS:g} ms)"
