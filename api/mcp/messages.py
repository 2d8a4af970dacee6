"""What is no message of JSON-RPC, and what is wrong with it, in a sentence.

The package answers such a body with the validation errors of its models. What it would accept is
left to it, read by the same parser: two parsers may read a text differently. A body that the
package's parser reads and `pricing` does not (NaN, 1e999, thousands of digits: none is JSON that
others read) was priced as no call, so it is refused here as well.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
from fastapi import Response
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

from api.http.replies import Answer
from api.http.validation import shown
from api.mcp.pricing import CALL

_NOT_JSON: Final = -32700  # these three by JSON-RPC 2.0, section 5.1
_NO_MESSAGE: Final = -32600
_NO_PARAMS: Final = -32602
_NUMBERS: Final = "numbers must be finite, without NaN or Infinity, and below 1e308"
_JSON: Final = (b"content-type", b"application/json")
_EXAMPLE: Final = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
_CALL: Final = '{"name": "get_holdings", "arguments": {"wallet": "..."}}'


def refusal_of(body: bytes) -> Response | None:
    """Return the answer to a body that is no message, None where the package may read it."""
    try:
        message = from_json(body)
    except ValueError as error:
        return _refusal(400, _NOT_JSON, f"The body is not valid JSON: {error}")
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return _refusal(400, _NOT_JSON, f"The body is not valid JSON: {_NUMBERS}")
    if isinstance(message, list):
        return _refusal(
            400,
            _NO_MESSAGE,
            f"The body is a batch, {shown(message)}: send each message as a request of its own",
        )
    if not isinstance(message, dict):
        return _refusal(
            400,
            _NO_MESSAGE,
            f"The body must be one JSON-RPC message, like {_EXAMPLE}; got {shown(message)}",
        )
    try:
        jsonrpc_message_adapter.validate_python(message, by_name=False)
    except ValidationError:
        return _refusal(400, _NO_MESSAGE, _fault(message))
    number = message.get("id")
    is_call = message.get("method") == CALL and type(number) in (int, str)
    if is_call and (fault := _fault_of_call(message.get("params"))) is not None:
        return _refusal(200, _NO_PARAMS, fault, number)
    return None


def _fault(message: dict[str, Any]) -> str:
    """Return what is wrong with an object that is no message."""
    if message.get("jsonrpc") != "2.0":
        return f"`jsonrpc` must be '2.0', got {shown(message.get('jsonrpc'))}"
    if message.keys().isdisjoint({"method", "result", "error"}):
        return f"`method` is required: what the message asks for, as in {_EXAMPLE}"
    if "method" in message and not isinstance(message["method"], str):
        return f"`method` must be text, got {shown(message['method'])}"
    if "params" in message and not isinstance(message["params"], dict):
        return f"`params` must be an object, got {shown(message['params'])}"
    return "The body is neither a request nor a notification nor a response of JSON-RPC 2.0"


def _fault_of_call(params: object) -> str | None:
    """Return what is wrong with the shape of a call; its arguments are the tool's matter."""
    if not isinstance(params, dict):
        return f"`params` of {CALL} is required: an object like {_CALL}"
    if not isinstance(params.get("name"), str):
        return f"`params.name` must be the name of a tool, got {shown(params.get('name'))}"
    if not isinstance(params.get("arguments"), dict | None):
        return f"`params.arguments` must be an object, got {shown(params['arguments'])}"
    return None


def _refusal(status: int, code: int, fault: str, number: int | str | None = None) -> Response:
    error = {"code": code, "message": fault}
    answer = {"jsonrpc": "2.0", "id": number, "error": error}
    # Not by orjson: an id may have more than 64 bits.
    return Answer(status, json.dumps(answer, ensure_ascii=False).encode(), _JSON)
