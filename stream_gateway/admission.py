"""Who may connect, and how many at once: looked at in Redis, exactly, whatever gateway is asked.

A connection that was let in has a lease beside its key (`schemas.redis_keys.API_KEY_CONNECTIONS`).
Key, plan and number of leases are looked at in one step of Redis, by Redis's clock. Every two
seconds one trip renews the leases of this process and returns the keys that were revoked or have
another plan. A lease is given back when its connection ends; those of a process that was killed end
by themselves.

While Redis is away new connections get 503 and open ones stay: when it is back, their leases are
renewed, or made again if Redis has lost them. So after more than a lease's time without Redis there
may be more connections than the plan has, until some of them end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import count
from secrets import token_hex
from typing import Any, Final

import orjson
import structlog
from cachetools import TTLCache
from prometheus_client import Counter
from redis.exceptions import RedisError

from api.access import keys, passes, refusals
from api.access.failures import SPARED, Failures
from api.access.holders import Holder, Holders
from api.access.paces import Pace, network
from api.access.script import Asks, load
from schemas.plans import MINUTE_S, PLANS, Plan
from schemas.redis_keys import (
    API_KEY,
    API_KEY_CONNECTIONS,
    API_TICKET,
    CONNECTION_LEASE_S,
)

log = structlog.get_logger(__name__)

STORE: Final = "keys"
"""What the Redis of the keys is called in metrics and answers, as in the API."""
LOOK_EVERY_S: Final = 2.0
"""Time from a look at leases and revoked keys to the next."""
TICKETS_A_MINUTE: Final = 600
"""Tickets of an address that may lead nowhere; more are not looked at."""
_TICKETS_KEPT: Final = 10_000
TOO_MANY_CONNECTIONS: Final = "too_many_connections"
_RETRY_AFTER_S: Final = 5  # where the plan's connections are open
_HOW: Final = "send it as ?api_key=..., or in the header x-api-key"
_LEASES_AT_ONCE: Final = 1_000  # in a trip, some milliseconds of work for Redis and for us
_UNLIMITED: Final = -1
_PLANS: Final = tuple(
    part
    for plan in PLANS.values()
    for part in (plan.name, _UNLIMITED if plan.connections is None else plan.connections)
)
_ADMIT: Final = load("admit", __package__)
_RENEW: Final = load("renew", __package__)

ADMISSIONS: Final = Counter(
    "soltape_gateway_admissions_total",
    "Connections that were let in (code: admitted) or refused for their key, by the answer's code.",
    ["code"],
)
LOOKS_FAILED: Final = Counter(
    "soltape_gateway_key_looks_failed_total",
    "Looks at leases and revoked keys that Redis did not answer.",
)


class Refusal(Exception):
    """Ends a handshake with an answer of HTTP."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        *,
        title: str = "",
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.status = status
        self.code = code
        self.title = title or HTTPStatus(status).phrase
        self.detail = detail
        self.headers = headers or {}
        self.key_id: str | None = None  # of the key that was refused, for the log

    def body(self, request_id: str, path: str) -> bytes:
        """Return the answer's body, application/problem+json as the API has it; `path` without
        its query, which may hold a key."""
        return orjson.dumps(
            {
                "type": f"urn:soltape:problem:{self.code}",
                "title": self.title,
                "status": self.status,
                "detail": self.detail,
                "instance": path,
                "code": self.code,
                "request_id": request_id,
            }
        )


@dataclass(frozen=True, slots=True)
class Admitted:
    """A connection that was let in."""

    holder: Holder
    key_id: str  # the short name of the key; it may be shown and logged
    plan: Plan
    lease_id: str

    @property
    def payer_id(self) -> str:
        """The short name of the payer: the user, else the key."""
        return keys.key_id(self.holder.payer)


class Admission:
    """Lets connections of this process in.

    `revoked` is called once for each connection whose key was revoked or whose session has ended,
    `suspended` for each whose user was suspended (without it, `revoked`), `replanned` for each that
    was let in under another plan than its key has now; all in the event loop.
    """

    def __init__(
        self,
        redis: Asks,
        revoked: Callable[[Admitted], None],
        replanned: Callable[[Admitted], None],
        suspended: Callable[[Admitted], None] | None = None,
    ) -> None:
        self._redis = redis
        self._failures = Failures()
        self._tickets = Pace(TICKETS_A_MINUTE, MINUTE_S)
        # Digests of tickets that lead nowhere any more: a secret that is gone never comes back.
        self._gone: TTLCache[str, None] = TTLCache(_TICKETS_KEPT, API_TICKET.ttl_s or MINUTE_S)
        self._holders = Holders()
        self._revoked = revoked
        self._replanned = replanned
        self._suspended = suspended or revoked
        self._process = token_hex(8)
        self._numbers = count(1)
        self._open: dict[Holder, dict[str, Admitted]] = defaultdict(dict)  # holder, lease
        # Leases that Redis has, or may have, of connections that there are not; tried till it says
        # so, or till they have ended by themselves: holder, lease -> until, the loop's clock.
        self._unreleased: dict[tuple[Holder, str], float] = {}
        self._is_away = False

    async def admit(self, key_text: str | None, address: str = "") -> Admitted:
        """Let a connection in by a key or by a ticket for one; raises Refusal."""
        key_id = None
        try:
            fingerprint, session = await self._credential(key_text or "", address)
            key_id = keys.key_id(fingerprint)
            self._check(address, fingerprint)
            admitted = await self._admit(fingerprint, session, address)
        except Refusal as refusal:
            ADMISSIONS.labels(refusal.code).inc()
            refusal.key_id = key_id
            raise
        ADMISSIONS.labels("admitted").inc()
        return admitted

    async def release(self, admitted: Admitted) -> None:
        """Give a lease back; where Redis is away, later. To be called once for each connection."""
        self._forget(admitted)
        self._unreleased[admitted.holder, admitted.lease_id] = _lease_end_s()
        await self._release()

    async def aclose(self) -> None:
        """Give back all leases that are left, as the process ends."""
        for leases in self._open.values():
            for each in leases.values():
                self._unreleased[each.holder, each.lease_id] = _lease_end_s()
        self._open.clear()
        await self._release()

    async def run(self) -> None:
        """Look at leases, keys and plans every two seconds, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Renew all leases, and report those whose key was revoked or has another plan."""
        await self._release()
        renewed: list[tuple[Holder, Sequence[str], bytes]] = []
        try:
            for held in self._batches():
                runs = [(_names(holder), _lease(holder, leases)) for holder, leases in held]
                answers = await _RENEW.run_each(self._redis, runs)
                for (holder, leases), answer in zip(held, answers, strict=True):
                    if answer[0] == b"revoked":
                        self._end(holder, "key was revoked", self._revoked)
                    elif answer[0] == b"suspended":
                        self._end(holder, "user was suspended", self._suspended)
                    elif answer[1] is not None:
                        renewed.append((holder, leases, answer[1]))
        except (RedisError, OSError) as error:
            LOOKS_FAILED.inc()
            if not self._is_away:
                log.warning("leases are not renewed", reason=_words(error))
            self._is_away = True
            return
        if self._is_away:
            log.info("leases are renewed again")
        self._is_away = False
        # Last: a lease that is given back before the last batch might be renewed with that.
        for holder, leases, name in renewed:
            self._end_of_other_plans(holder, leases, name.decode())

    async def _credential(self, text: str, address: str) -> tuple[str, str | None]:
        """Return the fingerprint of a key or ticket, and of a session's the digest of that."""
        if not text:
            raise refused(refusals.missing(_HOW))
        if text.startswith(passes.TICKET):
            found = await self._spend(text.removeprefix(passes.TICKET), address)
            fingerprint, _, session = found.partition(".")
            return fingerprint, session or None
        try:
            return keys.parse(text), None
        except keys.KeyMalformed as reason:
            raise refused(refusals.malformed(str(reason))) from None

    async def _spend(self, ticket: str, address: str) -> str:
        """Return what a ticket leads to, this one time.

        Tickets have a pace of their own: a bad key behind a shared address bars no dashboard. Only
        those that lead nowhere count; guesses among 2**256 stay as hopeless, and cost Redis little.
        One that is retried after it was spent, or led nowhere, neither counts nor asks Redis.
        """
        caller = network(address)
        if not passes.is_secret(ticket):
            raise _ticket_gone()
        digest = passes.digest(ticket)
        if digest in self._gone:
            SPARED.labels("tickets").inc()
            raise _ticket_gone()
        if not self._tickets.take(caller):
            SPARED.labels("tickets").inc()
            raise refused(refusals.too_many_tickets(MINUTE_S))
        try:
            holder = await passes.spend(self._redis, API_TICKET, ticket)
        except (RedisError, OSError) as error:
            self._tickets.give_back(caller)
            raise _unavailable(error) from None
        except BaseException:  # the handshake took too long, or its client left
            self._tickets.give_back(caller)
            raise
        self._gone[digest] = None
        if holder is None:
            raise _ticket_gone()
        self._tickets.give_back(caller)
        self._failures.vouch(holder.partition(".")[0])
        return holder

    def _check(self, address: str, fingerprint: str = "") -> None:
        try:
            self._failures.check(address, fingerprint)
        except refusals.Problem as problem:
            raise refused(problem) from None

    async def _admit(self, fingerprint: str, session: str | None, address: str) -> Admitted:
        holder = self._holders.of(fingerprint)
        if session is not None:
            holder = Holder(fingerprint, session=session)
        key_id = keys.key_id(fingerprint)
        lease_id = f"{self._process}-{next(self._numbers):x}"
        outcome, *details = await self._take(holder, lease_id)
        if outcome == b"user":
            holder = self._holders.learn(fingerprint, details[0].decode())
            outcome, *details = await self._take(holder, lease_id)
        if outcome in (b"unknown", b"revoked", b"suspended"):
            self._failures.refused(address, fingerprint, is_unknown=outcome == b"unknown")
        else:
            self._failures.found(fingerprint)
        match outcome:
            case b"admitted":
                admitted = Admitted(holder, key_id, PLANS[details[0].decode()], lease_id)
                self._open[holder][lease_id] = admitted
                return admitted
            case b"unknown":
                raise refused(refusals.unknown())
            case b"revoked":
                raise refused(refusals.revoked())
            case b"suspended":
                raise refused(refusals.suspended())
            case b"ended":
                raise refused(refusals.signed_out())
            case b"plan":
                raise refused(refusals.plan_gone(details[0].decode()))
            case b"ending":
                raise _ending(details[1])
            case _:
                raise _too_many(PLANS[details[0].decode()])

    async def _take(self, holder: Holder, lease_id: str) -> list[Any]:
        try:
            answer: list[Any] = await _ADMIT.run(
                self._redis,
                _names(holder),
                (lease_id, CONNECTION_LEASE_S * 1000, holder.session or "", *_PLANS),
            )
        except (RedisError, OSError) as error:
            self._unreleased[holder, lease_id] = _lease_end_s()  # it may have been given
            raise _unavailable(error) from None
        except asyncio.CancelledError:  # the caller left meanwhile
            self._unreleased[holder, lease_id] = _lease_end_s()
            raise
        return answer

    def _batches(self) -> Iterator[list[tuple[Holder, Sequence[str]]]]:
        """Yield the leases by key, some at a time, as they are at that moment."""
        batch: list[tuple[Holder, Sequence[str]]] = []
        size = 0
        for holder in list(self._open):
            leases = list(self._open.get(holder, ()))
            for start in range(0, len(leases), _LEASES_AT_ONCE):
                some = leases[start : start + _LEASES_AT_ONCE]
                if size + len(some) > _LEASES_AT_ONCE and batch:
                    yield batch
                    batch, size = [], 0
                batch.append((holder, some))
                size += len(some)
        if batch:
            yield batch

    def _end(self, holder: Holder, event: str, report: Callable[[Admitted], None]) -> None:
        """Report every connection of a key, or a session, that is good no more."""
        for admitted in self._open.pop(holder, {}).values():
            log.info(event, key_id=admitted.key_id)
            report(admitted)

    def _end_of_other_plans(self, holder: Holder, leases: Sequence[str], plan: str) -> None:
        """Report connections of a key that were let in under another plan than it has.

        `leases` were renewed when it had that plan: later ones may know of a newer plan.
        """
        for lease_id in leases:
            admitted = self._open.get(holder, {}).get(lease_id)
            if admitted is not None and admitted.plan.name != plan:
                self._forget(admitted)
                log.info(
                    "plan has changed",
                    key_id=admitted.key_id,
                    plan=plan,
                    before=admitted.plan.name,
                )
                self._replanned(admitted)

    def _forget(self, admitted: Admitted) -> None:
        leases = self._open.get(admitted.holder)
        if leases is not None:
            leases.pop(admitted.lease_id, None)
            if not leases:
                del self._open[admitted.holder]

    async def _release(self) -> None:
        """Give back leases that have ended; keep those that Redis does not take now."""
        waiting, self._unreleased = self._unreleased, {}
        if not waiting:
            return
        commands = [
            ("ZREM", API_KEY_CONNECTIONS.make(tag=holder.tag), lease_id)
            for holder, lease_id in waiting
        ]
        try:
            await self._redis.ask(commands)
        except (RedisError, OSError, asyncio.CancelledError) as error:
            now_s = asyncio.get_running_loop().time()
            self._unreleased |= {each: end_s for each, end_s in waiting.items() if end_s > now_s}
            if isinstance(error, asyncio.CancelledError):
                raise


def refused(problem: refusals.Problem) -> Refusal:
    """Return a problem of `api.access` as the end of a handshake."""
    kind = problem.kind
    return Refusal(kind.status, kind.code, problem.detail, problem.headers, title=kind.title)


def _ticket_gone() -> Refusal:
    return refused(refusals.malformed("The ticket was used before, or it has expired"))


def _unavailable(error: Exception) -> Refusal:
    log.warning("store does not answer", store=STORE, reason=_words(error))
    return refused(refusals.store_unavailable(STORE))


def _too_many(plan: Plan) -> Refusal:
    connections = "1 connection" if plan.connections == 1 else f"{plan.connections} connections"
    return Refusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        TOO_MANY_CONNECTIONS,
        f"{connections} at once {'is' if plan.connections == 1 else 'are'} in the plan "
        f"{plan.name}: close one first",
        {"Retry-After": str(_RETRY_AFTER_S)},
        title="The plan's connections are open already",
    )


def _ending(wait_ms: int) -> Refusal:
    """Refuse for a while: with a status that clients try again at by themselves."""
    wait_s = max(1, -(-wait_ms // 1000))
    return Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "connection_ending",
        f"a connection of this key was lost with its gateway and counts for {wait_s} s more",
        {"Retry-After": str(wait_s)},
        title="The plan's connections are ending",
    )


def _names(holder: Holder) -> tuple[str, ...]:
    tag = holder.tag
    return API_KEY.make(tag=tag), API_KEY_CONNECTIONS.make(tag=tag), *holder.own


def _lease(holder: Holder, leases: Sequence[str]) -> tuple[Any, ...]:
    return (CONNECTION_LEASE_S * 1000, holder.session or "", *leases)


def _lease_end_s() -> float:
    return asyncio.get_running_loop().time() + CONNECTION_LEASE_S


def _words(error: Exception) -> str:
    return str(error).partition("\n")[0]
