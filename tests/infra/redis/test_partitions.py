"""Which count of settled partitions the books in Redis have, as roles find it."""

from __future__ import annotations

import pytest

from infra.redis.partitions import PartitionsWrong, require


def books_of(found: bytes | None):
    async def ask(commands):
        return [found for _ in commands]

    return ask


@pytest.mark.parametrize("found", [None, b"8"])
async def test_books_of_no_count_or_of_this_one_are_fine(found):
    assert await require(books_of(found)) is None


async def test_books_of_another_count_are_named_with_the_setting():
    with pytest.raises(PartitionsWrong, match=r"SETTLED_PARTITIONS is 8, .* has 16 .*=16"):
        await require(books_of(b"16"))


async def test_while_the_count_is_being_raised_no_role_may_read_them():
    with pytest.raises(PartitionsWrong, match=r"being raised to 16 .*`soltape partitions raise`"):
        await require(books_of(b"being raised to 16 partitions"))
