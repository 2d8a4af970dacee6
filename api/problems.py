"""From whatever goes wrong to the one form that callers see: RFC 9457."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.types import Scope

from api.addresses import NoAddress
from api.errors import (
    INTERNAL,
    INVALID_ADDRESS,
    INVALID_BODY,
    INVALID_PARAMETER,
    MALFORMED_JSON,
    MEDIA_TYPE,
    METHOD_NOT_ALLOWED,
    NOT_FOUND,
    Kind,
    Problem,
)
from api.metrics import PROBLEMS

_MOST_TOLD: Final = 10
_LONGEST_NAME: Final = 40
_ONE_OF_MANY: Final = re.compile(r"\b1 (item|character)s\b")

# What pydantic found, in words that need no knowledge of it; {name} stands for its context.
_REASONS: Final = {
    "missing": "is needed",
    "int_type": "is to be a whole number",
    "int_parsing": "is to be a whole number",
    "int_parsing_size": "is too large a number",
    "int_from_float": "is to be a whole number",
    "float_type": "is to be a number",
    "float_parsing": "is to be a number",
    "finite_number": "is to be a finite number",
    "bool_type": "is to be true or false",
    "bool_parsing": "is to be true or false",
    "greater_than": "is to be more than {gt}",
    "greater_than_equal": "is to be at least {ge}",
    "less_than": "is to be less than {lt}",
    "less_than_equal": "is to be at most {le}",
    "string_type": "is to be text",
    "string_unicode": "is to be text in UTF-8",
    "string_too_short": "is to have at least {min_length} characters",
    "string_too_long": "is to have at most {max_length} characters",
    "string_pattern_mismatch": "is not of the form {pattern}",
    "literal_error": "is to be one of {expected}",
    "enum": "is to be one of {expected}",
    "list_type": "is to be a list",
    "dict_type": "is to be an object",
    "model_type": "is to be an object",
    "model_attributes_type": "is to be an object",
    "typed_dict_type": "is to be an object",
    "dataclass_type": "is to be an object",
    "too_short": "is to have at least {min_length} items",
    "too_long": "is to have at most {max_length} items, this has {actual_length}",
    "extra_forbidden": "is not known here",
}


def response(problem: Problem, scope: Scope) -> Response:
    """Return a problem as an answer to a request, and count it."""
    PROBLEMS.labels(problem.kind.code).inc()
    return Response(
        problem.body(scope["state"]["request_id"], scope["path"]),
        problem.kind.status,
        {"cache-control": "no-store", **problem.headers},
        MEDIA_TYPE,
    )


def internal(request_id: str) -> Problem:
    """Return what a caller is told of a fault of ours."""
    return Problem(INTERNAL, f"It is in our log as request {request_id}; asking again may help")


def of_validation(error: RequestValidationError) -> Problem:
    """Return what is wrong with a request's path, query, headers or body."""
    found = error.errors()
    first = found[0]
    if first["type"] == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", "it ends too early")).lower()
        return Problem(MALFORMED_JSON, f"At character {first['loc'][-1]}: {reason}")
    told = [
        {"parameter": _name(each["loc"]), "reason": _reason(each)} for each in found[:_MOST_TOLD]
    ]
    if any(isinstance(each.get("ctx", {}).get("error"), NoAddress) for each in found):
        kind = INVALID_ADDRESS
    elif first["loc"][0] == "body":
        kind = INVALID_BODY
    else:
        kind = INVALID_PARAMETER
    return _of_errors(kind, told, len(found))


def unknown_parameters(names: Sequence[str], known: Sequence[str]) -> Problem:
    """Return the problem of a query with parameters that the path does not have."""
    those = f"known are {', '.join(known)}" if known else "this path has no parameters"
    told = [
        {"parameter": name[:_LONGEST_NAME], "reason": f"is not known here; {those}"}
        for name in names[:_MOST_TOLD]
    ]
    return _of_errors(INVALID_PARAMETER, told, len(names))


def _of_errors(kind: Kind, told: list[dict[str, str]], count: int) -> Problem:
    """Return the problem of so many errors, of which some are told."""
    more = f", and {count - 1} more" if count > 1 else ""
    detail = f"{told[0]['parameter']}: {told[0]['reason']}{more}"
    return Problem(kind, detail, errors=told)


def _name(location: Sequence[str | int]) -> str:
    """Return a place in a request as a caller would write it: limit, mints[3]."""
    if len(location) == 1:
        return str(location[0])
    name = ""
    for part in location[1:]:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _reason(error: Mapping[str, Any]) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":  # raised by a check of ours
        return str(context["error"])
    if error["loc"] == ("body",):
        if error["type"] == "missing":
            return "is needed: JSON, with content-type application/json"
        if isinstance(error.get("input"), bytes):
            return "is to be JSON, with content-type application/json"
    reason = _REASONS.get(error["type"], "is not valid").format_map(context)
    return _ONE_OF_MANY.sub("1 \\1", reason)


def of_http(error: HTTPException, scope: Scope) -> Problem:
    """Return what Starlette or FastAPI refuses: a path, a method, a body that cannot be read."""
    cause = error.__cause__
    if isinstance(cause, Problem):  # ours, raised while FastAPI read the body
        return cause
    headers = dict(error.headers or {})
    if error.status_code == NOT_FOUND.status:
        return Problem(NOT_FOUND, "Nothing is here; /docs lists what there is", headers=headers)
    if error.status_code == METHOD_NOT_ALLOWED.status:
        allowed = headers.get("Allow", "").split(", ")
        if "GET" in allowed:  # then HEAD is answered as well, which no route knows of
            allowed.append("HEAD")
        headers["Allow"] = ", ".join(sorted(allowed))
        return Problem(METHOD_NOT_ALLOWED, f"Use {' or '.join(sorted(allowed))}", headers=headers)
    if error.status_code == MALFORMED_JSON.status:
        return Problem(MALFORMED_JSON, "It is to be JSON in UTF-8, and not nested too deeply")
    return internal(scope["state"]["request_id"])


async def on_problem(request: Request, error: Exception) -> Response:
    """Answer a Problem that a handler raised."""
    assert isinstance(error, Problem)
    return response(error, request.scope)


async def on_validation(request: Request, error: Exception) -> Response:
    """Answer a request that does not fit the operation."""
    assert isinstance(error, RequestValidationError)
    return response(of_validation(error), request.scope)


async def on_http(request: Request, error: Exception) -> Response:
    """Answer what the framework refused."""
    assert isinstance(error, HTTPException)
    return response(of_http(error, request.scope), request.scope)


HANDLERS: Final[dict[int | type[Exception], Any]] = {
    Problem: on_problem,
    RequestValidationError: on_validation,
    HTTPException: on_http,
}
