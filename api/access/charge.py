"""What a request costs: one credit, taken in the step that checks key, plan and rate.

The step is a script in Redis, so it is exact for any number of processes. A batch costs one credit
as well. The credit of a request that fails here is given back, for `GIVEN_BACK_A_MINUTE` requests a
minute of a key: else whatever makes us fail would be free. The request still counts for the rate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

import structlog
from prometheus_client import Counter
from redis.exceptions import RedisError

from api.access.grants import Grant, Refusal, less
from api.access.holders import Holder, Holders
from api.access.script import Asks, load
from infra.redis.pipelined import Repeated
from schemas.plans import PLANS
from schemas.redis_keys import (
    API_KEY,
    API_KEY_CREDITS,
    API_KEY_GIVEN_BACK,
    API_KEY_MINUTE,
    tag_of_key,
)

log = structlog.get_logger(__name__)

STORE: Final = "keys"
"""Name of the store of the keys in metrics and in answers."""

GIVEN_BACK_A_MINUTE: Final = 10

NOT_GIVEN_BACK: Final = Counter(
    "soltape_api_credits_not_given_back_total",
    "Credits of requests that failed here and were not given back, by cause: store, limit.",
    ["cause"],
)

_LOOKS_AT_ONCE: Final = 1_000  # in a trip, some milliseconds of work for Redis
_CALLS_KEPT: Final = 1 << 12  # of holders; one takes some 2 kB
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
_GIVE_BACK: Final = load("give_back")


class Charges:
    """Takes credits in Redis, and gives them back."""

    def __init__(self, redis: Asks) -> None:
        self._redis = redis
        self._holders = Holders()
        self._giving_back: set[asyncio.Task[Grant]] = set()

    async def request(self, fingerprint: str, cost: int) -> Grant | Refusal:
        """Charge one request of a key, to its user if it has one, or of a user's session.

        Raises RedisError, after which it may have been charged.
        """
        holder, answer = await self._asked(fingerprint, cost, *_PLANS)
        outcome = answer[0]
        if outcome == b"accepted":
            _, plan, month, spent, requests, frees_ms, _, is_user = answer
            return Grant(
                fingerprint,
                PLANS[plan.decode()],
                month.decode(),
                spent,
                requests,
                frees_ms,
                cost,
                holder.payer if is_user else None,
            )
        if outcome in (b"rate", b"credits"):
            _, name, month, spent, requests, frees_ms, now_ms, _ = answer
            plan = PLANS[name.decode()]
            return Refusal(
                outcome.decode(),
                plan.name,
                frees_ms if outcome == b"rate" else renews_ms(month.decode()) - now_ms,
                less(plan.requests_a_minute, requests),
                frees_ms,
                less(plan.credits_a_month, spent),
            )
        return Refusal(outcome.decode(), answer[1].decode() if len(answer) > 1 else "")

    async def look(self, fingerprint: str) -> Refusal | None:
        """Return why nothing is heard of a key: it is unknown, revoked, or its user suspended.

        Raises RedisError.
        """
        _, (outcome, *_) = await self._asked(fingerprint, "look")
        return None if outcome == b"good" else Refusal(outcome.decode())

    async def refused(self, fingerprints: Iterable[str]) -> set[str]:
        """Return those of some keys that are good no more, as `look` finds them; raises RedisError.

        Many are one trip: this is for streams, which outlive the request that opened them.
        """
        found = set()
        for some in _batches([*fingerprints]):
            runs = [(_names(self._holders.of(each)), ("look",)) for each in some]
            answers = await _CHARGE.run_each(self._redis, runs)
            for fingerprint, (outcome, *_) in zip(some, answers, strict=True):
                if outcome == b"user":  # which this process forgot
                    if await self.look(fingerprint) is not None:
                        found.add(fingerprint)
                elif outcome != b"good":
                    found.add(fingerprint)
        return found

    def payer(self, fingerprint: str) -> str:
        """Return who pays for a key, as far as this process knows: all of a user's keys count as
        one once each was used."""
        return self._holders.of(fingerprint).payer

    async def _asked(self, fingerprint: str, *arguments: object) -> tuple[Holder, list[Any]]:
        """Return who pays for a key, and what the script says."""
        holder = self._holders.of(fingerprint)
        answer = await self._charge(holder, arguments)
        if answer[0] == b"user":
            holder = self._holders.learn(fingerprint, answer[1].decode())
            answer = await self._charge(holder, arguments)
        return holder, answer

    async def _charge(self, holder: Holder, arguments: tuple[object, ...]) -> list[Any]:
        answer: list[Any] = await _CHARGE.run_call(self._redis, _call(holder, arguments))
        return answer

    async def give_back(self, grant: Grant) -> Grant:
        """Give back what a request was charged, and return the grant as it is then.

        Its charge stays where too many of this minute got theirs back. If Redis does not answer,
        the loss is counted, not raised.
        """
        if not grant.charged:
            return grant
        tag = tag_of_key(grant.payer)
        try:
            spent, is_given = await _GIVE_BACK.run(
                self._redis,
                [API_KEY_CREDITS.make(tag=tag), API_KEY_GIVEN_BACK.make(tag=tag)],
                (grant.month, grant.charged, GIVEN_BACK_A_MINUTE),
            )
        except (RedisError, OSError) as error:
            NOT_GIVEN_BACK.labels("store").inc(grant.charged)
            log.warning(
                "credits were not given back",
                key_id=grant.key_id,
                credits=grant.charged,
                reason=str(error),
            )
            return replace(grant, charged=0)
        if not is_given:
            NOT_GIVEN_BACK.labels("limit").inc(grant.charged)
            return replace(grant, credits_spent=spent)
        return replace(grant, charged=0, credits_spent=spent)

    def give_back_soon(self, grant: Grant) -> asyncio.Task[Grant]:
        """Give back what a request was charged, in a task that `aclose` waits for."""
        task = asyncio.get_running_loop().create_task(self.give_back(grant))
        self._giving_back.add(task)
        task.add_done_callback(self._giving_back.discard)
        return task

    async def aclose(self) -> None:
        """Wait for the credits that are being given back."""
        await asyncio.gather(*self._giving_back)


@lru_cache(_CALLS_KEPT)
def _call(holder: Holder, arguments: tuple[object, ...]) -> Repeated:
    return _CHARGE.call(_names(holder), arguments)


def _names(holder: Holder) -> tuple[str, ...]:
    kinds = (API_KEY, API_KEY_CREDITS, API_KEY_MINUTE)
    return (*(kind.make(tag=holder.tag) for kind in kinds), *holder.own)


def _batches(fingerprints: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(fingerprints), _LOOKS_AT_ONCE):
        yield fingerprints[start : start + _LOOKS_AT_ONCE]


def renews_ms(month: str) -> int:
    """Return when a month (2026-11, UTC) ends and its credits begin anew."""
    year, number = int(month[:4]), int(month[5:])
    following = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
    return int(following.timestamp()) * 1000
