"""Kafka credentials on an account's page: list, issue, revoke.

They are issued where the settings have the operator's login to Kafka, and a plan has Kafka. The
account is the user's id, to `soltape kafka-users` as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import structlog
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from api.access import users
from api.access.problem_kinds import (
    KAFKA_BUSY,
    KAFKA_FAILED,
    KAFKA_LIMIT,
    KAFKA_OFF,
    NO_SUCH_CREDENTIALS,
)
from api.access.refusals import no_session, suspended
from api.access.script import Asks
from api.access.store import store
from api.access.users import User
from api.http.errors import NOT_IN_PLAN, Problem
from api.signin.asked import Name, answer, session_of
from api.subscribers import register
from api.subscribers.desk import Busy, Desk, TooSlow
from api.subscribers.issuing import NoSuchUser, NotIssued
from infra.kafka.subscribers import BrokerFailed, SubscribersOff
from infra.settings import Settings, SettingsError
from schemas.plans import KAFKA

log = structlog.get_logger(__name__)

ISSUE: Final = "/account/kafka"
REVOKE: Final = "/account/kafka/revoke"
PATHS: Final = frozenset({ISSUE, REVOKE})

_NO_BROKER: Final = (
    "Kafka credentials need a broker with SCRAM, and none is set up for this page. The embedded "
    "broker is on loopback only; of another one, its operator issues credentials."
)
_NO_LOGIN: Final = "The operator of this service issues Kafka credentials; this page does not."
_RETRY_AFTER_S: Final = 5
_HAVE_IT: Final = " and ".join(KAFKA)


class New(BaseModel):
    """Credentials that a user wants."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: Name


class Old(BaseModel):
    """Credentials that a user wants no more."""

    model_config = ConfigDict(strict=True, extra="forbid")

    user: Annotated[str, Field(pattern=r"^sub-[0-9a-f]{16}-[0-9a-f]{8}$")]


class Kafka:
    """The section of Kafka of all accounts."""

    def __init__(self, settings: Settings, redis: Asks) -> None:
        """`redis` is that of the keys."""
        self._redis = redis
        self._desk: Desk | None = None
        self._why_off = _NO_LOGIN if settings.kafka_public_bootstrap else _NO_BROKER
        try:
            self._desk = Desk(settings, redis)
        except SubscribersOff as off:
            log.info("the account's page issues no Kafka credentials", reason=str(off))

    async def aclose(self) -> None:
        """Wait a little for what is under way."""
        if self._desk is not None:
            await self._desk.aclose()

    def add_to(self, area: APIRouter) -> None:
        """Add the paths."""
        area.add_api_route(ISSUE, self._issue, methods=["POST"])
        area.add_api_route(REVOKE, self._revoke, methods=["POST"])

    async def overview(self, user: User) -> dict[str, Any]:
        """Return what the page shows; raises RedisError."""
        allowance = KAFKA.get(user.plan)
        return {
            "is_issued": self._desk is not None,
            "why_off": None if self._desk is not None else self._why_off,
            "plans": [*KAFKA],
            "most": allowance.credentials if allowance else 0,
            "group_prefix": register.group_prefix(user.id),
            "credentials": [
                {
                    "user": each.user,
                    "name": each.name,
                    "created_ms": each.created_ms,
                    "is_active": each.is_active,
                }
                for each in await register.of_account(self._redis, user.id)
            ],
        }

    async def _issue(self, request: Request, body: New) -> Response:
        desk, user = self._open_desk(), await self._user(request)
        if user.plan not in KAFKA:
            raise Problem(NOT_IN_PLAN, f"The plan {user.plan} has no Kafka; {_HAVE_IT} have it")
        with _problems("issue", user), store():
            issued = await desk.issue(user, body.name)
        log.info("Kafka credentials issued", account=user.id, user=issued.user)
        return answer({"user": issued.user, "properties": issued.properties}, 201)

    async def _revoke(self, request: Request, body: Old) -> Response:
        desk, user = self._open_desk(), await self._user(request)
        with _problems("revoke", user), store():
            await desk.revoke(user, body.user)
        log.info("Kafka credentials revoked", account=user.id, user=body.user)
        return answer({})

    def _open_desk(self) -> Desk:
        if self._desk is None:
            raise Problem(KAFKA_OFF, self._why_off)
        return self._desk

    async def _user(self, request: Request) -> User:
        with store():
            user = await users.read(self._redis, session_of(request).user)
        if user is None:  # deleted in Redis within this request
            raise no_session()
        if user.suspended_ms is not None:  # within this request, too
            raise suspended()
        return user


@contextmanager
def _problems(change: str, user: User) -> Iterator[None]:
    """Raise Problem in place of what goes wrong, and log it."""
    try:
        yield
    except users.Suspended:
        raise suspended() from None
    except NotIssued as refusal:
        log.info("Kafka credentials refused", account=user.id, reason=str(refusal))
        raise Problem(KAFKA_LIMIT, str(refusal)) from None
    except NoSuchUser as refusal:
        raise Problem(NO_SUCH_CREDENTIALS, str(refusal)) from None
    except Busy as refusal:
        raise Problem(
            KAFKA_BUSY, f"{refusal}; retry in {_RETRY_AFTER_S} s", headers=_retry()
        ) from None
    except (BrokerFailed, SettingsError, TooSlow) as failure:
        log.warning("Kafka did not do it", change=change, account=user.id, reason=str(failure))
        raise Problem(
            KAFKA_FAILED,
            "Try again in a minute. What was begun may be in the list: revoke it there",
            headers=_retry(),
        ) from None


def _retry() -> dict[str, str]:
    return {"Retry-After": str(_RETRY_AFTER_S)}
