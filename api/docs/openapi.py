"""The OpenAPI document: what every operation shares, said once.

A router writes `responses={200: {"model": Shape}, **problems(UNKNOWN_TOKEN, INVALID_ADDRESS)}`;
`document` adds to each operation what the shell around it does: key, limits, ids, caching.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import ConfigDict
from typing_extensions import is_typeddict

from api.docs import examples, groups, links
from api.http import errors
from api.http.errors import MEDIA_TYPE, Kind, Problem

_LATER: Final = ConfigDict(defer_build=True)
KINDS: Final = tuple(kind for kind in vars(errors).values() if isinstance(kind, Kind))
KEY_SCHEME: Final = "ApiKey"
Responses = dict[int | str, dict[str, Any]]

_ALWAYS: Final = (
    errors.KEY_MISSING,
    errors.KEY_MALFORMED,
    errors.KEY_UNKNOWN,
    errors.KEY_REVOKED,
    errors.USER_SUSPENDED,
    errors.NOT_IN_PLAN,
    errors.TOO_COSTLY,
    errors.RATE_EXCEEDED,
    errors.CONCURRENCY_EXCEEDED,
    errors.TOO_MANY_FAILURES,
    errors.CREDITS_SPENT,
    errors.MISDIRECTED,
    errors.INTERNAL,
    errors.STORE_UNAVAILABLE,
    errors.TIMED_OUT,
    errors.BUSY,
)
_WITH_BODY: Final = (
    errors.MALFORMED_JSON,
    errors.REQUEST_TIMED_OUT,
    errors.BODY_TOO_LARGE,
    errors.INVALID_BODY,
)
# Where no key is asked for.
_OPEN: Final = (errors.MISDIRECTED, errors.INTERNAL, errors.TIMED_OUT, errors.BUSY)


def problems(*which: Kind | int) -> Responses:
    """Return the error answers of an operation, for its `responses`.

    A kind means itself, a status every kind that has it. What may happen to any
    request, or to any body, need not be named.
    """
    return _answers({*_ALWAYS, *(kind for kind in KINDS if kind in which or kind.status in which)})


def answers_with(model: type, *which: Kind | int) -> dict[str, Any]:
    """Return what a route's decorator says of its answers: the good one, and `problems`.

    Only the document reads the model: its schema, half of the time that an application takes to
    be made, is built when the document is asked for.
    """
    if is_typeddict(model):
        model.__pydantic_config__ = _LATER  # type: ignore[attr-defined]
    return {"response_model": None, "responses": {200: {"model": model}, **problems(*which)}}


def open_problems() -> Responses:
    """Return the error answers of an operation that asks for no key."""
    return _answers(set(_OPEN))


def described_with(kinds: Sequence[Kind], example: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of an answer of one's own that shares its status with problems."""
    [answer] = _answers(set(kinds)).values()
    return {"application/json": {"example": example}, **answer["content"]}


def _answers(kinds: set[Kind]) -> Responses:
    answers: Responses = {}
    for kind in sorted(kinds, key=KINDS.index):
        answer = answers.setdefault(
            kind.status,
            {
                "description": "",
                "content": {
                    MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": {}}
                },
            },
        )
        line = f"`{kind.code}`: {kind.title}"
        answer["description"] = "; ".join(filter(None, (answer["description"], line)))
        answer["content"][MEDIA_TYPE]["examples"][kind.code] = {"value": _example(kind)}
    return answers


def _example(kind: Kind) -> dict[str, Any]:
    problem = Problem(kind, "What it was, and what to do about it")
    example: dict[str, Any] = orjson.loads(problem.body("5f3a9c1e-1", "/api/..."))
    return example


_PROBLEM: Final = {
    "title": "Problem",
    "description": "What went wrong, after RFC 9457; further members depend on the code.",
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri", "description": "urn:soltape:problem:<code>"},
        "title": {"type": "string", "description": "the kind of problem, for people"},
        "status": {"type": "integer", "description": "the HTTP status"},
        "detail": {"type": "string", "description": "this case: what to do about it"},
        "instance": {"type": "string", "description": "the path that was asked for"},
        "code": {
            "type": "string",
            "description": "the kind of problem, for programs; a code keeps its meaning",
            "enum": [kind.code for kind in KINDS],
        },
        "request_id": {"type": "string", "description": "of this request; it is in our log, too"},
    },
    "required": ["type", "title", "status", "detail", "instance", "code", "request_id"],
    "additionalProperties": True,
}

_HEADERS: Final = {
    "RequestId": {
        "description": "Id of this request: yours if `x-request-id` was one, else ours",
        "schema": {"type": "string"},
    },
    "ETag": {
        "description": "Of this answer, all but its `as_of_*`: send it as `if-none-match`, and "
        "one that has not changed comes as 304 without a body",
        "schema": {"type": "string"},
    },
    "RateLimit": {
        "description": "Requests left in the window, and seconds until it moves on",
        "schema": {"type": "string"},
    },
    "RateLimitPolicy": {
        "description": "Requests that the plan allows, and the window in seconds",
        "schema": {"type": "string"},
    },
    "CreditsLeft": {
        "description": "Credits left in this calendar month (UTC); absent without a limit",
        "schema": {"type": "integer"},
    },
    "RetryAfter": {
        "description": "Seconds after which it is worth asking again",
        "schema": {"type": "integer"},
    },
}
_ON_ALL: Final = {"x-request-id": "RequestId"}
_ON_CHARGED: Final = {
    "RateLimit": "RateLimit",
    "RateLimit-Policy": "RateLimitPolicy",
    "x-credits-left": "CreditsLeft",
}
_NOT_CHARGED: Final = frozenset({"401", "403", "408"})  # ended before the gate says it
_ON_STATUS: Final = {
    "429": {"Retry-After": "RetryAfter"},
    "503": {"Retry-After": "RetryAfter"},
}

_NOT_KEPT: Final = frozenset({"/api/health", "/api/health/live"})  # GETs without an ETag

_PARAMETERS: Final = {
    "RequestId": {
        "name": "x-request-id",
        "in": "header",
        "required": False,
        "description": "An id of yours for this request, 8 to 64 letters, digits, dots or hyphens; "
        "another text is ignored",
        "schema": {"type": "string"},
    },
    "IfNoneMatch": {
        "name": "if-none-match",
        "in": "header",
        "required": False,
        "description": "ETag of the answer that you have; several with commas, or `*`",
        "schema": {"type": "string"},
    },
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application, and keep it there."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title,
            version=app.version,
            description=_guide(),
            routes=app.routes,
            tags=groups.TAGS,
            servers=[{"url": "/", "description": "this server"}],
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        )
        _complete(found)
        app.openapi_schema = found
    return app.openapi_schema


def _guide() -> str:
    """Return what the page begins with."""
    return files("api.docs").joinpath("guide.md").read_text().strip()


def _complete(found: dict[str, Any]) -> None:
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["Problem"] = _PROBLEM
    components["headers"] = _HEADERS
    components["parameters"] = _PARAMETERS
    components["securitySchemes"] = {
        KEY_SCHEME: {"type": "apiKey", "in": "header", "name": "x-api-key"}
    }
    found["security"] = [{KEY_SCHEME: []}]
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            operation["operationId"] = _operation_id(method, path)
            _complete_operation(method, path, operation)
    groups.arrange(found)
    examples.add(found)
    links.add(found)
    components["responses"] = _shared(found["paths"])


def _operation_id(method: str, path: str) -> str:
    """Return what an operation is called in clients that are made from the document."""
    words = re.findall(r"\w+", path.replace("-", "_").removeprefix("/api"))
    return "_".join([method, *words])


def _shared(paths: dict[str, Any]) -> dict[str, Any]:
    """Put references in place of error answers; return these, by name."""
    names: dict[bytes, str] = {}
    shared: dict[str, Any] = {}
    for operations in paths.values():
        for operation in operations.values():
            answers = operation["responses"]
            for status, answer in answers.items():
                if [*answer.get("content", ())] != [MEDIA_TYPE]:
                    continue
                content = orjson.dumps([status, answer], option=orjson.OPT_SORT_KEYS)
                if content not in names:
                    alike = sum(name.startswith(f"Problem{status}") for name in shared)
                    names[content] = f"Problem{status}{f'_{alike + 1}' if alike else ''}"
                    shared[names[content]] = answer
                answers[status] = {"$ref": f"#/components/responses/{names[content]}"}
    return shared


def _join(answer: dict[str, Any], other: dict[str, Any]) -> None:
    """Describe the problems of another answer in this one, too."""
    examples = answer["content"][MEDIA_TYPE]["examples"]
    for code, example in other["content"][MEDIA_TYPE]["examples"].items():
        if code not in examples:
            examples[code] = example
            answer["description"] += f"; `{code}`: {example['value']['title']}"


def _complete_operation(method: str, path: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422", "")):  # FastAPI's own shape, not ours
        del answers["422"]
    unknown = _answers({errors.INVALID_PARAMETER})[422]  # a parameter that it does not have
    _join(answers.setdefault("422", unknown), unknown)
    if "requestBody" in operation:
        for status, answer in _answers(set(_WITH_BODY)).items():
            _join(answers.setdefault(str(status), answer), answer)
    is_open = operation.get("security") == []
    is_kept = method == "get" and path not in _NOT_KEPT
    if is_kept:
        answers["304"] = {"description": "The answer is the one you have"}
    for status, answer in answers.items():
        is_charged = not is_open and status not in _NOT_CHARGED
        named = _ON_ALL | (_ON_CHARGED if is_charged else {}) | _ON_STATUS.get(status, {})
        if is_kept and status in ("200", "304"):
            named["ETag"] = "ETag"
        headers = answer.setdefault("headers", {})
        for name, component in named.items():
            headers.setdefault(name, {"$ref": f"#/components/headers/{component}"})
    operation["responses"] = dict(sorted(answers.items()))
    operation.setdefault("parameters", []).extend(
        {"$ref": f"#/components/parameters/{name}"}
        for name in ("RequestId", "IfNoneMatch")[: 2 if is_kept else 1]
    )
