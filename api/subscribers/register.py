"""The users of Kafka that subscribers have, in Redis beside the API's keys: never a password.

A user's name begins with a hash of its account, and so do the names of its consumer groups: a new
user of the account goes on where a revoked one was. The names say nothing about the account.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Final

import orjson

from api.access.script import Asks, load
from schemas.redis_keys import KAFKA_ISSUED, KAFKA_USERS
from schemas.times import HOUR_S

PREFIX: Final = "sub-"
MOST: Final = 2_000
MOST_AN_HOUR: Final = 20
"""Users that an account is given in an hour: each is kept by the brokers' own log for a while."""

_ACCOUNT_DIGITS: Final = 16  # nobody finds another account with the same 64 bits
_RESERVE: Final = load("reserve", __package__)
_UPDATE: Final = load("update", __package__)
_USERS: Final = KAFKA_USERS.make()


@dataclass(frozen=True, slots=True)
class KafkaUser:
    """What is kept of a user of Kafka."""

    user: str
    account: str
    plan: str
    name: str  # in the words of the account's owner
    created_ms: int
    is_active: bool = False  # it was given its rights

    @property
    def group_prefix(self) -> str:
        """What the names of its consumer groups begin with."""
        return group_prefix(self.account)


def group_prefix(account: str) -> str:
    """Return what the names of all consumer groups of an account begin with."""
    return f"{PREFIX}{_hash(account)}."


def new_user(account: str) -> str:
    """Return the name of a new user of an account."""
    return f"{_user_prefix(account)}{secrets.token_hex(4)}"


def may_be_of(account: str, user: str) -> bool:
    """Return whether a user, which may be gone, has a name as those of an account have it."""
    return user.startswith(_user_prefix(account))


async def reserve(redis: Asks, user: KafkaUser, most_of_account: int) -> str:
    """Put a user down; return `reserved`, or which bound it met: `full`, `held`, `issued`.

    Raises RedisError.
    """
    names = [_USERS, KAFKA_ISSUED.make(account=_hash(user.account))]
    bounds = (_user_prefix(user.account), most_of_account, MOST, MOST_AN_HOUR, HOUR_S)
    outcome: bytes = await _RESERVE.run(redis, names, [user.user, _packed(user), *bounds])
    return outcome.decode()


async def update(redis: Asks, user: str, **fields: object) -> bool:
    """Change fields of what is kept of a user; return False where it was revoked.

    Other processes may change other fields meanwhile. Raises RedisError.
    """
    return bool(await _UPDATE.run(redis, [_USERS], [user, orjson.dumps(fields)]))


async def remove(redis: Asks, user: str) -> None:
    """Remove a user; raises RedisError."""
    await redis.ask([("HDEL", _USERS, user)])


async def read(redis: Asks, user: str) -> KafkaUser | None:
    """Return what is kept of a user; raises RedisError."""
    [packed] = await redis.ask([("HGET", _USERS, user)])
    return None if packed is None else _unpacked(user, packed)


async def read_all(redis: Asks) -> list[KafkaUser]:
    """Return all users, the oldest first; raises RedisError."""
    [found] = await redis.ask([("HGETALL", _USERS)])
    users = [_unpacked(user.decode(), packed) for user, packed in found.items()]
    return sorted(users, key=lambda each: (each.created_ms, each.user))


async def of_account(redis: Asks, account: str) -> list[KafkaUser]:
    """Return the users of an account, the oldest first; raises RedisError."""
    [found] = await redis.ask([("HGETALL", _USERS)])
    prefix = _user_prefix(account)
    users = [
        _unpacked(user, packed)
        for user, packed in ((name.decode(), packed) for name, packed in found.items())
        if user.startswith(prefix)
    ]
    return sorted(
        (each for each in users if each.account == account),
        key=lambda each: (each.created_ms, each.user),
    )


def _hash(account: str) -> str:
    return sha256(account.encode()).hexdigest()[:_ACCOUNT_DIGITS]


def _user_prefix(account: str) -> str:
    return f"{PREFIX}{_hash(account)}-"


def _packed(user: KafkaUser) -> bytes:
    return orjson.dumps({name: value for name, value in asdict(user).items() if name != "user"})


def _unpacked(user: str, packed: bytes) -> KafkaUser:
    return KafkaUser(user, **orjson.loads(packed))
