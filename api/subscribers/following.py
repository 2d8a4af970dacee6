"""Users of Kafka follow their account: to another plan, or to their end."""

from __future__ import annotations

from api.access.script import Asks
from api.subscribers import register
from api.subscribers.issuing import Issuer
from infra.kafka.subscribers import BrokerFailed, SubscribersOff
from infra.settings import Settings, SettingsError


class NotFollowed(Exception):
    """An account's users of Kafka are not what they ought to be; the text is for the operator."""


async def follow(settings: Settings, redis: Asks, account: str, plan: str | None) -> int:
    """Give an account's users of Kafka another plan, or, with None, revoke all of them.

    Return how many were revoked. Where the account has none, Kafka is not asked. It may be
    repeated. Raises NotFollowed, RedisError.
    """
    before = await register.of_account(redis, account)
    if not before:
        return 0
    try:
        issuer = Issuer(settings, redis)
        if plan is None:
            await issuer.revoke_all(account)
        else:
            await issuer.put_plan(account, plan)
    except (SubscribersOff, BrokerFailed, SettingsError) as error:
        raise NotFollowed(
            f"Kafka credentials of {account} may be as before ({len(before)} are listed): {error}. "
            "Repeat this where KAFKA_ADMIN_USERNAME is set, or use `soltape kafka-users revoke`"
        ) from None
    return len(before) - len(await register.of_account(redis, account))
