"""Users: who signed in, their plan and their keys. A user pays for all of their keys.

A user is known by the SHA-256 of issuer and subject, as a key is by that of its text, and has a
record like a key's: what charges a key charges a user. All of a user is under one hash tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson

from api.access import register
from api.access.keys import PREFIX, Record, key_id, new, parse
from api.access.register import IdTaken
from api.access.script import Asks, load
from schemas.plans import FREE
from schemas.redis_keys import (
    API_KEY,
    API_KEY_CREDITS,
    USER_KEY,
    USER_KEYS,
    USER_KEYS_MADE,
    USER_KEYS_REVOKED,
    USER_SESSIONS,
    USERS,
    tag_of_key,
)

KEYS: Final = 10
"""Keys of a user at once."""
KEYS_A_DAY: Final = 20
"""Keys that a user makes in a day."""
REVOKED: Final = 20
"""Revoked keys of a user that are known as such; older ones are unknown. What was spent with them
is the user's, and stays."""
REVOKED_KEPT_S: Final = USER_KEYS_REVOKED.ttl_s or 0
"""How long they are; later they are unknown."""
_USERS: Final = USERS.make()
_AT_ONCE: Final = 1_000
_LIST: Final = load("list_user")
_ENTER: Final = load("enter")
_ADD_KEY: Final = load("add_key")
_REVOKE_KEY: Final = load("revoke_key")
_CHANGE: Final = load("change_user")


class Refused(Exception):
    """A user may not have what they ask for; the text is for them."""


class Suspended(Refused):
    """The user is suspended."""


class NoSuchUser(Exception):
    """No user is meant by a text; the message is for the operator."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who somebody is, as an issuer says it."""

    issuer: str
    subject: str
    name: str  # to be shown: an address of mail, or a name

    @property
    def fingerprint(self) -> str:
        """What the user is known by here."""
        return sha256(b"user:" + orjson.dumps([self.issuer, self.subject])).hexdigest()


@dataclass(frozen=True, slots=True)
class User:
    """What is kept of a user."""

    fingerprint: str
    name: str
    plan: str
    issuer: str
    subject: str
    created_ms: int
    signed_in_ms: int
    suspended_ms: int | None = None
    credits: Mapping[str, int] = field(default_factory=dict)  # spent, by month: 2026-11

    @property
    def id(self) -> str:
        """The short name of the user; it may be shown to anybody."""
        return key_id(self.fingerprint)

    def facts(self) -> dict[str, Any]:
        """Return the fields as JSON has them, without what names the user."""
        facts = asdict(self)
        del facts["fingerprint"]
        return facts


async def enter(redis: Asks, identity: Identity, most_users: int) -> str:
    """Note a sign-in, of a new user on the plan free; return the user's fingerprint.

    Raises Refused, IdTaken, RedisError. The index entry is written first, in one step: every user
    with a record is listed for the operator, and the index holds at most `most_users`.
    """
    fingerprint = identity.fingerprint
    holder = await _LIST.run(redis, [_USERS], (key_id(fingerprint), fingerprint, most_users))
    if holder is None:
        raise Refused("This service takes no new accounts now")
    if holder.decode() != fingerprint:
        raise IdTaken(f"{key_id(fingerprint)} is another user here")
    answer = await _ENTER.run(
        redis,
        [API_KEY.make(tag=tag_of_key(fingerprint))],
        (identity.name, FREE.name, identity.issuer, identity.subject, await register.now_ms(redis)),
    )
    if answer == b"suspended":
        raise Suspended("This account is suspended; ask the operator of this service")
    return fingerprint


async def read(redis: Asks, fingerprint: str) -> User | None:
    """Return a user, None where there is none; raises RedisError."""
    [user] = await _read(redis, [fingerprint])
    return user


async def read_all(redis: Asks) -> list[User]:
    """Return all users, the oldest first; raises RedisError."""
    [index] = await redis.ask([("HVALS", _USERS)])
    fingerprints = [value.decode() for value in index]
    found: list[User | None] = []
    for start in range(0, len(fingerprints), _AT_ONCE):
        found += await _read(redis, fingerprints[start : start + _AT_ONCE])
    return sorted((each for each in found if each), key=lambda each: (each.created_ms, each.id))


async def find(redis: Asks, text: str) -> User:
    """Return the user that is meant by an id, or by a key of theirs.

    Not by a name: those are what issuers say, and several users may have one. Raises NoSuchUser,
    NoSuchKey, RedisError.
    """
    if text.startswith(PREFIX):
        fingerprint = await register.user_of(redis, text)
        user = await read(redis, fingerprint) if fingerprint else None
        text = "this key"  # is not repeated
    else:
        [found] = await redis.ask([("HGET", _USERS, text)])
        user = await read(redis, found.decode()) if found else None
    if user is None:
        raise NoSuchUser(f"{text} is no user's here; `soltape users list` has the ids")
    return user


async def plan_of(redis: Asks, id_: str) -> str | None:
    """Return the plan of a user by their id, None where there is none; raises RedisError."""
    [fingerprint] = await redis.ask([("HGET", _USERS, id_)])
    if fingerprint is None:
        return None
    name = API_KEY.make(tag=tag_of_key(fingerprint.decode()))
    [plan] = await redis.ask([("HGET", name, "plan")])
    return None if plan is None else plan.decode()


async def set_plan(redis: Asks, fingerprint: str, plan: str) -> None:
    """Give a user a plan, from the next request on; raises RedisError."""
    await _change(redis, fingerprint, "plan", plan)


async def suspend(redis: Asks, fingerprint: str) -> None:
    """End a user's sessions and refuse all of their keys; raises RedisError."""
    await _change(redis, fingerprint, "suspended_ms", str(await register.now_ms(redis)))


async def resume(redis: Asks, fingerprint: str) -> None:
    """End a suspension; raises RedisError."""
    await _change(redis, fingerprint, "suspended_ms", "")


async def create_key(redis: Asks, user: str, name: str) -> str:
    """Make a key of a user and return its text, which nothing keeps; raises Refused, RedisError."""
    text = new()
    fingerprint = parse(text)
    tag = tag_of_key(user)
    answer = await _ADD_KEY.run(
        redis,
        [
            API_KEY.make(tag=tag),
            USER_KEYS.make(tag=tag),
            USER_KEYS_MADE.make(tag=tag),
            USER_KEY.make(tag=tag, fingerprint=fingerprint),
        ],
        (fingerprint, name, text[-4:], await register.now_ms(redis), KEYS, KEYS_A_DAY),
    )
    match answer:
        case b"suspended":
            raise Suspended("This account is suspended; ask the operator of this service")
        case b"keys":
            raise Refused(f"An account has at most {KEYS} keys: revoke one first")
        case b"day":
            raise Refused(f"An account makes at most {KEYS_A_DAY} keys in a day; try tomorrow")
    # Last: a key that is known before all of it is there would be nobody's.
    await redis.ask([("HSET", API_KEY.make(tag=tag_of_key(fingerprint)), "user", user)])
    return text


async def read_keys(redis: Asks, user: str) -> list[Record]:
    """Return the keys of a user that work, the oldest first; raises RedisError."""
    [found] = await redis.ask([("ZRANGE", USER_KEYS.make(tag=tag_of_key(user)), 0, -1)])
    fingerprints = [value.decode() for value in found]
    records = await read_keys_of(redis, user, fingerprints)
    return [each for each in records if each is not None]


async def read_key(redis: Asks, user: str, fingerprint: str) -> Record | None:
    """Return a key of a user, None where it is none of theirs; raises RedisError."""
    [record] = await read_keys_of(redis, user, [fingerprint])
    return record


async def revoke_key(redis: Asks, user: str, id_: str) -> bool:
    """Revoke a user's key by its id, from the next request on; return whether there is one.

    Raises RedisError.
    """
    for record in await read_keys(redis, user):
        if record.id == id_:
            tag = tag_of_key(user)
            gone = await _REVOKE_KEY.run(
                redis,
                [
                    USER_KEYS.make(tag=tag),
                    USER_KEY.make(tag=tag, fingerprint=record.fingerprint),
                    USER_KEYS_REVOKED.make(tag=tag),
                ],
                (record.fingerprint, await register.now_ms(redis), REVOKED_KEPT_S, REVOKED),
            )
            pointer = API_KEY.make(tag=tag_of_key(record.fingerprint))
            await redis.ask(
                [
                    ("EXPIRE", pointer, REVOKED_KEPT_S),
                    *forgetting(user, gone),
                ]
            )
            return True
    return False


def forgetting(user: str, gone: Sequence[bytes]) -> list[tuple[object, ...]]:
    """Return what removes the records of a user's keys that were revoked."""
    return [
        ("DEL", name)
        for each in (found.decode() for found in gone)
        for name in (
            USER_KEY.make(tag=tag_of_key(user), fingerprint=each),
            API_KEY.make(tag=tag_of_key(each)),
        )
    ]


async def _change(redis: Asks, fingerprint: str, name: str, value: str) -> None:
    tag = tag_of_key(fingerprint)
    names = [API_KEY.make(tag=tag), USER_SESSIONS.make(tag=tag)]
    await _CHANGE.run(redis, names, (name, value))


async def _read(redis: Asks, fingerprints: list[str]) -> list[User | None]:
    tags = [tag_of_key(each) for each in fingerprints]
    answers = await redis.ask(
        [("HGETALL", kind.make(tag=tag)) for tag in tags for kind in (API_KEY, API_KEY_CREDITS)]
    )
    return [
        _user(fingerprint, register.texts(fields), register.texts(months))
        for fingerprint, fields, months in zip(
            fingerprints, answers[::2], answers[1::2], strict=True
        )
    ]


def _user(fingerprint: str, fields: dict[str, str], months: dict[str, str]) -> User | None:
    if "issuer" not in fields:
        return None
    suspended = fields.get("suspended_ms")
    return User(
        fingerprint,
        fields["name"],
        fields["plan"],
        fields["issuer"],
        fields["subject"],
        int(fields["created_ms"]),
        int(fields["signed_in_ms"]),
        None if suspended is None else int(suspended),
        {month: int(spent) for month, spent in sorted(months.items())},
    )


async def read_keys_of(redis: Asks, user: str, fingerprints: list[str]) -> list[Record | None]:
    """Return keys of a user, working or not, None where there is none; raises RedisError."""
    if not fingerprints:
        return []
    tag = tag_of_key(user)
    answers = await redis.ask(
        [("HGETALL", USER_KEY.make(tag=tag, fingerprint=each)) for each in fingerprints]
    )
    return [
        _record(fingerprint, register.texts(fields)) if fields else None
        for fingerprint, fields in zip(fingerprints, answers, strict=True)
    ]


def _record(fingerprint: str, fields: dict[str, str]) -> Record:
    used, revoked = fields.get("last_used_ms"), fields.get("revoked_ms")
    return Record(
        fingerprint,
        fields["name"],
        "",  # the user's
        "",
        fields["last4"],
        int(fields["created_ms"]),
        None if used is None else int(used),
        None if revoked is None else int(revoked),
    )
