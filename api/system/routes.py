"""Paths of health, of the tape as it runs, and of the caller's own key."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from api.docs.openapi import KEY_SCHEME, described_with, open_problems, problems
from api.http.encoding import Encoded, encode
from api.http.errors import BUSY, KEY_MISSING, TIMED_OUT, Problem
from api.http.replies import send, send_uncached
from api.http.state import grant, services
from api.system.answers import System
from api.system.health_answers import Health, Live
from api.system.usage_answers import Usage
from schemas.solana.networks import SIMULATED

router = APIRouter()

OPEN: Final = frozenset({"/api/health", "/api/health/live"})
"""Paths that need no grant; without one, health is reduced."""

_LIVE = Encoded(b'{"status":"ok"}')


@router.get(
    "/api/health",
    tags=["health"],
    summary="Whether requests should come here",
    description="Status, timestamp and chain for everybody; with a key also why it is not ok, each "
    "dependency with its latency, how far the pipeline has come, whether a process watches tracked "
    "wallets, and gaps of the last day. "
    "The look at the dependencies is a second old at most, and limited to two. Costs nothing.",
    response_model=None,
    responses={
        **problems(),
        200: {"model": Health, "description": "Send requests here"},
        503: {
            "model": Health,
            "description": "Send none: a store does not answer. Or a problem: `timed_out`, `busy`",
            "content": described_with(
                (TIMED_OUT, BUSY),
                {
                    "status": "unavailable",
                    "timestamp": 1_763_700_000_000,
                    "chain": {"network": "simulated", "genesis_hash": SIMULATED},
                },
            ),
        },
    },
    openapi_extra={"security": [{}, {KEY_SCHEME: []}]},
)
async def health(request: Request) -> Response:
    """Answer with the status alone where no key was sent."""
    found = await services(request).system.health()
    if grant(request) is None:
        found = {
            "status": found["status"],
            "timestamp": found["timestamp"],
            "chain": found["chain"],
        }
    return send_uncached(encode(found), 503 if found["status"] == "unavailable" else 200)


@router.get(
    "/api/health/live",
    tags=["health"],
    summary="Whether this process serves",
    description="Asks nobody else: 200 for as long as the process answers at all.",
    response_model=None,
    responses={**open_problems(), 200: {"model": Live}},
    openapi_extra={"security": []},
)
async def live() -> Response:
    """Answer for as long as the process runs."""
    return send_uncached(_LIVE)


@router.get(
    "/api/system",
    tags=["health"],
    summary="How fast the tape runs, and what is understood of it",
    description="Rates of the last minute, the last hour by the minute, and what became of "
    "each venue's instructions in it: decoded, unknown to our decoder, or malformed. All by "
    "the blocks' own times, from confirmed slots that are stored, each counted once. How far "
    "the pipeline is, and its gaps, are in `/api/health`. Read every two seconds at most.",
    response_model=None,
    responses={200: {"model": System}, **problems()},
)
async def system(request: Request) -> Response:
    """Answer with the last hour of the tape."""
    return send(request, await services(request).system.last_hour())


@router.get(
    "/api/usage",
    tags=["usage"],
    summary="Plan, credits and rate of your key",
    response_model=None,
    responses={**problems(), 200: {"model": Usage, "description": "Of the key that asked"}},
)
async def usage(request: Request) -> Response:
    """Of the key that asks, and of no other: its plan, credits of this month, requests left.

    It costs no credit, and answers when all credits are spent; it counts for the rate.
    """
    found = grant(request)
    if found is None:  # an application without the gate
        raise Problem(KEY_MISSING, "Usage is counted by key: send one as `x-api-key`")
    return send(request, await services(request).system.usage(found))
