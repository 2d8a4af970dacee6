"""What an answer says of the caller's own key."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict


class KeyFacts(TypedDict):
    """The key that asked."""

    id: Annotated[str, Field(description="Its short name, no secret", examples=["3f9a0c1d2e4b"])]
    key: Annotated[str, Field(description="What may be shown of it", examples=["soltape_...Zk3q"])]
    name: Annotated[str, Field(description="What it was made for", examples=["dashboard"])]
    created_ms: Annotated[int, Field(description="When it was made", examples=[1793750400000])]


class Credits(TypedDict):
    """Credits of the calendar month, UTC."""

    month: Annotated[str, Field(description="The month, UTC", examples=["2026-11"])]
    limit: Annotated[
        int | None, Field(description="Of the plan; null: without limit", examples=[1000000])
    ]
    used: Annotated[
        int, Field(description="Spent so far; of an account by all of its keys", examples=[1234])
    ]
    left: Annotated[int | None, Field(description="null: without limit", examples=[998766])]
    renews_ms: Annotated[
        int, Field(description="When the next month begins, and with it new credits",
                   examples=[1796083200000])
    ]  # fmt: skip


class Rate(TypedDict):
    """Requests in any 60 seconds; this one is among them."""

    window_s: Annotated[int, Field(description="Length of the window", examples=[60])]
    limit: Annotated[
        int | None, Field(description="Of the plan; null: without limit", examples=[600])
    ]
    left: Annotated[int | None, Field(description="null: without limit", examples=[599])]
    frees_in_ms: Annotated[
        int | None,
        Field(description="Until the next request comes free; null: without limit",
              examples=[60000]),
    ]  # fmt: skip


class Usage(TypedDict):
    """The plan of a key, and what is left of it."""

    plan: Annotated[str, Field(description="free, pro, business or enterprise", examples=["pro"])]
    key: KeyFacts
    credits: Credits
    rate: Rate
