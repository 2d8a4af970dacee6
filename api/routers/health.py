"""Paths of health."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Request, Response

from api.answers.health import Health, Live
from api.errors import BUSY, TIMED_OUT
from api.openapi import KEY_SCHEME, open_problems, problems, told_with
from api.readers.health import HealthReader
from api.stores import Stores

_NOT_KEPT = {"cache-control": "no-store"}


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    area = APIRouter(tags=["health"])
    reader = HealthReader(stores)

    @area.get(
        "/api/health",
        summary="Whether requests should come here",
        description="Status and timestamp for everybody; with a key also why it is not ok, each "
        "dependency with its latency, how far the pipeline has come, and gaps of the last day. "
        "The look at the dependencies is a second old at most, and limited to two. Costs nothing.",
        response_model=None,
        responses={
            **problems(),
            200: {"model": Health, "description": "Send requests here"},
            503: {
                "model": Health,
                "description": "Send none: a store does not answer. Or a problem: `timed_out`, "
                "`busy`",
                "content": told_with(
                    (TIMED_OUT, BUSY), {"status": "unavailable", "timestamp": 1_763_700_000_000}
                ),
            },
        },
        openapi_extra={"security": [{}, {KEY_SCHEME: []}]},
    )
    async def health(request: Request) -> Response:
        found = await reader.read()
        if "grant" not in request.scope["state"]:  # no key was sent
            found = {"status": found["status"], "timestamp": found["timestamp"]}
        status = 503 if found["status"] == "unavailable" else 200
        return Response(orjson.dumps(found), status, _NOT_KEPT, "application/json")

    @area.get(
        "/api/health/live",
        summary="Whether this process serves",
        description="Asks nobody else: 200 for as long as the process answers at all.",
        response_model=None,
        responses={**open_problems(), 200: {"model": Live}},
        openapi_extra={"security": []},
    )
    async def live() -> Response:
        return Response(b'{"status":"ok"}', 200, _NOT_KEPT, "application/json")

    return area
