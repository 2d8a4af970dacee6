"""What every benchmark shares: runs, progress on stderr, and the one JSON line at the end."""

from __future__ import annotations

import os
import platform
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson


def progress(text: str) -> None:
    """Write a line of progress to stderr."""
    print(text, file=sys.stderr, flush=True)


def median(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def machine() -> dict[str, Any]:
    """Describe the machine the figures were taken on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].split(":", 1)[1].strip() if names else model
    return {"cpu": model, "cores": os.cpu_count(), "python": platform.python_version()}


def report(bench: str, value: float, unit: str, **figures: Any) -> None:
    """Print the result: one JSON line on stdout.

    `figures` may hold baseline, ratio, p50_ms, p99_ms, counts, runs and what else the bench has.
    """
    line = {"bench": bench, "value": value, "unit": unit, **figures, "machine": machine()}
    sys.stdout.write(orjson.dumps(line).decode() + "\n")
