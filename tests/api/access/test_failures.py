"""What is remembered of refused keys, and which clients it keeps out."""

import pytest

from api.access.failures import FAILURES, UNKNOWN_FOR_S, WINDOW_S, Failures
from api.access.refusals import Problem


class Clock:
    now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def failures(clock):
    return Failures(clock)


def code_of(failures, address, fingerprint):
    """Return the code that a key is refused with unseen, None where it must be looked up."""
    try:
        failures.check(address, fingerprint)
    except Problem as problem:
        return problem.kind.code
    return None


def guess(failures, address, count, first=0):
    for number in range(first, first + count):
        assert code_of(failures, address, f"guess-{number}") is None
        failures.refused(address, f"guess-{number}", is_unknown=True)


def test_an_unknown_key_is_remembered_for_a_moment(failures, clock):
    guess(failures, "203.0.113.9", 1)
    assert code_of(failures, "198.51.100.1", "guess-0") == "key_unknown"
    clock.now_s += UNKNOWN_FOR_S
    assert code_of(failures, "198.51.100.1", "guess-0") is None


def test_an_address_that_guesses_is_not_looked_at_until_the_window_is_over(failures, clock):
    guess(failures, "203.0.113.9", FAILURES)
    assert code_of(failures, "203.0.113.9", "another") == "too_many_failures"
    assert code_of(failures, "203.0.113.10", "another") is None
    clock.now_s += WINDOW_S - 1
    assert code_of(failures, "203.0.113.9", "another") == "too_many_failures"
    clock.now_s += 1
    assert code_of(failures, "203.0.113.9", "another") is None


def test_refusals_from_memory_count_as_well(failures):
    guess(failures, "203.0.113.9", 1)
    for _ in range(FAILURES - 1):
        assert code_of(failures, "203.0.113.9", "guess-0") == "key_unknown"
    assert code_of(failures, "203.0.113.9", "another") == "too_many_failures"


def test_a_key_that_was_good_here_lately_comes_in_from_such_an_address(failures):
    failures.found("good")
    guess(failures, "203.0.113.9", FAILURES)
    assert code_of(failures, "203.0.113.9", "good") is None
    failures.refused("203.0.113.9", "good", is_unknown=False)  # revoked meanwhile
    assert code_of(failures, "203.0.113.9", "good") == "too_many_failures"


def test_of_ipv6_the_network_counts_that_one_caller_is_given(failures):
    for number in range(FAILURES):
        failures.refused(f"2001:db8:1:2::{number:x}", f"guess-{number}", is_unknown=True)
    assert code_of(failures, "2001:db8:1:2:ffff::1", "another") == "too_many_failures"
    assert code_of(failures, "2001:db8:1:3::1", "another") is None
    assert code_of(failures, "", "another") is None
