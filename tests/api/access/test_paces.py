"""How often a caller may do what costs much."""

from __future__ import annotations

import pytest

from api.access.paces import Pace, network


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_so_many_within_a_window_that_begins_with_the_first():
    clock = Clock()
    pace = Pace(2, 60.0, clock)
    assert [pace.take("ann") for _ in range(4)] == [True, True, False, False]
    assert pace.take("bob")
    clock.now_s = 59.0
    assert not pace.take("ann")
    clock.now_s = 61.0
    assert pace.take("ann")


def test_what_is_given_back_may_be_done_again():
    pace = Pace(1, 60.0)
    pace.give_back("ann")
    assert [pace.take("ann") for _ in range(2)] == [True, False]
    pace.give_back("ann")
    pace.give_back("ann")
    assert [pace.take("ann") for _ in range(2)] == [True, False]


def test_a_pace_of_many_ends_as_well():
    pace = Pace(1_000, 60.0)
    assert [pace.take("ann") for _ in range(1_002)] == [True] * 1_000 + [False] * 2


def test_however_many_ask_the_memory_is_bounded():
    pace = Pace(1, 60.0)
    for number in range(12_000):
        pace.take(str(number))
    assert pace.take("0"), "forgotten: 10,000 others asked since"
    assert not pace.take("11999")
    assert not pace.take("2500")


@pytest.mark.parametrize(
    ("address", "caller"),
    [
        ("198.51.100.7", "198.51.100.7"),
        ("2001:db8:1:2:3::4", "2001:0db8:0001:0002"),
        ("::ffff:198.51.100.7", "::ffff:198.51.100.7"),
        ("fe80::1%eth0", "fe80:0000:0000:0000"),
        ("2001:db8:1:2:3::4%a:b%c", "2001:0db8:0001:0002"),
        ("unix", "unix"),
    ],
)
def test_a_caller_is_an_address_or_a_network(address, caller):
    assert network(address) == caller
