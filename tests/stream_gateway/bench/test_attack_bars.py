"""Which figures of an attack break a bar."""

from __future__ import annotations

from typing import Any

import pytest

from stream_gateway.bench.attacks.bars import broken
from stream_gateway.bench.attacks.kinds import ATTACKS

KINDS = {kind.name: kind for kind in ATTACKS}


def figures(**changed: Any) -> dict[str, Any]:
    """What a forged key finds where all is as it should be."""
    others = {"answered": 60, "failed": 0, "failures": [], "p99_ms": 99.9}
    return {
        "statuses": {"401": 70, "429": 3_000, "503": 1},
        "slowest_refusal_s": 2.0,
        "waiting": 0,
        "closed": 0,
        "others": {"api": others, "gateway": others},
        **changed,
    }


def others(**changed: Any) -> dict[str, Any]:
    one = figures()["others"]["api"]
    return {"api": one, "gateway": {**one, **changed}}


def test_what_keeps_all_bars_breaks_none() -> None:
    assert broken(KINDS["forged-keys"], figures(), is_timed=True) == []
    withheld = figures(statuses={"429": 136, "408": 64}, waiting=64)
    assert broken(KINDS["withheld-bodies"], withheld, is_timed=True) == []
    dear = figures(statuses={"200": 900, "429": 3_000}, waiting=64)
    assert broken(KINDS["dear-batches"], dear, is_timed=True) == []
    silent = figures(statuses={}, closed=9_000)
    assert broken(KINDS["silent-gateway"], silent, is_timed=True) == []


@pytest.mark.parametrize(
    ("name", "changed", "bar"),
    [
        ("forged-keys", {"statuses": {"200": 1, "401": 9}}, "answered 200"),
        ("forged-keys", {"statuses": {}}, "nothing was refused"),
        ("forged-keys", {"waiting": 1}, "1 requests had no answer after 2 s (at most 0)"),
        ("dear-batches", {"statuses": {"200": 900}}, "nothing was refused"),
        (
            "withheld-bodies",
            {"statuses": {"429": 9}, "waiting": 65},
            "65 requests had no answer after 2 s (at most 64)",
        ),
        ("silent-api", {"statuses": {}}, "no connection was ended"),
        (
            "invented-paths",
            {
                "statuses": {"401": 9},
                "others": others(failed=2, failures=["503 /api/x", "TimeoutError"]),
            },
            "2 questions of others to gateway failed: 503 /api/x, TimeoutError",
        ),
        (
            "invented-paths",
            {"statuses": {"401": 9}, "others": others(answered=0, p99_ms=None)},
            "0 questions of others to gateway failed: ",
        ),
    ],
)
def test_a_bar_is_named_with_its_attack(name: str, changed: dict[str, Any], bar: str) -> None:
    for is_timed in (False, True):
        assert broken(KINDS[name], figures(**changed), is_timed=is_timed) == [f"{name}: {bar}"]


@pytest.mark.parametrize(
    ("changed", "bar"),
    [
        ({"slowest_refusal_s": 2.001}, "refused after 2.001 s (bar: 2 s)"),
        ({"others": others(p99_ms=100.1)}, "p99 of others at gateway 100.1 ms (bar: 100 ms)"),
    ],
)
def test_bars_of_time_count_where_it_is_timed(changed: dict[str, Any], bar: str) -> None:
    kind = KINDS["forged-keys"]
    assert broken(kind, figures(**changed), is_timed=True) == [f"forged-keys: {bar}"]
    assert broken(kind, figures(**changed), is_timed=False) == []
