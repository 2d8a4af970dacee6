"""Answers about how full the stores are."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

Room = Annotated[
    Literal["ok", "degraded"],
    Field(description="degraded: beyond a threshold of the settings; `reasons` has which"),
]
DiskFree = Annotated[
    int | None, Field(description="null: not known", examples=[412_316_860_416], ge=0)
]
DiskTotal = Annotated[
    int | None, Field(description="null: not known", examples=[1_099_511_627_776], ge=0)
]
FreePercent = Annotated[float | None, Field(description="null: not known", examples=[37.5])]


class Memory(TypedDict):
    """How full a Redis is."""

    status: Room
    used_bytes: Annotated[int, Field(examples=[1_073_741_824], ge=0)]
    max_bytes: Annotated[
        int | None, Field(description="`maxmemory`; null: no limit", examples=[8_589_934_592])
    ]
    used_pct: Annotated[float | None, Field(description="null: no limit", examples=[12.5])]
    policy: Annotated[
        str,
        Field(
            description="`maxmemory-policy`; any but noeviction loses facts, and is degraded",
            examples=["noeviction"],
        ),
    ]


class Table(TypedDict):
    """What a table of ClickHouse takes."""

    parts: Annotated[
        int, Field(description="active ones, of the partition with the most", examples=[14], ge=0)
    ]
    bytes: Annotated[int, Field(description="on disk", examples=[5_368_709_120], ge=0)]


class ClickHouseRoom(TypedDict):
    """How many parts ClickHouse has to merge, and how full its disks are."""

    status: Room
    parts: Annotated[
        int,
        Field(
            description="active ones in one partition of a table, the most of any; ClickHouse "
            "slows inserts down at `parts_to_delay_insert`",
            examples=[14],
            ge=0,
        ),
    ]
    bytes: Annotated[int, Field(description="of all tables", examples=[8_589_934_592], ge=0)]
    disk_free_bytes: DiskFree
    disk_total_bytes: DiskTotal
    disk_free_pct: FreePercent
    tables: Annotated[
        dict[str, Table],
        Field(description="by name", examples=[{"swaps": {"parts": 14, "bytes": 5_368_709_120}}]),
    ]


class BrokerRoom(TypedDict):
    """What Kafka's topics take, and how full the disk below them is."""

    status: Room
    log_bytes: Annotated[
        int, Field(description="of all topics and replicas", examples=[3_221_225_472], ge=0)
    ]
    disk_free_bytes: DiskFree
    disk_total_bytes: DiskTotal
    disk_free_pct: FreePercent


class Capacity(TypedDict):
    """How full the stores are. Of several disks the one with the smallest free share counts."""

    redis: Annotated[Memory | None, Field(description="null: no answer")]
    keys: Annotated[
        Memory | None,
        Field(description="the Redis of the API keys, often the same; null: no answer"),
    ]
    clickhouse: Annotated[ClickHouseRoom | None, Field(description="null: no answer")]
    broker: Annotated[
        BrokerRoom | None,
        Field(description="as the brokers answered within the last minute; null: they did not"),
    ]
