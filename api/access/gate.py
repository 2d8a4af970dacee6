"""The gate: a request needs a grant, unless its path is on the one list of open paths.

Deny by default. Only paths that the application names as open, and OPTIONS, pass without a grant;
anything else is answered here with 401, whether such a path exists or not.

A grant comes from a key in the header `x-api-key`, sent once; without one, from the session of a
browser: of a user (`api.access.user_sessions`) or of a one-time link (`api.access.sessions`). Paths
of accounts take a user's session and nothing else, so a key cannot make other keys; requests that
change an account carry the session's CSRF token in `x-csrf-token`. A text that cannot be a key is
refused without asking Redis, and so are guesses (`api.access.failures`); the rest is one
step there (`api.access.charge`). Routes find the `Grant` in the request's state, and `key_id`
beside it. The headers of the answer, also of a 429, say what is left of the rate and the credits.

A request that is refused while it is priced costs no credit and counts for the rate; where that is
used up, no more of them are counted in Redis until it has room. The credit is
charged before the work. It is kept when the caller caused the failure: a withheld
body, a closed connection, a query over its limits. It is refunded once when the server failed, for
at most ten requests per minute and key: by a 5xx, or, where a protocol has its errors in a 200, by
`problems.FAILED` in the request's state.

While the Redis of the keys does not answer, no request is let in: 503 `store_unavailable`. To let
requests in unseen would give away what others pay for, and most answers need the same Redis.

`/api/health` is open in a reduced form; a key that is sent to it must be good, but it answers
without Redis too. A browser sends a cookie unasked, so one that is not valid changes nothing there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from redis.exceptions import RedisError
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access import keys, refusals
from api.access.charge import STORE, Charges
from api.access.days import OTHER, Days
from api.access.failures import Failures
from api.access.grants import Grant, Refusal
from api.access.in_flight import InFlight, Turns
from api.access.paces import Pace
from api.access.prices import Price, Priced
from api.access.refused_bodies import RefusedBodies
from api.access.used_up import UsedUp
from api.access.user_sessions import UserSessions
from api.http import bodies, problems
from api.http.errors import (
    CONCURRENCY_EXCEEDED,
    CREDITS_SPENT,
    KEY_REVOKED,
    KEY_UNKNOWN,
    NOT_IN_PLAN,
    RATE_EXCEEDED,
    TOO_MANY_FAILURES,
    USER_SUSPENDED,
    Problem,
)
from api.stores.clients import unavailable
from schemas.plans import MINUTE_S, PLANS, Plan

HEADER: Final = b"x-api-key"
CSRF: Final = b"x-csrf-token"
HEALTH: Final = "/api/health"
FREE: Final = frozenset({HEALTH, "/api/usage", "/websocket-ticket"})
"""Paths that cost no credit. They count for the rate."""

_COST: Final = 1
_OF_THE_KEY: Final = (KEY_UNKNOWN, KEY_REVOKED, USER_SUSPENDED, NOT_IN_PLAN)
_REFUSED: Final = (RATE_EXCEEDED, CREDITS_SPENT, *_OF_THE_KEY)
"""What a route says itself where it answers refusals."""
BATCHES_AT_ONCE: Final = 4
"""Of one key: so many take the process some 60 ms, for which all others wait."""
_RETRY_AFTER_S: Final = 1
ACCOUNT_REQUESTS_A_MINUTE: Final = 120
"""Of one user to a process, to paths of accounts: those are no part of the plan's rate."""
_SEND_ONE: Final = "Send your API key in the header `x-api-key`"

_POLICY: Final = {
    plan.name: f'"minute";q={plan.requests_a_minute};w={MINUTE_S}'.encode()
    for plan in PLANS.values()
    if plan.requests_a_minute is not None
}


class Session(Protocol):
    """Knows browsers by what they send."""

    async def holder(self, headers: Iterable[tuple[bytes, bytes]], address: str) -> str | None:
        """Return the fingerprint of the caller, None if it is unknown; raises Problem."""
        ...


@dataclass(frozen=True, slots=True)
class Accounts:
    """What users who signed in have beside an API key."""

    sessions: UserSessions
    days: Days
    paths: frozenset[str]  # that a user's session alone opens
    pace: Pace = field(default_factory=lambda: Pace(ACCOUNT_REQUESTS_A_MINUTE, MINUTE_S))


class Gate:
    """ASGI middleware around the routes. Requests come with an id in their state."""

    def __init__(
        self,
        app: ASGIApp,
        charges: Charges,
        open_paths: Collection[str],
        most_in_flight: int,
        failures: Failures,
        sessions: Sequence[Session] = (),
        prices: Mapping[str, Price] | None = None,
        accounts: Accounts | None = None,
    ) -> None:
        """`prices` are of paths whose requests do not all cost the same; the first session that
        knows a browser counts."""
        self._app = app
        self._charges = charges
        self._open_paths = frozenset(open_paths)
        self._sessions = sessions
        self._accounts = accounts
        self._prices = prices or {}
        self._in_flight = InFlight(most_in_flight)
        self._batches = Turns(BATCHES_AT_ONCE)
        self._failures = failures
        self._used_up = UsedUp()
        self._refused_bodies = RefusedBodies(most_in_flight)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        accounts = self._accounts
        is_account = accounts is not None and scope["path"] in accounts.paths
        fingerprint: str | None
        try:
            if accounts is not None and is_account:
                fingerprint = await _user(accounts, scope)
            else:
                fingerprint = await self._holder(scope)
        except Problem as problem:
            await problems.response(problem, scope)(scope, receive, send)
            return
        if fingerprint is None:
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["key_id"] = keys.key_id(fingerprint)
        # Of their own: a key that takes all of its user's turns can still be revoked.
        turns = f"account:{fingerprint}" if is_account else self._charges.payer(fingerprint)
        if not self._in_flight.enter(turns):
            await problems.response(self._too_many(), scope)(scope, receive, send)
            return
        try:
            if is_account:
                await self._app(scope, receive, send)
            else:
                await self._answer(fingerprint, scope, receive, send)
        finally:
            self._in_flight.leave(turns)

    async def _holder(self, scope: Scope) -> str | None:
        """Return the fingerprint of the key to charge, None on an open path; raises Problem."""
        if (paid := _given(scope)) is not None:
            return paid.fingerprint
        is_open = scope["path"] in self._open_paths or scope["method"] == "OPTIONS"
        if is_open and scope["path"] != HEALTH:
            return None
        if sent := [value for name, value in scope["headers"] if name == HEADER]:
            return _fingerprint(sent)
        refusal = refusals.missing(_SEND_ONE)
        for each in self._sessions:
            try:
                fingerprint = await each.holder(scope["headers"], _address(scope))
            except Problem as problem:
                refusal = problem
                if problem.kind is TOO_MANY_FAILURES:
                    continue  # a browser may have a cookie that has ended, and one that is good
                break
            if fingerprint:
                self._failures.vouch(fingerprint)
                return fingerprint
        if not is_open:
            raise refusal
        return None

    async def _answer(self, fingerprint: str, scope: Scope, receive: Receive, send: Send) -> None:
        priced: Priced | None = None
        try:
            if (price := self._prices.get(scope["path"])) is not None:
                if (refused := await self._look(fingerprint, scope)) is not None:
                    priced = await self._price_refused(price, fingerprint, scope, receive)
                    raise refused
                try:
                    priced = await price(scope, receive, fingerprint)
                except ClientDisconnect:  # it counts for the rate, like one that was sent whole
                    await self._admit(fingerprint, scope, 0)
                    raise
                except Problem as problem:  # likewise, as where there is no such path
                    if (used_up := self._used_up.of(self._charges.payer(fingerprint))) is not None:
                        raise _refused(used_up) from None
                    grant = await self._admit(fingerprint, scope, 0)
                    if grant is not None:
                        problem.headers = {**problem.headers, **_left_texts(grant.plan, grant)}
                    raise
                receive = priced.receive
                cost = priced.cost
            else:
                cost = 0 if scope["path"] in FREE else _COST
            grant = await self._admit(fingerprint, scope, cost)
        except Problem as problem:
            if priced is not None and priced.answers_refusals and problem.kind in _REFUSED:
                scope["state"]["refusal"] = problem
                await self._app(scope, priced.receive, send)
                return
            await problems.response(problem, scope)(scope, receive, send)
            return
        if grant is None:
            await self._app(scope, receive, send)
        else:
            scope["state"]["grant"] = grant
            is_batch = scope["method"] == "POST" and scope["path"] not in FREE and priced is None
            await self._pass_on(grant, scope, receive, send, is_batch=is_batch)

    async def _look(self, fingerprint: str, scope: Scope) -> Problem | None:
        """Return why a key is refused, None of a good one; raises Problem where nobody looks."""
        if _given(scope) is not None:
            return None
        address = _address(scope)
        try:
            self._failures.check(address, fingerprint)
        except Problem as problem:
            if problem.kind not in _OF_THE_KEY:
                raise
            return problem
        if self._failures.knows(fingerprint):
            return None
        try:
            refusal = await self._charges.look(fingerprint)
        except (RedisError, OSError) as error:
            raise unavailable(STORE, error) from None
        self._note(address, fingerprint, refusal)
        return None if refusal is None else _refused(refusal)

    async def _price_refused(
        self, price: Price, fingerprint: str, scope: Scope, receive: Receive
    ) -> Priced | None:
        """Price the request of a key that is refused, None where its body is not read."""
        holder = self._charges.payer(fingerprint)
        again = await self._refused_bodies.read(scope, receive, holder)
        if again is None:
            return None
        try:
            return await price(scope, again, fingerprint)
        except Problem:  # the key is what is wrong first
            return None

    async def _admit(self, fingerprint: str, scope: Scope, cost: int) -> Grant | None:
        """Return what a key grants, None for health without Redis; raises Problem."""
        if (paid := _given(scope)) is not None:
            return paid
        address = _address(scope)
        self._failures.check(address, fingerprint)
        try:
            answer = await self._charges.request(fingerprint, cost)
        except (RedisError, OSError) as error:
            if scope["path"] == HEALTH:
                return None
            raise unavailable(STORE, error) from None
        if isinstance(answer, Refusal):
            self._note(address, fingerprint, answer)
            if answer.outcome == "rate":
                self._used_up.note(self._charges.payer(fingerprint), answer)
            raise _refused(answer)
        self._note(address, fingerprint, None)
        return answer

    def _note(self, address: str, fingerprint: str, refusal: Refusal | None) -> None:
        """Remember whether a key is good."""
        outcome = "" if refusal is None else refusal.outcome
        if outcome in ("unknown", "revoked", "suspended"):
            self._failures.refused(address, fingerprint, is_unknown=outcome == "unknown")
        else:
            self._failures.found(fingerprint)

    async def _pass_on(
        self, grant: Grant, scope: Scope, receive: Receive, send: Send, *, is_batch: bool
    ) -> None:
        is_answered = False

        async def sending(message: Message) -> None:
            nonlocal grant, is_answered
            if message["type"] == "http.response.start":
                is_answered = message["status"] < 500 and problems.FAILED not in scope["state"]
                if not is_answered:
                    given_back = self._charges.give_back_soon(grant)
                    # A request that is cut off here must not give its credit back again below.
                    grant = replace(grant, charged=0)
                    grant = await asyncio.shield(given_back)
                message["headers"] = [*message.get("headers", ()), *_left(grant.plan, grant)]
            await send(message)

        try:
            if is_batch:
                await self._in_turn(grant, scope, receive, sending)
            else:
                await self._app(scope, receive, sending)
            if grant.user is not None and self._accounts is not None:
                route = scope.get("route")
                self._accounts.days.count(grant.user, getattr(route, "path", OTHER))
        except BaseException as error:  # our fault, or cut off: too slow, or we stop
            # An answer that the caller does not read ends here as well.
            if not is_answered and not _is_callers_fault(error, scope):
                self._charges.give_back_soon(grant)
            raise

    async def _in_turn(self, grant: Grant, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a batch when it is its turn; a body that does not come waits for none."""
        try:
            body = await bodies.read(receive)
        except Problem as problem:  # too large
            await problems.response(problem, scope)(scope, receive, send)
            return
        async with self._batches.take(grant.payer):
            await self._app(scope, bodies.again(body, receive), send)

    def _too_many(self) -> Problem:
        return Problem(
            CONCURRENCY_EXCEEDED,
            f"At most {self._in_flight.most} requests of one API key run at once; send the "
            "next one when another has ended",
            headers={"Retry-After": str(_RETRY_AFTER_S)},
        )


async def _user(accounts: Accounts, scope: Scope) -> str:
    """Return the user whose session a request to an account comes with; raises Problem."""
    session = await accounts.sessions.of(scope["headers"], _address(scope))
    if session is None:
        raise refusals.no_session()
    if not accounts.pace.take(session.user):
        raise refusals.too_fast(int(accounts.pace.window_s))
    if scope["method"] != "GET":
        tokens = [value for name, value in scope["headers"] if name == CSRF]
        if len(tokens) != 1 or not session.has_sent(tokens[0].decode("latin-1")):
            raise refusals.no_token()
    scope.setdefault("state", {})["session"] = session
    return session.user


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _given(scope: Scope) -> Grant | None:
    """Return the grant of another door of this application (`api.pay`): a caller sends no state."""
    found: Grant | None = scope.get("state", {}).get("grant")
    return found


def _is_callers_fault(error: BaseException, scope: Scope) -> bool:
    if isinstance(error, Problem):
        return error.kind.status < 500
    if isinstance(error, ClientDisconnect):
        return True
    body = scope["state"].get("body")  # the guard's, of a POST
    return isinstance(error, asyncio.CancelledError) and body is not None and body.is_awaited


def _fingerprint(sent: list[bytes]) -> str:
    if len(sent) > 1:
        raise refusals.malformed("Send `x-api-key` once, got it several times")
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
        case "suspended":
            return refusals.suspended()
        case "plan":
            return refusals.plan_gone(refusal.plan)
    plan, wait_s = PLANS[refusal.plan], _seconds(refusal.wait_ms)
    kind, detail = (
        RATE_EXCEEDED,
        f"The plan {plan.name} has {plan.requests_a_minute} requests a minute; retry in {wait_s} s",
    )
    if refusal.outcome == "credits":
        kind, detail = (
            CREDITS_SPENT,
            f"All {plan.credits_a_month:,} credits of this month are used up; new ones come with "
            "the next month (UTC)",
        )
    headers = {"Retry-After": str(wait_s), **_left_texts(plan, refusal)}
    return Problem(kind, detail, headers=headers)


def _left_texts(plan: Plan, found: Grant | Refusal) -> dict[str, str]:
    return {name.decode(): value.decode() for name, value in _left(plan, found)}


def _left(plan: Plan, found: Grant | Refusal) -> Iterable[tuple[bytes, bytes]]:
    """Yield headers that say what is left; nothing about what has no limit.

    `t` is when the next request comes free: a minute after the oldest of the last minute.
    """
    requests, credits_left = found.requests_left, found.credits_left
    if requests is not None:
        yield b"ratelimit-policy", _POLICY[plan.name]
        yield b"ratelimit", b'"minute";r=%d;t=%d' % (requests, _seconds(found.frees_ms))
    if credits_left is not None:
        yield b"x-credits-left", b"%d" % credits_left


def _seconds(wait_ms: int) -> int:
    """Return a wait in whole seconds, after which it is over."""
    return max(1, -(-wait_ms // 1000))
