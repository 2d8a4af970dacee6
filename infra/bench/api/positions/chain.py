"""The chain goes on while positions are asked for: a slot each 0.4 s, in which references change.

Without it each pool and bank would be the same bytes in all requests, and the clock would be still.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from threading import Event, Thread
from typing import Final

import redis

from infra.bench.api.positions.accounts import clock_data
from infra.bench.api.positions.data import references
from infra.bench.api.world import LAST_MS, LAST_SLOT, SLOT_MS, World
from infra.settings import Settings
from schemas.account_reading import GROUP
from schemas.accounts import StoredAccount, compress, pack, unpack
from schemas.redis_keys import ACCOUNT, WATERMARK, account_tag, account_tags
from schemas.solana.addresses import CLOCK, SYSVAR_PROGRAM, text

_CHANGE: Final = 3  # one pool or bank in so many, in each slot


@contextmanager
def moving(settings: Settings, world: World) -> Iterator[None]:
    """Write a slot after the other into the Redis of a world with positions."""
    ends = Event()
    names = [_name(address) for address in references(world)]
    thread = Thread(target=_move, args=(str(settings.redis_url), names, ends), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ends.set()
        thread.join()


def _move(url: str, names: list[str], ends: Event) -> None:
    random = Random(1)  # noqa: S311 - figures to be had again
    with redis.Redis.from_url(url) as store:
        slot = unpack(store.get(_name(CLOCK))).slot  # where it was left
        while not ends.wait(SLOT_MS / 1_000):
            slot += 1
            time_ms = LAST_MS + (slot - LAST_SLOT) * SLOT_MS
            changed = random.sample(names, len(names) // _CHANGE)
            write = store.pipeline(transaction=False)
            for name, packed in zip(changed, store.mget(changed), strict=True):
                write.set(name, pack(unpack(packed)._replace(slot=slot)))
            clock = clock_data(slot, time_ms)
            stored = StoredAccount(slot, 1, SYSVAR_PROGRAM, len(clock), compress(clock))
            write.set(_name(CLOCK), pack(stored))
            mark = {"slot": slot, "time_ms": time_ms, "at_ms": time.time_ns() // 10**6}
            for tag in account_tags():
                write.hset(WATERMARK.make(tag=tag, group=GROUP), mapping=mark)
            write.execute()


def _name(address: bytes) -> str:
    return ACCOUNT.make(tag=account_tag(text(address)), address=text(address))
