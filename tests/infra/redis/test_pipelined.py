"""The shared connection against a real Valkey: order, refusals, cancelling, loss, limits."""

import asyncio
import random
import signal
import ssl
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as TooLate

from infra.local.process import NotReady, free_port
from infra.redis import client as redis_client
from infra.redis import pipelined
from infra.redis.embedded import valkey
from infra.redis.pipelined import Chained, ForEach, Form, PipelinedNode, Repeated
from infra.settings import Settings
from tests.support.exploring import SLOW, examples
from tests.support.systems import Mortal
from tests.support.waiting import eventually_async, without_error_async

pytestmark = pytest.mark.processes


def local(folder):
    return valkey(folder, "127.0.0.1", free_port())


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One Valkey for the tests that leave it as it is."""
    server = Mortal(local(tmp_path_factory.mktemp("valkey")))
    asyncio.run(server.start())
    yield server
    server.kill()


@pytest.fixture
async def own(tmp_path):
    """A Valkey for one test, which may do to it what it likes."""
    server = Mortal(local(tmp_path))
    await server.start()
    yield server
    server.child.send_signal(signal.SIGCONT)
    server.kill()


@asynccontextmanager
async def connected(url, **options):
    connection = PipelinedNode(url, **options)
    try:
        yield connection
    finally:
        await connection.aclose()


async def test_answers_have_the_forms_that_a_connection_of_the_client_gives(shared):
    commands = [
        ("FLUSHDB",),
        ("HSET", "forms", "a", 1, b"\x00\xff", "b\r\n"),
        ("ZADD", "ranks", 1.5, "one", 2**53 - 1, "two"),
        ("SADD", "members", "m"),
        ("HGETALL", "forms"),
        ("HMGET", "forms", "a", "none"),
        ("ZRANGE", "ranks", 0, -1, "REV", "WITHSCORES"),
        ("ZSCORE", "ranks", "one"),
        ("SISMEMBER", "members", "m"),
        ("SMISMEMBER", "members", "m", "n"),
        ("GET", "none"),
        ("MULTI",),
        ("HGET", "forms", "a"),
        ("ZCARD", "ranks"),
        ("EXEC",),
    ]
    client = redis_client.connect(Settings(_env_file=None, redis_url=shared.process.address))
    async with client, connected(shared.process.address) as connection:
        expected = await redis_client.ask(client, commands)
        answers = await connection.ask(commands)
    assert answers == expected
    assert [type(each) for each in answers] == [type(each) for each in expected]
    assert answers[-1] == [b"1", 2]


async def test_what_is_asked_at_once_leaves_in_one_write(shared):
    async with connected(shared.process.address) as connection:
        await connection.ask([("PING",)])
        # private `_transport`: counts writes to the socket.
        # private `_link`: leads to the socket.
        transport = connection._link._transport
        writes = []

        class Watched:
            def __getattr__(self, name):
                return getattr(transport, name)

            def write(self, data):
                writes.append(data)
                transport.write(data)

        connection._link._transport = Watched()
        answers = await asyncio.gather(*(connection.ask([("ECHO", n)]) for n in range(100)))
    assert answers == [[b"%d" % n] for n in range(100)]
    assert len(writes) == 1


async def test_a_repeated_command_is_answered_among_others_each_time(shared):
    again = Repeated(("ECHO", "again\r\n\x00"))
    async with connected(shared.process.address) as connection:
        for n in range(3):
            commands = [("ECHO", n), again, Repeated(("HMGET", "none", "a", 1)), again]
            answers = await connection.ask(commands)
            assert answers == [b"%d" % n, b"again\r\n\x00", [None, None], b"again\r\n\x00"]


PLACES = Form(lambda word: [("ECHO", f"{place}:{word}") for place in "abc"] + [("STRLEN", word)])


def echoes(words):
    return [each for word in words for each in (*(f"{p}:{word}".encode() for p in "abc"), 0)]


async def test_a_form_asks_the_same_of_each_word_whatever_its_length(shared):
    words = ["x", "a1", "b2", "", "w" * 300]
    with pytest.raises(ValueError, match="empty"):
        PLACES.packed("")
    words.remove("")
    asked = ForEach(PLACES, words)
    assert [*asked] == [each for word in words for each in PLACES.make(word)]
    assert (len(asked), asked[5], asked[1:3]) == (16, [*asked][5], [*asked][1:3])
    async with connected(shared.process.address) as connection:
        assert await connection.ask(asked) == echoes(words)
        assert await connection.ask([*asked]) == echoes(words)
        assert await connection.ask(ForEach(PLACES, [])) == []


async def test_what_is_chained_asks_the_same_as_its_parts(shared):
    again = Repeated(("ECHO", "again"))
    parts = [[again, ("ECHO", "once")], ForEach(PLACES, ["x", "y"]), [], [again]]
    commands = [each for part in parts for each in part]
    asked = Chained(parts)
    assert [*asked] == commands
    assert (len(asked), asked[3], asked[1:4]) == (11, commands[3], commands[1:4])
    async with connected(shared.process.address) as connection:
        expected = [b"again", b"once", *echoes(["x", "y"]), b"again"]
        assert await connection.ask(asked) == expected
        assert await connection.ask(commands) == expected
        assert await connection.ask(Chained([asked, asked])) == expected * 2
        assert await connection.ask(Chained([])) == []


async def test_a_hundred_thousand_asks_by_a_thousand_at_once(shared):
    async with connected(shared.process.address) as connection:
        wrong = 0

        async def ask_many(who):
            nonlocal wrong
            for n in range(100):
                text = b"%d:%d" % (who, n)
                wrong += await connection.ask([("ECHO", text)] * (1 + n % 3)) != [text] * (
                    1 + n % 3
                )

        await asyncio.gather(*map(ask_many, range(1_000)))
        assert wrong == 0
        # private `_in_flight`: a leak here fails only much later, at the bound.
        assert connection._link._in_flight == 0


# An ask: how many commands, whether in MULTI .. EXEC, the turn in which it is asked, and the turn
# after which the caller gives up (none: waits).
ASKS = st.lists(
    st.tuples(
        st.integers(1, 5),
        st.booleans(),
        st.integers(0, 6),
        st.none() | st.integers(0, 12),
        st.sampled_from(["fine", "refused", "unknown"]),
    ),
    min_size=1,
    max_size=40,
)


@examples(150, SLOW)
@given(asks=ASKS)
def test_each_caller_gets_its_own_answers_whoever_leaves(shared, asks):
    outcomes = {}

    async def one(connection, who, count, atomic, start, kind):
        for _ in range(start):
            await asyncio.sleep(0)
        texts = [b"%d.%d" % (who, n) for n in range(count)]
        commands = [("ECHO", text) for text in texts]
        if kind == "refused":
            commands.append(("INCR", "word"))
        if atomic:
            commands = [("MULTI",), *commands, ("EXEC",)]
        if kind == "unknown":
            commands.append(("EVALSHA", "0" * 40, 0))
        try:
            answers = await connection.ask(commands)
        except NoScriptError:
            outcomes[who] = "unknown"
        except ResponseError:
            outcomes[who] = "refused"
        else:
            outcomes[who] = "fine"
            assert (answers[-1] if atomic else answers) == texts

    async def run():
        async with connected(shared.process.address) as connection:
            await connection.ask([("SET", "word", "no number")])
            tasks = []
            leaving = {}
            for who, (count, atomic, start, leaves, kind) in enumerate(asks):
                tasks.append(asyncio.create_task(one(connection, who, count, atomic, start, kind)))
                if leaves is not None:
                    leaving.setdefault(leaves, []).append(tasks[-1])
            for turn in range(13):
                for task in leaving.get(turn, ()):
                    task.cancel()
                await asyncio.sleep(0)
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome
            assert all(asks[who][-1] == kind for who, kind in outcomes.items())
            assert {who for who, ask in enumerate(asks) if ask[3] is None} <= set(outcomes)
            assert await connection.ask([("ECHO", "after")]) == [b"after"]
            assert connection._link._in_flight == 0

    asyncio.run(run())


async def test_what_one_asks_in_multi_sees_one_state(shared):
    async with connected(shared.process.address) as connection:
        await connection.ask([("SET", "a", 0), ("SET", "b", 0)])

        async def write():
            await connection.ask([("MULTI",), ("INCR", "a"), ("INCR", "b"), ("EXEC",)])

        async def read():
            *_, (a, b) = await connection.ask([("MULTI",), ("GET", "a"), ("GET", "b"), ("EXEC",)])
            assert a == b

        await asyncio.gather(*(write() if n % 2 else read() for n in range(500)))
        assert await connection.ask([("GET", "a")]) == [b"250"]


async def test_a_refusal_is_raised_and_the_connection_stays(shared):
    async with connected(shared.process.address) as connection:
        ((number,), _) = await asyncio.gather(
            connection.ask([("CLIENT", "ID")]), connection.ask([("SET", "text", "x")])
        )
        with pytest.raises(ResponseError, match="not an integer"):
            await connection.ask([("GET", "text"), ("INCR", "text"), ("GET", "text")])
        with pytest.raises(ResponseError, match="WRONGTYPE"):
            await connection.ask([("MULTI",), ("HGET", "text", "f"), ("EXEC",)])
        with pytest.raises(ResponseError):
            await connection.ask([("MULTI",), ("NO SUCH",), ("EXEC",)])
        with pytest.raises(NoScriptError):
            await connection.ask([("EVALSHA", "f" * 40, 0)])
        assert await connection.ask([("CLIENT", "ID"), ("GET", "text")]) == [number, b"x"]
        assert await connection.ask([]) == []


async def test_a_kill_fails_what_is_in_flight_and_the_next_server_is_found(own):
    async with connected(own.process.address) as connection:
        lost = answered = 0

        async def ask_on():
            nonlocal lost, answered
            while not stop:
                try:
                    (answer,) = await connection.ask([("ECHO", "x" * 1_000)])
                    assert answer == b"x" * 1_000
                    answered += 1
                except RedisError:
                    lost += 1
                    await asyncio.sleep(0.005)

        stop = False
        asking = [asyncio.create_task(ask_on()) for _ in range(200)]
        await eventually_async(lambda: answered > 200)
        assert lost == 0
        own.kill()
        await eventually_async(lambda: lost >= 200)
        # While nobody is there, nobody waits.
        with pytest.raises(Lost, match="cannot be reached"):
            await connection.ask([("PING",)])
        await own.start()
        before = answered
        await eventually_async(lambda: answered >= before + 1_000)
        stop = True
        async with asyncio.timeout(60):
            await asyncio.gather(*asking)


async def test_a_server_that_falls_silent_is_given_up_in_time(own):
    async with connected(own.process.address, answer_timeout_s=0.5) as connection:
        await connection.ask([("SET", "key", "value")])
        own.child.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        outcomes = await asyncio.gather(
            *(connection.ask([("GET", "key")]) for _ in range(50)), return_exceptions=True
        )
        assert time.monotonic() - began > 0.4
        assert {type(each) for each in outcomes} == {TooLate}
        # The kernel takes a connection that nobody accepts: the greeting has a limit as well.
        with pytest.raises(RedisError):
            await connection.ask([("GET", "key")])
        own.child.send_signal(signal.SIGCONT)
        get = [("GET", "key")]
        assert await without_error_async(lambda: connection.ask(get), RedisError) == [b"value"]


async def test_a_loop_that_is_held_up_is_no_silence_of_redis(shared):
    node = PipelinedNode(shared.process.address, answer_timeout_s=0.5)
    await node.ask([("PING",)])
    for _ in range(3):
        asking = asyncio.ensure_future(node.ask([("ECHO", "x")]))
        await asyncio.sleep(0)  # it is asked, and not sent yet
        time.sleep(1.0)  # noqa: ASYNC251 - what a request that computes does to all others
        assert await asking == [b"x"]
    await node.aclose()


async def test_a_loop_that_is_held_up_while_connecting_is_no_silence(shared):
    for turns in range(1, 8):
        node = PipelinedNode(shared.process.address, answer_timeout_s=0.3)
        asking = asyncio.ensure_future(node.ask([("ECHO", "x")]))
        for _ in range(turns):
            await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251 - what a request that computes does to all others
        assert await asking == [b"x"]
        await node.aclose()


async def test_slow_asks_of_a_busy_connection_are_not_given_up(shared):
    async with connected(shared.process.address, answer_timeout_s=0.3) as connection:
        ends = time.monotonic() + 1.0  # several times the limit of one answer
        while time.monotonic() < ends:
            text = "x" * random.randrange(100_000)
            assert await connection.ask([("ECHO", text)]) == [text.encode()]


async def test_more_in_flight_than_the_limit_is_refused(shared, monkeypatch):
    monkeypatch.setattr(pipelined, "MAX_IN_FLIGHT", 10)
    async with connected(shared.process.address) as connection:
        await connection.ask([("PING",)])
        outcomes = await asyncio.gather(
            *(connection.ask([("ECHO", n)] * 3) for n in range(5)), return_exceptions=True
        )
        assert outcomes[:3] == [[b"%d" % n] * 3 for n in range(3)]
        assert all(isinstance(each, Lost) and "wait" in str(each) for each in outcomes[3:])
        assert await connection.ask([("PING",)] * 10) == [b"PONG"] * 10


async def test_password_database_and_socket_of_the_address_count(tmp_path):
    path = tmp_path / "s"
    process = local(tmp_path / "data")
    host = process.address.removeprefix("redis://").removesuffix("/0")

    async def ready():
        try:
            await redis_client.check(f"redis://:p%40ss%3Aword@{host}/0")
        except RedisError as error:
            raise NotReady(str(error)) from None

    options = ["--requirepass", "p@ss:word", "--unixsocket", str(path)]
    server = Mortal(replace(process, command=[*process.command, *options], ready=ready))
    await server.start()
    try:
        async with connected(f"redis://default:p%40ss%3Aword@{host}/3") as connection:
            await connection.ask([("SET", "where", "three")])
        async with connected(f"unix://:p%40ss%3Aword@{path}?db=3") as connection:
            assert await connection.ask([("GET", "where")]) == [b"three"]
        async with connected(f"unix://:p%40ss%3Aword@{path}") as connection:
            assert await connection.ask([("GET", "where")]) == [None]
        async with connected(f"redis://:wrong@{host}/0") as connection:
            with pytest.raises(Lost, match="WRONGPASS"):
                await connection.ask([("PING",)])
    finally:
        server.kill()


async def test_tls_as_the_address_wants_it(shared, tmp_path):
    authority = trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    port = int(shared.process.address.rpartition(":")[2].partition("/")[0])

    async def pass_on(reader, writer):
        inner_reader, inner = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source, sink):
            while data := await source.read(65_536):
                sink.write(data)
                await sink.drain()
            sink.close()

        await asyncio.gather(copy(reader, inner), copy(inner_reader, writer))

    server = await asyncio.start_server(pass_on, "127.0.0.1", 0, ssl=context)
    outer = server.sockets[0].getsockname()[1]
    async with server:
        address = f"rediss://localhost:{outer}/0"
        async with connected(f"{address}?ssl_ca_certs={tmp_path / 'ca.pem'}") as connection:
            assert await connection.ask([("ECHO", "x" * 300_000)]) == [b"x" * 300_000]
        async with connected(address) as connection:
            with pytest.raises(Lost, match=r"(?i)certificate"):
                await connection.ask([("PING",)])


async def test_a_server_that_does_not_speak_redis_is_recognized():
    async def web(reader, writer):
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(web, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, connected(f"redis://127.0.0.1:{port}/0") as connection:
        with pytest.raises(Lost, match="speaks no Redis"):
            await connection.ask([("PING",)])


async def test_closing_fails_those_that_wait(own):
    async with connected(own.process.address) as connection:
        await connection.ask([("PING",)])
        own.child.send_signal(signal.SIGSTOP)
        waiting = asyncio.create_task(connection.ask([("PING",)]))
        await asyncio.sleep(0.05)
        await connection.aclose()
        with pytest.raises(Lost, match="closed"):
            await waiting
        with pytest.raises(Lost, match="closed"):
            await connection.ask([("PING",)])


async def test_closing_while_it_connects_fails_those_that_wait(own):
    own.child.send_signal(signal.SIGSTOP)
    async with connected(own.process.address) as connection:
        waiting = asyncio.create_task(connection.ask([("PING",)]))
        await asyncio.sleep(0.05)
        await connection.aclose()
        with pytest.raises(Lost, match="closed"):
            await waiting


async def test_a_caller_that_leaves_while_it_connects_does_not_stop_the_others(own):
    own.child.send_signal(signal.SIGSTOP)
    async with connected(own.process.address) as connection:
        leaving = asyncio.create_task(connection.ask([("PING",)]))
        staying = asyncio.create_task(connection.ask([("ECHO", "here")]))
        await asyncio.sleep(0.05)
        leaving.cancel()
        await asyncio.sleep(0.05)
        own.child.send_signal(signal.SIGCONT)
        assert await staying == [b"here"]
