"""A body that is no message of JSON-RPC is refused in plain words."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from api.mcp.messages import refusal_of
from api.mcp.pricing import _parsed

PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CALL: dict[str, Any] = {**PING, "method": "tools/call", "params": {"name": "get_holdings"}}


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [
        (b"", 400, -32700, "not valid JSON"),
        (b"{", 400, -32700, "not valid JSON"),
        (b"\xff", 400, -32700, "not valid JSON"),
        (b"[" * 5_000, 400, -32700, "recursion limit"),
        *(
            (
                b'{"jsonrpc":"2.0","id":%b,"method":"tools/call","params":{}}' % number,
                400,
                -32700,
                "numbers must be finite",
            )
            for number in (b"NaN", b"-Infinity", b"1e999", b"9" * 4_300)
        ),
        (orjson.dumps([PING, PING]), 400, -32600, "a batch, a list of 2 items: send each message"),
        (b"null", 400, -32600, "must be one JSON-RPC message, like "),
        (b'"' + b"x" * 60_000 + b'"', 400, -32600, "got 60000 characters"),
        (b"{}", 400, -32600, "`jsonrpc` must be '2.0', got null"),
        (orjson.dumps({**PING, "jsonrpc": 2}), 400, -32600, "`jsonrpc` must be '2.0', got 2"),
        (orjson.dumps({**PING, "method": ["x"]}), 400, -32600, "`method` must be text"),
        (b'{"jsonrpc":"2.0","id":1}', 400, -32600, "`method` is required"),
        (orjson.dumps({**PING, "params": []}), 400, -32600, "`params` must be an object"),
        (b'{"jsonrpc":"2.0","id":1,"result":5}', 400, -32600, "neither a request nor"),
        (orjson.dumps({**CALL, "params": None}), 200, -32602, "`params` of tools/call is required"),
        (orjson.dumps({**CALL, "params": {}}), 200, -32602, "`params.name` must be the name"),
        (
            orjson.dumps({**CALL, "params": {"name": "get_holdings", "arguments": [1]}}),
            200,
            -32602,
            "`params.arguments` must be an object, got a list of 1 item",
        ),
    ],
)
def test_what_is_no_message(body, status, code, words) -> None:
    answer = refusal_of(body)
    assert answer is not None
    assert answer.status_code == status
    found = orjson.loads(bytes(answer.body))
    assert (found["jsonrpc"], found["error"]["code"]) == ("2.0", code)
    assert found["id"] == (1 if status == 200 else None)
    assert words in found["error"]["message"]
    assert len(answer.body) < 400
    for foreign in (b"pydantic", b"alidation error", b"JSONRPCRequest"):
        assert foreign not in bytes(answer.body)


@pytest.mark.parametrize(
    "message",
    [
        PING,
        CALL,
        {**CALL, "params": {"name": "nope", "arguments": {"limit": 1}}},
        {**CALL, "params": {"name": "get_holdings", "arguments": None}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {**PING, "method": "nope", "params": {}},
    ],
)
def test_messages_are_the_packages(message) -> None:
    assert refusal_of(orjson.dumps(message)) is None


def test_any_number_of_a_call_is_repeated() -> None:
    answer = refusal_of(orjson.dumps({**CALL, "params": {}}).replace(b":1,", b":%d," % 2**70))
    assert answer is not None
    assert b'"id": %d' % 2**70 in bytes(answer.body)


PARTS = st.none() | st.booleans() | st.integers() | st.text() | st.just("2.0") | st.just("ping")
VALUES = st.recursive(
    PARTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), inner
        )
    ),
    max_leaves=10,
)


def is_taken(value: object) -> bool:
    """Return whether the package takes a value for a message."""
    try:
        jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999", "-1e999", "9" * 400, "9" * 4_300])
def test_what_is_priced_as_no_call_is_none(number) -> None:
    body = json.dumps({**CALL, "params": {"name": "get_holdings", "arguments": {"wallet": 5}}})
    body = body.replace("5", number)
    # private `_parsed`: what is priced as no call looks like any other message from outside.
    assert _parsed(body.encode()) is None
    answer = refusal_of(body.encode())
    assert answer is not None
    assert answer.status_code == 400


@given(VALUES | VALUES.map(lambda value: {**PING, "params": value}))
def test_what_is_refused_is_what_the_package_would_refuse(value) -> None:
    answer = refusal_of(json.dumps(value).encode())
    is_refused = answer is not None and answer.status_code == 400
    assert is_refused is not is_taken(value)
