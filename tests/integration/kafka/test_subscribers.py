"""Apache Kafka as subscribers meet it: what they may, what is refused, and when it ends."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import threading
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path
from uuid import uuid4

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaConnectionError
from aiokafka.errors import KafkaError as AioError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.metadata import MetadataRequest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewPartitions, NewTopic
from pydantic import SecretStr
from redis import Redis

from api.access import register as keys
from api.subscribers import register
from api.subscribers.issuing import Issuer, NoSuchUser, NotIssued
from infra.kafka import client, rights
from infra.kafka import topics as topics_on
from infra.kafka.log_dirs import broker_disk
from infra.kafka.quotas import Quota
from infra.kafka.rights import PUBLIC
from infra.kafka.subscribers import BrokerFailed, Subscribers
from infra.local.process import free_port
from pipeline.ingest.lane_producer import LaneProducer, PublishFailed
from schemas import topics
from schemas.plans import BUSINESS, ENTERPRISE, KAFKA, PRO
from schemas.proto.tape_pb2 import Side, Swap
from schemas.times import DAY_MS, HOUR_MS
from schemas.topics import ALL, Topic
from tests.support import chromium, npm, subscriber_document
from tests.support.api.issuing import issuing as identity
from tests.support.api.served import served
from tests.support.api.signing_in import Person, query_of, signin_settings
from tests.support.client_quotas import quotas_of
from tests.support.forked import finished
from tests.support.subscribers import door, subscriber
from tests.support.systems import bound, running_stores
from tests.support.waiting import WITHIN_S, eventually, eventually_async

pytestmark = [pytest.mark.slow, pytest.mark.apache]

INTERNAL = [topic for topic in ALL if topic not in PUBLIC]
REVOKED_WITHIN_S = 30.0
ACCESSIBILITY = Path(__file__).parents[1] / "dashboard" / "accessibility"
TOPIC_AUTHORIZATION_FAILED = 29
LARGE = PUBLIC[1]  # has large records, in partition 1


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    """The broker with all topics, a record in each, and the pipeline's users."""
    with door(tmp_path_factory) as broker:
        run(broker, "setup")
        admin = client.as_admin(broker.settings)
        producer = Producer(client.confluent_producer(admin))
        for topic in ALL:
            producer.produce(topic.name, b"", b"key", partition=0)  # an empty message of any kind
        assert producer.flush(60) == 0
        yield broker


def run(broker, *arguments, fails=False):
    """Run `soltape kafka-users`; return its stdout and stderr."""
    environment = {**os.environ, **broker.environment()}
    done = finished(("kafka-users", *arguments), environment, Path.cwd(), within_s=WITHIN_S)
    assert bool(done.returncode) == fails, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


@asynccontextmanager
async def issuing(broker):
    redis = keys.connect(broker.settings)
    try:
        yield Issuer(broker.settings, redis)
    finally:
        await redis.aclose()


def issue(broker, account, plan=BUSINESS.name):
    """Issue credentials; return them, and settings of a client that has them."""

    async def issued():
        async with issuing(broker) as issuer:
            return await issuer.issue(account, plan, "test")

    credentials = asyncio.run(issued())
    return credentials, subscriber(broker.settings, credentials.user.user, credentials.password)


@pytest.fixture(scope="module")
def reader(kafka):
    """Credentials that stay, and the settings of a subscriber that has them."""
    return issue(kafka, "reader")


def consumer_of(settings, group, **more):
    # private `_SILENT`: keeps librdkafka's log out of the test's output, as the product does.
    return Consumer(
        client.confluent_client(settings)
        | {"group.id": group, "auto.offset.reset": "earliest", "logger": client._SILENT}
        | more
    )


def first_answer(consumer):
    """Return the first record or error that a consumer is given."""
    found = []  # an empty record is false

    def is_there():
        found.append(consumer.poll(0.5))
        return found[-1] is not None

    eventually(is_there)
    return found[-1]


def test_the_public_topics_are_read_in_groups_of_the_account(kafka, reader):
    credentials, settings = reader
    group = f"{credentials.user.group_prefix}main"
    with closing(consumer_of(settings, group)) as consumer:
        consumer.subscribe([topic.name for topic in PUBLIC])
        found = set()

        def all_are_read():
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None, message.error()
                found.add(message.topic())
            return len(found) == len(PUBLIC)

        eventually(all_are_read, lambda: found)
        consumer.commit(asynchronous=False)
    assert found == {topic.name for topic in PUBLIC}
    with closing(consumer_of(settings, group)) as again:
        places = [TopicPartition(topic.name, 0) for topic in PUBLIC]
        assert {place.offset for place in again.committed(places, timeout=60)} == {1}


async def test_no_other_topic_is_seen_or_read(reader):
    _, settings = reader
    seen = (await client.metadata(settings, timeout_s=60)).topics
    assert {*seen} == {topic.name for topic in PUBLIC}
    internal = [*(topic.name for topic in INTERNAL), "__consumer_offsets", "__transaction_state"]
    asked = [(name, [(0, 0, 1 << 20)]) for name in [PUBLIC[0].name, *internal]]
    subscribed = AIOKafkaClient(**client.aiokafka_client(settings))
    await subscribed.bootstrap()
    try:
        node = subscribed.get_random_node()
        answer = await subscribed.send(node, FetchRequest(500, 1, 1 << 20, 0, asked))
        codes = {name: places[0][1] for name, places in answer.topics}
        assert codes.pop(PUBLIC[0].name) == 0
        assert codes == dict.fromkeys(internal, TOPIC_AUTHORIZATION_FAILED)
        described = await subscribed.send(node, MetadataRequest(internal))
        assert {topic[0] for topic in described.topics} == {TOPIC_AUTHORIZATION_FAILED}
    finally:
        await subscribed.close()


def test_nothing_is_written(reader):
    _, settings = reader
    for topic in ALL:
        refused = []
        config = client.confluent_producer(settings) | {"enable.idempotence": False}
        producer = Producer(config)
        producer.produce(
            topic.name, b"forged", b"key", on_delivery=lambda error, _, to=refused: to.append(error)
        )
        eventually(lambda producer=producer, refused=refused: producer.poll(0.2) and refused)
        assert refused[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, topic.name
    idempotent = Producer(client.confluent_producer(settings))
    idempotent.produce(PUBLIC[0].name, b"forged", b"key")
    with pytest.raises(KafkaException) as raised:
        eventually(lambda: idempotent.poll(0.2) and False)
    assert raised.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    for name in ("soltape-ingest-tape", f"mine-{uuid4().hex}"):
        transactional = Producer(client.confluent_producer(settings) | {"transactional.id": name})
        with pytest.raises(KafkaException) as raised:
            transactional.init_transactions(60)
        code = raised.value.args[0].code()
        assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_groups_of_others_are_closed(kafka, reader):
    credentials, settings = reader
    other, others = issue(kafka, "other")
    theirs = f"{other.user.group_prefix}main"
    with closing(consumer_of(others, theirs)) as consumer:
        consumer.subscribe([PUBLIC[0].name])
        assert first_answer(consumer).error() is None
        consumer.commit(asynchronous=False)
        own = credentials.user.group_prefix
        admin = client.admin(settings)
        for group in (theirs, "soltape-pnl", "main", own.removesuffix("."), f"x{own}main"):
            with closing(consumer_of(settings, group)) as intruder:
                intruder.subscribe([PUBLIC[0].name])
                refused = first_answer(intruder).error()
                assert refused.code() == KafkaError.GROUP_AUTHORIZATION_FAILED, group
            place = [TopicPartition(PUBLIC[0].name, 0, 0)]
            for ask in (
                lambda group=group: admin.describe_consumer_groups([group]),
                lambda group=group: admin.delete_consumer_groups([group]),
                lambda group=group: admin.list_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group)]
                ),
                lambda group=group, place=place: admin.alter_consumer_group_offsets(
                    [ConsumerGroupTopicPartitions(group, place)]
                ),
            ):
                assert code_of(ask) == KafkaError.GROUP_AUTHORIZATION_FAILED, group
        listed = admin.list_consumer_groups(request_timeout=60).result()
        assert {each.group_id for each in listed.valid} <= {f"{own}main", f"{own}x"}


def code_of(ask):
    """Return the code that the broker refuses with."""
    answers = ask()
    [answer] = answers.values() if isinstance(answers, dict) else [answers]
    try:
        found = answer.result(60)
    except KafkaException as refused:
        return refused.args[0].code()
    raise AssertionError(f"it was allowed: {found}")


async def test_the_cluster_is_closed(reader):
    credentials, settings = reader
    admin: AdminClient = client.admin(settings)
    topic = PUBLIC[0].name
    user = credentials.user.user
    shorter = ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)
    config = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[shorter])
    denied = {KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED}
    subscribers = Subscribers(
        settings.model_copy(
            update={
                "kafka_admin_username": user,
                "kafka_admin_password": SecretStr(credentials.password),
            }
        )
    )
    for ask in (
        lambda: admin.create_topics([NewTopic("mine", 1, 1)]),
        lambda: admin.delete_topics([topic]),
        lambda: admin.create_partitions([NewPartitions(topic, 16)]),
        lambda: admin.incremental_alter_configs([config]),
        lambda: admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]),
        lambda: admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]),
        lambda: admin.delete_records([TopicPartition(topic, 0, 1)]),
    ):
        assert await asyncio.to_thread(code_of, ask) in denied
    for forbidden in (
        lambda: subscribers.admit("sub-friend", "secret", "x"),
        lambda: subscribers.remove(user),
        lambda: subscribers.put_quotas({user: None}),
        lambda: subscribers.users(),
        lambda: rights.grant(admin, user, rights.INGEST),
        lambda: rights.take_all(admin, user),
    ):
        with pytest.raises((BrokerFailed, rights.NotGranted), match=r"(?i)cluster_?authorization"):
            await forbidden()
    with pytest.raises(AioError, match=r"(?i)authoriz"):
        await broker_disk(settings)


@pytest.mark.parametrize(
    "changed",
    [
        {"kafka_password": SecretStr("wrong")},
        {"kafka_username": "sub-nobody"},
        {"kafka_sasl_mechanism": "PLAIN"},
        {"kafka_sasl_mechanism": "PLAIN", "kafka_username": "operator",
         "kafka_password": SecretStr("correct-horse")},
        {"kafka_security": "sasl_plaintext"},
        {"kafka_security": "plaintext"},
        {"kafka_security": "ssl"},
        {"kafka_ca_file": None},
    ],
    ids=["password", "user", "plain", "operator", "no-tls", "nothing", "no-login", "strange-ca"],
)  # fmt: skip
async def test_the_door_takes_scram_over_tls_alone(reader, changed):
    _, settings = reader
    await client.metadata(settings, timeout_s=60)
    with pytest.raises(client.KafkaUnreachable):
        await client.metadata(settings.model_copy(update=changed), timeout_s=3)


async def test_subscribers_do_not_come_in_by_the_roles_door(kafka, reader):
    _, settings = reader
    inside = {"kafka_bootstrap": kafka.settings.kafka_bootstrap, "kafka_security": "sasl_plaintext"}
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        update = inside | {"kafka_sasl_mechanism": mechanism}
        with pytest.raises(client.KafkaUnreachable):
            await client.metadata(settings.model_copy(update=update), timeout_s=3)


async def test_a_revoked_subscriber_reads_nothing_more_and_is_disconnected_within_30_s(kafka):
    credentials, settings = await asyncio.to_thread(issue, kafka, "leaver")
    group = f"{credentials.user.group_prefix}main"
    held = AIOKafkaClient(**client.aiokafka_client(settings))  # it never proves itself again
    await held.bootstrap()
    ask = MetadataRequest([topics.SLOT_STATUS.name])
    assert [topic[0] for topic in (await held.send(1, ask)).topics] == [0]
    with closing(consumer_of(settings, group)) as consumer:
        consumer.subscribe([topics.SLOT_STATUS.name])
        assert (await asyncio.to_thread(first_answer, consumer)).error() is None
        async with issuing(kafka) as issuer:
            await issuer.revoke("leaver", credentials.user.user)
        revoked = time.monotonic()
        admin = client.as_admin(kafka.settings)
        producer = Producer(client.confluent_producer(admin))
        refused = None
        while refused is None:
            producer.produce(topics.SLOT_STATUS.name, b"after", b"key", partition=0)
            message = await asyncio.to_thread(consumer.poll, 0.2)
            if message is not None and message.error() is None:
                assert message.value() != b"after" or time.monotonic() < revoked + 5
            elif message is not None:
                refused = message.error()
            assert time.monotonic() < revoked + REVOKED_WITHIN_S, refused
        # private `_AUTHENTICATION`: confluent-kafka's public name of the error code.
        assert refused.code() in {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError._AUTHENTICATION,
        }

    async def is_disconnected():
        try:
            answer = await held.send(1, ask)
        except KafkaConnectionError:
            return True
        assert [topic[0] for topic in answer.topics] == [TOPIC_AUTHORIZATION_FAILED]
        await asyncio.sleep(0.5)
        return False

    # The broker's own clock has 20 s since the password was proved.
    await eventually_async(is_disconnected, within_s=revoked + REVOKED_WITHIN_S - time.monotonic())
    await held.close()
    with pytest.raises(client.KafkaUnreachable):
        await client.metadata(settings, timeout_s=3)


async def test_an_account_has_no_more_than_its_plan(kafka):
    most = KAFKA[BUSINESS.name].credentials
    async with issuing(kafka) as issuer:
        with pytest.raises(NotIssued, match="plan pro has no Kafka"):
            await issuer.issue("crowd", PRO.name, "x")
        for wrong in ("", "two\nlines", "x" * 101):
            with pytest.raises(NotIssued, match="name: "):
                await issuer.issue("crowd", BUSINESS.name, wrong)
        wanted = (issuer.issue("crowd", BUSINESS.name, f"{number}") for number in range(most + 2))
        made = await asyncio.gather(*wanted, return_exceptions=True)
        assert sum(isinstance(each, NotIssued) for each in made) == 2, made
        users = await issuer.of_account("crowd")
        assert len(users) == most
        assert all(user.is_active for user in users)
        with pytest.raises(NoSuchUser):
            await issuer.revoke("other", users[0].user)
        assert await issuer.revoke_all("crowd") == most
        assert await issuer.of_account("crowd") == []
        assert not {user.user for user in users} & await Subscribers(kafka.settings).users()


async def test_new_users_an_hour_are_bounded(kafka):
    async with issuing(kafka) as issuer:
        for _ in range(register.MOST_AN_HOUR):
            made = await issuer.issue("churn", BUSINESS.name, "x")
            await issuer.revoke("churn", made.user.user)
        with pytest.raises(NotIssued, match="an hour"):
            await issuer.issue("churn", BUSINESS.name, "x")


async def test_the_plan_is_shared_and_follows_the_account(kafka):
    allowance, admin = KAFKA[BUSINESS.name], client.as_admin(kafka.settings)
    async with issuing(kafka) as issuer:
        first = (await issuer.issue("sharer", BUSINESS.name, "a")).user.user
        assert await quotas_of(admin, first) == whole(allowance, 1)
        second = (await issuer.issue("sharer", BUSINESS.name, "b")).user.user
        assert (
            await quotas_of(admin, first) == await quotas_of(admin, second) == whole(allowance, 2)
        )
        await issuer.put_plan("sharer", "enterprise")
        assert await quotas_of(admin, first) == whole(KAFKA["enterprise"], 2)
        assert {user.plan for user in await issuer.of_account("sharer")} == {"enterprise"}
        await issuer.revoke("sharer", second)
        assert await quotas_of(admin, first) == whole(KAFKA["enterprise"], 1)
        assert await quotas_of(admin, second) == {}
        await issuer.put_plan("sharer", PRO.name)
        assert await issuer.of_account("sharer") == []
        assert await quotas_of(admin, first) == {}


def whole(allowance, users):
    return {
        "consumer_byte_rate": allowance.kib_a_second * 1024 // users,
        "request_percentage": allowance.request_pct // users,
    }


async def test_a_subscriber_over_its_quota_is_delayed(kafka):
    credentials, settings = await asyncio.to_thread(issue, kafka, "greedy")
    name = credentials.user.user
    await Subscribers(kafka.settings).put_quotas({name: Quota(20_000, 50)})
    producer = Producer(client.confluent_producer(client.as_admin(kafka.settings)))
    for _ in range(20):
        producer.produce(LARGE.name, os.urandom(20_000), b"key", partition=1)
    assert await asyncio.to_thread(producer.flush, 60) == 0
    reading = AIOKafkaClient(**client.aiokafka_client(settings))
    await reading.bootstrap()
    try:
        delays = []
        ask = FetchRequest(500, 1, 1 << 20, 0, [(LARGE.name, [(1, 0, 1 << 18)])])

        async def is_delayed():
            answer = await reading.send(1, ask)
            delays.append(answer.throttle_time_ms)
            return answer.throttle_time_ms > 0

        await eventually_async(is_delayed, lambda: delays)
    finally:
        await reading.close()


def test_the_command_shows_the_password_once(kafka, tmp_path):
    file = tmp_path / "acme.properties"
    arguments = ["create", "--account", "acme", "--plan", "business", "--name", "prod"]
    printed, _ = run(kafka, *arguments)
    out, said = run(kafka, *arguments, "--file", str(file))
    assert out == ""
    assert file.stat().st_mode & 0o777 == 0o600
    first, second = (properties_of(text) for text in (printed, file.read_text()))
    assert first["group.id"] == second["group.id"]  # of the account: an exchange loses no place
    for given in (first, second):
        password = given["sasl.password"]
        listed = "".join(run(kafka, "list")) + "".join(run(kafka, "list", "--json"))
        assert given["sasl.username"] in listed
        for text in (said, listed, *kept_by(kafka)):
            assert password not in text
    _, refused = run(kafka, *arguments, "--file", str(file), fails=True)
    assert "exists" in refused
    run(kafka, "revoke", first["sasl.username"])
    _, refused = run(kafka, "revoke", first["sasl.username"], fails=True)
    assert "is not known here" in refused
    assert first["sasl.username"] not in "".join(run(kafka, "list"))


def test_what_redis_lost_is_listed_and_revoked(kafka):
    credentials, settings = issue(kafka, "lost")
    user = credentials.user.user

    async def forget():
        redis = keys.connect(kafka.settings)
        await register.remove(redis, user)
        await redis.aclose()

    asyncio.run(forget())
    assert f"{user}  unknown here" in run(kafka, "list")[0]
    run(kafka, "revoke", user)
    assert user not in run(kafka, "list")[0]
    with pytest.raises(client.KafkaUnreachable):
        asyncio.run(client.metadata(settings, timeout_s=3))


@pytest.fixture(scope="module")
def page(kafka, tmp_path_factory):
    """A user that is signed in at an API with the operator's login."""
    with running_stores(tmp_path_factory.mktemp("stores")) as stores, identity() as issuer:
        settings = kafka.settings.model_copy(
            update={
                **signin_settings(issuer),
                "api_timeout_s": WITHIN_S,
                "metadata_fetch": False,
                "access_redis_url": kafka.settings.redis_url,
                "redis_url": stores.redis_url,
                "clickhouse_url": stores.clickhouse_url,
                "clickhouse_password": stores.clickhouse_password,
                "clickhouse_reader_password": stores.clickhouse_reader_password,
            }
        )
        with served(settings, tmp_path_factory.mktemp("page")) as api, Person(api) as person:
            asked = query_of(person.begin())
            issuer.nonce = asked["nonce"]
            params = {"code": "c", "state": asked["state"]}
            assert person.client.get("/signin/callback", params=params).status_code == 303
            yield person


def test_the_page_issues_what_reads_and_what_is_revoked_reads_no_more(kafka, page):
    id_ = page.account()["user"]["id"]
    assert page.post("/account/kafka", {"name": "x"}).json()["code"] == "not_in_plan"
    assert page.served.run("users", "plan", id_, "business").returncode == 0

    made = page.post("/account/kafka", {"name": "from the page"})
    assert made.status_code == 201, made.text
    assert made.headers["cache-control"] == "no-store"
    found = properties_of(made.json()["properties"])
    user, password = found["sasl.username"], found["sasl.password"]
    section = page.account()["kafka"]
    [shown] = section["credentials"]
    assert (shown["user"], shown["name"], shown["is_active"]) == (user, "from the page", True)
    assert found["group.id"] == f"{section['group_prefix']}main"
    assert password not in page.client.get("/account.json").text
    assert password not in page.served.logged()
    assert user in page.served.logged()
    assert f"{user}  business" in run(kafka, "list")[0]

    settings = subscriber(kafka.settings, user, password)
    with closing(consumer_of(settings, found["group.id"])) as consumer:
        consumer.subscribe([PUBLIC[0].name])
        assert first_answer(consumer).error() is None
    assert page.post("/account/kafka/revoke", {"user": user}).status_code == 200
    assert page.account()["kafka"]["credentials"] == []
    with pytest.raises(client.KafkaUnreachable):
        asyncio.run(client.metadata(settings, timeout_s=3))


@pytest.mark.browser
@pytest.mark.node
def test_a_reader_makes_copies_and_revokes_credentials_in_a_browser(page, request):
    """Chromium, in a browser that is signed in; axe-core looks at all of it."""
    axe = npm.installed(request, "accessibility", ACCESSIBILITY, "axe-core")
    script = (axe / "node_modules" / "axe-core" / "axe.min.js").read_text()
    done = page.served.run("users", "plan", page.account()["user"]["id"], "business")
    assert done.returncode == 0
    url = page.served.url
    [(cookie, value)] = page.client.cookies.items()
    with chromium.launched() as browser:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
        context.set_default_timeout(60_000)
        context.add_cookies([{"name": cookie, "value": value, "url": url}])
        tab = context.new_page()
        tab.goto(f"{url}/#/account")
        tab.get_by_label("Credentials for").fill("my <b>reader</b>")
        tab.get_by_role("button", name="Create credentials").click()
        shown = tab.locator("#new-kafka")
        shown.wait_for()
        text = shown.text_content()
        found = properties_of(text)
        assert found["bootstrap.servers"] == page.served.settings.kafka_public_bootstrap
        tab.get_by_role("button", name="Copy it").click()
        tab.get_by_text("Copied", exact=True).wait_for()
        assert tab.evaluate("navigator.clipboard.readText()") == text
        row = tab.get_by_role("row").filter(has_text="my <b>reader</b>")
        assert found["sasl.username"] in row.text_content()
        tab.evaluate(script)
        seen = tab.evaluate(
            """async () => (await axe.run(document)).violations.map(({ id, nodes }) =>
              [id, nodes[0].html.slice(0, 200), nodes[0].failureSummary])"""
        )
        assert seen == []
        tab.reload()
        end = tab.get_by_role("button", name="Revoke credentials my <b>reader</b>")
        end.wait_for()
        assert found["sasl.password"] not in tab.content()
        end.click()
        end.click()
        row.wait_for(state="detached")
    assert page.account()["kafka"]["credentials"] == []


def test_credentials_follow_the_plan_and_end_with_a_suspension(kafka, page):
    id_, admin = page.account()["user"]["id"], client.as_admin(kafka.settings)
    assert page.served.run("users", "plan", id_, "business").returncode == 0
    made = [page.post("/account/kafka", {"name": each}).json()["user"] for each in "ab"]

    def quota():
        return asyncio.run(quotas_of(admin, made[0]))

    assert quota() == whole(KAFKA[BUSINESS.name], 2)
    assert page.served.run("users", "plan", id_, "enterprise").returncode == 0
    assert quota() == whole(KAFKA[ENTERPRISE.name], 2)
    assert page.account()["kafka"]["most"] == KAFKA[ENTERPRISE.name].credentials
    done = page.served.run("users", "plan", id_, "pro")
    assert (done.returncode, "revoked: 2" in done.stdout) == (0, True)
    assert page.served.run("users", "plan", id_, "business").returncode == 0
    page.post("/account/kafka", {"name": "c"})
    done = page.served.run("users", "suspend", id_)
    assert (done.returncode, "revoked: 1" in done.stdout) == (0, True)
    assert not {*made} & asyncio.run(Subscribers(kafka.settings).users())
    assert id_ not in run(kafka, "list")[0]


def properties_of(text):
    return dict(line.split("=", 1) for line in text.splitlines())


def kept_by(kafka):
    """Return what Redis and the broker keep in files, and the broker's log."""
    with closing(Redis.from_url(kafka.settings.redis_url)) as redis:
        for name in redis.scan_iter():
            yield repr(redis.hgetall(name) if redis.type(name) == b"hash" else redis.get(name))
    for file in kafka.settings.soltape_data.rglob("*.log"):
        yield file.read_bytes().decode("latin-1")


@pytest.fixture(scope="module")
def swaps(kafka):
    """Swaps on the tape, in batches as agents send them; returns what programs print of each."""
    made = [
        Swap(
            slot=2**63 + number,
            signature=f"signature{number}",
            side=Side.BUY,
            amount_raw=2**64 - 1 - number,
            mint="So11111111111111111111111111111111111111112",
        )
        for number in range(500)
    ]
    producer = Producer(
        client.confluent_producer(client.as_admin(kafka.settings)) | {"linger.ms": 50}
    )
    for swap in made:
        producer.produce(topics.SWAPS.name, swap.SerializeToString(), b"key", partition=2)
    assert producer.flush(60) == 0
    return {f"{swap.slot} {swap.signature} BUY {swap.amount_raw} {swap.mint}" for swap in made}


@pytest.mark.parametrize(
    "language", ["python", pytest.param("node", marks=pytest.mark.node), "java"]
)
def test_a_program_of_the_document_reads_the_tape(kafka, swaps, language, request, tmp_path):
    properties = tmp_path / "soltape.properties"
    run(kafka, "create", "--account", language, "--plan", "business", "--name", "document",
        "--file", str(properties))  # fmt: skip
    prepare = getattr(subscriber_document, language)
    command = prepare(tmp_path, request) if language == "node" else prepare(tmp_path)
    log = tmp_path / "errors.log"
    with log.open("wb") as errors:
        program = subprocess.Popen(
            bound([*command, str(properties)]), cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors,
            text=True,
        )  # fmt: skip
    giving_up = threading.Timer(WITHIN_S, program.kill)
    giving_up.start()
    try:
        missing = set(swaps)
        for line in program.stdout:
            missing.discard(line.rstrip())
            if not missing:
                break
        assert not missing, (len(missing), log.read_text()[-2000:])
    finally:
        giving_up.cancel()
        program.kill()
        program.wait()
        program.stdout.close()


@pytest.fixture(scope="module")
def role(kafka):
    """Settings of a role's user, that comes in by SCRAM: the rights are the user's."""

    def settings_of(user):
        admin = client.admin(client.as_admin(kafka.settings))
        made = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b"of-a-role"
        )
        [answer] = admin.alter_user_scram_credentials([made]).values()
        answer.result(60)
        return subscriber(kafka.settings, user, "of-a-role")

    return settings_of


async def written(settings, topic):
    """Return None where a record was written, else the code that refuses it."""
    producer = Producer(client.confluent_producer(settings) | {"enable.idempotence": False})
    outcome = []
    producer.produce(topic.name, b"", b"key", on_delivery=lambda error, _: outcome.append(error))
    await eventually_async(lambda: producer.poll(0) is not None and outcome)
    return outcome[0] and outcome[0].code()


async def test_ingest_owns_the_lanes_and_writes_nothing_public(kafka, role):
    settings = role("soltape-ingest")
    assert await topics_on.create(settings) == []
    lane = LaneProducer(settings, "tape")
    await lane.take_over()
    acknowledged = []
    for topic in (topics.LIVE, topics.SETTLED_BY_MINT, topics.GAPS, topics.UNDECODED):
        lane.produce(topic.name, 0, b"", lambda: acknowledged.append(1))

    def all_are_acknowledged():
        lane.poll()
        return len(acknowledged) == 4

    await eventually_async(all_are_acknowledged)
    assert await lane.close(60) == 0
    assert (await topics_on.last_records(settings, topics.GAPS)).keys() == {0}
    for topic in PUBLIC:
        assert await written(settings, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AioError, match=r"(?i)authoriz"):
        await broker_disk(settings)


async def test_agents_write_what_is_public_and_no_lane(kafka, role):
    settings = role("soltape-agents")
    assert await topics_on.create(settings) == []
    for topic in (*PUBLIC, topics.GAPS, topics.UNDECODED):
        assert await written(settings, topic) is None
    for topic in (topics.LIVE, topics.SETTLED_BY_MINT, topics.SETTLED_ACCOUNTS):
        assert await written(settings, topic) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    with closing(consumer_of(settings, "soltape-pnl")) as consumer:
        consumer.subscribe([topics.GAPS.name])
        assert (await asyncio.to_thread(first_answer, consumer)).error() is None
        consumer.commit(asynchronous=False)
    lane = LaneProducer(settings, "tape")
    with pytest.raises(PublishFailed):
        await lane.take_over()
    assert (await broker_disk(settings)).log_bytes > 0
    another = Topic("tape-another", "Swap", "mint", 1, HOUR_MS, "of one test")
    with pytest.raises(topics_on.TopicsWrong, match="tape-another"):
        await topics_on.create(settings, [another])


async def test_topics_are_kept_as_long_as_the_document_says(kafka):
    admin = client.admin(client.as_admin(kafka.settings))
    stated = re.findall(r"^\| `([a-z-]+)` \| .*? \| (\d+) days? \|", subscriber_document.TEXT, re.M)
    assert {name for name, _ in stated} == {topic.name for topic in PUBLIC}
    for name, days in stated:
        asked = ConfigResource(ResourceType.TOPIC, name)
        [answer] = admin.describe_configs([asked]).values()
        found = await asyncio.to_thread(answer.result, 60)
        assert int(found["retention.ms"].value) == int(days) * DAY_MS, name


async def test_what_a_broker_that_is_away_left_unfinished_can_be_revoked(kafka, monkeypatch):
    monkeypatch.setattr(client, "REQUEST_TIMEOUT_S", 2.0)
    redis = keys.connect(kafka.settings)
    away = kafka.settings.model_copy(update={"kafka_bootstrap": f"127.0.0.1:{free_port()}"})
    try:
        with pytest.raises(BrokerFailed):
            await Issuer(away, redis).issue("unlucky", BUSINESS.name, "x")
        issuer = Issuer(kafka.settings, redis)
        [left] = await issuer.of_account("unlucky")
        assert not left.is_active
        await issuer.revoke("unlucky", left.user)
        assert await issuer.of_account("unlucky") == []
    finally:
        await redis.aclose()
