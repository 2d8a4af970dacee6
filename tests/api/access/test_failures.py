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


def test_sixty_a_minute_are_looked_at(failures, clock):
    guess(failures, "203.0.113.9", 60)
    with pytest.raises(Problem) as refused:
        failures.check("203.0.113.9", "another")
    assert refused.value.headers["Retry-After"] == "60"
    clock.now_s += 60
    assert code_of(failures, "203.0.113.9", "another") is None


def test_the_memory_is_bounded_and_the_oldest_is_forgotten_first(failures):
    for number in range(10_000):
        failures.refused(f"198.51.{number // 100}.{number % 100}", f"bad-{number}", is_unknown=True)
        failures.found(f"good-{number}")
    assert failures.knows("good-0")
    assert code_of(failures, "203.0.113.9", "bad-0") == "key_unknown"
    failures.found("one more")
    failures.refused("203.0.113.10", "one more that is bad", is_unknown=True)
    assert not failures.knows("good-0")
    assert failures.knows("good-1")
    assert code_of(failures, "203.0.113.9", "bad-0") is None
    assert code_of(failures, "203.0.113.9", "bad-1") == "key_unknown"


@pytest.mark.parametrize(("others", "is_known"), [(9_999, True), (10_000, False)])
def test_so_many_addresses_are_remembered(failures, others, is_known):
    for _ in range(FAILURES):
        failures.refused("203.0.113.9")
    for number in range(others):
        failures.refused(f"198.51.{number // 100}.{number % 100}")
    assert failures.are_too_many("203.0.113.9") is is_known


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


def test_a_revoked_key_is_looked_up_again_for_it_is_not_unknown(failures):
    failures.refused("203.0.113.9", "revoked")
    assert code_of(failures, "203.0.113.9", "revoked") is None


def test_of_ipv6_the_network_counts_that_one_caller_is_given(failures):
    for number in range(FAILURES):
        failures.refused(f"2001:db8:1:2::{number:x}", f"guess-{number}", is_unknown=True)
    assert code_of(failures, "2001:db8:1:2:ffff::1", "another") == "too_many_failures"
    assert code_of(failures, "2001:db8:1:3::1", "another") is None
    assert code_of(failures, "", "another") is None


class Looks:
    """Sessions as Redis knows them, and how often it was asked."""

    def __init__(self, *known):
        self.known = known
        self.count = 0

    def at(self, name):
        async def look():
            self.count += 1
            return name if name in self.known else None

        return look


async def test_sessions_that_were_made_up_are_bounded_as_keys_are(failures, clock):
    looks = Looks("mine")
    assert await failures.session("203.0.113.9", "mine", looks.at("mine")) == "mine"
    for number in range(FAILURES):
        name = f"made-up-{number}"
        assert await failures.session("203.0.113.9", name, looks.at(name)) is None
    looked = looks.count
    for name in ("made-up", "another"):
        with pytest.raises(Problem, match="too_many_failures"):
            await failures.session("203.0.113.9", name, looks.at(name))
    assert code_of(failures, "203.0.113.9", "a key") == "too_many_failures"
    assert looks.count == looked
    assert await failures.session("203.0.113.9", "mine", looks.at("mine")) == "mine"
    assert await failures.session("203.0.113.10", "other", looks.at("other")) is None
    clock.now_s += WINDOW_S
    assert await failures.session("203.0.113.9", "another", looks.at("another")) is None


async def test_a_cookie_that_has_ended_bars_nobody(failures, clock):
    """A browser sends it with each request, for as long as a page is open."""
    looks = Looks()
    for _ in range(10 * FAILURES):
        clock.now_s += 0.1
        assert await failures.session("203.0.113.9", "ended", looks.at("ended")) is None
    assert looks.count <= WINDOW_S / UNKNOWN_FOR_S + 1


async def test_a_session_that_begins_is_good_whatever_was_known_of_it(failures):
    looks = Looks("mine")
    guess(failures, "203.0.113.9", FAILURES)
    failures.found("mine")
    assert await failures.session("203.0.113.9", "mine", looks.at("mine")) == "mine"
    looks.known = ()
    assert await failures.session("203.0.113.9", "mine", looks.at("mine")) is None
    with pytest.raises(Problem, match="too_many_failures"):
        await failures.session("203.0.113.9", "second", looks.at("second"))


def test_a_good_session_vouches_for_its_key_until_that_is_refused(failures, clock):
    guess(failures, "203.0.113.9", FAILURES)
    failures.vouch("of the session")
    assert code_of(failures, "203.0.113.9", "of the session") is None
    failures.refused("203.0.113.9", "of the session")  # revoked: its sessions last longer
    failures.vouch("of the session")
    assert code_of(failures, "203.0.113.9", "of the session") == "too_many_failures"
    clock.now_s += WINDOW_S
    failures.vouch("of the session")
    assert code_of(failures, "203.0.113.9", "of the session") is None


async def test_guessed_links_count_as_guessed_keys_do_and_are_not_asked_for_beyond(failures, clock):
    asked = []

    async def spend():
        asked.append(1)

    for number in range(FAILURES):
        assert await failures.link("203.0.113.9", f"guess-{number}", spend) is None
    assert len(asked) == FAILURES
    with pytest.raises(Problem) as refused:
        await failures.link("203.0.113.9", "another", spend)
    assert refused.value.kind.code == "too_many_failures"
    assert code_of(failures, "203.0.113.9", "a key") == "too_many_failures"
    assert await failures.link("203.0.113.9", f"guess-{FAILURES - 1}", spend) is None
    assert len(asked) == FAILURES, "unknown a moment ago"
    assert await failures.link("203.0.113.10", "another", spend) is None
    clock.now_s += WINDOW_S
    assert await failures.link("203.0.113.9", "another", spend) is None
    assert len(asked) == FAILURES + 2


async def test_a_link_that_was_spent_is_not_remembered_as_good(failures):
    async def spend():
        return "fingerprint"

    assert await failures.link("203.0.113.9", "link", spend) == "fingerprint"
    assert not failures.knows("link")
    assert code_of(failures, "203.0.113.9", "link") is None
