"""Issues and revokes credentials of Kafka: the one module that does, for the command and the page.

Its bounds: a plan with Kafka, as many users of an account at once as the plan has, `MOST_AN_HOUR`
new ones, `MOST` of all accounts. The plan's bytes are shared evenly among an account's users, so
that two do not double it. A password is returned once, and kept by nobody but Kafka (as a SCRAM
secret). Whoever calls has made sure that the account is the caller's own, and its plan paid.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import structlog
from redis.exceptions import RedisError

from api.access.keys import check_words
from api.access.register import now_ms
from api.access.script import Asks
from api.subscribers import register
from api.subscribers.register import MOST_AN_HOUR, KafkaUser
from infra.kafka.quotas import Quota
from infra.kafka.subscribers import BrokerFailed, Subscribers
from infra.settings import Settings
from schemas.plans import KAFKA

log = structlog.get_logger(__name__)

_PASSWORD_BYTES: Final = 24


class NotIssued(Exception):
    """No credentials; the text says which bound is met, or what is wrong with the request."""


class NoSuchUser(Exception):
    """The account has no such user; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a subscriber connects with. The password is shown once."""

    user: KafkaUser
    password: str = field(repr=False)


class Issuer:
    """Issues and revokes the credentials of accounts."""

    def __init__(self, settings: Settings, redis: Asks) -> None:
        """`redis` is that of the keys. Raises SubscribersOff."""
        self._redis = redis
        self._broker = Subscribers(settings)

    async def issue(self, account: str, plan: str, name: str) -> Credentials:
        """Return new credentials of an account; raises NotIssued, BrokerFailed, RedisError."""
        allowance = KAFKA.get(plan)
        if allowance is None:
            raise NotIssued(f"The plan {plan} has no Kafka; {' and '.join(KAFKA)} have it")
        account = _checked("account", account)
        user = KafkaUser(
            register.new_user(account),
            account,
            plan,
            _checked("name", name),
            await now_ms(self._redis),
        )
        match await register.reserve(self._redis, user, allowance.credentials):
            case "reserved":
                return await self._admit(user)
            case "held":
                raise NotIssued(
                    f"The plan {plan} has {allowance.credentials} users of Kafka at once; revoke "
                    "one first"
                )
            case "issued":
                raise NotIssued(f"{MOST_AN_HOUR} users an hour are the most; try again later")
            case _:
                raise NotIssued("No more users of Kafka can be made here; ask the operator")

    async def revoke(self, account: str, user: str) -> None:
        """Revoke a user of an account: its next request is refused.

        Raises NoSuchUser, BrokerFailed, after which it may be repeated, RedisError.
        """
        found = await register.read(self._redis, user)
        if found is None or found.account != account:
            raise NoSuchUser(f"{user} is no user of this account")
        await self._remove(user)
        await self._share(account, found.plan)

    async def revoke_all(self, account: str) -> int:
        """Revoke all users of an account and return how many; raises BrokerFailed, RedisError."""
        users = await register.of_account(self._redis, account)
        for each in users:
            await self._remove(each.user)
        return len(users)

    async def of_account(self, account: str) -> Sequence[KafkaUser]:
        """Return the users of an account, the oldest first; raises RedisError."""
        return await register.of_account(self._redis, account)

    async def put_plan(self, account: str, plan: str) -> None:
        """Give the users of an account the quotas of another plan, or revoke those it has not.

        Raises BrokerFailed, after which it may be repeated, RedisError.
        """
        allowance = KAFKA.get(plan)
        users = await register.of_account(self._redis, account)
        for each in users[allowance.credentials if allowance else 0 :]:
            await self._remove(each.user)
        if allowance:
            await self._share(account, plan)

    async def strangers(self) -> list[str]:
        """Return subscribers' users that the broker has and Redis does not.

        Raises BrokerFailed, RedisError.
        """
        known = {each.user for each in await register.read_all(self._redis)}
        return sorted(
            user for user in await self._broker.users() - known if user.startswith(register.PREFIX)
        )

    async def revoke_stranger(self, user: str) -> None:
        """Revoke a user that Redis does not know; raises NoSuchUser, BrokerFailed, RedisError."""
        if user not in await self.strangers():
            raise NoSuchUser(f"{user} is not known here; `soltape kafka-users list` has the users")
        await self._broker.remove(user)
        log.info("a user of Kafka was revoked", user=user)

    async def _admit(self, user: KafkaUser) -> Credentials:
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        try:
            await self._share(user.account, user.plan)  # before it can connect
            await self._broker.admit(user.user, password, user.group_prefix)
            is_there = await register.update(self._redis, replace(user, is_active=True))
        except BaseException:
            with suppress(
                BrokerFailed, RedisError, OSError
            ):  # then it stays in the list, to be revoked
                await self._remove(user.user)
            raise
        if not is_there:  # revoked in between
            await self._broker.remove(user.user)
            raise NotIssued(f"{user.user} was revoked while it was made")
        log.info("a user of Kafka was made", user=user.user, plan=user.plan)
        return Credentials(replace(user, is_active=True), password)

    async def _remove(self, user: str) -> None:
        await self._broker.remove(user)
        await register.remove(self._redis, user)
        log.info("a user of Kafka was revoked", user=user)

    async def _share(self, account: str, plan: str) -> None:
        """Share the bytes of a plan among the users of an account."""
        users = await register.of_account(self._redis, account)
        if not users:
            return
        allowance = KAFKA[plan]
        quota = Quota(
            allowance.kib_a_second * 1024 // len(users),
            max(1, allowance.request_pct // len(users)),
        )
        await self._broker.put_quotas({each.user: quota for each in users})
        for each in users:
            if each.plan != plan:
                await register.update(self._redis, replace(each, plan=plan))


def _checked(what: str, words: str) -> str:
    try:
        checked = check_words(words.strip())
    except ValueError as error:
        raise NotIssued(f"{what}: {error}") from None
    if not checked:
        raise NotIssued(f"{what}: it is empty")
    return checked
