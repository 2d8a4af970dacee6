"""Answers about ourselves."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from api.system.capacity_answers import Capacity
from schemas.solana.networks import Network


class Live(TypedDict):
    """The process serves."""

    status: Literal["ok"]


class Chain(TypedDict):
    """Which chain all answers are of."""

    network: Annotated[
        Network | None,
        Field(
            description="simulated: invented by a local chain; recorded: replayed by one; null: "
            "not known, or another cluster than the public ones",
            examples=["mainnet"],
        ),
    ]
    genesis_hash: Annotated[
        str | None,
        Field(
            description="that identifies it, as the chain itself said; null: not known",
            examples=["5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"],
        ),
    ]


class Dependency(TypedDict):
    """A store, as the last look found it."""

    status: Literal["ok", "unavailable"]
    latency_ms: Annotated[
        float | None, Field(description="of the question we asked; null: no answer", examples=[0.6])
    ]
    version: Annotated[str | None, Field(examples=["Valkey 9.1.2"])]
    detail: Annotated[str | None, Field(description="why there was no answer", examples=[None])]


class Dependencies(TypedDict):
    """What an answer needs."""

    redis: Dependency
    clickhouse: Dependency
    keys: Annotated[Dependency, Field(description="the Redis of the API keys, often the same")]


class Group(TypedDict):
    """A group of agents of the pipeline."""

    slot: Annotated[
        int | None,
        Field(
            description="up to which all its partitions have settled; null: it has not begun",
            examples=[341_204_093],
        ),
    ]
    lag_slots: Annotated[int | None, Field(description="behind the chain's head", examples=[3])]
    quarantined: Annotated[
        int,
        Field(
            description="wallets, mints or accounts that the group leaves out, as a stored value "
            "of theirs cannot be read",
            examples=[0],
        ),
    ]


class Groups(TypedDict):
    """The groups by what they keep: books of wallets, markets of mints, rows of ClickHouse,
    accounts of the chain.
    """

    pnl: Group
    market: Group
    store: Group
    accounts: Group


class Pipeline(TypedDict):
    """How far the facts have come."""

    head_slot: Annotated[
        int | None,
        Field(
            description="the newest slot on the live stream; null: none",
            examples=[341_204_096],
        ),
    ]
    head_age_ms: Annotated[int | None, Field(description="since that slot came", examples=[180])]
    groups: Groups


class Watching(TypedDict):
    """`soltape watch`: alerts of positions, net worth by the hour, and books of payments."""

    is_active: Annotated[bool, Field(description="a process has the lease of watching")]
    since_ms: Annotated[
        int | None,
        Field(
            description="when it began, ms since the Unix epoch; this and what follows is null "
            "where no process has the lease, or it has just begun",
            examples=[1_763_690_000_000],
        ),
    ]
    report_age_ms: Annotated[
        int | None,
        Field(
            description="since a process last said how it goes; null: none ever did, or the "
            "last one was stopped",
            examples=[1_200],
        ),
    ]
    wallets: Annotated[int | None, Field(description="tracked ones that it reads", examples=[412])]
    left_out: Annotated[
        int | None, Field(description="tracked ones beyond WATCH_WALLETS_MAX", examples=[0])
    ]
    overdue_ms: Annotated[
        int | None,
        Field(
            description="how late the wallet is that is read next: where it grows, "
            "WATCH_WALLETS_PER_S is too low, or a store does not answer",
            examples=[0],
        ),
    ]
    snapshots_waiting: Annotated[
        int | None, Field(description="rows of net worth that wait for ClickHouse", examples=[0])
    ]
    keeps_books: Annotated[
        bool | None, Field(description="it keeps the books of payments, too", examples=[True])
    ]


class Gap(TypedDict):
    """Slots that could neither be streamed nor fetched, or that were rolled back."""

    first_slot: Annotated[int, Field(examples=[341_100_100])]
    last_slot: Annotated[int, Field(examples=[341_100_149])]
    reason: Annotated[str, Field(description="why they could not be had", examples=["pruned"])]
    lost_by: Annotated[
        str | None,
        Field(description="group and partition that alone lacks them; null: all", examples=[None]),
    ]
    detected_ms: Annotated[int, Field(examples=[1_763_699_000_000])]


class Gaps(TypedDict):
    """What was found to be missing within the last day."""

    count: Annotated[int, Field(examples=[1])]
    slots: Annotated[int, Field(description="slots in all of them, each once", examples=[50])]
    rolled_back: Annotated[
        int,
        Field(
            description="of these slots, settled as confirmed and rolled back: figures of the "
            "wallets that the table `gaps` names have what never happened",
            examples=[0],
        ),
    ]
    lost_by: Annotated[
        list[str],
        Field(
            description="agent groups and partitions that alone lack slots, as the log no longer "
            "had them or they could not be read; these slots are not counted in `slots`",
            examples=[["pnl 3"]],
        ),
    ]
    unread_perps: Annotated[
        int,
        Field(
            description="instructions whose perp events could not be read, mostly as the runtime "
            "cut off the transaction's log: the table `perp_gaps` names them; no slots",
            examples=[0],
        ),
    ]
    latest: Annotated[list[Gap], Field(description="at most 20, the newest first")]


class Versions(TypedDict):
    """What is running."""

    soltape: Annotated[str, Field(examples=["0.1.0"])]


class Availability(TypedDict):
    """How available the API was this month, all its processes together."""

    month: Annotated[str, Field(description="UTC", examples=["2026-11"])]
    since_ms: Annotated[
        int,
        Field(description="from when on minutes count: of the month, or since we run", ge=0),
    ]
    minutes: Annotated[int, Field(description="whole minutes since then", examples=[31_680])]
    minutes_pct: Annotated[
        float | None,
        Field(
            description="of these, with a process that served and stores that answered every "
            "look; null: none is over",
            examples=[99.9842],
        ),
    ]
    answers: Annotated[int, Field(description="to API keys", examples=[5_120_000])]
    answers_pct: Annotated[
        float | None,
        Field(description="of these, without a 5xx; null: none", examples=[99.9991]),
    ]
    target_pct: Annotated[float, Field(examples=[99.7])]


class Health(TypedDict):
    """Whether we serve. All beyond `chain` is for callers with a key."""

    status: Annotated[
        Literal["ok", "degraded", "unavailable"],
        Field(
            description="degraded: answers come, but the facts are behind or silent; unavailable "
            "(with HTTP status 503): send no requests here"
        ),
    ]
    timestamp: Annotated[
        int, Field(description="ms since the Unix epoch of the look", examples=[1_763_700_000_000])
    ]
    chain: Chain
    reasons: NotRequired[
        Annotated[
            list[str],
            Field(description="why it is not ok, in words; empty if it is", examples=[[]]),
        ]
    ]
    dependencies: NotRequired[Dependencies]
    pipeline: NotRequired[Annotated[Pipeline | None, Field(description="null without Redis")]]
    watch: NotRequired[Annotated[Watching | None, Field(description="null without Redis")]]
    capacity: NotRequired[Capacity]
    availability: NotRequired[
        Annotated[Availability | None, Field(description="null before the first look of a process")]
    ]
    gaps: NotRequired[Annotated[Gaps | None, Field(description="null without ClickHouse")]]
    versions: NotRequired[Versions]
