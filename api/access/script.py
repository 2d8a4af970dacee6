"""A Lua script in Redis: what several processes must not do at once happens in one step."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from importlib.resources import files
from typing import Any, Protocol

from redis.exceptions import NoScriptError

from infra.redis.pipelined import Repeated


class Asks(Protocol):
    """Whoever answers commands in one trip; raises RedisError."""

    async def ask(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the answers, values as bytes."""
        ...


class Script:
    """A script. It is named by its hash, and sent where that is not known: once after each start
    of Redis."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._hash = sha1(text.encode(), usedforsecurity=False).hexdigest()

    def when_full(self) -> Script:
        """Return the script as one that a full Redis runs as well."""
        return Script(f"#!lua flags=allow-oom\n{self.text}")

    def call(self, keys: Sequence[str], arguments: Sequence[Any]) -> Repeated:
        """Return what `run_call` runs, as often as it is asked to."""
        return Repeated(self._command(keys, arguments))

    async def run_call(self, redis: Asks, call: tuple[Any, ...]) -> Any:
        """Return what the script returns; raises RedisError. It is never run a second time."""
        try:
            answers = await redis.ask([call])
        except NoScriptError:
            answers = await redis.ask([("EVAL", self.text, *call[2:])])
        return answers[0]

    async def run(self, redis: Asks, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Return what the script returns; raises RedisError. It is never run a second time."""
        return await self.run_call(redis, self._command(keys, arguments))

    async def run_each(
        self, redis: Asks, runs: Sequence[tuple[Sequence[str], Sequence[Any]]]
    ) -> list[Any]:
        """Return what the script returns for each of (keys, arguments), in one trip.

        Raises RedisError. Where the script was not known some may have run, and all run again: it
        must be one that may be run twice.
        """
        known = [self._command(keys, arguments) for keys, arguments in runs]
        try:
            return await redis.ask(known)
        except NoScriptError:
            # Each by its text: in a cluster they go to servers that may all not know it.
            return await redis.ask([("EVAL", self.text, *each[2:]) for each in known])

    def _command(self, keys: Sequence[str], arguments: Sequence[Any]) -> tuple[Any, ...]:
        return ("EVALSHA", self._hash, len(keys), *keys, *arguments)


def load(name: str, package: str = __package__) -> Script:
    """Return the script `name.lua` of a package, of this one unless it is named."""
    return Script(files(package).joinpath(f"{name}.lua").read_text(encoding="utf-8"))
