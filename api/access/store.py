"""The Redis of the keys, as a caller hears of it: 503 while it is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from redis.exceptions import RedisError

from api.access.charge import STORE
from api.stores.clients import unavailable


@contextmanager
def store() -> Iterator[None]:
    """Raise Problem in place of what a Redis raises that is away."""
    try:
        yield
    except (RedisError, OSError) as error:
        raise unavailable(STORE, error) from None
