"""`soltape bench memory`: how the memory of each part of `soltape up` changes while it runs.

The slope of a process is a least-squares line through its resident size after the settling time.
Redis grows with the positions and tokens that it keeps; a survey of its keys by family, at the
start and at the end of the same time, says how much of its growth they are.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression
from typing import Any, Final

import click
import psutil
import redis

from infra.bench import progress, report
from infra.bench.roles import BenchFailed, part_of, stack
from infra.local import running
from infra.redis.families import Family, survey
from schemas.redis_keys import HOLDERS, MARKET, POSITIONS

MAX_SLOPE_MIB: Final = 1.0  # a minute, of each part but Redis
LOOK_EVERY_S: Final = 10.0
_REDIS: Final = "valkey-server"
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Moment:
    """What the stores hold at one moment."""

    at_s: float
    used_bytes: int
    families: dict[str, Family]
    folder_bytes: dict[str, int]

    @classmethod
    def of(cls, store: redis.Redis, folder: Path) -> Moment:
        """Look at Redis and at the stack's folder."""
        used = int(store.info("memory")["used_memory"])
        return cls(time.monotonic(), used, survey(store), _folder_bytes(folder))


@dataclass(slots=True)
class _Series:
    pid: int
    points: list[tuple[float, int]]  # seconds, resident bytes


def _resident(up: psutil.Process) -> Iterator[tuple[str, int, int]]:
    """Yield name, pid and resident bytes of each part."""
    for process in (up, *up.children()):
        with suppress(psutil.Error):
            yield part_of(process.cmdline()), process.pid, process.memory_info().rss


def _folder_bytes(folder: Path) -> dict[str, int]:
    sizes: dict[str, int] = defaultdict(int)
    for place, _, files in os.walk(folder):  # unlike rglob, it bears folders that go meanwhile
        part = Path(place).relative_to(folder).parts[:1]
        for name in files:
            with suppress(OSError):  # it was removed in the meantime
                sizes[(*part, name)[0]] += os.lstat(os.path.join(place, name)).st_size
    return dict(sizes)


def slope_mib_per_minute(points: Iterable[tuple[float, int]]) -> float:
    """Return the least-squares slope of (seconds, bytes)."""
    seconds, sizes = zip(*points, strict=True)
    return linear_regression(seconds, sizes).slope * 60 / _MIB


def _families_growth(before: Moment, after: Moment) -> dict[str, dict[str, Any]]:
    """Return what each family of keys has gained, the largest gain first."""
    nothing = Family(0, 0, 0)
    gains: dict[str, dict[str, Any]] = {}
    for name, now in after.families.items():
        then = before.families.get(name, nothing)
        gains[name] = {
            "keys": now.keys,
            "entries": now.entries,
            "mib": round(now.bytes / _MIB, 2),
            "bytes_of_entry": round(now.bytes / now.entries) if now.entries else None,
            "new_keys": now.keys - then.keys,
            "new_entries": now.entries - then.entries,
            "new_mib": round((now.bytes - then.bytes) / _MIB, 2),
        }
    return dict(sorted(gains.items(), key=lambda item: -item[1]["new_mib"]))


def _redis_growth(before: Moment, after: Moment) -> dict[str, Any]:
    minutes = (after.at_s - before.at_s) / 60
    grown = after.used_bytes - before.used_bytes
    surveyed = sum(family.bytes for family in after.families.values()) - sum(
        family.bytes for family in before.families.values()
    )
    families = _families_growth(before, after)

    def new(key: str, count: str) -> int:
        return int(families.get(key, {}).get(count, 0))

    return {
        "used_mib": round(after.used_bytes / _MIB, 1),
        "mib_per_minute": round(grown / _MIB / minutes, 2),
        "keys_mib_per_minute": round(surveyed / _MIB / minutes, 2),
        "explained_by_keys": round(surveyed / grown, 2) if grown > 0 else None,
        "new_positions": new(POSITIONS.pattern, "new_entries"),
        "new_wallets": new(POSITIONS.pattern, "new_keys"),
        "new_tokens": new(MARKET.pattern, "new_keys"),
        "new_holders": new(HOLDERS.pattern, "new_entries"),
        "families": families,
    }


@contextmanager
def _measured(data: Path | None, rate: float) -> Iterator[tuple[psutil.Process, Path]]:
    """Yield the process of `soltape up` and its folder: a running one, or a new one."""
    if data is not None:
        pid = running.holder(data)
        if pid is None:
            raise click.UsageError(f"--data {data}: no `soltape up` runs in this folder")
        yield psutil.Process(pid), data
        return
    with tempfile.TemporaryDirectory(prefix="soltape-bench-") as name:
        folder = Path(name)
        with stack(folder, "--rate", str(rate)) as up:
            yield psutil.Process(up.child.pid), folder


@click.command("memory")
@click.option("--quick", is_flag=True, help="One minute after a half, and no limit.")
@click.option("--minutes", type=click.FloatRange(0.5), default=60.0, show_default=True)
@click.option(
    "--settle-minutes",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Left out of the slopes, at the start.",
)
@click.option("--rate", type=float, default=300.0, show_default=True, help="Transactions a second.")
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the `soltape up` that runs in this data folder, instead of a new one.",
)
def memory(
    *, quick: bool, minutes: float, settle_minutes: float, rate: float, data: Path | None
) -> None:
    """Measure how memory and disk grow while `soltape up` runs on a simulated chain.

    It fails if a part but Redis grows by more than 1 MiB a minute, or if a part ended meanwhile.
    """
    if quick:
        minutes, settle_minutes = 1.5, 0.5
    if settle_minutes >= minutes:
        raise click.UsageError("--settle-minutes must be less than --minutes")
    with _measured(data, rate) as (up, folder):
        time.sleep(settle_minutes * 60)
        with redis.Redis.from_url(running.addresses(folder)["REDIS_URL"]) as store:
            before = Moment.of(store, folder)
            series, restarted = _watch(up, before.at_s + (minutes - settle_minutes) * 60)
            after = Moment.of(store, folder)
    redis_growth = _redis_growth(before, after)
    slopes = {name: slope_mib_per_minute(each.points) for name, each in series.items()}
    others = {name: slope for name, slope in slopes.items() if name != _REDIS}
    worst = max(others, key=others.__getitem__)
    for name, slope in slopes.items():
        progress(f"{name}: {slope:+.2f} MiB a minute")
    progress(
        "Redis: {mib_per_minute:+.2f} MiB a minute, its keys {keys_mib_per_minute:+.2f}: "
        "{new_positions} positions and {new_tokens} tokens are new".format(**redis_growth)
    )
    report(
        "memory",
        round(others[worst], 2),
        "MiB/minute",
        limit=MAX_SLOPE_MIB,
        worst=worst,
        minutes=minutes,
        settle_minutes=settle_minutes,
        restarted=restarted,
        parts={
            name: {
                "first_mib": round(each.points[0][1] / _MIB, 1),
                "last_mib": round(each.points[-1][1] / _MIB, 1),
                "mib_per_minute": round(slopes[name], 2),
            }
            for name, each in series.items()
        },
        redis=redis_growth,
        folder_mib={
            name: {
                "last": round(size / _MIB, 1),
                "grown": round((size - before.folder_bytes.get(name, 0)) / _MIB, 1),
            }
            for name, size in sorted(after.folder_bytes.items())
        },
    )
    if restarted:
        raise BenchFailed(f"ended and started again meanwhile: {', '.join(restarted)}")
    if others[worst] > MAX_SLOPE_MIB and not quick:  # caches still fill in the first minutes
        raise BenchFailed(f"{worst} grows by {others[worst]:.2f} MiB a minute")


def _watch(up: psutil.Process, until_s: float) -> tuple[dict[str, _Series], list[str]]:
    """Sample each part until a moment; return the samples, and which parts started again."""
    series: dict[str, _Series] = {}
    restarted: list[str] = []
    said_s = 0.0
    while (now_s := time.monotonic()) < until_s or len(next(iter(series.values())).points) < 2:
        if not up.is_running():
            raise BenchFailed("`soltape up` ended while it was measured")
        for name, pid, size in _resident(up):
            each = series.setdefault(name, _Series(pid, []))
            if each.pid != pid:
                restarted.append(name)
                series[name] = each = _Series(pid, [])
            each.points.append((now_s, size))
        if now_s - said_s >= 60:
            said_s = now_s
            sizes = ", ".join(f"{name} {s.points[-1][1] >> 20}" for name, s in series.items())
            progress(f"{(until_s - now_s) / 60:.0f} minutes left; MiB: {sizes}")
        time.sleep(LOOK_EVERY_S)
    return series, restarted
