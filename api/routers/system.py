"""The path of the tape as it runs."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.answers.system import System
from api.openapi import problems
from api.readers.system import SystemReader
from api.reply import send
from api.stores import Stores


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    area = APIRouter(tags=["health"])
    reader = SystemReader(stores)

    @area.get(
        "/api/system",
        summary="How fast the tape runs, and what is understood of it",
        description="Rates of the last minute, the last hour by the minute, and what became of "
        "each venue's instructions in it: decoded, unknown to our decoder, or malformed. All by "
        "the blocks' own times, from confirmed slots that are stored, each counted once. How far "
        "the pipeline has come, and gaps, are told by `/api/health`. Read every two seconds at "
        "most.",
        response_model=None,
        responses={200: {"model": System}, **problems()},
    )
    async def system(request: Request) -> Response:
        return send(request, await reader.last_hour())

    return area
