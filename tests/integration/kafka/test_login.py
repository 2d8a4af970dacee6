"""Brokers that ask for a login answer clients with the password, and no others."""

import asyncio
import socket
import struct
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace

import psutil
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from pydantic import SecretStr
from structlog.testing import capture_logs

from infra.kafka import apache, client, topics
from infra.kafka.broker import server
from infra.local.process import free_port
from infra.settings import Settings, SettingsError
from schemas.times import HOUR_MS
from schemas.topics import Topic
from tests.integration.conftest import Broker
from tests.support.waiting import eventually_async, without_error_async

TOPIC = Topic("locked", "Swap", "mint", 1, HOUR_MS, "of one test")
API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)
METADATA = struct.pack(">hhihi", 3, 1, 1, -1, -1)


class Locked(Broker):
    """A broker that asks for a login; `settings` have it."""

    def __init__(self, kind, data):
        super().__init__(kind, data)
        self.settings = self.settings.model_copy(
            update={
                "kafka_security": "sasl_plaintext",
                "kafka_sasl_mechanism": "PLAIN",
                "kafka_username": "soltape",
                "kafka_password": SecretStr("correct-horse"),
            }
        )

    def describe(self):
        process = super().describe()
        names = ("kafka_security", "kafka_sasl_mechanism", "kafka_username")
        login = {name.upper(): getattr(self.settings, name) for name in names}
        login["KAFKA_PASSWORD"] = self.settings.kafka_password.get_secret_value()
        return replace(process, env={**process.env, **login})

    def without(self, **changed):
        return self.settings.model_copy(update=changed)


@pytest.fixture(
    scope="module", params=["embedded", pytest.param("apache", marks=pytest.mark.apache)]
)
def locked(request, tmp_path_factory):
    broker = Locked(request.param, tmp_path_factory.mktemp("locked"))
    try:
        broker.start()
    except apache.ApacheUnavailable as reason:
        pytest.skip(str(reason))
    try:
        yield broker
    finally:
        broker.stop()


@pytest.mark.slow
async def test_with_the_password_both_clients_work(locked):
    await topics.create(locked.settings, [TOPIC])
    producer = AIOKafkaProducer(**client.aiokafka_client(locked.settings))
    await producer.start()
    try:
        await producer.send_and_wait(TOPIC.name, b"kept")
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(TOPIC.name, **client.aiokafka_consumer(locked.settings))
    await consumer.start()
    try:
        async with asyncio.timeout(60):
            assert (await consumer.getone()).value == b"kept"
    finally:
        await consumer.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "changed",
    [
        {"kafka_security": "plaintext"},
        {"kafka_password": SecretStr("wrong")},
        {"kafka_username": "somebody"},
        {"kafka_sasl_mechanism": "SCRAM-SHA-512"},
    ],
    ids=["no-login", "password", "user", "mechanism"],
)
async def test_without_it_neither_client_learns_anything(locked, changed):
    settings = locked.without(**changed)
    with pytest.raises(client.KafkaUnreachable):
        await client.metadata(settings, timeout_s=3)
    consumer = AIOKafkaConsumer(**client.aiokafka_client(settings) | {"request_timeout_ms": 3000})
    with pytest.raises(KafkaError):
        await consumer.start()
    with suppress(KafkaError):
        await consumer.stop()


def exchange(port, *requests):
    """Send frames on one connection; return the answers until the broker closes it."""
    answers = []
    with (
        suppress(ConnectionError),  # it was closed before it read what came next
        socket.create_connection(("127.0.0.1", port), timeout=240) as connection,
    ):
        stream = connection.makefile("rb")
        for request in requests:
            connection.sendall(struct.pack(">i", len(request)) + request)
            size = stream.read(4)
            if len(size) < 4:
                return answers
            answers.append(stream.read(struct.unpack(">i", size)[0]))
    return answers


def handshake(mechanism="PLAIN"):
    return struct.pack(">hhihh", 17, 1, 2, -1, len(mechanism)) + mechanism.encode()


def authenticate(token):
    return struct.pack(">hhihi", 36, 0, 3, -1, len(token)) + token


RIGHT = authenticate(b"\0soltape\0correct-horse")


def error_of(answer):
    return struct.unpack_from(">h", answer, 4)[0]


def test_only_a_finished_login_opens_the_connection(locked):
    if locked.kind == "apache":
        pytest.skip("Apache answers some of it, with nothing in it")
    port = int(locked.settings.kafka_bootstrap.rpartition(":")[2])
    assert len(exchange(port, API_VERSIONS, METADATA)) == 1
    assert len(exchange(port, handshake(), METADATA)) == 1
    assert error_of(exchange(port, RIGHT, METADATA)[-1]) == 34  # ILLEGAL_SASL_STATE
    tokens = [
        *(b"", b"\0\0", b"\0soltape\0", b"soltape\0correct-horse", b"\0soltape\0correct-horse\0"),
        *(b"\0soltape\0correct-hors", b"\0Soltape\0correct-horse", b"\xff\0soltape\0correct"),
    ]
    for token in tokens:
        *_, refused = exchange(port, handshake(), authenticate(token), METADATA)
        assert error_of(refused) == 58, token  # SASL_AUTHENTICATION_FAILED
    assert len(exchange(port, handshake(), RIGHT, METADATA)) == 3


@asynccontextmanager
async def serving(folder):
    """Run the embedded broker in this process; yields its port."""
    port = free_port()
    user = ("soltape", "correct-horse")
    running = asyncio.create_task(server.serve("127.0.0.1", port, folder, 1 << 20, "x", user))
    try:
        _, writer = await without_error_async(
            lambda: asyncio.open_connection("127.0.0.1", port), OSError
        )
        writer.close()
        yield port
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_stranger_may_not_send_much_nor_stay_long(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LOGIN_S", 0.2)
    async with serving(tmp_path) as port, asyncio.timeout(60):
        silent, _ = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(struct.pack(">i", server.MAX_LOGIN_FRAME + 1))
        assert await reader.read() == b""
        assert await silent.read() == b""


@pytest.mark.slow
async def test_a_stranger_that_does_not_read_may_not_stay_either(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "LOGIN_S", 5.0)  # to fill what the system holds for a client
    async with serving(tmp_path) as port:
        with socket.create_connection(("127.0.0.1", port)) as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)

            def is_open():
                with suppress(BlockingIOError, ConnectionError):
                    while True:  # until the system takes no more
                        deaf.send((struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS) * 1000)
                ends = psutil.Process().net_connections("tcp")
                return deaf.getsockname() in {end.raddr for end in ends if end.laddr.port == port}

            await eventually_async(is_open)
            await eventually_async(lambda: not is_open())


async def test_the_oldest_of_too_many_strangers_goes_and_clients_with_a_login_stay(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "MAX_STRANGERS", 2, raising=False)
    async with serving(tmp_path) as port, asyncio.timeout(60):
        known, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in (handshake(), RIGHT):
            writer.write(struct.pack(">i", len(request)) + request)
            await known.readexactly(struct.unpack(">i", await known.readexactly(4))[0])
        strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
        assert await strangers[0][0].read() == b""
        for reader, asks in ((known, writer), strangers[-1]):
            asks.write(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
            assert await reader.readexactly(4)


def open_at(port):
    """Return the far ends of the connections that a broker in this process has."""
    ends = psutil.Process().net_connections("tcp")
    return {end.raddr for end in ends if end.laddr.port == port and end.raddr}


async def test_strangers_that_come_at_once_are_no_more_than_those_that_come_in_turn(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(server, "MAX_STRANGERS", 3)
    monkeypatch.setattr(server, "LOGIN_S", 600.0)
    async with serving(tmp_path) as port:
        with ExitStack() as stack:
            for _ in range(30):  # the broker has no turn in between
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            await eventually_async(lambda: len(open_at(port)) == 3)


@pytest.mark.slow
async def test_a_stranger_that_does_not_read_goes_when_it_is_in_the_way(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "MAX_STRANGERS", 2)
    monkeypatch.setattr(server, "LOGIN_S", 600.0)
    monkeypatch.setattr(server, "LINGER_S", 600.0)
    async with serving(tmp_path) as port:
        with ExitStack() as stack:
            deaf = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            sent = -1
            total = 0
            while sent != total:  # until the broker reads no more, as its answers are not read
                sent = total
                for _ in range(100):
                    with suppress(BlockingIOError):
                        frames = (struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS) * 1000
                        total += deaf.send(frames)
                    await asyncio.sleep(0)
            for _ in range(4):
                stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                await asyncio.sleep(0.01)
            await eventually_async(lambda: deaf.getsockname() not in open_at(port))


async def test_a_request_that_cannot_be_read_is_a_line_of_the_log(tmp_path):
    garbled = [
        struct.pack(">hhih", 17, 1, 0, -1) + b"\x7f\xff",
        struct.pack(">hhih", 17, 1, 0, -1) + b"\xff\xf0",
        struct.pack(">hhih", 18, 3, 0, -1) + b"\0\x03\xff\xff\x01\0",
        struct.pack(">hhih", 18, 3, 0, -1) + b"\0\x01\x01\x05\x05\x05",
        struct.pack(">hhih", 36, 0, 0, -1) + b"\x80\0\0\0",
    ]
    async with serving(tmp_path) as port, asyncio.timeout(240):
        for frame in garbled:
            with capture_logs() as logs:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(struct.pack(">i", len(frame)) + frame)
                with suppress(ConnectionError):
                    assert await reader.read() == b""
                await eventually_async(lambda logs=logs: logs)
                writer.close()
            assert [each["log_level"] for each in logs] == ["warning"], logs
            assert logs[0]["reason"].startswith("request ")


def test_a_local_broker_takes_one_mechanism_and_needs_both(tmp_path):
    from infra.kafka.local import login

    def settings(**values):
        return Settings(_env_file=None, kafka_security="sasl_plaintext", **values)

    with pytest.raises(SettingsError, match="KAFKA_SASL_MECHANISM=SCRAM-SHA-512"):
        login(settings())
    with pytest.raises(SettingsError, match="KAFKA_PASSWORD"):
        login(settings(kafka_sasl_mechanism="PLAIN", kafka_username="soltape"))
