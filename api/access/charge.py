"""What a request costs: one credit, taken in the same step that looks at key, plan and rate.

The step is a script in Redis, so it is exact for however many processes answer. What a request
was charged is given back when it ends with a 5xx; the request still counts for the rate.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from fastapi import Request
from prometheus_client import Counter
from redis.exceptions import RedisError

from api.access.keys import key_id
from api.access.script import Asks, load
from api.errors import CREDITS_SPENT, Problem
from api.stores import unavailable
from schemas.plans import PLANS, Plan
from schemas.redis_keys import API_KEY, API_KEY_CREDITS, API_KEY_MINUTE, tag_of_key

log = structlog.get_logger(__name__)

STORE: Final = "keys"
"""Name of the store of the keys in metrics and in answers."""

NOT_GIVEN_BACK: Final = Counter(
    "soltape_api_credits_not_given_back_total",
    "Credits of requests that failed here and that Redis did not take back.",
)

_UNLIMITED: Final = -1
_PLANS: Final = tuple(
    part
    for plan in PLANS.values()
    for part in (
        plan.name,
        _UNLIMITED if plan.credits_a_month is None else plan.credits_a_month,
        _UNLIMITED if plan.requests_a_minute is None else plan.requests_a_minute,
    )
)
_CHARGE: Final = load("charge")
_SPEND: Final = load("spend")


@dataclass(slots=True)
class Grant:
    """A request that was let through, and what it was charged so far."""

    fingerprint: str
    plan: Plan
    month: str  # that it is charged to: 2026-11, UTC
    credits_spent: int  # in the month
    requests: int  # accepted in the last minute, this one among them
    frees_ms: int  # until the oldest of those is a minute old
    now_ms: int  # of Redis's clock
    charged: int  # credits
    charges: Charges

    @property
    def key_id(self) -> str:
        """The short name of the key; it may be shown and logged."""
        return key_id(self.fingerprint)

    @property
    def credits_left(self) -> int | None:
        """Credits left in the month; None without limit."""
        return _less(self.plan.credits_a_month, self.credits_spent)

    @property
    def requests_left(self) -> int | None:
        """Requests left in this minute; None without limit."""
        return _less(self.plan.requests_a_minute, self.requests)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was not let through. It cost nothing."""

    outcome: str  # unknown, revoked, plan, credits or rate
    plan: str = ""
    wait_ms: int = 0  # until it may be let through
    # As of a grant, where credits or rate are why.
    requests_left: int | None = field(default=None, compare=False)
    frees_ms: int = field(default=0, compare=False)
    credits_left: int | None = field(default=None, compare=False)


async def charge_items(request: Request, items: int) -> None:
    """Charge a batch of `items` items: one credit each, of which the gate has taken the first.

    A batch endpoint calls this once, after it has checked the body and before it reads anything.
    Raises Problem: `credits_spent` where fewer are left than there are items, and then the batch
    costs nothing. An application without the gate charges nothing.
    """
    grant: Grant | None = request.scope.get("state", {}).get("grant")
    if grant is not None and items > 1:
        await grant.charges.more(grant, items - 1)


class Charges:
    """Takes credits in Redis, and gives them back."""

    def __init__(self, redis: Asks) -> None:
        self._redis = redis
        self._giving_back: set[asyncio.Task[None]] = set()

    async def request(self, fingerprint: str, cost: int) -> Grant | Refusal:
        """Charge one request to a key; raises RedisError, after which it may have been charged."""
        tag = tag_of_key(fingerprint)
        keys = (API_KEY.make(tag=tag), API_KEY_CREDITS.make(tag=tag), API_KEY_MINUTE.make(tag=tag))
        answer: list[Any] = await _CHARGE.run(self._redis, keys, (cost, *_PLANS))
        outcome = answer[0]
        if outcome == b"accepted":
            _, plan, month, spent, requests, frees_ms, now_ms = answer
            return Grant(
                fingerprint,
                PLANS[plan.decode()],
                month.decode(),
                spent,
                requests,
                frees_ms,
                now_ms,
                cost,
                self,
            )
        if outcome in (b"rate", b"credits"):
            _, name, month, spent, requests, frees_ms, now_ms = answer
            plan = PLANS[name.decode()]
            return Refusal(
                outcome.decode(),
                plan.name,
                frees_ms if outcome == b"rate" else renews_ms(month.decode()) - now_ms,
                _less(plan.requests_a_minute, requests),
                frees_ms,
                _less(plan.credits_a_month, spent),
            )
        return Refusal(outcome.decode(), answer[1].decode() if len(answer) > 1 else "")

    async def more(self, grant: Grant, further: int) -> None:
        """Charge further credits to a request; raises Problem, and then it costs nothing."""
        limit = grant.plan.credits_a_month
        arguments = (
            grant.month,
            further,
            _UNLIMITED if limit is None else limit,
            grant.charged,
        )
        try:
            taken, grant.credits_spent = await _SPEND.run(
                self._redis, [_credits_key(grant)], arguments
            )
        except (RedisError, OSError) as error:
            raise unavailable(STORE, error) from None
        if taken:
            grant.charged += further
            return
        needed = grant.charged + further
        grant.charged = 0
        raise spent(
            f"this batch costs {needed} credits, {grant.credits_left} are left this month",
            renews_ms(grant.month) - grant.now_ms,
        )

    async def give_back(self, grant: Grant) -> None:
        """Give back what a request was charged. Where Redis is away it is counted, not raised."""
        charged, grant.charged = grant.charged, 0
        if not charged:
            return
        try:
            _, grant.credits_spent = await _SPEND.run(
                self._redis, [_credits_key(grant)], (grant.month, -charged, _UNLIMITED, 0)
            )
        except (RedisError, OSError) as error:
            NOT_GIVEN_BACK.inc(charged)
            log.warning(
                "credits were not given back",
                key_id=grant.key_id,
                credits=charged,
                reason=str(error),
            )

    async def aclose(self) -> None:
        """Wait until what is being given back was given back."""
        await asyncio.gather(*self._giving_back)

    def give_back_soon(self, grant: Grant) -> None:
        """Give back what a request was charged, for one that cannot wait until it is done."""
        task = asyncio.get_running_loop().create_task(self.give_back(grant))
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)


def spent(detail: str, wait_ms: int) -> Problem:
    """Return the problem of a key without credits; `wait_ms` until the month ends."""
    return Problem(CREDITS_SPENT, detail, headers={"Retry-After": str(seconds(wait_ms))})


def seconds(wait_ms: int) -> int:
    """Return a wait in whole seconds, after which it is over."""
    return max(1, -(-wait_ms // 1000))


def renews_ms(month: str) -> int:
    """Return when a month (2026-11, UTC) ends and its credits begin anew."""
    year, number = int(month[:4]), int(month[5:])
    following = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return int(following.timestamp()) * 1000


def _less(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _credits_key(grant: Grant) -> str:
    return API_KEY_CREDITS.make(tag=tag_of_key(grant.fingerprint))
