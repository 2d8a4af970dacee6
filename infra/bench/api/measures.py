"""What is measured: full speed beside the bare route, latency at a rate, batches, growth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from infra.bench import median, progress
from infra.bench.api import load
from infra.bench.api.endpoints import (
    CLICKHOUSE,
    HOT,
    MINTS_A_BATCH,
    WALLETS_A_BATCH,
    Endpoint,
    Pairs,
    token_batch,
    top_batch,
    wallet_batch,
)
from infra.bench.api.load import Request
from infra.bench.api.serving import Served, fetch, serve_bare

CLICKHOUSE_RATE: Final = 10.0  # requests a second
_GROWTH_RATE: Final = 200.0  # of what Redis answers: so that every wallet is asked for


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often."""

    seconds: float  # of one load
    runs: int


def hot(served: Served, pairs: Pairs, folder: Path, effort: Effort) -> dict[str, Any]:
    """Return the figures of each endpoint that Redis answers, and of the bare route beside it."""
    return {each.name: _hot(each, served, pairs, folder, effort) for each in HOT}


def _hot(
    endpoint: Endpoint, served: Served, pairs: Pairs, folder: Path, effort: Effort
) -> dict[str, Any]:
    requests = endpoint.requests(pairs)
    answers = fetch(served, requests)
    with serve_bare(answers, folder) as bare:
        runs = [  # in turn, so that a busy moment of the machine hits both
            (
                _full_speed(bare, requests, folder, effort.seconds),
                _full_speed(served, requests, folder, effort.seconds),
            )
            for _ in range(effort.runs)
        ]
    rate = median([ours.rate for _, ours in runs])
    bare_cpu_us = median([bare.cpu_us for bare, _ in runs])
    cpu_us = median([ours.cpu_us for _, ours in runs])
    halves = [
        load.run(served.url, requests, served.key, folder, seconds=effort.seconds, rate=rate / 2)
        for _ in range(effort.runs)
    ]
    figures = {
        "rate": round(rate),
        "bare_rate": round(median([bare.rate for bare, _ in runs])),
        "ratio": round(median([ours.rate / bare.rate for bare, ours in runs]), 2),
        "cpu_us": round(cpu_us),
        "bare_cpu_us": round(bare_cpu_us),
        "cpu_ratio": round(bare_cpu_us / cpu_us, 2),
        "at_half": {
            "rate": round(median([half.rate for half in halves])),
            "p50_ms": round(median([half.p50_ms for half in halves]), 2),
            "p99_ms": round(median([half.p99_ms for half in halves]), 2),
            "failed": sum(half.failed for half in halves),
        },
        "bytes": round(sum(map(len, answers.values())) / len(answers)),
    }
    progress(f"{endpoint.name}: {figures}")
    return figures


@dataclass(frozen=True, slots=True)
class _Speed:
    rate: float
    cpu_us: float  # of the server's process, for a request


def _full_speed(
    served: Served, requests: Sequence[Request], folder: Path, seconds: float
) -> _Speed:
    before_s = served.role.cpu_seconds()
    outcome = load.run(served.url, requests, served.key, folder, seconds=seconds)
    used_s = served.role.cpu_seconds() - before_s
    return _Speed(outcome.rate, used_s / outcome.requests * 1e6)


def clickhouse(served: Served, pairs: Pairs, folder: Path, effort: Effort) -> dict[str, Any]:
    """Return the latencies of each endpoint that ClickHouse answers, at a modest rate."""
    figures = {}
    for each in CLICKHOUSE:
        requests = each.requests(pairs)
        fetch(served, requests[:20])  # not the first question of all
        outcome = load.run(
            served.url,
            requests,
            served.key,
            folder,
            seconds=3 * effort.seconds,
            rate=CLICKHOUSE_RATE,
            connections=8,
        )
        figures[each.name] = {
            "p50_ms": round(outcome.p50_ms, 1),
            "p99_ms": round(outcome.p99_ms, 1),
            "requests": outcome.requests,
            "failed": outcome.failed,
        }
        progress(f"{each.name}: {figures[each.name]}")
    return figures


_BATCHES: Final[dict[str, tuple[Callable[[Pairs, int], list[Request]], int]]] = {
    "tokens": (token_batch, MINTS_A_BATCH),
    "top_traders": (top_batch, MINTS_A_BATCH),
    "wallets": (wallet_batch, WALLETS_A_BATCH),
}


def batches(served: Served, pairs: Pairs, folder: Path, effort: Effort) -> dict[str, Any]:
    """Return how much longer a whole batch takes than a batch of one, asked one at a time."""
    figures = {}
    for name, (made, count) in _BATCHES.items():

        def p50_ms(requests: Sequence[Request]) -> float:
            return load.run(
                served.url,
                requests,
                served.key,
                folder,
                seconds=effort.seconds,
                connections=1,
            ).p50_ms

        several = made(pairs, count)
        one = made(pairs, 1)
        pairs_of_runs = [(p50_ms(one), p50_ms(several)) for _ in range(effort.runs)]
        one_ms = median([first for first, _ in pairs_of_runs])
        several_ms = median([second for _, second in pairs_of_runs])
        figures[name] = {
            "items": count,
            "one_p50_ms": round(one_ms, 2),
            "p50_ms": round(several_ms, 2),
            "ratio": round(median([second / first for first, second in pairs_of_runs]), 1),
        }
        progress(f"batch of {name}: {figures[name]}")
    return figures


def growth(
    small: tuple[Served, Pairs], large: tuple[Served, Pairs], folder: Path, effort: Effort
) -> dict[str, Any]:
    """Return how much longer each endpoint takes over the larger data set; both are served."""
    figures = {}
    for each in (*HOT, *CLICKHOUSE):
        rate = _GROWTH_RATE if each in HOT else CLICKHOUSE_RATE

        def p50_ms(served: Served, pairs: Pairs, endpoint: Endpoint, rate: float) -> float:
            return load.run(
                served.url,
                endpoint.requests(pairs),
                served.key,
                folder,
                seconds=effort.seconds,
                rate=rate,
                connections=8,
            ).p50_ms

        for served, pairs in (small, large):
            fetch(served, each.requests(pairs)[:20])
        runs = [
            (p50_ms(*small, each, rate), p50_ms(*large, each, rate)) for _ in range(effort.runs)
        ]
        figures[each.name] = {
            "p50_ms": round(median([before for before, _ in runs]), 2),
            "p50_ms_grown": round(median([after for _, after in runs]), 2),
            "ratio": round(median([after / before for before, after in runs]), 2),
        }
        progress(f"growth of {each.name}: {figures[each.name]}")
    return figures
