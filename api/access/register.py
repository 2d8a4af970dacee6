"""The keys there are: making, finding, revoking them, and what each has spent.

Everything here is safe to say twice, and what is newer in Redis is never overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from api.access.keys import PREFIX, KeyMalformed, Record, key_id, parse
from api.access.script import Asks, load
from infra.redis.asks import Pipelined, connect_pipelined
from infra.settings import Settings
from schemas.redis_keys import (
    API_KEY,
    API_KEY_CONNECTIONS,
    API_KEY_CREDITS,
    API_KEYS,
    tag_of_key,
)

_MERGE: Final = load("merge")
_REVOKE: Final = load("revoke")
_KEYS: Final = API_KEYS.make()
_AT_ONCE: Final = 1_000  # keys read in one trip


class NoSuchKey(Exception):
    """No key, or several, are meant by a text; the message is for the user."""


class IdTaken(Exception):
    """Two keys have the same short name, which is one chance in 2**48; or one is two things."""


def connect(settings: Settings, *, answer_timeout_s: float = 2.0) -> Pipelined:
    """Return a connection to where the keys live: ACCESS_REDIS_URL, else REDIS_URL."""
    url = settings.access_redis_url or settings.redis_url
    return connect_pipelined(
        settings.model_copy(update={"redis_url": url}), answer_timeout_s=answer_timeout_s
    )


async def now_ms(redis: Asks) -> int:
    """Return Redis's clock, which is the one that keys go by; raises RedisError.

    In a cluster it is that of one node: those of the others may differ by a few milliseconds.
    """
    [(seconds, micros)] = await redis.ask([("TIME",)])
    return int(seconds) * 1000 + int(micros) // 1000


def month_of(time_ms: int) -> str:
    """Return the calendar month (2026-11, UTC) of a time, as credits are spent in it."""
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m}"


async def put(redis: Asks, record: Record) -> bool:
    """Put a record beside what is known of its key; return whether the key is new here.

    What is there stays, a revoked key stays revoked, of times and credits the greater counts.
    Raises RedisError, IdTaken.
    """
    tag = tag_of_key(record.fingerprint)
    [theirs] = await redis.ask([("HMGET", API_KEY.make(tag=tag), "user", "issuer")])
    if any(theirs):
        raise IdTaken(f"{record.id} is a user, or a user's key, here")
    _, holder = await redis.ask(
        [
            ("HSETNX", _KEYS, record.id, record.fingerprint),
            ("HGET", _KEYS, record.id),
        ]
    )
    if holder.decode() != record.fingerprint:
        raise IdTaken(f"{record.id} is another key here")
    arguments = [
        record.name,
        record.plan,
        record.owner,
        record.last4,
        record.created_ms,
        "" if record.last_used_ms is None else record.last_used_ms,
        "" if record.revoked_ms is None else record.revoked_ms,
    ]
    for month, spent in record.credits.items():
        arguments += (month, spent)
    names = [API_KEY.make(tag=tag), API_KEY_CREDITS.make(tag=tag)]
    return bool(await _MERGE.run(redis, names, arguments))


async def revoke(redis: Asks, fingerprint: str, at_ms: int) -> None:
    """Revoke a key, from the next request on; raises RedisError."""
    await _REVOKE.run(redis, [API_KEY.make(tag=tag_of_key(fingerprint))], [at_ms])


async def read(redis: Asks, fingerprint: str) -> Record | None:
    """Return what is known of a key, None of an unknown one; raises RedisError."""
    [record] = await _read(redis, [fingerprint])
    return record


async def read_all(redis: Asks) -> list[Record]:
    """Return all keys, the oldest first; raises RedisError."""
    [index] = await redis.ask([("HVALS", _KEYS)])
    fingerprints = [value.decode() for value in index]
    found: list[Record | None] = []
    for start in range(0, len(fingerprints), _AT_ONCE):
        found += await _read(redis, fingerprints[start : start + _AT_ONCE])
    # One that is being made at this moment is in the index alone.
    return sorted((each for each in found if each), key=lambda each: (each.created_ms, each.id))


async def connections(redis: Asks, records: Sequence[Record]) -> list[int]:
    """Return how many WebSocket connections are open with each key; raises RedisError."""
    after = f"({await now_ms(redis)}"  # leases that have ended count no more
    counted: list[int] = []
    for start in range(0, len(records), _AT_ONCE):
        names = [
            API_KEY_CONNECTIONS.make(tag=tag_of_key(each.fingerprint))
            for each in records[start : start + _AT_ONCE]
        ]
        counted += await redis.ask([("ZCOUNT", name, after, "+inf") for name in names])
    return counted


async def find(redis: Asks, text: str) -> Record:
    """Return the key that is meant by its id, its display form, or itself.

    Raises NoSuchKey, RedisError.
    """
    if text.startswith(f"{PREFIX}..."):
        meant = [each for each in await read_all(redis) if each.display == text]
        if len(meant) > 1:
            ids = ", ".join(each.id for each in meant)
            raise NoSuchKey(f"{text} may be any of {ids}: give the id")
        record = meant[0] if meant else None
    elif text.startswith(PREFIX):
        if user := await user_of(redis, text):
            raise NoSuchKey(f"this key is user {key_id(user)}'s: `soltape users revoke` ends it")
        record = await read(redis, parse(text))
        text = "this key"  # is not repeated
    else:
        [fingerprint] = await redis.ask([("HGET", _KEYS, text)])
        record = await read(redis, fingerprint.decode()) if fingerprint else None
    if record is None:
        raise NoSuchKey(f"{text} is not known here; `soltape keys list` has the ids")
    return record


async def user_of(redis: Asks, text: str) -> str | None:
    """Return the fingerprint of the user whose key a text is; raises NoSuchKey, RedisError."""
    try:
        fingerprint = parse(text)
    except KeyMalformed as reason:
        raise NoSuchKey(f"this is no key: {reason}") from None
    [user] = await redis.ask([("HGET", API_KEY.make(tag=tag_of_key(fingerprint)), "user")])
    return None if user is None else user.decode()


async def _read(redis: Asks, fingerprints: Sequence[str]) -> list[Record | None]:
    commands: list[tuple[Any, ...]] = []
    for fingerprint in fingerprints:
        tag = tag_of_key(fingerprint)
        commands.append(("HGETALL", API_KEY.make(tag=tag)))
        commands.append(("HGETALL", API_KEY_CREDITS.make(tag=tag)))
    answers = await redis.ask(commands)
    return [
        _record(fingerprint, texts(fields), texts(months))
        if b"name" in fields  # else a user's key: `api.access.users` reads it
        else None
        for fingerprint, fields, months in zip(
            fingerprints, answers[::2], answers[1::2], strict=True
        )
    ]


def _record(fingerprint: str, fields: dict[str, str], months: dict[str, str]) -> Record:
    return Record(
        fingerprint,
        fields["name"],
        fields["plan"],
        fields["owner"],
        fields["last4"],
        int(fields["created_ms"]),
        int(fields["last_used_ms"]) if "last_used_ms" in fields else None,
        int(fields["revoked_ms"]) if "revoked_ms" in fields else None,
        {month: int(spent) for month, spent in sorted(months.items())},
    )


def texts(answer: dict[bytes, bytes]) -> dict[str, str]:
    """Return a hash as text."""
    return {name.decode(): value.decode() for name, value in answer.items()}
