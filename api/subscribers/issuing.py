"""Issues and revokes credentials of Kafka: the one module that does, for the command and the page.

Its bounds: a plan with Kafka, as many users of an account at once as the plan has, `MOST_AN_HOUR`
new ones, `MOST` of all accounts. The plan's bytes are shared evenly among an account's users, so
that two do not double it. A password is returned once, and kept by nobody but Kafka (as a SCRAM
secret). Whoever calls has made sure that the account is the caller's own, and its plan paid.

Several processes, and an operator, may change an account at once, and Kafka has no transaction for
it. So plan and users are read again after each change of quotas, which is repeated until they are
as they were: the last to write has seen what is in force. A change that failed may have been made,
or be made later, so it is repeated; after the last failure `restore` does what is left. An account
that is a user's has the plan of that user, whatever plan a caller read before.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog
from redis.exceptions import RedisError

from api.access import users as accounts
from api.access.keys import check_words
from api.access.register import now_ms
from api.access.script import Asks
from api.subscribers import register
from api.subscribers.register import MOST_AN_HOUR, KafkaUser
from infra.kafka.quotas import Quota
from infra.kafka.subscribers import BrokerFailed, Subscribers
from infra.settings import Settings
from schemas.plans import KAFKA, KafkaAllowance

log = structlog.get_logger(__name__)

_PASSWORD_BYTES: Final = 24
_MOST_ROUNDS: Final = 8
"""That quotas are put in, as others change the account: 20 users an hour are made of one."""
_MOST_FAILURES: Final = 3
"""Of which the broker may fail: each takes as long as a request of Kafka may."""


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
        """Return new credentials of an account; `plan` is that of an account without a user.

        Raises NotIssued, BrokerFailed, RedisError.
        """
        plan = await self._plan(account, plan)
        allowance = KAFKA.get(plan)
        if allowance is None:
            raise _no_kafka(plan)
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

        Of one that is gone already the others get its share, should they lack it. Raises
        NoSuchUser, BrokerFailed, after which it may be repeated, RedisError.
        """
        found = await register.read(self._redis, user)
        is_own = register.may_be_of(account, user) if found is None else found.account == account
        if not is_own:
            raise NoSuchUser(f"{user} is no user of this account")
        await self._remove(user)
        if found is None:
            await self.restore(account)
        else:
            await self._share(account, found.plan)

    async def restore(self, account: str) -> None:
        """Share the plan of an account among its users again, after a change that failed.

        Raises BrokerFailed, after which it may be repeated, RedisError.
        """
        users = await register.of_account(self._redis, account)
        if users:
            await self._share(account, users[0].plan)

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
        """Give the users of an account the quotas of its plan, or revoke those it has not.

        `plan` is that of an account without a user. Raises BrokerFailed, after which it may be
        repeated, RedisError.
        """
        allowance = KAFKA.get(await self._plan(account, plan))
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
        """Revoke a user that Redis does not know, and restore the shares of its account.

        Raises NoSuchUser, BrokerFailed, RedisError.
        """
        is_stranger = user in await self.strangers()
        if is_stranger:
            await self._broker.remove(user)
        for account in {each.account for each in await register.read_all(self._redis)}:
            if register.may_be_of(account, user):
                await self.restore(account)
        if not is_stranger:
            raise NoSuchUser(f"{user} is not known here; `soltape kafka-users list` has the users")
        log.info("a user of Kafka was revoked", user=user)

    async def _admit(self, user: KafkaUser) -> Credentials:
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        try:
            plan = await self._share(user.account, user.plan)  # before it can connect
            if plan not in KAFKA:
                raise _no_kafka(plan)
            await self._broker.admit(user.user, password, user.group_prefix)
            if not await register.update(self._redis, user.user, is_active=True):
                raise NotIssued(f"{user.user} was revoked while it was made")
            admitted = await self._followed(user, plan)
        except BaseException:
            with suppress(
                BrokerFailed, RedisError, OSError
            ):  # then it stays in the list, to be revoked
                await self._remove(user.user)
                await self._share(user.account, user.plan)
            raise
        log.info("a user of Kafka was made", user=user.user, plan=admitted.plan)
        return Credentials(admitted, password)

    async def _followed(self, user: KafkaUser, plan: str) -> KafkaUser:
        """Return a new user under the plan in force; raises NotIssued where that has no room.

        Whoever changed the plan may have listed the account's users before this one was there.
        """
        now = await self._plan(user.account, plan)
        if not user.plan == plan == now:
            await self.put_plan(user.account, now)
        found = await register.read(self._redis, user.user)
        if found is None:
            raise NotIssued(f"The plan is {now} now, which has no room for one more")
        return found

    async def _plan(self, account: str, plan: str) -> str:
        """Return the plan in force of an account: its user's, of another the one given."""
        return await accounts.plan_of(self._redis, account) or plan

    async def _remove(self, user: str) -> None:
        await self._broker.remove(user)
        await register.remove(self._redis, user)
        log.info("a user of Kafka was revoked", user=user)

    async def _share(self, account: str, plan: str) -> str:
        """Share the bytes of an account's plan among its users; return the plan.

        Under a plan without Kafka all keep theirs: a user without a quota has no limit, and the
        operator's command revokes them. `plan` is that of an account without a user. Raises
        BrokerFailed, after which it may be repeated, RedisError.
        """
        put: dict[str, Quota] | None = {}  # None after a failure: nobody knows
        touched: set[str] = set()
        failures = 0
        for number in range(_MOST_ROUNDS + 1):  # what was put last is read again, too
            now = await self._plan(account, plan)
            allowance = KAFKA.get(now)
            users = await register.of_account(self._redis, account)
            wanted = {each.user: _part(allowance, len(users)) for each in users if allowance}
            # Those that were revoked meanwhile got theirs back by the last round.
            gone = dict.fromkeys(touched - {each.user for each in users})
            if not gone and (
                allowance is None or (put == wanted and all(each.plan == now for each in users))
            ):
                return now
            if number == _MOST_ROUNDS:
                break
            touched.update(wanted)
            try:
                await self._broker.put_quotas({**gone, **wanted})
            except BrokerFailed:
                failures += 1
                if failures == _MOST_FAILURES:
                    raise
                put = None
                continue
            touched -= gone.keys()
            for each in users:
                if allowance and each.plan != now:
                    await register.update(self._redis, each.user, plan=now)
            put = wanted
        raise BrokerFailed(f"the users of {account} changed {_MOST_ROUNDS} times meanwhile")


def _part(allowance: KafkaAllowance, users: int) -> Quota:
    return Quota(
        allowance.kib_a_second * 1024 // users,
        max(1, allowance.request_pct // users),
    )


def _no_kafka(plan: str) -> NotIssued:
    return NotIssued(f"The plan {plan} has no Kafka; {' and '.join(KAFKA)} have it")


def _checked(what: str, words: str) -> str:
    try:
        checked = check_words(words.strip())
    except ValueError as error:
        raise NotIssued(f"{what}: {error}") from None
    if not checked:
        raise NotIssued(f"{what}: it is empty")
    return checked
