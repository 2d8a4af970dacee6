"""What a key has used of its plan, and what is left."""

from __future__ import annotations

from redis.exceptions import RedisError

from api.access import register
from api.access.charge import STORE, renews_ms
from api.access.grants import Grant
from api.http.errors import KEY_UNKNOWN, Problem
from api.stores.clients import Stores, unavailable
from api.system.usage_answers import Usage
from schemas.plans import MINUTE_S


async def read_usage(stores: Stores, grant: Grant) -> Usage:
    """Return the plan, credits and rate of the key behind a grant; raises Problem."""
    try:
        record = await register.read(stores.access, grant.fingerprint)
    except (RedisError, OSError) as error:
        raise unavailable(STORE, error) from None
    if record is None:  # deleted in Redis within this request
        raise Problem(KEY_UNKNOWN, "The key no longer exists")
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
