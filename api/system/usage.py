"""What a key has used of its plan, and what is left."""

from __future__ import annotations

from api.access import register, users
from api.access.charge import renews_ms
from api.access.grants import Grant
from api.access.store import store
from api.http.errors import KEY_UNKNOWN, Problem
from api.stores.clients import Stores
from api.system.usage_answers import Usage
from schemas.plans import MINUTE_S


async def read_usage(stores: Stores, grant: Grant) -> Usage:
    """Return the plan, credits and rate of the key behind a grant; raises Problem."""
    with store():
        if grant.user in (None, grant.fingerprint):
            record = await register.read(stores.access, grant.fingerprint)
        else:
            record = await users.read_key(stores.access, grant.user, grant.fingerprint)
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
