"""From errors of all kinds to the one form that callers see: RFC 9457."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Scope

from api.http import validation
from api.http.errors import (
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
from api.http.metrics import PROBLEMS
from schemas.solana.addresses import NoAddress

FAILED: Final = "failed"
"""What a route sets in the state of a request that the server failed, though its status is 200."""
_MOST_LISTED: Final = 10
_LONGEST_NAME: Final = 40


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
    """Return what a caller sees of an error of the server."""
    return Problem(
        INTERNAL, f"The request failed; the log has it as {request_id}. Repeating it may help"
    )


def of_validation(error: RequestValidationError, route: APIRoute | None) -> Problem:
    """Return what is wrong with a request's path, query, headers or body."""
    found = error.errors()
    first = found[0]
    if first["type"] == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", "it ends too early")).lower()
        return Problem(
            MALFORMED_JSON, f"The body is not valid JSON at character {first['loc'][-1]}: {reason}"
        )
    listed = [
        {
            "parameter": validation.name(each["loc"])[:_LONGEST_NAME],
            "reason": validation.reason(each, route),
        }
        for each in found[:_MOST_LISTED]
    ]
    if any(isinstance(each.get("ctx", {}).get("error"), NoAddress) for each in found):
        kind = INVALID_ADDRESS
    elif first["loc"][0] == "body":
        kind = INVALID_BODY
    else:
        kind = INVALID_PARAMETER
    return of_errors(kind, listed, len(found))


def unknown_parameters(names: Sequence[str], known: Sequence[str]) -> Problem:
    """Return the problem of a query with parameters that the path does not have."""
    accepted = ", ".join(f"`{name}`" for name in known) or "none"
    listed = [
        {
            "parameter": name[:_LONGEST_NAME],
            "reason": f"is not a parameter of this path; it accepts {accepted}",
        }
        for name in names[:_MOST_LISTED]
    ]
    return of_errors(INVALID_PARAMETER, listed, len(names))


def of_errors(kind: Kind, listed: list[dict[str, str]], count: int) -> Problem:
    """Return the problem of `count` errors, of which some are listed."""
    more = f" (and {count - 1} more)" if count > 1 else ""
    detail = f"`{listed[0]['parameter']}` {listed[0]['reason']}{more}"
    return Problem(kind, detail, errors=listed)


def of_http(error: HTTPException, scope: Scope) -> Problem:
    """Return what Starlette or FastAPI refuses: a path, a method, a body that cannot be read."""
    cause = error.__cause__
    if isinstance(cause, Problem):  # ours, raised while FastAPI read the body
        return cause
    headers = dict(error.headers or {})
    if error.status_code == NOT_FOUND.status:
        return Problem(NOT_FOUND, "No such path; /docs lists all paths", headers=headers)
    if error.status_code == METHOD_NOT_ALLOWED.status:
        allowed = headers.get("Allow", "").split(", ")
        if "GET" in allowed:  # HEAD is answered like GET, but no route lists it
            allowed.append("HEAD")
        headers["Allow"] = ", ".join(sorted(allowed))
        return Problem(METHOD_NOT_ALLOWED, f"Use {' or '.join(sorted(allowed))}", headers=headers)
    if error.status_code == MALFORMED_JSON.status:
        return Problem(MALFORMED_JSON, "The body must be JSON in UTF-8, not nested too deeply")
    return internal(scope["state"]["request_id"])


async def on_problem(request: Request, error: Exception) -> Response:
    """Answer a Problem that a handler raises."""
    assert isinstance(error, Problem)
    return response(error, request.scope)


async def on_validation(request: Request, error: Exception) -> Response:
    """Answer a request that the operation does not accept."""
    assert isinstance(error, RequestValidationError)
    return response(of_validation(error, request.scope.get("route")), request.scope)


async def on_http(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses."""
    assert isinstance(error, HTTPException)
    return response(of_http(error, request.scope), request.scope)


HANDLERS: Final[dict[int | type[Exception], Any]] = {
    Problem: on_problem,
    RequestValidationError: on_validation,
    HTTPException: on_http,
}
