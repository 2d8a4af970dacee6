"""`soltape status`: how far every part of the pipeline has come, at a glance.

What the parts have left in Kafka and Redis is compared, so it is true wherever they run:
the last slot of each partition of the settled lanes, and the watermark of each group on it; of the
live lane the end of each partition, and the fence of `live` on it. Two looks a second apart make
the rates.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import aiohttp
import click
import orjson
from aiokafka.errors import KafkaError

from infra.clickhouse import client as clickhouse_client
from infra.clickhouse.client import ClickHouseUnavailable
from infra.kafka import client as kafka_client
from infra.kafka import topics as broker_topics
from infra.kafka.client import KafkaUnreachable
from infra.kafka.topics import TopicsWrong
from infra.partitions import why_wrong
from infra.redis import client as redis_client
from infra.redis.client import RedisError
from infra.settings import Settings, load
from pipeline.agents import store
from pipeline.agents.accounts import agent as accounts
from pipeline.agents.live import agent as live
from pipeline.agents.live.streams import Fence
from pipeline.agents.market import agent as market
from pipeline.agents.pnl import agent as pnl
from schemas.codec import CodecError, parse
from schemas.redis_keys import LIVE_FENCE, WATERMARK, tag_of_partition
from schemas.times import DAY_S, HOUR_S
from schemas.topics import (
    GAPS,
    LIVE,
    SETTLED,
    SETTLED_ACCOUNTS,
    SETTLED_BY_MINT,
    SETTLED_BY_WALLET,
    Topic,
)

GROUPS: Final = {
    pnl.GROUP: SETTLED_BY_WALLET,
    market.GROUP: SETTLED_BY_MINT,
    store.GROUP: SETTLED_BY_MINT,
    accounts.GROUP: SETTLED_ACCOUNTS,
}
"""The settled groups; `live` knows batches where they have slots."""
TIMEOUT_S: Final = 6.0
READY_TIMEOUT_S: Final = 1.0
ROLES: Final = {
    "ingest": "publishes",
    "ingest_accounts": "publishes",
    "agents": "caught up",
    "books": "caught up",
    "watch": "watches",
    "api": "serves",
    "gateway": "serves",
}
"""Processes by the name of their metrics port, and what it means that one is ready."""
LOOKS_APART_S: Final = 1.0
FAR_SLOTS: Final = 5  # behind: two seconds of the chain
FAR_BATCHES: Final = 32  # of a partition of the live lane: a third of a second and more
STILL_S: Final = 5.0  # a chain without a new slot for so long has stopped


@dataclass(slots=True)
class Place:
    """A partition at one moment: a slot, its block time and when it was written."""

    slot: int
    time_ms: int
    at_ms: int | None = None


@dataclass(slots=True)
class Look:
    """What was found at one moment; `missing` says why of what was not."""

    at_s: float
    ends: dict[tuple[str, int], Place] = field(default_factory=dict)
    watermarks: dict[tuple[str, int], Place] = field(default_factory=dict)
    live_ends: dict[int, int] = field(default_factory=dict)  # offset after the last batch
    live_fences: dict[int, Fence] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One line of JSON instead of the table.")
def status(as_json: bool) -> None:
    """Show how far ingest and every agent group have come, on each partition.

    \b
    slot      the last one settled (ingest), or applied and stored (groups)
    lag       from there to the last slot in the log, as a difference of slot numbers: slots
              that the chain skipped count
    age       how long ago the slot's block was made
    slots/s   between two looks one second apart

    `live` reads batches of some 10 ms and not slots, a partition at its own pace:

    \b
    batch       number of the last one whose frames are in the live streams
    lag         batches in the log after it
    age         how long ago ingest sent it; of all partitions, that of one that has more to do
    batches/s   between two looks one second apart

    Reads the ends of the lanes from Kafka, watermarks and the fence of `live` from Redis; it takes
    a few seconds. Exits with 1 where Kafka or a store does not answer.

    \b
    Examples:
      soltape status
      watch -c soltape status
      soltape status --json | jq '.groups.pnl.lag_slots'
    """
    settings = load()
    report = asyncio.run(_report(settings))
    if as_json:
        click.echo(orjson.dumps(report))
    else:
        _show(report)
    sys.exit(1 if any(not system["reachable"] for system in report["systems"].values()) else 0)


async def _report(settings: Settings) -> dict[str, Any]:
    systems = {
        "kafka": _ask(_kafka(settings), KafkaUnreachable, KafkaError, TopicsWrong),
        "redis": _ask(redis_client.check(settings.redis_url), RedisError),
        "clickhouse": _ask(clickhouse_client.check(settings), ClickHouseUnavailable),
    }
    found = dict(zip(systems, await asyncio.gather(*systems.values()), strict=True))
    there = {name for name, (reachable, _) in found.items() if reachable}
    first = await _look(settings, there)
    await asyncio.sleep(max(0.0, LOOKS_APART_S - (time.monotonic() - first.at_s)))
    second = await _look(settings, there)
    now_ms = time.time() * 1000
    return {
        "systems": {
            name: {"reachable": reachable, "about": about}
            for name, (reachable, about) in found.items()
        },
        "ingest": _lanes(first, second, now_ms),
        "groups": {
            group: _group(group, topic, first, second, now_ms) for group, topic in GROUPS.items()
        }
        | {live.GROUP: _live(first, second, now_ms)},
        "processes": dict(await asyncio.gather(*(_ready(settings, role) for role in ROLES))),
        "gaps": await _gaps(settings) if "kafka" in there else None,
        "missing": second.missing,
    }


async def _ask(answer: Any, *failures: type[Exception]) -> tuple[bool, str]:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return True, await answer
    except failures as error:
        return False, str(error).partition("\n")[0]
    except TimeoutError:
        return False, f"no answer within {TIMEOUT_S:g} s"


async def _kafka(settings: Settings) -> str:
    found = await kafka_client.metadata(settings)
    # Of a count that is not the tape's, lanes stay that nobody writes or reads any more.
    count = await broker_topics.settled_partitions(settings)
    if count and (why := why_wrong(count, f"the tape on {settings.kafka_bootstrap}")):
        raise TopicsWrong(why)
    embedded = found.cluster_id == kafka_client.EMBEDDED_CLUSTER_ID
    return "embedded" if embedded else f"{len(found.brokers)} brokers"


async def _look(settings: Settings, there: set[str]) -> Look:
    look = Look(time.monotonic())
    if "kafka" in there:
        lanes = (*SETTLED, SETTLED_ACCOUNTS)
        await asyncio.gather(
            _read_live_ends(settings, look), *(_read_ends(settings, topic, look) for topic in lanes)
        )
    if "redis" in there:  # at once after the ends, which take a while: no lag of our own making
        await _read_watermarks(settings, look)
    return look


async def _read_ends(settings: Settings, topic: Topic, look: Look) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            records = await broker_topics.last_records(settings, topic)
    except (TopicsWrong, KafkaUnreachable, KafkaError) as error:
        look.missing[topic.name] = str(error)
        return
    except TimeoutError:
        look.missing[topic.name] = f"no answer within {TIMEOUT_S:g} s"
        return
    for partition, record in records.items():
        try:
            batch: Any = parse(topic, record.value)
        except CodecError as error:
            look.missing[topic.name] = str(error)
            continue
        look.ends[topic.name, partition] = Place(batch.slot, batch.block_time_ms)


async def _read_live_ends(settings: Settings, look: Look) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            look.live_ends = await broker_topics.end_offsets(settings, LIVE)
    except (TopicsWrong, KafkaUnreachable, KafkaError) as error:
        look.missing[LIVE.name] = str(error)
    except TimeoutError:
        look.missing[LIVE.name] = f"no answer within {TIMEOUT_S:g} s"


async def _read_watermarks(settings: Settings, look: Look) -> None:
    keys = {
        (group, partition): WATERMARK.make(tag=tag_of_partition(topic, partition), group=group)
        for group, topic in GROUPS.items()
        for partition in range(topic.partitions)
    }
    try:
        async with asyncio.timeout(TIMEOUT_S), redis_client.connect(settings) as redis:
            pipeline = redis.pipeline(transaction=False)
            for key in keys.values():
                pipeline.hmget(key, ["slot", "time_ms", "at_ms"])
            pipeline.hgetall(LIVE_FENCE.make())
            *answers, fences = await pipeline.execute()
    except (RedisError, TimeoutError) as error:
        look.missing["watermarks"] = str(error) or f"no answer within {TIMEOUT_S:g} s"
        return
    for place, (slot, time_ms, at_ms) in zip(keys, answers, strict=True):
        if slot is not None:
            look.watermarks[place] = Place(int(slot), int(time_ms), int(at_ms))
    look.live_fences = {int(partition): Fence.of(text) for partition, text in fences.items()}


async def _ready(settings: Settings, role: str) -> tuple[str, dict[str, Any] | None]:
    """Return what a process says at /ready, None where none answers here."""
    url = f"http://{settings.metrics_host}:{getattr(settings, f'metrics_port_{role}')}/ready"
    timeout = aiohttp.ClientTimeout(total=READY_TIMEOUT_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
            said: dict[str, Any] = orjson.loads(await answer.read())
            return role, said
    except (aiohttp.ClientError, TimeoutError, orjson.JSONDecodeError):
        return role, None


async def _gaps(settings: Settings) -> int | None:
    """Return how many gaps are on record, None where the topic does not answer."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return sum([1 async for _ in broker_topics.records_so_far(settings, GAPS)])
    except (TopicsWrong, KafkaUnreachable, KafkaError, TimeoutError):
        return None


def _lanes(first: Look, second: Look, now_ms: float) -> dict[str, Any] | None:
    """Return how far ingest has settled: what all partitions of its lanes have."""
    ends = _ends_of_ingest(second)
    if not ends:
        return None
    least = min(ends, key=lambda place: place.slot)
    before = min((place.slot for place in _ends_of_ingest(first)), default=least.slot)
    return {
        "slot": least.slot,
        "age_s": _age_s(least, now_ms),
        "slots_per_s": round((least.slot - before) / (second.at_s - first.at_s), 2),
    }


def _ends_of_ingest(look: Look) -> list[Place]:
    """Return the ends of what `soltape ingest` writes; accounts have an ingest of their own."""
    return [end for (name, _), end in look.ends.items() if name != SETTLED_ACCOUNTS.name]


def _group(
    group: str, topic: Topic, first: Look, second: Look, now_ms: float
) -> dict[str, Any] | None:
    """Return a group's partitions and what is true of all of them, None where it never began."""
    took_s = second.at_s - first.at_s
    partitions = []
    for partition in range(topic.partitions):
        mark = second.watermarks.get((group, partition))
        if mark is None:
            continue
        end = second.ends.get((topic.name, partition))
        before = first.watermarks.get((group, partition), mark)
        partitions.append(
            {
                "partition": partition,
                "slot": mark.slot,
                "lag_slots": None if end is None else max(0, end.slot - mark.slot),
                "age_s": _age_s(mark, now_ms),
                "slots_per_s": round((mark.slot - before.slot) / took_s, 2),
            }
        )
    if not partitions:
        return None
    lags = [one["lag_slots"] for one in partitions if one["lag_slots"] is not None]
    last = min(partitions, key=lambda one: one["slot"] or 0)
    return {
        "slot": last["slot"],
        "lag_slots": max(lags) if lags else None,
        "age_s": last["age_s"],
        "slots_per_s": round(
            sum(one["slots_per_s"] or 0 for one in partitions) / len(partitions), 2
        ),
        "partitions": partitions,
    }


def _live(first: Look, second: Look, now_ms: float) -> dict[str, Any] | None:
    """Return the partitions of `live` and what is true of all of them, None where it never began.

    One that is quiet has an old last batch and is up to date all the same.
    """
    partitions: list[dict[str, Any]] = []
    for partition, fence in sorted(second.live_fences.items()):
        end = second.live_ends.get(partition)
        before = first.live_fences.get(partition, fence)
        partitions.append(
            {
                "partition": partition,
                "batch": fence.offset,
                "lag_batches": None if end is None else max(0, end - 1 - fence.offset),
                "age_s": _since_s(fence.sent_ms, now_ms),
                "batches_per_s": round(
                    (fence.offset - before.offset) / (second.at_s - first.at_s), 2
                ),
            }
        )
    if not partitions:
        return None
    lags = [one["lag_batches"] for one in partitions if one["lag_batches"] is not None]
    behind = [one["age_s"] for one in partitions if one["lag_batches"]]
    return {
        "lag_batches": max(lags) if lags else None,
        "age_s": max(behind) if behind else min(one["age_s"] for one in partitions),
        "batches_per_s": round(sum(one["batches_per_s"] for one in partitions), 2),
        "partitions": partitions,
    }


def _age_s(place: Place, now_ms: float) -> float:
    return _since_s(place.time_ms, now_ms)


def _since_s(time_ms: int, now_ms: float) -> float:
    return round((now_ms - time_ms) / 1000, 1)


# For people.


def _show(report: dict[str, Any]) -> None:
    for name, system in report["systems"].items():
        well = system["reachable"]
        word = click.style("ok    ", fg="green") if well else click.style("failed", fg="red")
        click.echo(f"{word}  {name:11} {system['about']}")
    click.echo()
    ingest, groups = report["ingest"], report["groups"]
    if ingest is None and not any(groups.values()):
        for name, why in report["missing"].items():
            click.echo(f"{name}: {why}")
        if all(system["reachable"] for system in report["systems"].values()):
            click.echo("nothing has been settled here yet: start it with `soltape up`")
        else:
            click.echo("without these nothing is known: is `soltape up` running?")
        return
    asked = report["systems"]["redis"]["reachable"] and "watermarks" not in report["missing"]
    nothing = f"{'has not begun' if asked else 'not known':>13}"
    click.echo(_head("slot"))
    if ingest is not None:
        click.echo(_row("ingest", ingest, "slot", bold=True))
    for group in GROUPS:
        if (found := groups[group]) is None:
            click.echo(f"{click.style(f'{group:10}', bold=True)}{nothing}")
            continue
        click.echo(_row(group, found, "slot", bold=True))
        for numbers, one in _alike(found["partitions"]):
            click.echo(_row(f"  {numbers}", one, "slot"))
    if (found := groups[live.GROUP]) is None:
        click.echo(f"{click.style(f'{live.GROUP:10}', bold=True)}{nothing}")
    else:
        click.echo(_head("batch"))
        click.echo(_row(live.GROUP, found, "batch", bold=True))
        for one in found["partitions"]:
            click.echo(_row(f"  {one['partition']}", one, "batch"))
    click.echo()
    for role, said in report["processes"].items():
        click.echo(f"{role:16}{_readiness(role, said)}")
    click.echo(_gaps_said(report["gaps"]))
    if ingest is not None and ingest["age_s"] > STILL_S:
        what = "is late, and goes on" if ingest["slots_per_s"] else "has stopped"
        click.echo(
            click.style(
                f"the last settled slot is {_duration(ingest['age_s'])} old: "
                f"ingest or the chain {what}",
                fg="yellow",
            )
        )


def _alike(partitions: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield partitions, neighbours that are equally far as one."""
    for _, alike in groupby(partitions, lambda one: (one["slot"], one["lag_slots"])):
        first, *others = alike
        last = others[-1] if others else first
        number = f"{first['partition']}"
        yield (f"{number}-{last['partition']}" if others else number), first


_PLURAL: Final = {"slot": "slots", "batch": "batches"}


def _head(unit: str) -> str:
    rate = f"{_PLURAL[unit]}/s"
    return click.style(f"{'':10}{unit:>13} {'lag':>7} {'age':>8} {rate:>9}", dim=True)


def _row(name: str, values: dict[str, Any], unit: str, *, bold: bool = False) -> str:
    """Return a line of the table; `unit` is what is counted, and "-" says that nothing is."""
    plural = _PLURAL[unit]
    at, lag = values.get(unit, "-"), values.get(f"lag_{plural}", "-")
    far = isinstance(lag, int) and lag > (FAR_SLOTS if unit == "slot" else FAR_BATCHES)
    cells = (
        click.style(f"{name:10}", bold=bold),
        f"{_number(at):>13} ",
        click.style(f"{_number(lag):>7}", fg="red" if far else None),
        f" {_duration(values['age_s']):>8} {values[f'{plural}_per_s']:>9.1f}",
    )
    return "".join(cells)


def _number(value: int | str | None) -> str:
    return "?" if value is None else value if isinstance(value, str) else f"{value:,}"


def _readiness(role: str, said: dict[str, Any] | None) -> str:
    if said is None:
        return "does not run on this machine, or with other metrics ports"
    if said["ready"]:
        return ROLES[role]
    lacking = ", ".join(f"{group}: {why}" for group, why in said["lacking"].items())
    return click.style(f"not ready ({lacking})", fg="yellow")


def _gaps_said(gaps: int | None) -> str:
    if gaps is None:
        return "gaps: not known"
    if not gaps:
        return "no gaps on record"
    text = f"{gaps} gap{'s' if gaps > 1 else ''} on record (`soltape tail {GAPS.name}`)"
    return click.style(text, fg="yellow")


def _duration(seconds: float) -> str:
    """Return a duration in the unit that reads best."""
    for unit, length_s in (("d", DAY_S), ("h", HOUR_S), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.1f} s"
