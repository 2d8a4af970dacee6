"""Keys as JSON lines, to be kept outside of Redis or moved to another one.

A line is what Redis has of a key: its fingerprint, not its text, so a file of them lets nobody in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Annotated, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from api.access.keys import Record, check_words
from schemas.json_lines import numbered_lines, parse_line
from schemas.plans import PLANS

_LATEST_MS: Final = 253_402_300_799_999  # of the year 9999
_MOST: Final = 2**53  # that Redis's scripts count exactly

Time = Annotated[int, Field(ge=0, le=_LATEST_MS)]
Month = Annotated[str, Field(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$")]
Credits = Annotated[int, Field(ge=0, lt=_MOST)]


class BadLine(Exception):
    """A line is none of ours; the text names it and says why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")


class _Line(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    name: str
    plan: str
    owner: str
    last4: Annotated[str, Field(pattern=r"^[0-9A-Za-z]{4}$")]
    created_ms: Time
    last_used_ms: Time | None
    revoked_ms: Time | None
    credits: dict[Month, Credits]

    @field_validator("plan")
    @classmethod
    def _is_sold(cls, plan: str) -> str:
        if plan not in PLANS:
            raise ValueError(f"there is no plan {plan[:20]!r}, only {', '.join(PLANS)}")
        return plan

    @field_validator("name", "owner")
    @classmethod
    def _is_printable(cls, words: str) -> str:
        return check_words(words)


def write(records: Iterable[Record]) -> Iterator[bytes]:
    """Yield a line for each key."""
    for each in records:
        yield orjson.dumps(
            {
                "fingerprint": each.fingerprint,
                "name": each.name,
                "plan": each.plan,
                "owner": each.owner,
                "last4": each.last4,
                "created_ms": each.created_ms,
                "last_used_ms": each.last_used_ms,
                "revoked_ms": each.revoked_ms,
                "credits": dict(each.credits),
            },
            option=orjson.OPT_APPEND_NEWLINE,
        )


def read(file: IO[bytes]) -> Iterator[Record | BadLine]:
    """Yield the key of each line, or what is the matter with it."""
    for number, line in numbered_lines(file):
        try:
            yield Record(**_Line.model_validate(parse_line(line)).model_dump())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            reason = first["msg"].removeprefix("Value error, ")
            yield BadLine(number, f"{place}: {reason}" if place else reason)
        except ValueError as error:
            yield BadLine(number, f"no JSON: {error}")
