"""How full the stores are: what they say themselves, against the thresholds of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
from prometheus_client import Gauge

from api.system.capacity_answers import BrokerRoom, Capacity, ClickHouseRoom, Memory, Room
from infra.settings import Settings

REDIS_BYTES: Final = Gauge(
    "soltape_api_redis_memory_bytes",
    "Memory of a Redis, `of` used or max; no max: no limit. None while it does not answer.",
    ["store", "of"],
)
REDIS_POLICY: Final = Gauge(
    "soltape_api_redis_policy", "1 for the maxmemory-policy of a Redis.", ["store", "policy"]
)
PARTS: Final = Gauge(
    "soltape_api_clickhouse_parts",
    "Active parts of a table, of its partition with the most. None without an answer.",
    ["table"],
)
TABLE_BYTES: Final = Gauge(
    "soltape_api_clickhouse_table_bytes", "Bytes on disk of a table.", ["table"]
)
DISK_BYTES: Final = Gauge(
    "soltape_api_clickhouse_disk_bytes",
    "ClickHouse's disk with the smallest free share, `of` free or total.",
    ["of"],
)

_KEEPS_ALL: Final = "noeviction"


class Judge:
    """Turns what the stores say into figures, and says which are beyond a threshold."""

    def __init__(self, settings: Settings) -> None:
        self._used_pct = settings.health_redis_used_pct
        self._parts = settings.health_clickhouse_parts
        self._free_pct = settings.health_disk_free_pct

    def memory(self, info: bytes) -> Memory:
        """Return the figures of a Redis from its INFO."""
        facts = of_info(info)
        used, most = int(facts["used_memory"]), int(facts["maxmemory"]) or None
        memory: Memory = {
            "status": "ok",
            "used_bytes": used,
            "max_bytes": most,
            "used_pct": None if most is None else round(100 * used / most, 2),
            "policy": facts["maxmemory_policy"],
        }
        return {**memory, "status": _status(self._of_memory("", memory))}

    def clickhouse(self, row: Mapping[str, Any]) -> ClickHouseRoom:
        """Return the figures of the row of `capacity.sql`."""
        tables = row["tables"]
        free, total = row["disk"]
        room: ClickHouseRoom = {
            "status": "ok",
            "parts": max((parts for _, parts, _ in tables), default=0),
            "bytes": sum(size for _, _, size in tables),
            "disk_free_bytes": free if total else None,
            "disk_total_bytes": total or None,
            "disk_free_pct": _percent(free, total),
            "tables": {name: {"parts": parts, "bytes": size} for name, parts, size in tables},
        }
        return {**room, "status": _status(self._of_clickhouse(room))}

    def broker(self, packed: bytes | None) -> BrokerRoom | None:
        """Return the figures of what the agent `live` left in Redis (BROKER_DISK)."""
        if packed is None:
            return None
        facts = orjson.loads(packed)
        free, total = facts["disk_free_bytes"], facts["disk_total_bytes"]
        room: BrokerRoom = {
            "status": "ok",
            "log_bytes": facts["log_bytes"],
            "disk_free_bytes": free,
            "disk_total_bytes": total,
            "disk_free_pct": _percent(free, total),
        }
        return {**room, "status": _status(self._of_disk("", room["disk_free_pct"]))}

    def reasons(self, capacity: Capacity, *, is_one_redis: bool) -> Iterator[str]:
        """Yield what is beyond a threshold, in words; one Redis for both purposes once."""
        if capacity["redis"] is not None:
            yield from self._of_memory("redis", capacity["redis"])
        if capacity["keys"] is not None and not is_one_redis:
            yield from self._of_memory("the Redis of the keys", capacity["keys"])
        if capacity["clickhouse"] is not None:
            yield from self._of_clickhouse(capacity["clickhouse"])
        if capacity["broker"] is not None:
            yield from self._of_disk("the broker", capacity["broker"]["disk_free_pct"])

    def _of_memory(self, name: str, memory: Memory) -> Iterator[str]:
        if (memory["used_pct"] or 0) > self._used_pct:
            yield (
                f"{name} uses {memory['used_pct']:.0f} % of its maxmemory: above "
                f"{self._used_pct:g} %; at 100 % it refuses writes"
            )
        if memory["policy"] != _KEEPS_ALL:
            yield (
                f"{name} may evict what it keeps (maxmemory-policy {memory['policy']}): "
                f"set {_KEEPS_ALL}"
            )

    def _of_clickhouse(self, room: ClickHouseRoom) -> Iterator[str]:
        if room["parts"] > self._parts:
            table = max(room["tables"], key=lambda name: room["tables"][name]["parts"])
            yield (
                f"clickhouse has {room['parts']} active parts in one partition of {table}, more "
                f"than {self._parts}: it does not keep up with merging"
            )
        yield from self._of_disk("clickhouse", room["disk_free_pct"])

    def _of_disk(self, name: str, free_pct: float | None) -> Iterator[str]:
        if free_pct is not None and free_pct < self._free_pct:
            yield f"{name} has {free_pct:.1f} % of its disk free: less than {self._free_pct:g} %"


def of_info(info: bytes) -> dict[str, str]:
    """Return the facts of Redis's INFO by name."""
    return dict(line.partition(":")[::2] for line in info.decode().splitlines())


def used_share(info: bytes) -> tuple[float, int]:
    """Return how full a Redis is by its INFO: the share of its limit if it has one, then bytes."""
    facts = of_info(info)
    used, most = int(facts["used_memory"]), int(facts["maxmemory"])
    return used / most if most else 0.0, used


def show(capacity: Capacity) -> None:
    """Set the metrics; what is not known has none."""
    for gauge in (REDIS_BYTES, REDIS_POLICY, PARTS, TABLE_BYTES, DISK_BYTES):
        gauge.clear()
    for store, memory in (("redis", capacity["redis"]), ("keys", capacity["keys"])):
        if memory is not None:
            REDIS_BYTES.labels(store, "used").set(memory["used_bytes"])
            if memory["max_bytes"] is not None:
                REDIS_BYTES.labels(store, "max").set(memory["max_bytes"])
            REDIS_POLICY.labels(store, memory["policy"]).set(1)
    room = capacity["clickhouse"]
    if room is None:
        return
    for name, table in room["tables"].items():
        PARTS.labels(name).set(table["parts"])
        TABLE_BYTES.labels(name).set(table["bytes"])
    if room["disk_free_bytes"] is not None and room["disk_total_bytes"] is not None:
        DISK_BYTES.labels("free").set(room["disk_free_bytes"])
        DISK_BYTES.labels("total").set(room["disk_total_bytes"])


def _status(reasons: Iterator[str]) -> Room:
    return "ok" if next(reasons, None) is None else "degraded"


def _percent(free: int | None, total: int | None) -> float | None:
    return round(100 * free / total, 2) if free is not None and total else None
