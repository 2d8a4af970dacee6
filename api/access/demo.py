"""A key for trying things out, kept in a file on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from api.access import register
from api.access.keys import LENGTH, KeyMalformed, Record, new, parse
from api.access.script import Asks
from infra.local import private_file
from schemas.plans import BUSINESS

NAME: Final = "demo"


class DemoKeyUnusable(Exception):
    """The file cannot hold the demo key; the text says why."""


async def ensure(redis: Asks, file: Path) -> str:
    """Return the demo key: that of the file, which is made where it is missing (mode 0600).

    A key that Redis has lost is made known to it again; one that was revoked gives way to a new
    one. Raises DemoKeyUnusable, RedisError.
    """
    try:
        text = read(file)
        if text is None:
            text = new()
            if not private_file.create(file, f"{text}\n"):  # another process was first
                text = read(file) or text
        record = await _known(redis, text)
        if record.revoked_ms is not None:
            text = new()
            private_file.replace(file, f"{text}\n")
            await _known(redis, text)
    except OSError as error:
        raise DemoKeyUnusable(f"{file}: {error.strerror}") from None
    return text


async def _known(redis: Asks, text: str) -> Record:
    fingerprint = parse(text)
    if found := await register.read(redis, fingerprint):
        return found
    record = Record(
        fingerprint, NAME, BUSINESS.name, "", text[-4:], created_ms=await register.now_ms(redis)
    )
    await register.put(redis, record)
    return record


def read(file: Path) -> str | None:
    """Return the demo key of a file, None if there is no file.

    Raises DemoKeyUnusable, OSError.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(LENGTH + 2)  # and the end of its line
    except FileNotFoundError:
        return None
    text = data.decode("latin-1").strip()
    try:
        parse(text)
    except KeyMalformed:
        # It may be somebody's, so it is not written over.
        raise DemoKeyUnusable(
            f"{file} holds something else than a key: delete it, or name another file"
        ) from None
    return text
