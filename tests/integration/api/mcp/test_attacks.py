"""What hostile pages, guessed sessions, odd bodies and silent clients get: nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from api.access import register, users
from api.access.keys import key_id, new, parse
from api.access.refused_bodies import AT_ONCE, MOST_BYTES
from api.access.users import Identity
from api.http.errors import Problem
from api.mcp.routes import PING_S
from api.mcp.sessions import Sessions
from tests.support.api.served import Served
from tests.support.waiting import eventually_async

WALLET = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"},
    },
}
SOON_S = 60.0  # on a busy machine; an idle session lasts longer
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


def call(name: str = "get_holdings", wallet: str = WALLET) -> dict[str, Any]:
    params = {"name": name, "arguments": {"wallet": wallet}}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}


@pytest.fixture
async def http(four) -> AsyncIterator[httpx.AsyncClient]:
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=four[0].url, timeout=60, limits=limits) as client:
        yield client


class Stream:
    """An SSE session that a test reads by hand."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.endpoint = ""

    async def event(self) -> tuple[str, str] | None:
        """Return the next event, None once the stream has ended."""
        kind = ""
        try:
            async for line in self._lines:
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    return kind, line[6:]
        except httpx.RemoteProtocolError:
            pass
        return None


@asynccontextmanager
async def stream(http: httpx.AsyncClient, key: str) -> AsyncIterator[Stream]:
    async with http.stream("GET", "/mcp/sse", headers={"x-api-key": key}) as answer:
        found = Stream(answer)
        if answer.status_code == 200:
            event = await found.event()
            assert event is not None
            assert event[0] == "endpoint"
            found.endpoint = event[1]
        yield found


@asynccontextmanager
async def started(serve: Any, **changed: object) -> AsyncIterator[Served]:
    """An API of the test's own."""
    starting = serve(**changed)
    api = await asyncio.to_thread(starting.__enter__)
    try:
        yield api
    finally:
        await asyncio.to_thread(starting.__exit__, None, None, None)


async def code_of(answer: httpx.Response) -> tuple[int, str]:
    await answer.aread()
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse", "/mcp/messages", "/mcp/health"])
async def test_a_page_that_rebinds_a_name_is_refused(four, http, path) -> None:
    method = "POST" if path in ("/mcp", "/mcp/messages") else "GET"
    headers = {"host": "evil.example", "x-api-key": four[0].key}
    answer = await http.request(method, path, headers=headers)
    assert await code_of(answer) == (421, "misdirected")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/sse", "/mcp/messages?session_id=0"])
@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "null", "http://127.0.0.1.evil.example", "http://127.0.0.1:1",
     "http://[", "file://", ""],
)  # fmt: skip
async def test_a_page_of_another_origin_is_refused_unpaid(four, http, path, origin, make_key):
    key = await asyncio.to_thread(make_key, "pro")
    method = "GET" if path == "/mcp/sse" else "POST"
    headers = {**ACCEPT, "origin": origin, "x-api-key": key}
    answer = await http.request(method, path, headers=headers, json=call())
    if path.startswith("/mcp/messages"):
        assert answer.status_code in (403, 404)
    else:
        assert await code_of(answer) == (403, "origin_refused")
    usage = await http.get("/api/usage", headers={"x-api-key": key})
    assert usage.headers["x-credits-left"] == "1000000"


async def test_a_page_of_the_own_origin_may_call(four, http) -> None:
    headers = {**ACCEPT, "origin": four[0].url, "x-api-key": four[0].key}
    answer = await http.post("/mcp", headers=headers, json=INITIALIZE)
    assert answer.status_code == 200


async def test_a_session_of_one_key_is_none_for_another(four, http, make_key) -> None:
    mine, other = [await asyncio.to_thread(make_key, "pro") for _ in range(2)]
    async with stream(http, mine) as found:
        for _ in range(12):  # whichever process it comes to
            for key, status, code in (
                (other, 404, "no_session"),
                (new(), 401, "key_unknown"),
                ("", 401, "key_malformed"),
            ):
                answer = await http.post(
                    found.endpoint, headers={**ACCEPT, "x-api-key": key}, json=call()
                )
                assert await code_of(answer) == (status, code)
            async with httpx.AsyncClient(base_url=four[0].url) as once:
                answer = await once.post(
                    found.endpoint, headers={**ACCEPT, "x-api-key": other}, json=call()
                )
            assert await code_of(answer) == (404, "no_session")
        usage = await http.get("/api/usage", headers={"x-api-key": other})
        assert usage.headers["x-credits-left"] == "1000000"
        # Nothing of it has come out: the first event is the answer to the owner.
        answer = await http.post(
            found.endpoint, headers={**ACCEPT, "x-api-key": mine}, json=INITIALIZE
        )
        assert answer.status_code == 202
        event = await found.event()
        assert event is not None
        assert json.loads(event[1])["id"] == 1


@pytest.mark.parametrize(
    "query",
    ["", "session_id=", "session_id=0", "session_id=*", "session_id=" + "0" * 48,
     "session_id=" + "g" * 48, "session_id=" + "0" * 4_000, "session_id=%7Bx%7D&session_id=2"],
)  # fmt: skip
async def test_guessed_sessions_are_none(four, http, query) -> None:
    answer = await http.post(
        f"/mcp/messages?{query}", headers={**ACCEPT, "x-api-key": four[0].key}, json=call()
    )
    assert await code_of(answer) in ((404, "no_session"), (422, "invalid_parameter"))


async def test_a_session_ends_with_its_stream(four, http) -> None:
    headers = {**ACCEPT, "x-api-key": four[0].key}
    async with stream(http, four[0].key) as found:
        endpoint = found.endpoint
        assert (await http.post(endpoint, headers=headers, json=INITIALIZE)).status_code == 202

    async def is_gone() -> bool:
        return (await http.post(endpoint, headers=headers, json=INITIALIZE)).status_code == 404

    await eventually_async(is_gone)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"tools/call"', b"\xff", b"[" * 5_000,
     b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
     b'{"jsonrpc":"2.0","id":1,"method":["tools/call"]}',
     json.dumps([call(), call()]).encode(),
     json.dumps(call("rm")).encode(),
     json.dumps({**call(), "params": {"name": "get_holdings", "arguments": []}}).encode(),
     json.dumps(call("get_holdings", "x" * 5_000)).encode(),
     json.dumps({**call(), "id": None}).encode()],
)  # fmt: skip
async def test_odd_messages_get_an_error_and_no_answer(four, http, body) -> None:
    headers = {**ACCEPT, "x-api-key": four[0].key}
    answer = await http.post("/mcp", headers=headers, content=body)
    assert answer.status_code < 500
    assert b"structuredContent" not in answer.content
    assert (await http.get("/api/health/live")).status_code == 200


async def test_wrong_arguments_are_named_and_cost_a_credit_as_at_rest(four, http, make_key):
    key = await asyncio.to_thread(make_key, "pro")
    headers = {**ACCEPT, "x-api-key": key}
    for spent, (arguments, words) in enumerate(
        (
            ({}, "`wallet` is required: a Solana address"),
            ({"wallet": None}, "`wallet` must be a Solana address, 32 to 44 characters"),
            ({"wallet": WALLET, "limit": 5}, "`limit` is not an argument of this tool"),
            ({"address": WALLET}, "`address` is not an argument of this tool; it takes `wallet`"),
        ),
        start=1,
    ):
        message = call()
        message["params"]["arguments"] = arguments
        answer = await http.post("/mcp", headers=headers, json=message)
        result = answer.json()["result"]
        problem = json.loads(result["content"][0]["text"])
        assert (result["isError"], problem["code"]) == (True, "invalid_parameter")
        assert words in problem["detail"]
        assert "pydantic" not in answer.text
        assert answer.headers["x-credits-left"] == str(1_000_000 - spent)
    answer = await http.get(f"/api/wallets/{WALLET}/all-dex?no=1", headers={"x-api-key": key})
    assert await code_of(answer) == (422, "invalid_parameter")
    assert answer.headers["x-credits-left"] == str(1_000_000 - spent - 1)


async def test_a_refused_key_outweighs_wrong_arguments(four, http):
    message = call()
    message["params"]["arguments"] = {"limit": 5}
    answer = await http.post("/mcp", headers={**ACCEPT, "x-api-key": new()}, json=message)
    assert json.loads(answer.json()["result"]["content"][0]["text"])["code"] == "key_unknown"


async def test_a_batch_is_refused_in_words_over_both_transports(four, http, make_key) -> None:
    key = await asyncio.to_thread(make_key, "pro")
    headers = {**ACCEPT, "x-api-key": key}
    async with stream(http, key) as found:
        for path in ("/mcp", found.endpoint):
            answer = await http.post(path, headers=headers, json=[call(), call()])
            assert answer.status_code == 400
            error = answer.json()["error"]
            assert "a batch, a list of 2 items: send each message" in error["message"]
            assert answer.headers["x-credits-left"] == "1000000"


@pytest.mark.parametrize(
    "body",
    [
        # One parser reads the first, another the last of two equal names; one reads NaN.
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b,"method":"tools/list"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":%b,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b,"x":NaN}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b,"x":"\\ud800"}',
        b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}',
    ],
)
async def test_no_spelling_of_a_call_is_free(four, http, make_key, body) -> None:
    key = await asyncio.to_thread(make_key, "pro")
    body = body % json.dumps(call()["params"]).encode()
    answer = await http.post("/mcp", headers={**ACCEPT, "x-api-key": key}, content=body)
    usage = await http.get("/api/usage", headers={"x-api-key": key})
    is_paid = usage.headers["x-credits-left"] == "999999"
    assert is_paid or "structuredContent" not in answer.text


async def test_a_body_over_the_limit_is_refused(four, http) -> None:
    headers = {**ACCEPT, "x-api-key": four[0].key}
    answer = await http.post("/mcp", headers=headers, content=b" " * (65 * 1024))
    assert await code_of(answer) == (413, "body_too_large")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/messages?session_id=" + "0" * 48])
async def test_a_key_that_was_made_up_is_not_waited_for(four, path) -> None:
    """Clients that send a body slowly, or never, hold no slot with an unknown key."""

    async def refused(key: str, sizes: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(four[0].url).port)
        head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-api-key: {key}\r\n{sizes}\r\n"
        writer.write(f"{head}content-type: application/json\r\n\r\n1".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 401 "), answer
        writer.close()

    long = f"content-length: {MOST_BYTES + 1}"
    await asyncio.gather(
        refused(new(), long),
        refused(new(), "transfer-encoding: chunked"),
        *(refused(new(), "content-length: 100") for _ in range(AT_ONCE + 4)),
    )


async def test_a_call_with_an_unknown_key_is_an_error_of_the_tool(four, http) -> None:
    """All else that such a client asks for is refused by HTTP: it is not let in."""
    headers = {**ACCEPT, "x-api-key": new()}
    for _ in range(3):  # in whichever process, remembered or not
        answer = await http.post("/mcp", headers=headers, json=call())
        assert answer.status_code == 200
        result = answer.json()["result"]
        refused = json.loads(result["content"][0]["text"])
        assert (result["isError"], refused["status"], refused["code"]) == (True, 401, "key_unknown")
    nothing = {key: value for key, value in call().items() if key != "id"}  # gets no result
    for message in (
        INITIALIZE,
        {**call(), "method": "tools/list"},
        nothing,
        {**call(), "id": None},
        {**call(), "error": {}},
        [call()],
    ):
        answer = await http.post("/mcp", headers=headers, json=message)
        assert await code_of(answer) == (401, "key_unknown")
    too_long = {**call(), "padding": " " * MOST_BYTES}
    answer = await http.post("/mcp", headers=headers, json=too_long)
    assert await code_of(answer) == (401, "key_unknown")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_streamable_http_has_no_other_methods(four, http, method) -> None:
    answer = await http.request(method, "/mcp", headers={**ACCEPT, "x-api-key": four[0].key})
    assert await code_of(answer) == (405, "method_not_allowed")


async def test_silent_sessions_of_a_key_are_bounded_and_others_have_room(serve) -> None:
    async with started(serve, mcp_max_sessions_per_key=3) as api:
        other = await asyncio.to_thread(api.new_key, "other")
        async with (
            httpx.AsyncClient(base_url=api.url, timeout=60) as http,
            AsyncExitStack() as stack,
        ):
            for _ in range(3):
                found = await stack.enter_async_context(stream(http, api.key))
                assert found.answer.status_code == 200
            refused = await stack.enter_async_context(stream(http, api.key))
            assert await code_of(refused.answer) == (429, "too_many_sessions")
            theirs = await stack.enter_async_context(stream(http, other))
            assert theirs.answer.status_code == 200
            health = (await http.get("/mcp/health")).json()
            assert health["sessions"] == 4


async def test_all_keys_of_a_user_share_the_sessions_of_one(stores) -> None:
    settings = stores.model_copy(update={"mcp_max_sessions_per_key": 2})
    redis = register.connect(settings)
    sessions = Sessions(settings, redis, lambda: 0.0)
    try:
        opened = [await sessions.open(f"{number}" * 64, "a" * 64) for number in (1, 2)]
        with pytest.raises(Problem, match="At most 2 sessions"):
            await sessions.open("3" * 64, "a" * 64)
        opened.append(await sessions.open("4" * 64, "4" * 64))
        with pytest.raises(Problem):  # each is of the key that opened it
            await sessions.check(opened[0].name, "2" * 64)
        await sessions.check(opened[0].name, "1" * 64)
        for each in opened:
            await sessions.close(each)
    finally:
        await redis.aclose()


async def test_a_stream_ends_with_its_key(four, http, make_key, stores) -> None:
    """And with the user's, when that one is suspended; others go on."""
    redis = register.connect(stores)
    try:
        ann, bob = [
            await users.enter(redis, Identity("https://i.example.com", name, name), 10**6)
            for name in ("ann of a stream", "bob of a stream")
        ]
        keys = [
            await asyncio.to_thread(make_key, "pro"),
            await users.create_key(redis, ann, "first"),
            await users.create_key(redis, bob, "first"),
        ]
        async with AsyncExitStack() as stack:
            *ending, other = [
                await stack.enter_async_context(stream(http, each)) for each in (*keys, four[0].key)
            ]
            await register.revoke(redis, parse(keys[0]), await register.now_ms(redis))
            assert await users.revoke_key(redis, ann, key_id(parse(keys[1])))
            await users.suspend(redis, bob)
            async with asyncio.timeout(SOON_S):
                for each in ending:
                    assert await each.event() is None
            headers = {**ACCEPT, "x-api-key": four[0].key}
            answer = await http.post(other.endpoint, headers=headers, json=INITIALIZE)
            assert answer.status_code == 202
            assert await other.event() is not None
            for key, code in zip(
                keys, ("key_revoked", "key_revoked", "user_suspended"), strict=True
            ):
                refused = await stack.enter_async_context(stream(http, key))
                assert await code_of(refused.answer) == (403, code)
    finally:
        await redis.aclose()


async def test_in_a_full_process_the_longest_silent_session_makes_room(serve) -> None:
    async with started(serve, mcp_max_sessions=2) as api:
        headers = {**ACCEPT, "x-api-key": api.key}
        async with (
            httpx.AsyncClient(base_url=api.url, timeout=60) as http,
            AsyncExitStack() as stack,
        ):
            first, second = [
                await stack.enter_async_context(stream(http, api.key)) for _ in range(2)
            ]
            answer = await http.post(first.endpoint, headers=headers, json=INITIALIZE)
            assert answer.status_code == 202
            assert await first.event() is not None
            third = await stack.enter_async_context(stream(http, api.key))
            assert third.answer.status_code == 200
            assert await second.event() is None  # it was silent
            answer = await http.post(first.endpoint, headers=headers, json=INITIALIZE)
            assert answer.status_code == 202


async def test_a_stream_outlives_the_longest_time_of_a_request(serve) -> None:
    async with started(serve, api_timeout_s=1.0) as api:
        headers = {**ACCEPT, "x-api-key": api.key}
        async with (
            httpx.AsyncClient(base_url=api.url, timeout=60) as http,
            stream(http, api.key) as found,
        ):
            await asyncio.sleep(2.5)
            answer = await http.post(found.endpoint, headers=headers, json=INITIALIZE)
            assert answer.status_code == 202
            assert await found.event() is not None


async def test_a_session_that_is_silent_for_too_long_ends(serve) -> None:
    """One that has answers goes on."""
    async with started(serve, mcp_session_idle_s=PING_S) as api:
        headers = {**ACCEPT, "x-api-key": api.key}
        async with (
            httpx.AsyncClient(base_url=api.url, timeout=60) as http,
            stream(http, api.key) as silent,
            stream(http, api.key) as lively,
            asyncio.timeout(2 * PING_S + SOON_S),
        ):
            ending = asyncio.create_task(silent.event())
            while not ending.done():
                answer = await http.post(lively.endpoint, headers=headers, json=INITIALIZE)
                assert answer.status_code == 202
                assert await lively.event() is not None
                await asyncio.wait([ending], timeout=1)
            assert await ending is None
            answer = await http.post(silent.endpoint, headers=headers, json=INITIALIZE)
            assert await code_of(answer) == (404, "no_session")
            assert "Traceback" not in api.logged()


async def test_a_process_stops_while_sessions_are_open(serve) -> None:
    async with started(serve) as api:
        async with (
            httpx.AsyncClient(base_url=api.url, timeout=60) as http,
            stream(http, api.key),
        ):
            await asyncio.to_thread(api.stop)
        assert "Traceback" not in api.logged()
        assert api.process.returncode == 0
