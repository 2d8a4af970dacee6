"""Users with their keys, as they are kept outside of Redis and brought back.

A user that is here since before the file was begun is newer than the file: of keys that are not
known here any more it brings none back, they may have been revoked. One that began here later has
lost what the file has, and gets it. What the file says is a user's and is another's here, or an
operator's, stays that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from api.access import users
from api.access.keys import Record
from api.access.register import IdTaken
from api.access.script import Asks, load
from api.access.users import KEYS, REVOKED, REVOKED_KEPT_S, User
from schemas.plans import FREE
from schemas.redis_keys import (
    API_KEY,
    API_KEY_CREDITS,
    USER_KEY,
    USER_KEYS,
    USER_KEYS_REVOKED,
    USER_SESSIONS,
    USERS,
    tag_of_key,
)

_NO_LIMIT: Final = 2**53
_AT_ONCE: Final = 200  # users whose keys are read in one trip
_LIST: Final = load("list_user")
_KEY: Final = load("restore_key")
_USER: Final = load("restore_user")


@dataclass(frozen=True, slots=True)
class Account:
    """A user and their keys, also the last that were revoked."""

    user: User
    keys: tuple[Record, ...]


async def read_all(redis: Asks) -> list[Account]:
    """Return all users with their keys, the oldest first; raises RedisError."""
    found = await users.read_all(redis)
    accounts: list[Account] = []
    for start in range(0, len(found), _AT_ONCE):
        some = found[start : start + _AT_ONCE]
        tags = [tag_of_key(each.fingerprint) for each in some]
        kinds = (USER_KEYS, USER_KEYS_REVOKED)
        names = await redis.ask(
            [("ZRANGE", kind.make(tag=tag), 0, -1) for tag in tags for kind in kinds]
        )
        for user, working, revoked in zip(some, names[::2], names[1::2], strict=True):
            fingerprints = [each.decode() for each in (*working, *revoked)]
            keys = await users.read_keys_of(redis, user.fingerprint, fingerprints)
            accounts.append(Account(user, tuple(each for each in keys if each is not None)))
    return accounts


async def put(redis: Asks, account: Account) -> Counter[str]:
    """Put a user beside what is known here; return how many users and keys had which outcome.

    It may be done again, also after it ended half-way. Raises RedisError, IdTaken.
    """
    user = account.user
    here = await users.read(redis, user.fingerprint)
    listed = await _LIST.run(redis, [USERS.make()], (user.id, user.fingerprint, _NO_LIMIT))
    if listed.decode() != user.fingerprint:
        raise IdTaken(f"{user.id} is another user here")
    brings = here is None or here.created_ms > user.created_ms
    outcomes = Counter[str]()
    for each in _oldest_first(account.keys):
        outcomes[f"key {await _put_key(redis, user.fingerprint, each, brings=brings)}"] += 1
    tag = tag_of_key(user.fingerprint)
    arguments: list[str | int] = [
        *(user.name, user.plan, user.issuer, user.subject, user.created_ms, user.signed_in_ms),
        *("" if user.suspended_ms is None else user.suspended_ms, FREE.name),
    ]
    for month, spent in user.credits.items():
        arguments += (month, spent)
    is_new = await _USER.run(
        redis,
        [kind.make(tag=tag) for kind in (API_KEY, API_KEY_CREDITS, USER_SESSIONS)],
        arguments,
    )
    outcomes["user new" if is_new else "user here"] += 1
    return outcomes


async def _put_key(redis: Asks, user: str, key: Record, *, brings: bool) -> str:
    tag = tag_of_key(user)
    pointer = API_KEY.make(tag=tag_of_key(key.fingerprint))
    [(holder, name)] = await redis.ask([("HMGET", pointer, "user", "name")])
    if name is not None or holder not in (None, user.encode()):
        return "taken"
    [outcome, *gone] = await _KEY.run(
        redis,
        [
            USER_KEY.make(tag=tag, fingerprint=key.fingerprint),
            USER_KEYS.make(tag=tag),
            USER_KEYS_REVOKED.make(tag=tag),
        ],
        (
            *(key.fingerprint, key.name, key.last4, key.created_ms),
            "" if key.last_used_ms is None else key.last_used_ms,
            "" if key.revoked_ms is None else key.revoked_ms,
            *(int(brings), REVOKED_KEPT_S, KEYS, REVOKED),
        ),
    )
    if outcome in (b"new", b"here"):
        commands: list[tuple[object, ...]] = [("HSETNX", pointer, "user", user)]
        if key.revoked_ms is not None:
            commands.append(("EXPIRE", pointer, REVOKED_KEPT_S))
        commands += users.forgetting(user, gone)
        await redis.ask(commands)
    return str(outcome.decode())


def _oldest_first(keys: Sequence[Record]) -> list[Record]:
    return sorted(keys, key=lambda each: (each.created_ms, each.fingerprint))
