"""Wrong arguments of a call: which one, what is accepted, and what came."""

from __future__ import annotations

from typing import Any

import pytest

from api.mcp.arguments import problem_of
from api.mcp.tools import INPUT

WALLET = "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1"
AN_ADDRESS = "a Solana address, 32 to 44 characters of base58"
LIMITED: dict[str, Any] = {
    "properties": {
        "query": {"type": "string", "maxLength": 5},
        "limit": {"type": "integer", "minimum": 1, "maximum": 30},
    },
    "required": ["query"],
}


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        ({}, f"`wallet` is required: {AN_ADDRESS}"),
        ({"wallet": None}, f"`wallet` must be {AN_ADDRESS}, got null"),
        ({"wallet": 5}, f"`wallet` must be {AN_ADDRESS}, got 5"),
        ({"wallet": [WALLET]}, f"`wallet` must be {AN_ADDRESS}, got a list of 1 item"),
        (
            {"wallet": WALLET, "limit": 5},
            "`limit` is not an argument of this tool; it takes `wallet`",
        ),
        (
            {"address": WALLET},
            "`address` is not an argument of this tool; it takes `wallet` (and 1 more)",
        ),
    ],
)
def test_what_is_wrong_with_the_argument_of_a_hosted_tool(arguments, detail) -> None:
    problem = problem_of(arguments, INPUT)
    assert problem is not None
    assert (problem.kind.code, problem.detail) == ("invalid_parameter", detail)


def test_all_that_is_wrong_is_listed_bounded() -> None:
    problem = problem_of({"address": WALLET}, INPUT)
    assert problem is not None
    assert [each["parameter"] for each in problem.members["errors"]] == ["address", "wallet"]
    problem = problem_of({str(number) * 100: 1 for number in range(1, 100)}, INPUT)
    assert problem is not None
    assert len(problem.members["errors"]) == 10
    assert all(len(each["parameter"]) <= 40 for each in problem.members["errors"])
    assert "(and 99 more)" in problem.detail


@pytest.mark.parametrize("limit", [1, 30, 5.0, "7"])
def test_numbers_as_models_send_them_are_taken(limit) -> None:
    assert problem_of({"query": "fifo", "limit": limit}, LIMITED) is None
    assert problem_of({"wallet": "no address: the tool says so"}, INPUT) is None


@pytest.mark.parametrize("limit", [0, 31, 1.5, True, None, "", "-1", "9" * 5_000, "x", [], 10**40])
def test_other_numbers_are_not(limit) -> None:
    problem = problem_of({"query": "fifo", "limit": limit}, LIMITED)
    assert problem is not None
    assert problem.detail.startswith("`limit` must be an integer from 1 to 30, got ")
    assert len(problem.detail) < 120


def test_a_text_that_is_too_long_is_not_repeated() -> None:
    problem = problem_of({"query": "fifo " * 100}, LIMITED)
    assert problem is not None
    assert problem.detail == "`query` must be text of at most 5 characters, got 500 characters"
