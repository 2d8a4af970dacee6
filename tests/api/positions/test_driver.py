"""Readings of many protocols in step: trips, isolation, bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import thread_time
from typing import Any

import pytest
from prometheus_client import REGISTRY

from api.positions.driver import (
    MOST_LEFT_OUT,
    MOST_OF_ALL_S,
    MOST_POSITIONS,
    MOST_ROUNDS,
    MOST_S,
    MOST_WANTED,
    Outcome,
    run,
)
from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)

BUSY_S, WAITED_S = 0.02, 0.5  # of the thread's time; of the clock's
WORLD = World(10, 20, 30)
KIND = Kind("thing", b"p" * 32, size=1)


def account(name: str) -> Account:
    return Account(name.encode().ljust(32), KIND, 1, b"", 5)


CHAIN = {each.address: each for each in map(account, "abcdefgh")}
HELD = Held(b"w" * 32, [account("x"), account("y"), account("z")])


class Trips:
    def __init__(self) -> None:
        self.made: list[set[str]] = []

    async def fetch(self, wanted: Sequence[bytes]) -> Mapping[bytes, Account]:
        self.made.append({each.decode().strip() for each in wanted})
        return {each: CHAIN[each] for each in wanted if each in CHAIN}


def protocol(name: str, read: Any) -> Protocol:
    return Protocol(name, (KIND,), read=read)


def wanting(*rounds: str) -> Any:
    """A reading that wants accounts by their letters, round by round, and returns what it got."""

    def read(held: Held, world: World) -> Reading:
        got: list[bytes] = []
        for letters in rounds:
            found = yield [account(each).address for each in letters]
            got += found
        return [Position("route", CHAIN[each]) for each in got]

    return read


async def outcomes(*reads: Any) -> tuple[list[Outcome], list[set[str]]]:
    trips = Trips()
    asked = [(protocol(f"p{n}", read), HELD) for n, read in enumerate(reads)]
    return await run(asked, WORLD, trips.fetch), trips.made


def names(outcome: Outcome) -> str:
    return "".join(each.account.address.decode().strip() for each in outcome.positions)


async def test_one_trip_a_round_for_all_and_none_for_what_is_known() -> None:
    found, trips = await outcomes(
        wanting("ab", "c"), wanting("bc", "a", "d"), wanting(), wanting("")
    )
    assert trips == [{"a", "b", "c"}, {"d"}]
    assert [names(each) for each in found] == ["abc", "bcad", "", ""]
    assert all(not each.failures for each in found)


async def test_a_reading_gets_what_exists() -> None:
    [found], trips = await outcomes(wanting("aq", "q"))
    assert (names(found), trips) == ("a", [{"a", "q"}])


async def test_one_that_fails_fails_alone() -> None:
    def broken(held: Held, world: World) -> Reading:
        yield [account("a").address]
        raise KeyError("of no account")

    def unreadable(held: Held, world: World) -> Reading:
        raise Unreadable("byte 7 is 3")
        yield

    found, trips = await outcomes(broken, wanting("ab", "c"), unreadable)
    assert trips == [{"a", "b"}, {"c"}]
    assert names(found[1]) == "abc"
    assert [each.code for each in found[0].failures] == ["unreadable"]
    assert found[0].failures[0].detail == "its reading failed (KeyError)"
    assert found[2].failures == [(None, "unreadable", "byte 7 is 3")]


async def test_a_reading_is_counted_and_timed_without_what_it_waits_for() -> None:
    def busy(held: Held, world: World) -> Reading:
        for _ in range(2):
            began = thread_time()
            while thread_time() - began < BUSY_S:
                pass
            yield [account("a").address]
        return []

    def broken(held: Held, world: World) -> Reading:
        raise Unreadable("byte 7 is 3")
        yield

    async def fetch(wanted: Sequence[bytes]) -> Mapping[bytes, Account]:
        await asyncio.sleep(WAITED_S)
        return CHAIN

    def value(of: str, **labels: str) -> float:
        return REGISTRY.get_sample_value(f"soltape_api_{of}", labels) or 0

    asked = [(protocol("timed", busy), HELD), (protocol("counted", broken), HELD)]
    await run(asked, WORLD, fetch)
    assert value("reading_ms_count", protocol="timed") == 1
    assert 2 * BUSY_S <= value("reading_ms_sum", protocol="timed") / 1000 < WAITED_S
    assert value("readings_total", protocol="timed", outcome="whole") == 1
    assert value("readings_total", protocol="timed", outcome="partial") == 0
    assert value("reading_ms_count", protocol="counted") == 1
    assert value("readings_total", protocol="counted", outcome="partial") == 1


async def test_an_unreadable_account_is_left_out_and_the_others_read() -> None:
    def read(held: Held, world: World) -> Reading:
        yield [account("a").address]
        for each in held.accounts:
            if each.address == account("y").address:
                raise Unreadable("no", each.address)
        return [Position("route", each) for each in held.accounts]

    [found], trips = await outcomes(read)
    assert trips == [{"a"}]  # read again from what is known
    assert names(found) == "xz"
    assert found.failures == [(account("y").address, "unreadable", "no")]


async def test_of_too_many_unreadable_accounts_a_reading_fails() -> None:
    def read(held: Held, world: World) -> Reading:
        for each in held.accounts:
            raise Unreadable("no", each.address)
        yield []
        return []

    accounts = [Account(bytes([n]) * 32, KIND, 1, b"", 1) for n in range(100)]
    [found] = await run([(protocol("p", read), Held(b"", accounts))], WORLD, Trips().fetch)
    assert len(found.failures) == MOST_LEFT_OUT + 1


@pytest.mark.parametrize("letters", ["a", ""])
async def test_rounds_are_bounded(letters: str) -> None:
    def endless(held: Held, world: World) -> Reading:
        while True:
            yield [account(each).address for each in letters]

    [found], _ = await outcomes(endless)
    assert found.failures[0].detail == f"its reading wanted more than {MOST_ROUNDS} rounds"


async def test_what_a_position_lacks_is_an_error() -> None:
    lacked = account("q").address

    def read(held: Held, world: World) -> Reading:
        yield [lacked]
        return [Position("route", each, missing=[lacked]) for each in held.accounts]

    [found], _ = await outcomes(read)
    assert len(found.positions) == 3
    assert [(each.account, each.code) for each in found.failures] == [(lacked, "reference_missing")]


async def test_what_a_position_lacks_that_counts_nowhere_is_asked_for_and_no_error() -> None:
    """Anybody can open a market, and have a wallet lack an account of it for ever."""
    own, other, both = (account(each).address for each in "qrs")
    market, verified = b"m" * 32, b"v" * 32

    def read(held: Held, world: World) -> Reading:
        yield [own, other, both]
        first, second, third = held.accounts
        return [
            Position("route", first, missing=[own, both], open_markets=[market, verified]),
            Position("route", second, missing=[other, both], open_markets=[verified]),
            Position("route", third, missing=[own], open_markets=[market]),
        ]

    asked = [(protocol("p", read), HELD)]
    [found] = await run(asked, WORLD, Trips().fetch, frozenset({verified}))
    lacked = {(each.account, each.code) for each in found.failures}
    assert lacked == {(each, "reference_missing") for each in (other, both)}
    assert found.uncounted == {own}
    [found] = await run(asked, WORLD, Trips().fetch, frozenset({verified, market}))
    assert (len(found.failures), found.uncounted) == (3, set())


async def test_a_protocol_without_a_reading_is_not_supported() -> None:
    [found], trips = await outcomes(None)
    assert ([each.code for each in found.failures], trips) == (["not_supported"], [])


async def failing(read: Any) -> str:
    """Return what a reading fails with, while another one is answered."""
    found, _ = await outcomes(read, wanting("ab", "c"))
    assert (names(found[1]), found[1].failures) == ("abc", [])
    assert found[0].positions == []
    [failure] = found[0].failures
    assert failure.code == "unreadable"
    return failure.detail


async def test_one_that_computes_for_ever_is_ended() -> None:
    def endless(held: Held, world: World) -> Reading:
        yield [account("a").address]
        while True:
            try:
                sum(range(100))
            except Exception:  # it may not keep what ends it
                continue

    assert await failing(endless) == f"its reading computed for more than {MOST_S} s"


async def test_all_of_a_request_have_one_bound_and_others_come_in_between() -> None:
    def slow(held: Held, world: World) -> Reading:
        while True:
            pass
        yield ()

    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beside = asyncio.create_task(other())
    began = thread_time()
    found, _ = await outcomes(*[slow] * 8)
    took_s = thread_time() - began
    beside.cancel()
    said = [each.failures[0].detail for each in found]
    assert said[0] == f"its reading computed for more than {MOST_S} s"
    assert said[-1] == f"the readings of the request computed for more than {MOST_OF_ALL_S} s"
    assert took_s < 2 * MOST_OF_ALL_S  # each by itself: eight times MOST_S
    assert turns > 1


async def test_the_accounts_that_one_may_want_are_bounded() -> None:
    def greedy(held: Held, world: World) -> Reading:
        yield [n.to_bytes(32, "big") for n in range(MOST_WANTED + 1)]
        return []

    assert await failing(greedy) == f"its reading wanted more than {MOST_WANTED} accounts"


@pytest.mark.parametrize("wanted", [[b"short"], [b"l" * 33], ["text" * 8], [None], 7])
async def test_what_is_no_address_is_not_fetched(wanted: Any) -> None:
    def garbled(held: Held, world: World) -> Reading:
        yield wanted
        return []

    assert "its reading failed (TypeError)" in await failing(garbled)


@pytest.mark.parametrize(
    "returned",
    [
        None,
        7,
        [None],
        [Position("route", account("a"), assets=[Asset(Role.SUPPLY, b"short", 1)])],
        [Position("route", account("a"), assets=[Asset(Role.SUPPLY, b"m" * 32, -1)])],
        [Position("route", account("a"), assets=[Asset(Role.SUPPLY, b"m" * 32, 1, 10**9)])],
        [Position("route", account("a"), id=b"short")],
        [Position("route", account("a"))] * (MOST_POSITIONS + 1),
    ],
)
async def test_what_is_no_list_of_positions_is_not_answered(returned: Any) -> None:
    def wrong(held: Held, world: World) -> Reading:
        yield [account("a").address]
        return returned  # type: ignore[no-any-return]

    assert await failing(wrong)


async def test_positions_of_a_route_that_is_not_the_protocols_are_a_failure() -> None:
    def read(held: Held, world: World) -> Reading:
        yield [account("a").address]
        return [Position("other", account("a"))]

    named = Protocol("p", (KIND,), (Route("lending", Shape.LENDING, "Loans"),), read)
    [found] = await run([(named, HELD)], WORLD, Trips().fetch)
    assert found.failures[0].detail == "its reading found positions of another route: other"


async def test_an_unreadable_reference_is_not_given_again_and_the_others_are_read() -> None:
    """A stranger's pool that cannot be read takes its own position away, and no other."""

    def read(held: Held, world: World) -> Reading:
        found = yield [account(each).address for each in "ab"]
        positions = []
        for holder, letter in zip(held.accounts, "abb", strict=True):
            pool = found.get(account(letter).address)
            if letter == "a" and pool is not None:
                raise Unreadable("the pool's byte 7 is 3", pool.address)
            missing = [] if pool else [account(letter).address]
            positions.append(Position("route", holder, missing=missing))
        return positions

    [found], trips = await outcomes(read)
    assert trips == [{"a", "b"}]  # read again from what is known
    assert names(found) == "xyz"
    assert found.failures == [(account("a").address, "unreadable", "the pool's byte 7 is 3")]


async def test_a_reading_that_blames_what_it_was_not_given_fails() -> None:
    def read(held: Held, world: World) -> Reading:
        yield [account("a").address]
        raise Unreadable("no", account("h").address)

    [found], _ = await outcomes(read)
    assert (found.positions, len(found.failures)) == ([], 1)


async def test_of_too_many_unreadable_references_a_reading_fails() -> None:
    letters = "abcdefgh"

    def read(held: Held, world: World) -> Reading:
        found = yield [account(each).address for each in letters]
        for each in found.values():
            raise Unreadable("no", each.address)
        raise Unreadable("no", account("a").address)  # also without it

    [found], _ = await outcomes(read)
    assert (found.positions, len(found.failures)) == ([], len(letters) + 1)
