"""Shares of a plan while others change the account: at the end they are of the plan in force.

The broker here keeps what it is given and stops where a test wants it to: Apache Kafka's answers
are in `tests/integration/kafka/test_subscribers.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from api.access import register as keys
from api.access import users
from api.access.users import Identity, User
from api.subscribers import desk, issuing, register
from api.subscribers.desk import Desk
from api.subscribers.issuing import Issuer, NoSuchUser, NotIssued
from infra.kafka.quotas import Quota
from infra.kafka.subscribers import BrokerFailed
from infra.redis.asks import Pipelined
from infra.settings import Settings
from schemas.plans import BUSINESS, ENTERPRISE, KAFKA, PRO
from tests.support.systems import running_valkey
from tests.support.waiting import eventually_async

Then = Callable[[], Awaitable[object]]


@dataclass
class Broker:
    """What all processes of a test share. `before` a step it does something, once."""

    quotas: dict[str, Quota] = field(default_factory=dict)
    admitted: set[str] = field(default_factory=set)
    before: dict[str, Then] = field(default_factory=dict)
    always: Then | None = None
    failures: int = 0
    """How many changes of quotas to come are made and fail, as one whose answer is late."""

    async def put_quotas(self, wanted: Mapping[str, Quota | None]) -> None:
        has_failed = self.failures > 0
        self.failures -= has_failed
        await self._at("put_quotas")
        if self.always is not None:
            await self.always()
        self._put(wanted)
        if has_failed:
            raise BrokerFailed("RequestTimedOutError")

    def _put(self, wanted: Mapping[str, Quota | None]) -> None:
        for user, quota in wanted.items():
            if quota is None:
                self.quotas.pop(user, None)
            else:
                self.quotas[user] = quota

    async def users(self) -> set[str]:
        return set(self.admitted)

    async def admit(self, user: str, *_: object) -> None:
        await self._at("admit")
        # Longer than a millisecond, as Kafka takes: users are ordered by the millisecond.
        await asyncio.sleep(0.002)
        self.admitted.add(user)

    async def remove(self, user: str) -> None:
        self.admitted.discard(user)
        self.quotas.pop(user, None)

    async def _at(self, step: str) -> None:
        if (then := self.before.pop(step, None)) is not None:
            await then()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("keys")
    with running_valkey(folder) as port:
        yield f"redis://127.0.0.1:{port}/1"


@pytest.fixture
def settings(url: str) -> Settings:
    return Settings(_env_file=None, access_redis_url=url)


@pytest.fixture
async def redis(settings: Settings) -> AsyncIterator[Pipelined]:
    connection = keys.connect(settings)
    await connection.ask([("FLUSHALL",)])
    yield connection
    await connection.aclose()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    broker = Broker()
    monkeypatch.setattr(issuing, "Subscribers", lambda _: broker)
    monkeypatch.setattr(desk, "properties", SimpleNamespace(text=lambda *_: "properties"))
    return broker


@dataclass
class Account:
    """A user of the plan enterprise, at two processes and the operator's."""

    redis: Any
    settings: Settings
    broker: Broker
    user: User

    def desk(self) -> Desk:
        return Desk(self.settings, self.redis)

    def issuer(self) -> Issuer:
        return Issuer(self.settings, self.redis)

    async def put_on(self, plan: str) -> None:
        """Do as `soltape users plan`."""
        await users.set_plan(self.redis, self.user.fingerprint, plan)
        await self.issuer().put_plan(self.user.id, plan)

    async def check(self, plan: str, count: int) -> None:
        """Hold quotas and records to a plan that so many users share."""
        records = await register.of_account(self.redis, self.user.id)
        assert [each.plan for each in records] == [plan] * count
        assert all(each.is_active for each in records)
        assert {each.user for each in records} == self.broker.admitted
        share = Quota(
            KAFKA[plan].kib_a_second * 1024 // max(1, count),
            KAFKA[plan].request_pct // max(1, count),
        )
        assert self.broker.quotas == dict.fromkeys(self.broker.admitted, share)


@pytest.fixture
async def account(redis: Pipelined, settings: Settings, broker: Broker) -> Account:
    fingerprint = await users.enter(redis, Identity("https://i.example.com", "ann", "ann"), 10)
    await users.set_plan(redis, fingerprint, ENTERPRISE.name)
    user = await users.read(redis, fingerprint)
    assert user is not None
    return Account(redis, settings, broker, user)


@pytest.mark.parametrize("step", ["put_quotas", "admit"])
async def test_credentials_follow_a_plan_that_changes_while_they_are_issued(account, step) -> None:
    for name in ("one", "two"):
        await account.desk().issue(account.user, name)
    await account.check(ENTERPRISE.name, 2)
    account.broker.before[step] = lambda: account.put_on(BUSINESS.name)
    issued = await account.desk().issue(account.user, "three")
    assert issued.user in account.broker.admitted
    await account.check(BUSINESS.name, 3)


async def test_credentials_follow_a_plan_that_changed_since_the_page_read_it(account) -> None:
    await account.put_on(BUSINESS.name)
    assert account.user.plan == ENTERPRISE.name
    await account.desk().issue(account.user, "one")
    await account.check(BUSINESS.name, 1)


@pytest.mark.parametrize("step", ["put_quotas", "admit"])
async def test_no_credentials_are_issued_where_the_new_plan_has_no_room(account, step) -> None:
    most = KAFKA[BUSINESS.name].credentials
    for number in range(most):
        await account.desk().issue(account.user, f"{number}")

    async def change() -> None:
        """As an operator's command that listed the users before the new one was there."""
        await users.set_plan(account.redis, account.user.fingerprint, BUSINESS.name)

    account.broker.before[step] = change
    with pytest.raises(NotIssued, match="The plan is business now, which has no room"):
        await account.desk().issue(account.user, "one more")
    await account.check(BUSINESS.name, most)


@pytest.mark.parametrize("step", ["put_quotas", "admit"])
async def test_a_plan_without_kafka_leaves_none(account, step) -> None:
    await account.desk().issue(account.user, "one")
    account.broker.before[step] = lambda: account.put_on(PRO.name)
    with pytest.raises(NotIssued):
        await account.desk().issue(account.user, "two")
    assert await register.of_account(account.redis, account.user.id) == []
    assert (account.broker.admitted, account.broker.quotas) == (set(), {})


async def test_all_keep_a_quota_until_a_plan_without_kafka_is_followed(
    account,
) -> None:
    first = await account.desk().issue(account.user, "one")

    async def change() -> None:
        await users.set_plan(account.redis, account.user.fingerprint, PRO.name)

    account.broker.before["put_quotas"] = change
    with pytest.raises(NotIssued, match="The plan pro has no Kafka"):
        await account.desk().issue(account.user, "two")
    assert account.broker.admitted == {first.user} == {*account.broker.quotas}


async def test_two_processes_that_issue_at_once_share_the_plan(account) -> None:
    account.broker.before["put_quotas"] = lambda: account.desk().issue(account.user, "two")
    await account.desk().issue(account.user, "one")
    await account.check(ENTERPRISE.name, 2)


async def test_credentials_that_another_process_revokes_meanwhile_keep_no_quota(account) -> None:
    first = await account.desk().issue(account.user, "one")
    account.broker.before["put_quotas"] = lambda: account.desk().revoke(account.user, first.user)
    await account.desk().issue(account.user, "two")
    await account.check(ENTERPRISE.name, 1)


async def test_a_revocation_shares_the_plan_in_force(account) -> None:
    first = await account.desk().issue(account.user, "one")
    await account.desk().issue(account.user, "two")
    account.broker.before["put_quotas"] = lambda: account.put_on(BUSINESS.name)
    await account.desk().revoke(account.user, first.user)
    await account.check(BUSINESS.name, 1)


async def test_an_account_that_never_rests_is_given_up_and_nothing_is_left(account) -> None:
    plans = [ENTERPRISE.name, BUSINESS.name]

    async def change() -> None:
        plans.reverse()
        await users.set_plan(account.redis, account.user.fingerprint, plans[0])

    account.broker.always = change
    with pytest.raises(BrokerFailed, match="changed 8 times meanwhile"):
        await account.desk().issue(account.user, "one")
    assert await register.of_account(account.redis, account.user.id) == []
    assert (account.broker.admitted, account.broker.quotas) == (set(), {})


async def test_a_plan_that_rests_after_the_last_round_is_shared(account) -> None:
    plans, changes = [ENTERPRISE.name, BUSINESS.name], iter(range(7))

    async def change() -> None:
        if next(changes, None) is not None:
            plans.reverse()
            await users.set_plan(account.redis, account.user.fingerprint, plans[0])

    account.broker.always = change
    await account.desk().issue(account.user, "one")
    await account.check(plans[0], 1)


async def other_issues(account: Account) -> None:
    """Issue at another process, whose broker answers."""
    failures, account.broker.failures = account.broker.failures, 0
    await account.desk().issue(account.user, "other")
    account.broker.failures = failures


async def test_a_change_of_quotas_that_fails_late_undoes_no_other(account) -> None:
    first = await account.desk().issue(account.user, "one")
    await account.desk().issue(account.user, "two")
    account.broker.failures = 1
    account.broker.before["put_quotas"] = lambda: other_issues(account)
    await account.desk().revoke(account.user, first.user)
    await account.check(ENTERPRISE.name, 2)


async def fails_to_revoke(account: Account) -> str:
    """Leave one and a half times the plan behind; return who was revoked."""
    first = await account.desk().issue(account.user, "one")
    await account.desk().issue(account.user, "two")
    account.broker.failures = 3
    again = account.broker.before

    async def between() -> None:
        again["put_quotas"] = last

    async def last() -> None:
        again["put_quotas"] = lambda: other_issues(account)

    again["put_quotas"] = between
    with pytest.raises(BrokerFailed):
        await account.desk().revoke(account.user, first.user)
    assert len({each.bytes_a_second for each in account.broker.quotas.values()}) == 2
    return first.user


async def test_a_repeated_revocation_restores_the_shares(account) -> None:
    gone = await fails_to_revoke(account)
    await account.desk().revoke(account.user, gone)
    await account.check(ENTERPRISE.name, 2)
    for stranger in ("sub-0000000000000000-00000000", "soltape"):
        with pytest.raises(NoSuchUser):
            await account.desk().revoke(account.user, stranger)


async def test_the_operators_repeated_revocation_does_so_too(account) -> None:
    gone = await fails_to_revoke(account)
    with pytest.raises(NoSuchUser):
        await account.issuer().revoke_stranger(gone)
    await account.check(ENTERPRISE.name, 2)


async def test_a_desk_restores_shares_after_a_failure(account, monkeypatch) -> None:
    monkeypatch.setattr(desk, "RESTORE_AFTER_S", (0.0, 0.0))
    first = await account.desk().issue(account.user, "one")
    await account.desk().issue(account.user, "two")
    account.broker.failures = 4  # more than a revocation tries
    account.broker.before["put_quotas"] = lambda: other_issues(account)
    with pytest.raises(BrokerFailed):
        await account.desk().revoke(account.user, first.user)
    await eventually_async(lambda: account.broker.failures == 0)
    await eventually_async(lambda: len(set(account.broker.quotas.values())) == 1)
    await account.check(ENTERPRISE.name, 2)


async def test_an_account_without_a_user_has_the_plan_that_the_operator_names(account) -> None:
    issuer = account.issuer()
    await issuer.issue("acme", BUSINESS.name, "one")
    await issuer.put_plan("acme", ENTERPRISE.name)
    [found] = await issuer.of_account("acme")
    assert found.plan == ENTERPRISE.name
    assert account.broker.quotas[found.user].bytes_a_second == 65_536 * 1024


async def test_a_record_keeps_what_others_changed_in_it(redis) -> None:
    user = register.KafkaUser(
        register.new_user("acmé"), "acmé", "business", 'a "b"/\\', 1_763_699_990_000
    )
    assert await register.reserve(redis, user, 9) == "reserved"
    assert await register.update(redis, user.user, is_active=True)
    assert await register.update(redis, user.user, plan="enterprise")
    [found] = await register.of_account(redis, "acmé")
    changed = {"is_active": True, "plan": "enterprise"}
    assert found == register.KafkaUser(
        **{name: getattr(user, name) for name in user.__slots__} | changed
    )
    await register.remove(redis, user.user)
    assert not await register.update(redis, user.user, plan="business")
