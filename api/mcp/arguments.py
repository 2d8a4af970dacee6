"""What is wrong with the arguments of a call, in the words that REST has for parameters.

The package would drop an argument that a tool does not take, and answer a wrong one with the text
of its validation library. Arguments are held to a tool's input schema here, before the package.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.http import problems
from api.http.errors import INVALID_PARAMETER, Problem
from api.http.validation import accepted, shown

_MOST_LISTED: Final = 10
_LONGEST_NAME: Final = 40


def problem_of(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> Problem | None:
    """Return what is wrong with arguments, None where they are as the schema has them."""
    known: Mapping[str, Any] = schema["properties"]
    takes = ", ".join(f"`{name}`" for name in known) or "none"
    reasons = {
        name: f"is not an argument of this tool; it takes {takes}"
        for name in arguments
        if name not in known
    }
    for name, one in known.items():
        if name not in arguments:
            if name in schema.get("required", ()):
                reasons[name] = f"is required: {accepted(one)}"
        elif not _fits(arguments[name], one):
            reasons[name] = f"must be {accepted(one)}, got {shown(arguments[name])}"
    if not reasons:
        return None
    listed = [
        {"parameter": name[:_LONGEST_NAME], "reason": reason}
        for name, reason in [*reasons.items()][:_MOST_LISTED]
    ]
    return problems.of_errors(INVALID_PARAMETER, listed, len(reasons))


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    """Return True for what a tool takes: text, or a whole number, which models send as text too."""
    if schema["type"] == "string":
        return isinstance(value, str) and len(value) <= schema.get("maxLength", len(value))
    assert schema["type"] == "integer", "no tool takes anything else"
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int:
        return False
    low, high = schema.get("minimum", value), schema.get("maximum", value)
    return bool(low <= value <= high)
