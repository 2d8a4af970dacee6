"""The rows of a partition's books, as rows of the partitions that it is split into.

The new count is a multiple of the old one, so each new partition comes of a single old one: keys
and fields are sorted by address, and nothing has to be merged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Final

from infra.redis.families import family_of
from schemas import redis_keys
from schemas.positions import COLD_MARK
from schemas.redis_keys import Key, tag_of_partition
from schemas.rows import Row
from schemas.solana.addresses import text
from schemas.topics import Topic

_ADDRESS_AT: Final = 2  # in a key: pos:{w3}:<address>


class By(Enum):
    """What decides into which of the new partitions a value of a key goes."""

    KEY = "the address in the key"
    FIELD_RAW = "the field or member, 32 raw bytes"
    FIELD_TEXT = "the field or member, base58"
    EACH = "nothing: it is true of each of them"


SPLIT: Final[dict[Key, By]] = {
    redis_keys.POSITIONS: By.KEY,
    redis_keys.LOTS: By.KEY,
    redis_keys.BALANCES: By.KEY,
    redis_keys.WALLET_TOTALS: By.FIELD_RAW,
    redis_keys.WALLET_DAYS: By.FIELD_RAW,
    redis_keys.TOP_OF_MINT: By.FIELD_RAW,
    redis_keys.WALLETS_DUE: By.FIELD_RAW,
    # A token is here or put away for all wallets of a partition: that holds for each part of them.
    redis_keys.TRADED: By.EACH,
    redis_keys.AWAY: By.EACH,
    redis_keys.MARKETS_AWAY: By.EACH,
    redis_keys.BOOKS_CLOCK: By.EACH,
    redis_keys.MARKETS: By.EACH,
    redis_keys.MARKET: By.KEY,
    redis_keys.TRADERS: By.KEY,
    redis_keys.ACCOUNTS: By.KEY,
    redis_keys.HOLDERS: By.KEY,
    redis_keys.ACTIVE: By.FIELD_TEXT,
    redis_keys.TRENDING: By.FIELD_TEXT,
    redis_keys.TRENDING_RECORDS: By.FIELD_TEXT,
}


class CannotSplit(Exception):
    """A value of Redis that no rule places; the text names its key."""


def parts(old: Topic, partition: int, new: Topic) -> range:
    """Return the new partitions that an old one is split into."""
    return range(partition, new.partitions, old.partitions)


def address_of(key: bytes) -> str:
    """Return the address in the name of a key."""
    return key.split(b":")[_ADDRESS_AT].decode()


def refiled(rows: Iterable[Row], old: Topic, partition: int, new: Topic) -> Iterator[Row]:
    """Yield the rows of the new partitions for all rows of an old one; raises CannotSplit.

    Rows are those of `book_checkpoints`, values in the order of its columns.
    """
    old_tag = tag_of_partition(old, partition).encode()
    tags = {part: tag_of_partition(new, part).encode() for part in parts(old, partition, new)}
    last_key: bytes | None = None
    by = By.EACH
    for group, _, key, kind, field, value, slot, is_deleted in rows:
        if key != last_key:
            last_key, by = key, _rule(key)
        for part in _homes(by, key, field, new, tags):
            new_key = key.replace(old_tag, tags[part], 1)
            yield group, new.place(part), new_key, kind, field, value, slot, is_deleted


def _rule(key: bytes) -> By:
    if not key:  # of the partition as a whole
        return By.EACH
    family = family_of(key)
    if family is None or family not in SPLIT:
        raise CannotSplit(f"no rule says which partition {key!r} goes to")
    return SPLIT[family]


def _homes(by: By, key: bytes, field: bytes, new: Topic, tags: dict[int, bytes]) -> Iterable[int]:
    if by is By.EACH or (by is By.FIELD_RAW and field == COLD_MARK):
        return tags
    if by is By.KEY:
        address = address_of(key)
    else:
        address = text(field) if by is By.FIELD_RAW else field.decode()
    part = new.partition(address)
    if part not in tags:
        raise CannotSplit(f"{address} in {key!r} is of another partition")
    return (part,)
