"""Wait for a condition, not for a moment; a wait that fails names what it waited for.

Looks become rarer while one waits, up to a twentieth of the time waited: each may be a query that
takes the CPU that what is waited for needs.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")
WITHIN_S: Final = 240.0  # on a busy machine
_LOOK_EVERY_S: Final = 0.02
_LONGEST_S: Final = 0.25


def eventually(
    condition: Callable[[], T],
    state: Callable[[], object] | None = None,
    within_s: float = WITHIN_S,
) -> T:
    """Return the condition's first true value; `state` is shown if none comes."""
    began_s = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() < began_s + within_s, _missed(condition, state, within_s)
        time.sleep(_pause_s(began_s))
    return found


async def eventually_async(
    condition: Callable[[], T | Awaitable[T]],
    state: Callable[[], object] | None = None,
    within_s: float = WITHIN_S,
) -> T:
    """Return the first true value of a condition, which may be a coroutine function."""
    began_s = time.monotonic()
    while not (found := await _value(condition)):
        assert time.monotonic() < began_s + within_s, _missed(condition, state, within_s)
        await asyncio.sleep(_pause_s(began_s))
    return found


def without_error(call: Callable[[], T], *errors: type[Exception], within_s: float = WITHIN_S) -> T:
    """Return what a call returns once it raises none of the errors."""
    began_s = time.monotonic()
    while True:
        try:
            return call()
        except errors as error:
            if time.monotonic() >= began_s + within_s:
                raise AssertionError(f"still after {within_s:g} s") from error
        time.sleep(_pause_s(began_s))


async def without_error_async(
    call: Callable[[], Awaitable[T]], *errors: type[Exception], within_s: float = WITHIN_S
) -> T:
    """Return what a coroutine function returns once it raises none of the errors."""
    began_s = time.monotonic()
    while True:
        try:
            return await call()
        except errors as error:
            if time.monotonic() >= began_s + within_s:
                raise AssertionError(f"still after {within_s:g} s") from error
        await asyncio.sleep(_pause_s(began_s))


def _pause_s(began_s: float) -> float:
    waited_s = time.monotonic() - began_s
    return min(max(_LOOK_EVERY_S, waited_s / 20), _LONGEST_S)


async def _value(condition: Callable[[], T | Awaitable[T]]) -> T:
    found = condition()
    return await found if inspect.isawaitable(found) else found


def _missed(
    condition: Callable[[], object], state: Callable[[], object] | None, within_s: float
) -> str:
    try:
        source = inspect.getsource(condition).strip()
    except (OSError, TypeError):
        source = repr(condition)
    shown = f"\n{state()}" if state is not None else ""
    return f"not within {within_s:g} s: {source}{shown}"
