"""State and watermark to Redis in one transaction, refused where another has been there.

The watermark is WATCHed, compared with what we believe is there, and written by the same EXEC as
the state. Redis executes all of an EXEC or nothing; a command in it that fails does not undo the
others, so such an error is a bug of the command and is raised as Refused.
"""

from __future__ import annotations

import asyncio
import builtins
import math
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hiredis import pack_command
from redis.asyncio import Redis
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,  # noqa: A004
    NoPermissionError,
    OutOfMemoryError,
    RedisError,
    ResponseError,
    TimeoutError,  # noqa: A004
    WatchError,
)

from infra.redis.client import ANSWER_TIMEOUT_S

_TRANSIENT: Final = (
    *("LOADING", "OOM", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"),
    *("NOREPLICAS", "BUSY", "UNBLOCKED", "MOVED", "ASK"),
)


class Watermark(NamedTuple):
    """How far a group has come on a partition."""

    slot: int  # the last applied
    offset: int  # of the last message dealt with
    time_ms: int  # of the block


class Moved(Exception):  # noqa: N818 - what happened
    """The watermark is not what we left there; `found` is what is there instead."""

    def __init__(self, found: Watermark | None) -> None:
        super().__init__(f"the watermark in Redis is {found}")
        self.found = found


class Refused(Exception):  # noqa: N818 - what happened
    """Redis will not execute a command of ours; the text has the command's head and the error."""


def transient(error: RedisError) -> bool:
    """Whether the same may go well later: Redis is away, loading, full, or not the primary."""
    if isinstance(error, ConnectionError | TimeoutError | OutOfMemoryError):
        return not isinstance(error, AuthenticationError)
    if isinstance(error, NoPermissionError):
        return False
    return str(error).startswith(_TRANSIENT) or type(error).__name__.endswith("LoadingError")


async def read_watermark(redis: Redis, key: str) -> Watermark | None:
    """Return a watermark, None where the group has not begun. Raises RedisError."""
    return _watermark(await redis.hmget(key, ["slot", "offset", "time_ms"]))


async def commit(
    redis: Redis,
    key: str,
    believed: Watermark | None,
    new: Watermark,
    commands: Sequence[tuple[Any, ...]],
) -> None:
    """Write the commands and the new watermark together, if the one believed is still there.

    Where the new one is there already, our EXEC was executed and its answer lost: all is well.
    Raises Moved, Refused, and RedisError where it is not known whether it is there: call again.
    """
    connection = await redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
    clean = False
    try:
        await connection.send_packed_command(
            connection.pack_commands([("WATCH", key), ("HMGET", key, "slot", "offset", "time_ms")])
        )
        _raise(await _answer(connection), ("WATCH", key))
        found = _watermark(await connection.read_response())
        if found == believed:
            await _execute(connection, key, new, commands)
        else:
            await connection.send_command("UNWATCH")
            await connection.read_response()
        clean = True
    finally:
        if not clean:
            await connection.disconnect(nowait=True)  # answers of ours may be on their way
        await redis.connection_pool.release(connection)
    if found not in (believed, new):
        raise Moved(found)


async def _execute(
    connection: Any, key: str, new: Watermark, commands: Sequence[tuple[Any, ...]]
) -> None:
    at_ms = int(time.time() * 1000)
    values = ("slot", new.slot, "offset", new.offset, "time_ms", new.time_ms, "at_ms", at_ms)
    block = [("MULTI",), *commands, ("HSET", key, *values), ("EXEC",)]
    # As connection.pack_commands and read_response would, at a fifth of their time.
    await connection.send_packed_command(b"".join([pack_command(command) for command in block]))
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            answers = [await _answer(connection, math.inf) for _ in block]
    except builtins.TimeoutError:
        raise TimeoutError(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
    refused: Exception | None = None
    for command, answer in zip(block[:-1], answers, strict=False):
        if isinstance(answer, Exception) and refused is None:
            refused = _named(answer, command)
    executed = answers[-1]
    if refused is not None:  # and EXEC has answered EXECABORT
        raise refused
    if executed is None:
        raise WatchError("the watermark was written while we looked at it")
    if isinstance(executed, Exception):
        raise executed
    for command, answer in zip(block[1:-1], executed, strict=True):
        _raise(answer, command)


async def _answer(connection: Any, timeout_s: float | None = None) -> Any:
    """Return an answer; an error that Redis answers with is returned, not raised.

    `timeout_s` is the client's own unless given.
    """
    try:
        return await connection.read_response(timeout=timeout_s)
    except ResponseError as error:
        return error


def _raise(answer: Any, command: tuple[Any, ...]) -> None:
    if isinstance(answer, Exception):
        raise _named(answer, command)


def _named(error: Exception, command: tuple[Any, ...]) -> Exception:
    if isinstance(error, RedisError) and transient(error):
        return error
    return Refused(f"{' '.join(str(part)[:60] for part in command[:3])}: {error}")


def _watermark(values: Sequence[Any]) -> Watermark | None:
    if any(value is None for value in values):
        return None
    slot, offset, time_ms = map(int, values)
    return Watermark(slot, offset, time_ms)
