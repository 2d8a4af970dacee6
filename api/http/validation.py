"""What is wrong with a value, in a sentence: what a parameter must be, and what came instead.

What it must be is read from the JSON schema of the parameter, as the OpenAPI document shows it.
Of what came only plain text is repeated: letters and digits as in names, numbers and addresses, and
no more than an address has. So no answer repeats markup, a query language or an API key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final

from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from schemas.solana.addresses import ACCEPTED as AN_ADDRESS

Location = Sequence[str | int]
Schema = Mapping[str, Any]

_PLAIN: Final = re.compile(r"[A-Za-z0-9._:+-]{0,44}")
_MOST_DIGITS: Final = 44
_JSON: Final = "JSON, with content-type application/json"


def name(location: Location) -> str:
    """Return a place in a request as a caller writes it: limit, mints[3]."""
    if len(location) == 1:
        return str(location[0])
    found = ""
    for part in location[1:]:
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else part
    return found


def reason(error: Mapping[str, Any], route: APIRoute | None) -> str:
    """Return what an error of pydantic says of a parameter: must be ..., got ..."""
    location, came = error["loc"], error.get("input")
    if location == ("body",) and (error["type"] == "missing" or isinstance(came, bytes)):
        return f"is required: {_JSON}" if error["type"] == "missing" else f"must be {_JSON}"
    if error["type"] == "value_error":  # raised by a check of this package
        return f"{error['ctx']['error']}, got {shown(came)}"
    if error["type"] == "extra_forbidden":
        known = ", ".join(
            f"`{each}`" for each in _found(route, location[:-1]).get("properties", ())
        )
        return f"is not a field of the body; its fields are {known}"
    wanted = accepted(_found(route, location))
    if error["type"] == "missing":
        return f"is required: {wanted}"
    return f"must be {wanted}, got {shown(came)}"


def shown(value: object) -> str:
    """Return a value as an error repeats it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            digits = abs(value) < 10**_MOST_DIGITS
            return str(value) if digits else f"a number of more than {_MOST_DIGITS} digits"
        case float():
            return str(value)
        case str():
            return f"'{value}'" if _PLAIN.fullmatch(value) else _count(len(value), "character")
        case list():
            return f"a list of {_count(len(value), 'item')}"
        case _:
            return "an object"


def accepted(schema: Schema) -> str:
    """Return what a schema accepts, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(f"'{each}'" for each in schema["enum"])
    if "const" in schema:
        return f"'{schema['const']}'"
    if schema.get("format") == "solana-address":
        return AN_ADDRESS
    match schema.get("type"):
        case "integer":
            return "an integer" + _range(schema, "minimum", "maximum")
        case "number":
            return "a number" + _range(schema, "minimum", "maximum")
        case "boolean":
            return "true or false"
        case "array":
            size = _range(schema, "minItems", "maxItems").removeprefix(" of").removeprefix(" from")
            return f"a list of{size or ' any number of'} items, each {accepted(schema['items'])}"
        case "object":
            return "an object"
        case "string" if "pattern" in schema:
            return f"text of the form {schema['pattern']}"
        case "string":
            size = _range(schema, "minLength", "maxLength")
            return f"text{size} characters" if size else "text"
    return "of another form"


def _range(schema: Schema, least: str, most: str) -> str:
    low, high = (schema.get(each) for each in (least, most))
    if low is None and high is None:
        return ""
    if high is None:
        return f" of at least {_number(low)}"
    return (
        f" of at most {_number(high)}"
        if low is None
        else f" from {_number(low)} to {_number(high)}"
    )


def _number(value: float | None) -> str:
    return str(int(value) if value == int(value or 0) else value)


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _found(route: APIRoute | None, location: Location) -> Schema:
    """Return the schema of a place in a request; an empty one where there is none."""
    if route is None:
        return {}
    depth = 1 if location[0] == "body" else 2
    whole = _schema(route, location[:depth])
    found = _resolved(whole, whole)
    for part in location[depth:]:
        parts = (
            found.get("items") if isinstance(part, int) else found.get("properties", {}).get(part)
        )
        found = _resolved(parts or {}, whole)
    return found


def _resolved(schema: Schema, whole: Schema) -> Schema:
    """Return a schema without a reference to a definition, and of a choice what is not null."""
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    return choices[0] if choices else schema


def _schema(route: APIRoute, place: Location) -> Schema:
    """Return the schema of a parameter, or of the body."""
    where, *name = place
    if where == "body":
        return _of(route.body_field) if route.body_field else {}
    dependant = route.dependant
    fields = dependant.query_params if where == "query" else dependant.path_params
    return next((_of(field) for field in fields if [field.alias] == name), {})


@cache  # by identity: the parameters that the code has
def _of(field: Any) -> Schema:
    return _adapter(field.field_info).json_schema()


def _adapter(info: Any) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[info.annotation, info])
