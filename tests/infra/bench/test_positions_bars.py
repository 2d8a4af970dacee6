"""Which bars of positions `soltape bench api` fails by."""

from __future__ import annotations

import pytest

from infra.bench.api.positions.bars import BARS, broken
from infra.bench.api.positions.measure import ASKED


def figures(p99_ms: float = 1.0, cpu_us: int = 100) -> dict[str, float]:
    return {"p50_ms": 1.0, "p99_ms": p99_ms, "bare_p99_ms": 900.0, "cpu_us": cpu_us}


def test_each_route_that_is_measured_has_a_bar() -> None:
    assert [*BARS] == [each.name for each in ASKED]


def test_what_keeps_all_bars_breaks_none() -> None:
    assert broken({name: figures(bar.p99_ms, 10_000) for name, bar in BARS.items()}) == []
    assert broken({}) == []


@pytest.mark.parametrize(
    ("name", "changed", "bar"),
    [
        ("whirlpools", {"p99_ms": 15.01}, "p99 15.01 ms (bar: 15 ms)"),
        ("marginfi", {"p99_ms": 26.0}, "p99 26 ms (bar: 15 ms)"),
        ("all-lp", {"p99_ms": 40.1}, "p99 40.1 ms (bar: 40 ms)"),
        ("all-lending", {"p99_ms": 41.0}, "p99 41 ms (bar: 40 ms)"),
        ("all-rewards", {"p99_ms": 55.5}, "p99 55.5 ms (bar: 40 ms)"),
        ("analyze", {"p99_ms": 60.2}, "p99 60.2 ms (bar: 60 ms)"),
        ("analyze", {"cpu_us": 10_001}, "10.001 ms of CPU a request (bar: 10 ms)"),
    ],
)
def test_a_broken_bar_is_named_with_its_route_and_figure(
    name: str, changed: dict[str, float], bar: str
) -> None:
    whole = {each: figures() for each in BARS}
    assert broken({**whole, name: {**figures(), **changed}}) == [f"{name}: {bar}"]


def test_all_that_are_broken_are_named() -> None:
    found = broken({"marginfi": figures(16.0), "analyze": figures(61.0, 11_300)})
    assert found == [
        "marginfi: p99 16 ms (bar: 15 ms)",
        "analyze: p99 61 ms (bar: 60 ms)",
        "analyze: 11.3 ms of CPU a request (bar: 10 ms)",
    ]
