"""Keys and users as JSON lines, to be kept outside of Redis or moved to another one.

A line is what Redis has of a key: its fingerprint, not its text, so a file of them lets nobody in.
The line of a user, which has `user` in place of `fingerprint`, has their keys as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Annotated, Any, Final

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from api.access.keys import Record, check_words
from api.access.restoring import Account
from api.access.users import KEYS, REVOKED, Identity, User
from schemas.json_lines import numbered_lines, parse_line
from schemas.plans import PLANS

_LATEST_MS: Final = 253_402_300_799_999  # of the year 9999
_LONGEST: Final = 2_000  # of what an issuer says
_MOST: Final = 2**53  # that Redis's scripts count exactly

Time = Annotated[int, Field(ge=0, le=_LATEST_MS)]
Month = Annotated[str, Field(pattern=r"^[0-9]{4}-(0[1-9]|1[0-2])$")]
Credits = Annotated[int, Field(ge=0, lt=_MOST)]


class BadLine(Exception):
    """A line cannot be read; the text names it and says why."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")


def _sold(plan: str) -> str:
    if plan not in PLANS:
        raise ValueError(f"there is no plan {plan[:20]!r}, only {', '.join(PLANS)}")
    return plan


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it has characters that cannot be shown")
    return text


Fingerprint = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Words = Annotated[str, AfterValidator(check_words)]
Sold = Annotated[str, AfterValidator(_sold)]
Said = Annotated[str, Field(max_length=_LONGEST), AfterValidator(_printable)]


class _OfKey(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    fingerprint: Fingerprint
    name: Words
    last4: Annotated[str, Field(pattern=r"^[0-9A-Za-z]{4}$")]
    created_ms: Time
    last_used_ms: Time | None
    revoked_ms: Time | None


class _Line(_OfKey):
    plan: Sold
    owner: Words
    credits: dict[Month, Credits]


class _UserLine(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    user: Fingerprint
    name: Said
    plan: Sold
    issuer: Said
    subject: Said
    created_ms: Time
    signed_in_ms: Time
    suspended_ms: Time | None
    credits: dict[Month, Credits]
    keys: Annotated[list[_OfKey], Field(max_length=KEYS + REVOKED)]

    @model_validator(mode="after")
    def _is_of_its_identity(self) -> _UserLine:
        if Identity(self.issuer, self.subject, "").fingerprint != self.user:
            raise ValueError("user is not what this issuer and subject are known by")
        return self

    def account(self) -> Account:
        of_user = self.model_dump(exclude={"user", "keys"})
        keys = (Record(**each.model_dump(), plan="", owner="") for each in self.keys)
        return Account(User(self.user, **of_user), tuple(keys))


def write(records: Iterable[Record], accounts: Iterable[Account] = ()) -> Iterator[bytes]:
    """Yield a line for each key of an operator, then for each user."""
    for each in records:
        yield _line(
            {
                **_of_key(each),
                "plan": each.plan,
                "owner": each.owner,
                "credits": dict(each.credits),
            }
        )
    for account in accounts:
        yield _line(
            {
                "user": account.user.fingerprint,
                **account.user.facts(),
                "keys": [_of_key(each) for each in account.keys],
            }
        )


def _of_key(record: Record) -> dict[str, Any]:
    return {
        "fingerprint": record.fingerprint,
        "name": record.name,
        "last4": record.last4,
        "created_ms": record.created_ms,
        "last_used_ms": record.last_used_ms,
        "revoked_ms": record.revoked_ms,
    }


def _line(fields: dict[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_APPEND_NEWLINE)


def read(file: IO[bytes]) -> Iterator[Record | Account | BadLine]:
    """Yield the key or the user of each line, or what is the matter with it."""
    for number, line in numbered_lines(file):
        try:
            found = parse_line(line)
            if isinstance(found, dict) and "user" in found:
                yield _UserLine.model_validate(found).account()
            else:
                yield Record(**_Line.model_validate(found).model_dump())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            reason = first["msg"].removeprefix("Value error, ")
            yield BadLine(number, f"{place}: {reason}" if place else reason)
        except ValueError as error:
            yield BadLine(number, f"no JSON: {error}")
