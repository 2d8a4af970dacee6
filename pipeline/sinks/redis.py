"""State and watermark to Redis in one transaction, refused where another has been there.

The watermark is WATCHed, compared with what we believe is there, and written by the same EXEC as
the state. Redis executes all of an EXEC or nothing; a command in it that fails does not undo the
others, so such an error is a bug of the command and is raised as Refused.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import hiredis
from redis.asyncio import Redis
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from infra.redis.client import ANSWER_TIMEOUT_S, connection_to

READ_BYTES: Final = 1 << 16
Command = tuple[Any, ...]


_TRANSIENT: Final = (
    *("LOADING", "OOM", "MISCONF", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN"),
    *("NOREPLICAS", "BUSY", "UNBLOCKED", "MOVED", "ASK"),
)


# A transaction with any command that may take memory is refused whole when there is none, a script
# of this kind is not.
_FREE: Final = """#!lua flags=allow-oom
if redis.call('HGET', KEYS[1], 'slot') ~= ARGV[1] then return 0 end
local at = 2
while at <= #ARGV do
    local size = tonumber(ARGV[at])
    redis.call(unpack(ARGV, at + 1, at + size))
    at = at + size + 1
end
return 1
"""


class Watermark(NamedTuple):
    """How far a group has come on a partition."""

    slot: int  # the last applied
    offset: int  # of the last message dealt with
    time_ms: int  # of the block


class Moved(Exception):
    """The watermark is not what we left there; `found` is what is there instead."""

    def __init__(self, found: Watermark | None) -> None:
        super().__init__(f"the watermark in Redis is {found}")
        self.found = found


class Refused(Exception):
    """Redis refuses a command; the text has the command's head and the error."""


def transient(error: RedisError) -> bool:
    """Whether the same may go well later: Redis is away, loading, full, or not the primary."""
    if isinstance(error, AuthenticationError | NoPermissionError):
        return False
    if isinstance(error, RedisConnectionError | RedisTimeoutError):
        return True
    if isinstance(error, OutOfMemoryError | BusyLoadingError | ReadOnlyError):
        return True
    if isinstance(error, AskError | ClusterDownError | TryAgainError):  # MOVED, MASTERDOWN too
        return True
    return str(error).startswith(_TRANSIENT)


async def read_watermark(redis: Redis, key: str) -> Watermark | None:
    """Return a watermark, None where the group has not begun. Raises RedisError."""
    return _watermark(await redis.hmget(key, ["slot", "offset", "time_ms"]))


async def commit(
    redis: Redis,
    key: str,
    believed: Watermark | None,
    new: Watermark,
    commands: Sequence[Command],
) -> None:
    """Write the commands and the new watermark together, if the one believed is still there.

    Where the new one is there already, our EXEC was executed and its answer lost: all is well.
    Raises Moved, Refused, and RedisError where it is not known whether it is there: call again.
    """
    try:
        async with connection_to(redis, key) as connection, asyncio.timeout(ANSWER_TIMEOUT_S):
            look = (("WATCH", key), ("HMGET", key, "slot", "offset", "time_ms"))
            _, values = await _exchange(connection, look)
            found = _watermark(values)
            if found == believed:
                await _execute(connection, key, new, commands)
            else:
                await _exchange(connection, (("UNWATCH",),))
    except TimeoutError:
        raise RedisTimeoutError(f"no answer within {ANSWER_TIMEOUT_S:g} s") from None
    except OSError as error:
        raise RedisConnectionError(str(error)) from None
    if found not in (believed, new):
        raise Moved(found)


def is_full(error: RedisError) -> bool:
    """Whether Redis refuses to store more; it still takes what frees memory."""
    return isinstance(error, OutOfMemoryError) or str(error).startswith("OOM")


async def free(redis: Redis, key: str, slot: int, commands: Sequence[Command]) -> bool:
    """Execute commands that free more than they take, together, though Redis is full.

    Returns False where the watermark is not at the slot: then nothing is done. All keys are of its
    hash tag. May be called again. Raises RedisError.
    """
    asked = [part for command in commands for part in (len(command), *command)]
    execute: Any = redis.eval
    return bool(await execute(_FREE, 1, key, slot, *asked))


async def _execute(connection: Any, key: str, new: Watermark, commands: Sequence[Command]) -> None:
    at_ms = int(time.time() * 1000)
    values = ("slot", new.slot, "offset", new.offset, "time_ms", new.time_ms, "at_ms", at_ms)
    inner = [*commands, ("HSET", key, *values)]
    executed = (await _exchange(connection, [("MULTI",), *inner, ("EXEC",)]))[-1]
    if executed is None:
        raise RedisConnectionError("the watermark was written while we looked at it")
    for command, answer in zip(inner, executed, strict=True):
        if isinstance(answer, hiredis.ReplyError):
            raise _failed(answer, command)


async def _exchange(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Send commands and return their answers; raises for the first that is an error.

    redis-py's own way costs some 7 us a command, this 1: packed and read in C, all at once.
    """
    await connection.send_packed_command(b"".join(map(hiredis.pack_command, commands)))
    reader = hiredis.Reader()
    answers: list[Any] = []
    while len(answers) < len(commands):
        data = await connection._reader.read(READ_BYTES)
        if not data:
            raise RedisConnectionError("Redis has closed the connection")
        reader.feed(data)
        while (answer := reader.gets()) is not False:
            answers.append(answer)
    for command, answer in zip(commands, answers, strict=True):
        if isinstance(answer, hiredis.ReplyError):
            raise _failed(answer, command)
    return answers


def _failed(error: hiredis.ReplyError, command: Command) -> Exception:
    answered = ResponseError(str(error))
    if transient(answered):
        return answered
    return Refused(f"{' '.join(str(part)[:60] for part in command[:3])}: {error}")


def _watermark(values: Sequence[Any]) -> Watermark | None:
    if any(value is None for value in values):
        return None
    slot, offset, time_ms = map(int, values)
    return Watermark(slot, offset, time_ms)
