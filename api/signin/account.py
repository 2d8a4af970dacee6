"""What an account's page shows, as JSON: the user, plan, credits, keys, requests by day."""

from __future__ import annotations

from typing import Any

from api.access import days, register, users
from api.access.charge import renews_ms
from api.access.grants import less
from api.access.keys import Record
from api.access.script import Asks
from api.access.user_sessions import UserSession
from api.access.users import User
from schemas.plans import PLANS, Plan


async def overview(redis: Asks, session: UserSession, user: User) -> dict[str, Any]:
    """Return all but the requests; raises RedisError."""
    month = register.month_of(await register.now_ms(redis))
    plan = PLANS.get(user.plan)
    spent = user.credits.get(month, 0)
    limit = None if plan is None else plan.credits_a_month
    return {
        "csrf": session.csrf,
        "user": {"id": user.id, "name": user.name, "created_ms": user.created_ms},
        "plan": {"name": user.plan} if plan is None else _plan(plan),
        "credits": {
            "month": month,
            "limit": limit,
            "used": spent,
            "left": less(limit, spent),
            "renews_ms": renews_ms(month),
        },
        "keys": [_key(each) for each in await users.read_keys(redis, user.fingerprint)],
        "most_keys": users.KEYS,
    }


async def usage(redis: Asks, user: str) -> dict[str, Any]:
    """Return the requests of the last days by path; raises RedisError."""
    return {"days": [{"day": day, "paths": paths} for day, paths in await days.read(redis, user)]}


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "name": plan.name,
        "price_usd_a_month": plan.price_usd_a_month,
        "credits_a_month": plan.credits_a_month,
        "requests_a_minute": plan.requests_a_minute,
        "connections": plan.connections,
        "wallet_filters": plan.wallet_filters,
        "kafka": plan.kafka,
        "mcp": plan.mcp,
    }


def _key(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "key": record.display,
        "name": record.name,
        "created_ms": record.created_ms,
        "last_used_ms": record.last_used_ms,
    }
