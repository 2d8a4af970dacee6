"""Partitions of the settled lanes have numbers in the stores that no other count has."""

import pytest

from schemas.redis_keys import mint_tags, wallet_tag
from schemas.topics import (
    CREATIONS,
    LIVE,
    PRICES,
    SETTLED_BY_MINT,
    SETTLED_BY_WALLET,
    SETTLED_COUNTS,
    SWAPS,
    by_name,
    count_of_place,
    places_ever,
    use_settled_partitions,
)


@pytest.fixture
def sixteen():
    use_settled_partitions(16)
    yield
    use_settled_partitions(8)


def test_no_two_counts_share_a_place_or_a_topic():
    counts = {}
    names = set()
    for count in SETTLED_COUNTS:
        lane = SETTLED_BY_MINT.with_partitions(count)
        names.add(lane.name)
        for partition in range(count):
            place = lane.place(partition)
            assert place < 256  # a UInt8 in ClickHouse
            assert place not in counts
            counts[place] = count
    assert all(count_of_place(place) == count for place, count in counts.items())
    assert len(names) == len(SETTLED_COUNTS)


def test_a_partition_is_split_into_those_that_leave_its_number():
    old, new = (SETTLED_BY_WALLET.with_partitions(count) for count in (8, 32))
    for number in range(200):
        assert new.partition(f"wallet{number}") % 8 == old.partition(f"wallet{number}")


@pytest.mark.usefixtures("sixteen")
def test_a_process_has_one_count():
    assert SETTLED_BY_MINT.name == "tape-settled-by-mint-16"
    assert SETTLED_BY_MINT.partitions == len(mint_tags()) == 16
    assert mint_tags()[3] == "{m19}"
    assert wallet_tag("abc") == f"{{w{16 + SETTLED_BY_WALLET.partition('abc')}}}"
    assert SWAPS.partitions == 8
    assert by_name()["tape-settled-by-mint"] is SETTLED_BY_MINT
    assert by_name()["tape-settled-by-mint-16"].name == SETTLED_BY_MINT.name
    old = SETTLED_BY_MINT.with_partitions(8)
    assert places_ever(SETTLED_BY_MINT, "abc") == (
        old.place_of("abc"),
        SETTLED_BY_MINT.place_of("abc"),
    )


def test_what_a_partition_of_live_lost_is_lacking_in_the_same_of_the_public_topics():
    """`live 5` in `lost_by` means partition 5 of them, by the document for subscribers."""
    for number in range(200):
        places = {topic.partition(f"mint{number}") for topic in (LIVE, SWAPS, CREATIONS, PRICES)}
        assert len(places) == 1


def test_a_count_that_is_none_is_refused():
    with pytest.raises(ValueError, match="12 is none of"):
        use_settled_partitions(12)
