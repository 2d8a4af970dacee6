"""Answers about the tape as it runs: how fast, and what is understood of each venue."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict


class Rates(TypedDict):
    """Of the last minute of the tape, by its blocks' times."""

    window_s: Annotated[
        float,
        Field(description="what they are of; less than 60 while the tape is young", examples=[60]),
    ]
    slots_per_s: Annotated[float, Field(description="with a block", examples=[2.5])]
    transactions_per_s: Annotated[
        float, Field(description="that were received: those of subscribed programs", examples=[812])
    ]
    swaps_per_s: Annotated[float, Field(description="pool legs", examples=[640.2])]


class Minute(TypedDict):
    """Sixty seconds of the tape; the last of them ends with the newest block."""

    start_ms: Annotated[int, Field(examples=[1_763_699_940_000])]
    slots: Annotated[int, Field(description="with a block", examples=[150])]
    transactions: Annotated[int, Field(examples=[48_720])]
    swaps: Annotated[int, Field(examples=[38_412])]
    unknown: Annotated[
        int, Field(description="instructions that no decoder has a name for", examples=[0])
    ]
    malformed: Annotated[
        int, Field(description="instructions whose bytes do not fit", examples=[0])
    ]


class VenueOutcomes(TypedDict):
    """What became of the instructions of a venue's programs in the last hour of the tape."""

    dex: Annotated[
        str | None,
        Field(
            description="slug; null: instructions of no known venue",
            examples=["pump-swap"],
        ),
    ]
    swaps: Annotated[int, Field(description="pool legs", examples=[912_400])]
    decoded: Annotated[int, Field(description="instructions that gave events", examples=[912_388])]
    unknown: Annotated[
        int, Field(description="instructions that its decoder has no name for", examples=[0])
    ]
    malformed: Annotated[
        int, Field(description="instructions whose bytes do not fit", examples=[0])
    ]


class System(TypedDict):
    """The tape as it runs."""

    as_of_slot: Annotated[
        int | None,
        Field(description="the newest slot that is stored; null: none yet", examples=[341_204_093]),
    ]
    as_of_ms: Annotated[
        int | None, Field(description="time of its block", examples=[1_763_700_000_000])
    ]
    rates: Annotated[Rates | None, Field(description="null: too little is stored to compute them")]
    minutes: Annotated[
        list[Minute],
        Field(description="of the last hour, oldest first; one without a slot is left out"),
    ]
    venues: Annotated[
        list[VenueOutcomes],
        Field(description="those with an instruction in the last hour, the busiest first"),
    ]
