"""Parameters of paths and queries that several subjects share."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Path, Query
from pydantic import BeforeValidator, WithJsonSchema

from api.http.addresses import EXAMPLE_MINT, EXAMPLE_WALLET, Address
from api.http.windows import MAX_MS, end_ms, first_ms

Wallet = Annotated[
    Address, Path(description="Address of a wallet, base58", examples=[EXAMPLE_WALLET])
]
Mint = Annotated[
    Address, Path(description="Address of a token's mint, base58", examples=[EXAMPLE_MINT])
]
Cursor = Annotated[
    str | None,
    Query(max_length=200, description="`next_cursor` of the page before; leave out for the first"),
]
_FORMS: Final = "a date, an ISO 8601 time (UTC without an offset) or milliseconds since 1970"


def _moment(*examples: str | int) -> WithJsonSchema:
    return WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date"},
                {"type": "string", "format": "date-time"},
                {"type": "integer", "minimum": 0, "maximum": MAX_MS},
            ],
            "examples": [*examples],
        }
    )


From = Annotated[
    int | None,
    BeforeValidator(first_ms),
    _moment("2026-07-02", "2026-07-02T09:30:00Z", 1_782_984_600_000),
    Query(
        alias="from",
        description=f"Start of the range, included: {_FORMS}. A date is the start of that day, UTC",
    ),
]
To = Annotated[
    int | None,
    BeforeValidator(end_ms),
    _moment("2026-07-31", "2026-07-31T18:00:00Z", 1_785_520_800_000),
    Query(
        alias="to",
        description=f"End of the range: {_FORMS}. A date is included, as the whole day, UTC; a "
        "time is not included. Without it the range ends with the chain's last settled block",
    ),
]
