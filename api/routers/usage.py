"""What the caller's key has used, and what is left."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from redis.exceptions import RedisError

from api.access import register
from api.access.charge import STORE, Grant, renews_ms
from api.answers.usage import Usage
from api.errors import KEY_MISSING, KEY_UNKNOWN, Problem
from api.openapi import problems
from api.reply import reply
from api.stores import Stores, unavailable
from schemas.plans import MINUTE_S


def router(stores: Stores) -> APIRouter:
    """Return the paths of this area."""
    area = APIRouter(tags=["usage"])

    @area.get(
        "/api/usage",
        summary="Plan, credits and rate of your key",
        response_model=None,
        responses={**problems(), 200: {"model": Usage, "description": "Of the key that asked"}},
    )
    async def usage(request: Request) -> Response:
        """Of the key that asks, and of no other: its plan, credits of this month, requests left.

        It costs no credit, and answers when all credits are spent; it counts for the rate.
        """
        return reply(request, await _read(stores, request))

    return area


async def _read(stores: Stores, request: Request) -> Usage:
    grant: Grant | None = request.scope.get("state", {}).get("grant")
    if grant is None:  # an application without the gate
        raise Problem(KEY_MISSING, "without a key there is no usage to tell of")
    try:
        record = await register.read(stores.access, grant.fingerprint)
    except (RedisError, OSError) as error:
        raise unavailable(STORE, error) from None
    if record is None:  # deleted in Redis within this request
        raise Problem(KEY_UNKNOWN, "the key has gone")
    plan, rate = grant.plan, grant.plan.requests_a_minute
    return {
        "plan": plan.name,
        "key": {
            "id": record.id,
            "key": record.display,
            "name": record.name,
            "created_ms": record.created_ms,
        },
        "credits": {
            "month": grant.month,
            "limit": plan.credits_a_month,
            "used": grant.credits_spent,
            "left": grant.credits_left,
            "renews_ms": renews_ms(grant.month),
        },
        "rate": {
            "window_s": MINUTE_S,
            "limit": rate,
            "left": grant.requests_left,
            "frees_in_ms": None if rate is None else grant.frees_ms,
        },
    }
