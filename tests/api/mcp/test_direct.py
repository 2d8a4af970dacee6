"""A plain call gets the bytes that the package would send; whatever is not plain is left to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.server import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Scope

from api.mcp.calls import Calls, Result
from api.mcp.direct import Direct
from api.mcp.pricing import Pricing
from api.mcp.server import make_server
from api.mcp.tools import Tool

WALLET = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
PLAIN: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "get_holdings", "arguments": {"wallet": WALLET}},
}
HEADERS = [
    (b"content-type", b"application/json"),
    (b"accept", b"application/json, text/event-stream"),
]
ANSWER = orjson.dumps({"answer": {"sum": None, "worth": 1.5, "name": 'é"\\\n'}, "cut": []})

Sent = tuple[int, list[tuple[bytes, bytes]], bytes]


class Says(Calls):
    """Says the same of every wallet, and which tool and wallet it was asked for."""

    def __init__(self, said: bytes = ANSWER, *, is_error: bool = False) -> None:
        self.result = Result(said, is_error=is_error)
        self.asked: list[tuple[str, str]] = []

    async def answer(self, tool: Tool, wallet: str, state: Mapping[str, Any]) -> Result:
        self.asked.append((tool.name, wallet))
        return self.result


CALLS = Says()


@cache  # it is slow to make; its calls go where `CALLS` has them go
def server() -> MCPServer[Any]:
    return make_server(cast(Any, None), CALLS)


async def both(
    body: bytes, headers: list[tuple[bytes, bytes]], calls: Says
) -> tuple[Sent | None, Sent]:
    """Return what the short way sends, None if it leaves the message, and what the package does."""
    given_to: list[list[tuple[str, str]]] = []
    sent: list[list[Message]] = []

    def scope() -> Scope:
        return {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"",
                "headers": headers, "state": {}}  # fmt: skip

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        sent[-1].append(message)

    priced = scope()
    await Pricing(cast(Any, None), frozenset()).price(priced, receive, "")
    sent.append([])
    response = await Direct(calls).answer(priced)
    assert not priced["state"]  # the message is not kept while it is answered
    if response is not None:
        await response(priced, receive, send)
    given_to.append([*calls.asked])
    calls.asked.clear()

    CALLS.result, CALLS.asked = calls.result, []
    sent.append([])
    # private `_lowlevel_server`: the package's manager of sessions takes nothing else.
    manager = StreamableHTTPSessionManager(
        server()._lowlevel_server, json_response=True, stateless=True
    )
    async with manager.run():
        await manager.handle_request(scope(), receive, send)
    given_to.append(CALLS.asked)
    if response is not None:
        assert given_to[0] == given_to[1]
    short, whole = [_sent(each) for each in sent]
    assert whole is not None
    return short, whole


def _sent(messages: list[Message]) -> Sent | None:
    if not messages:
        return None
    start, *rest = messages
    return start["status"], [*start["headers"]], b"".join(each.get("body", b"") for each in rest)


def with_id(number: Any) -> dict[str, Any]:
    return {**PLAIN, "id": number}


def with_meta(meta: Any) -> dict[str, Any]:
    return {**PLAIN, "params": {**PLAIN["params"], "_meta": meta}}


@pytest.mark.parametrize("is_error", [False, True])
@pytest.mark.parametrize(
    "message",
    [
        PLAIN,
        {**PLAIN, "params": {"name": "analyze_wallet", "arguments": {"wallet": 'no\\"é\u2028'}}},
        with_id(0), with_id(-1), with_id(2**53 - 1), with_id(""), with_id('7"\\\u0000é'),
        with_meta({}), with_meta({"progressToken": 1}), with_meta({"progressToken": "a"}),
        with_meta({"of-a-client/id": None, "is": True, "at": 1.5, "traceparent": "00-zz"}),
    ],
)  # fmt: skip
def test_messages_as_clients_send_them_take_the_short_way(message, is_error) -> None:
    calls = Says(is_error=is_error)
    short, whole = asyncio.run(both(json.dumps(message).encode(), HEADERS, calls))
    assert short == whole
    assert whole[0] == 200


@pytest.mark.parametrize(("levels", "status"), [(1, 200), (150, 200), (300, 400), (1_000, 400)])
def test_what_parsers_may_not_read_to_the_end_is_left_to_the_package(levels, status) -> None:
    message = json.dumps(with_meta({"deep": 0})).encode()
    deep = message.replace(b'"deep": 0', b'"deep": %b' % (b"[" * levels + b"]" * levels))
    short, whole = asyncio.run(both(deep, HEADERS, Says()))
    assert short is None
    assert whole[0] == status


ODD = st.sampled_from(
    [None, True, False, 0, 1, -1, 1.0, 2**53, 2**64, 2**80, "", "2.0", "1.0", "tools/call",
     "tools/list", "get_holdings", "get_all_lp", WALLET, "é", [], {}, [1], {"wallet": WALLET},
     {"wallet": 1}, {"wallet": None}, {"wallet": WALLET, "more": 1}, {"wallet": f'"{WALLET}"'},
     {"progressToken": True}, {"progressToken": None}, {"progressToken": 1.5},
     {"progressToken": 2**70}, {"progressToken": "x"}, {"progress_token": []},
     {"io.modelcontextprotocol/related-task": {}}, {"x": [{}]}]
)  # fmt: skip
PLACES = st.sampled_from(
    [("jsonrpc",), ("id",), ("method",), ("params",), ("more",), ("params", "name"),
     ("params", "arguments"), ("params", "_meta"), ("params", "task"),
     ("params", "arguments", "wallet"), ("params", "arguments", "more")]
)  # fmt: skip
HEADER = st.tuples(
    st.sampled_from([b"content-type", b"accept", b"mcp-protocol-version", b"mcp-session-id"]),
    st.sampled_from(
        [b"", b"application/json", b"Application/JSON", b"application/json; charset=utf-8",
         b"text/plain", b"text/event-stream", b"application/json, text/event-stream", b"*/*",
         b"application/*", b"2024-11-05", b"2025-03-26", b"2025-11-25", b"2026-07-28", b"never"]
    ),
)  # fmt: skip


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A call of which some places are others, or missing."""
    message = json.loads(json.dumps(PLAIN))
    for place in draw(st.lists(PLACES, max_size=2)):
        at = message
        for name in place[:-1]:
            at = at.get(name) if isinstance(at, dict) else None
        if isinstance(at, dict):
            if draw(st.booleans()):
                at[place[-1]] = draw(ODD)
            else:
                at.pop(place[-1], None)
    text = json.dumps(message, ensure_ascii=draw(st.booleans()))
    return draw(st.sampled_from(["", " ", "\ufeff"])).encode() + text.encode()


@given(messages(), st.lists(HEADER, max_size=1), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_short_way_is_never_another(body, headers, is_first) -> None:
    found = [*headers, *HEADERS] if is_first else [*HEADERS, *headers]
    short, whole = asyncio.run(both(body, found, Says()))
    assert short is None or short == whole


NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES, max_size=4))
@settings(max_examples=100, deadline=None)
def test_any_answer_is_the_same_both_ways(answer) -> None:
    said = orjson.dumps(answer)
    short, whole = asyncio.run(both(orjson.dumps(PLAIN), HEADERS, Says(said)))
    assert short is not None
    # Of a number the package may write other digits: the text has ours on both ways.
    assert orjson.loads(short[2]) == orjson.loads(whole[2])
    assert orjson.loads(orjson.loads(short[2])["result"]["content"][0]["text"]) == answer
