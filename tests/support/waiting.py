"""Wait for a condition, not for a moment; a wait that fails names what it waited for."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")
WITHIN_S: Final = 240.0  # on a busy machine
_LOOK_EVERY_S: Final = 0.02


def eventually(
    condition: Callable[[], T],
    state: Callable[[], object] | None = None,
    within_s: float = WITHIN_S,
) -> T:
    """Return the condition's first true value; `state` is shown if none comes."""
    deadline = time.monotonic() + within_s
    while not (found := condition()):
        assert time.monotonic() < deadline, _missed(condition, state, within_s)
        time.sleep(_LOOK_EVERY_S)
    return found


async def eventually_async(
    condition: Callable[[], T | Awaitable[T]],
    state: Callable[[], object] | None = None,
    within_s: float = WITHIN_S,
) -> T:
    """Return the first true value of a condition, which may be a coroutine function."""
    deadline = time.monotonic() + within_s
    while not (found := await _value(condition)):
        assert time.monotonic() < deadline, _missed(condition, state, within_s)
        await asyncio.sleep(_LOOK_EVERY_S)
    return found


def without_error(call: Callable[[], T], *errors: type[Exception], within_s: float = WITHIN_S) -> T:
    """Return what a call returns once it raises none of the errors."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return call()
        except errors as error:
            if time.monotonic() >= deadline:
                raise AssertionError(f"still after {within_s:g} s") from error
        time.sleep(_LOOK_EVERY_S)


async def without_error_async(
    call: Callable[[], Awaitable[T]], *errors: type[Exception], within_s: float = WITHIN_S
) -> T:
    """Return what a coroutine function returns once it raises none of the errors."""
    deadline = time.monotonic() + within_s
    while True:
        try:
            return await call()
        except errors as error:
            if time.monotonic() >= deadline:
                raise AssertionError(f"still after {within_s:g} s") from error
        await asyncio.sleep(_LOOK_EVERY_S)


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
