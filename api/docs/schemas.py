"""The schema of the messages on Kafka, for subscribers to generate their classes from."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter, Request, Response

from api.http.assets import Asset

TAPE: Final = "/schemas/tape.proto"
OPEN: Final = frozenset({TAPE})
"""Paths that need no grant."""

router = APIRouter(include_in_schema=False)


@router.get(TAPE)
async def tape(request: Request) -> Response:
    """Answer with `schemas/proto/tape.proto`."""
    return _tape().respond(request)


@cache
def _tape() -> Asset:
    content = files("schemas.proto").joinpath("tape.proto").read_bytes()
    return Asset(content, "text/plain; charset=utf-8", {"x-content-type-options": "nosniff"})
