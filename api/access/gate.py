"""The gate: a request below /api/ comes in with a key that may, or is answered here.

A key comes in the header `x-api-key`, once. One that is not written as ours is refused without
asking anybody; all else is one step in Redis (`api.access.charge`). Who was let through is a
`Grant` in the request's state (`key_id` beside it), and what is left to him stands in the
answer's headers, that of a 429 as well. Whatever ends with a 5xx costs nothing.

While Redis does not answer nobody is let through: 503 `store_unavailable`, counted. Letting people
in unseen would give away what others pay for, and the answers come from the same Redis mostly.

Open without a key: preflights (OPTIONS), liveness, and health in a reduced form. A key that is
sent to health must be a good one, but health answers without Redis too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from redis.exceptions import RedisError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import problems
from api.access import keys, refusals
from api.access.charge import STORE, Charges, Grant, Refusal, seconds, spent
from api.errors import RATE_EXCEEDED, Problem
from api.stores import unavailable
from schemas.plans import MINUTE_S, PLANS, Plan

HEADER: Final = b"x-api-key"
BELOW: Final = "/api/"
HEALTH: Final = "/api/health"
OPEN: Final = frozenset({"/api/health/live"})
FREE: Final = frozenset({HEALTH, "/api/usage"})
"""Paths that cost no credit. They count for the rate."""

_COST: Final = 1
_GET_ONE: Final = "send it in the header x-api-key"

_POLICY: Final = {
    plan.name: f'"minute";q={plan.requests_a_minute};w={MINUTE_S}'.encode()
    for plan in PLANS.values()
    if plan.requests_a_minute is not None
}


class Gate:
    """ASGI middleware around the routes. Requests come with an id in their state."""

    def __init__(self, app: ASGIApp, charges: Charges) -> None:
        self._app = app
        self._charges = charges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http" or is_open(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        try:
            grant = await self._admit(scope)
        except Problem as problem:
            await problems.response(problem, scope)(scope, receive, send)
            return
        if grant is None:
            await self._app(scope, receive, send)
        else:
            await self._pass_on(grant, scope, receive, send)

    async def _admit(self, scope: Scope) -> Grant | None:
        """Return what was granted, None where a path is told without; raises Problem."""
        path = scope["path"]
        sent = [value for name, value in scope["headers"] if name == HEADER]
        if not sent and path == HEALTH:
            return None
        fingerprint = _fingerprint(sent)
        state = scope.setdefault("state", {})
        state["key_id"] = keys.key_id(fingerprint)
        try:
            answer = await self._charges.request(fingerprint, 0 if path in FREE else _COST)
        except (RedisError, OSError) as error:
            if path == HEALTH:
                return None
            raise unavailable(STORE, error) from None
        if isinstance(answer, Refusal):
            raise _refused(answer)
        state["grant"] = answer
        return answer

    async def _pass_on(self, grant: Grant, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                if message["status"] >= 500:
                    await self._charges.give_back(grant)
                message["headers"] = [*message.get("headers", ()), *_left(grant.plan, grant)]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except BaseException as error:  # a fault of ours, or cut off: too slow, or we stop
            if not (isinstance(error, Problem) and error.kind.status < 500):
                self._charges.give_back_soon(grant)
            raise


def is_open(method: str, path: str) -> bool:
    """Tell whether a request needs no key, whatever it sends."""
    return not path.startswith(BELOW) or method == "OPTIONS" or path in OPEN


def _fingerprint(sent: list[bytes]) -> str:
    if not sent:
        raise refusals.missing(_GET_ONE)
    if len(sent) > 1:
        raise refusals.malformed("x-api-key was sent more than once")
    try:
        return keys.parse(sent[0].decode("latin-1"))
    except keys.KeyMalformed as reason:
        raise refusals.malformed(str(reason)) from None


def _refused(refusal: Refusal) -> Problem:
    match refusal.outcome:
        case "unknown":
            return refusals.unknown()
        case "revoked":
            return refusals.revoked()
        case "plan":
            return refusals.plan_gone(refusal.plan)
        case "credits":
            plan = PLANS[refusal.plan]
            problem = spent(
                f"all {plan.credits_a_month:,} credits of this month are spent; they begin anew "
                "with the next one (UTC)",
                refusal.wait_ms,
            )
        case _:
            plan = PLANS[refusal.plan]
            problem = _too_many(plan, seconds(refusal.wait_ms))
    for name, value in _left(plan, refusal):
        problem.headers[name.decode()] = value.decode()
    return problem


def _too_many(plan: Plan, wait_s: int) -> Problem:
    return Problem(
        RATE_EXCEEDED,
        f"{plan.requests_a_minute} requests a minute are in the plan {plan.name}; "
        f"ask again in {wait_s} s",
        headers={"Retry-After": str(wait_s)},
    )


def _left(plan: Plan, found: Grant | Refusal) -> Iterable[tuple[bytes, bytes]]:
    """Yield headers that say what is left; of what has no limit, nothing is said.

    `t` is when the next request comes free: a minute after the oldest of the last minute.
    """
    requests, credits_left = found.requests_left, found.credits_left
    if requests is not None:
        yield b"ratelimit-policy", _POLICY[plan.name]
        yield b"ratelimit", b'"minute";r=%d;t=%d' % (requests, seconds(found.frees_ms))
    if credits_left is not None:
        yield b"x-credits-left", b"%d" % credits_left
