"""Whether we can answer, and how far the facts have come: one look a second for all callers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from importlib.metadata import version
from typing import Any, Final, TypeVar

from redis.exceptions import RedisError

from api.access.charge import STORE
from api.http.errors import Problem
from api.stores.caches import SharedReading
from api.stores.clients import Stores, unavailable
from api.system import account_holes
from api.system.availability import AvailabilityWatch
from api.system.capacity import Judge, of_info, show, used_share
from api.system.capacity_answers import Capacity
from api.system.health_answers import (
    Chain,
    Dependencies,
    Dependency,
    Gaps,
    Group,
    Groups,
    Health,
    Pipeline,
    Watching,
)
from api.watch.report import COMMANDS as WATCH_COMMANDS
from api.watch.report import watching
from infra.clickhouse.sql import load
from infra.settings import Settings
from schemas import channels
from schemas.redis_keys import (
    BROKER_DISK,
    CHAIN,
    QUARANTINE,
    WATERMARK,
    account_tags,
    mint_tags,
    wallet_tags,
)
from schemas.solana.networks import network_of

TIMEOUT_S: Final = 2.0
KEEP_S: Final = 1.0
FAR_SLOTS: Final = 150  # a minute of the chain
STILL_MS: Final = 30_000  # a chain makes a slot every 0.4 s
OVERDUE_MS: Final = 60_000  # a tracked wallet is read every WATCH_EVERY_S, ten seconds
MOST_GAPS: Final = 20
# Of the slots' statuses. The last one may say of an old slot that it is final: a slot has some
# five entries until then.
LAST_ENTRIES: Final = 32

_LEFT_OUT: Final = {"pnl": "wallets", "market": "mints", "store": "mints", "accounts": "accounts"}
_T = TypeVar("_T")

_UNKNOWN_CHAIN: Final[Chain] = {"network": None, "genesis_hash": None}

_GAPS: Final = load(__package__, "gaps")
_CAPACITY: Final = load(__package__, "capacity")
_FLOORS: Final = tuple(account_holes.questions())
_INFO: Final = ("INFO", "server", "memory")
_LIVE: Final = "live "  # in `lost_by`, before a partition: the group keeps no books
_TAGS: Final = {
    "pnl": wallet_tags,
    "market": mint_tags,
    "store": mint_tags,
    "accounts": account_tags,
}


class HealthReader:
    """Looks at the stores. A look is kept for a second and shared: asking often costs nothing."""

    def __init__(self, settings: Settings, stores: Stores, availability: AvailabilityWatch) -> None:
        self._judge = Judge(settings)
        self._stores = stores
        self._availability = availability
        self._look = SharedReading(self._examine, KEEP_S)

    async def read(self) -> Health:
        """Return all checks, within TIMEOUT_S."""
        return await self._look.get()

    async def _examine(self) -> Health:
        (redis, facts), (clickhouse, gaps), (keys, info), (_, room) = await asyncio.gather(
            _ask("redis", self._redis),
            _ask("clickhouse", self._clickhouse),
            _ask(STORE, self._keys),
            _ask("clickhouse", self._room),
        )
        now_ms = time.time_ns() // 1_000_000
        judge = self._judge
        capacity: Capacity = {
            "redis": None if facts is None else judge.memory(facts[0]),
            "keys": None if info is None else judge.memory(info),
            "clickhouse": None if room is None else judge.clickhouse(room),
            "broker": None if facts is None else judge.broker(facts[1]),
        }
        show(capacity)
        chain, pipeline, watch = _UNKNOWN_CHAIN, None, None
        lost: list[str] = []
        is_one_redis = False
        if facts is not None:
            redis_info, _, genesis_hash, owner, reported, *others = facts
            floors, positions = others[: len(_FLOORS)], others[len(_FLOORS) :]
            chain, pipeline = _chain(genesis_hash), _pipeline(positions, now_ms)
            lost = [*account_holes.reasons(floors, pipeline["head_slot"])]
            watch = watching(owner, dict(reported), now_ms)
            is_one_redis = info is not None and _run_id(info) == _run_id(redis_info)
        stores: Dependencies = {"redis": redis, "clickhouse": clickhouse, "keys": keys}
        away = [f"{name} {why}" for name, why in lacking(stores).items()]
        late = [*_late(pipeline), *lost] if pipeline else []
        late += list(_unwatched(watch)) if watch else []
        late += list(_wrong(gaps)) if gaps else []
        late += judge.reasons(capacity, is_one_redis=is_one_redis)
        return {
            "status": "unavailable" if away else "degraded" if late else "ok",
            "timestamp": now_ms,
            "chain": chain,
            "reasons": away + late,
            "dependencies": stores,
            "pipeline": pipeline,
            "watch": watch,
            "capacity": capacity,
            "availability": self._availability.last,
            "gaps": gaps,
            "versions": {"soltape": version("soltape")},
        }

    async def _redis(self) -> tuple[str, list[Any]]:
        fullest = max(await self._stores.infos("server", "memory"), key=used_share)
        return _name(fullest), [fullest, *await self._stores.ask(_commands())]

    async def _keys(self) -> tuple[str, bytes]:
        try:
            [info] = await self._stores.access.ask([_INFO])
        except (RedisError, OSError) as error:
            raise unavailable(STORE, error) from None
        return _name(info), info

    async def _room(self) -> tuple[str, dict[str, Any]]:
        [row] = await self._stores.query(_CAPACITY, {})
        return "", row

    async def _clickhouse(self) -> tuple[str, Gaps]:
        [row] = await self._stores.query(_GAPS, {"most": MOST_GAPS})
        return f"ClickHouse {row['version']}", {
            "count": row["count"],
            "slots": row["slots"],
            "rolled_back": row["rolled_back"],
            "lost_by": row["groups"],
            "unread_perps": row["unread_perps"],
            "latest": [
                {
                    "first_slot": first_slot,
                    "last_slot": last_slot,
                    "reason": reason,
                    "lost_by": lost_by or None,
                    "detected_ms": detected_ms,
                }
                for detected_ms, first_slot, last_slot, reason, lost_by in row["latest"]
            ],
        }


def _wrong(gaps: Gaps) -> Iterator[str]:
    """Yield which gaps of the last day make figures wrong, not only incomplete, in words."""
    if gaps["rolled_back"]:
        yield (
            f"slots of the last day that were rolled back after they were settled: "
            f"{gaps['rolled_back']}; figures of the wallets that `gaps` names have what never "
            "happened"
        )
    books = [by for by in gaps["lost_by"] if not by.startswith(_LIVE)]
    if books:
        yield (
            "slots of the last day that agent groups lost, as the log no longer had them or they "
            f"could not be read: figures lack them on {', '.join(books)}"
        )
    if len(books) < len(gaps["lost_by"]):
        partitions = [by.removeprefix(_LIVE) for by in gaps["lost_by"] if by.startswith(_LIVE)]
        yield (
            "slots of the last day that the live lane lost before `live` read them: the public "
            f"topics and WebSocket lack events of them on partitions {', '.join(partitions)}; "
            "figures and the history have them"
        )


def lacking(stores: Dependencies) -> dict[str, str]:
    """Return which stores do not answer, and why."""
    each = (
        ("redis", stores["redis"]),
        ("clickhouse", stores["clickhouse"]),
        ("keys", stores["keys"]),
    )
    return {name: str(store["detail"]) for name, store in each if store["status"] != "ok"}


def _name(info: bytes) -> str:
    facts = of_info(info)
    if valkey := facts.get("valkey_version"):
        return f"Valkey {valkey}"
    return f"Redis {facts.get('redis_version', '')}"


def _run_id(info: bytes) -> str | None:
    """Return what identifies a running server."""
    return of_info(info).get("run_id")


async def _ask(
    name: str, ask: Callable[[], Coroutine[Any, Any, tuple[str, _T]]]
) -> tuple[Dependency, _T | None]:
    """Return how a store does, and what it said."""
    began_s = time.perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            version, said = await ask()
    except Problem as problem:
        detail = problem.detail.partition(";")[0].removeprefix(f"{name} ")
    except TimeoutError:
        detail = f"does not answer within {TIMEOUT_S:g} s"
    else:
        took_ms = round((time.perf_counter() - began_s) * 1000, 2)
        return {"status": "ok", "latency_ms": took_ms, "version": version, "detail": None}, said
    return {"status": "unavailable", "latency_ms": None, "version": None, "detail": detail}, None


def _chain(genesis_hash: bytes | None) -> Chain:
    if genesis_hash is None:
        return _UNKNOWN_CHAIN
    text = genesis_hash.decode()
    return {"network": network_of(text), "genesis_hash": text}


def _pipeline(answers: list[Any], now_ms: int) -> Pipeline:
    entries, *watermarks = answers
    watermarks, left_out = watermarks[: len(watermarks) // 2], watermarks[len(watermarks) // 2 :]
    head_slot = head_age_ms = None
    if entries:
        head_slot = max(
            event.index[0]
            for _, fields in entries
            for event in channels.unpack(dict(zip(fields[::2], fields[1::2], strict=True))).events
        )
        head_age_ms = max(0, now_ms - int(entries[0][0].partition(b"-")[0]))
    groups = {}
    for name, tags in _TAGS.items():
        count = len(tags())
        slots, watermarks = watermarks[:count], watermarks[count:]
        counts, left_out = left_out[:count], left_out[count:]
        groups[name] = _group(slots, head_slot, sum(counts))
    return {
        "head_slot": head_slot,
        "head_age_ms": head_age_ms,
        "groups": Groups(
            pnl=groups["pnl"],
            market=groups["market"],
            store=groups["store"],
            accounts=groups["accounts"],
        ),
    }


def _commands() -> list[tuple[Any, ...]]:
    return [
        ("GET", BROKER_DISK.make()),
        ("GET", CHAIN.make()),
        *WATCH_COMMANDS,
        *_FLOORS,
        ("XREVRANGE", channels.STATUS.stream, "+", "-", "COUNT", LAST_ENTRIES),
        *(
            ("HGET", WATERMARK.make(tag=tag, group=group), "slot")
            for group, tags in _TAGS.items()
            for tag in tags()
        ),
        *(
            ("HLEN", QUARANTINE.make(tag=tag, group=group))
            for group, tags in _TAGS.items()
            for tag in tags()
        ),
    ]


def _unwatched(watch: Watching) -> Iterator[str]:
    """Yield that a process which watched has died, or is late; one that was stopped is no loss."""
    age_ms = watch["report_age_ms"]
    if not watch["is_active"] and age_ms is not None and age_ms > STILL_MS:
        yield (
            f"no process has watched tracked wallets for {age_ms // 1000} s: alerts and net worth "
            "by the hour are missing until `soltape watch` runs"
        )
    overdue_ms = watch["overdue_ms"]
    if overdue_ms is not None and overdue_ms > OVERDUE_MS:
        yield (
            f"tracked wallets are read {overdue_ms // 1000} s late, and their alerts come as late: "
            f"WATCH_WALLETS_PER_S is too low for {watch['wallets']}, or a store answers slowly"
        )


def _group(slots: list[bytes | None], head_slot: int | None, quarantined: int) -> Group:
    """Return how far all partitions have come; one that has not begun holds the group back."""
    known = [int(slot) for slot in slots if slot is not None]
    if len(known) < len(slots):
        return {"slot": None, "lag_slots": None, "quarantined": quarantined}
    slot = min(known)
    lag_slots = None if head_slot is None else max(0, head_slot - slot)
    return {"slot": slot, "lag_slots": lag_slots, "quarantined": quarantined}


def _late(pipeline: Pipeline) -> Iterator[str]:
    """Yield what is wrong with the pipeline, in words."""
    age_ms = pipeline["head_age_ms"]
    if age_ms is None:
        yield "no slot has arrived yet: the pipeline has not begun"
    elif age_ms > STILL_MS:
        yield (
            f"no slot has arrived for {age_ms // 1000} s: the chain has ended, or ingest or the "
            "agent live has stopped"
        )
    groups = pipeline["groups"]
    for name, group in (
        ("pnl", groups["pnl"]),
        ("market", groups["market"]),
        ("store", groups["store"]),
        ("accounts", groups["accounts"]),
    ):
        if group["slot"] is None:
            if name == "accounts":
                continue  # no endpoint has to offer accounts: the tape continues without
            yield f"{name} has not begun on every partition"
        elif (group["lag_slots"] or 0) > FAR_SLOTS:
            yield f"{name} is {group['lag_slots']} slots behind the chain"
        if group["quarantined"]:
            yield (
                f"{name} leaves {group['quarantined']} {_LEFT_OUT[name]} out, as stored values of "
                f"theirs cannot be read: stop its agents and run `soltape rebuild {name}`"
            )
