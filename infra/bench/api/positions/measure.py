"""How long answers about positions take at a steady rate, beside a bare route with their bytes.

A wallet comes again only when its last answer is too old to be sent again. `computed` is the share
of requests for which a reading of the wallet's accounts ran, by the API's own count.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from infra.bench import median, progress
from infra.bench.api import load
from infra.bench.api.load import LoadFailed, Outcome, Request
from infra.bench.api.measures import Effort
from infra.bench.api.positions.data import POSITIONS, Wallets
from infra.bench.api.serving import Served, fetch, serve_bare
from infra.bench.roles import scrape, value

RATE: Final = 200.0  # requests a second
ANALYSES: Final = 50.0  # likewise: each has what several of the other routes answer
_READINGS: Final = "soltape_api_readings_total"
_FEWEST_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A route of positions, and whose it is asked for."""

    name: str
    path: str
    group: str  # of `Wallets`
    protocol: str  # that all of these wallets have positions in
    positions: int = POSITIONS
    protocols: int = 1  # that the answer has positions of
    rate: float = RATE


ASKED: Final = (
    Asked("whirlpools", "p19/liquidity", "providers", "whirlpools"),
    Asked("marginfi", "p02/lending", "lenders", "marginfi"),
    Asked("all-lp", "all-lp", "both", "whirlpools"),
    Asked("all-lending", "all-lending", "both", "marginfi"),
    Asked("all-rewards", "all-rewards", "both", "marginfi"),
    Asked("analyze", "analyze", "many", "kamino", 60, 12, ANALYSES),
)


def positions(served: Served, of: Wallets, folder: Path, effort: Effort) -> dict[str, Any]:
    """Return the figures of each route; raises LoadFailed where an answer lacks positions."""
    return {each.name: _measured(each, served, of, folder, effort) for each in ASKED}


def requests_of(asked: Asked, of: Wallets) -> list[Request]:
    """Return a request for each wallet."""
    return [Request(f"/api/wallets/{wallet}/{asked.path}") for wallet in getattr(of, asked.group)]


def _measured(
    asked: Asked, served: Served, of: Wallets, folder: Path, effort: Effort
) -> dict[str, Any]:
    requests = requests_of(asked, of)
    answers = fetch(served, requests)
    check(asked, answers)
    seconds = max(_FEWEST_S, 3 * effort.seconds)
    with serve_bare(answers, folder) as bare:
        runs = [  # in turn, so that a busy moment of the machine hits both
            (
                _at_rate(bare, asked, requests, folder, seconds),
                _at_rate(served, asked, requests, folder, seconds),
            )
            for _ in range(effort.runs)
        ]
    figures = {
        "rate": round(median([ours.outcome.rate for _, ours in runs])),
        "p50_ms": round(median([ours.outcome.p50_ms for _, ours in runs]), 2),
        "p99_ms": round(median([ours.outcome.p99_ms for _, ours in runs]), 2),
        "bare_p50_ms": round(median([bare.outcome.p50_ms for bare, _ in runs]), 2),
        "bare_p99_ms": round(median([bare.outcome.p99_ms for bare, _ in runs]), 2),
        "p99_ratio": round(
            median([ours.outcome.p99_ms / bare.outcome.p99_ms for bare, ours in runs]), 1
        ),
        "cpu_us": round(median([ours.cpu_us for _, ours in runs])),
        "bare_cpu_us": round(median([bare.cpu_us for bare, _ in runs])),
        "computed": round(median([ours.computed for _, ours in runs]), 2),
        "failed": sum(ours.outcome.failed for _, ours in runs),
        "bytes": round(sum(map(len, answers.values())) / len(answers)),
        "load_1m": round(os.getloadavg()[0], 1),
    }
    progress(f"positions of {asked.name}: {figures}")
    return figures


def check(asked: Asked, answers: dict[str, str]) -> None:
    """Raise LoadFailed unless every answer has all positions of its wallet, and no error."""
    for path, answer in answers.items():
        found = orjson.loads(answer)
        positions = found["positions"]
        protocols = {each["protocol"] for each in positions}
        counts = len(positions), len(protocols)
        if counts != (asked.positions, asked.protocols) or found["errors"]:
            raise LoadFailed(
                f"{path} has {counts[0]} positions in {counts[1]} protocols: {found['errors'][:3]}"
            )


@dataclass(frozen=True, slots=True)
class _Run:
    outcome: Outcome
    cpu_us: float  # of the server's process, for a request
    computed: float


def _at_rate(
    served: Served, asked: Asked, requests: list[Request], folder: Path, seconds: float
) -> _Run:
    read, used_s = _readings(served, asked), served.role.cpu_seconds()
    outcome = load.run(served.url, requests, served.key, folder, seconds=seconds, rate=asked.rate)
    used_s = served.role.cpu_seconds() - used_s
    read = _readings(served, asked) - read
    return _Run(outcome, used_s / outcome.requests * 1e6, read / outcome.requests)


def _readings(served: Served, asked: Asked) -> float:
    """Return how many readings of the protocol there were; 0 for the bare route, which has none."""
    if not served.metrics:
        return 0.0
    return value(scrape(served.metrics), _READINGS, protocol=asked.protocol, outcome="whole")
