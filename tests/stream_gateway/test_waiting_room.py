"""Which connection is dropped if too many wait for admission."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from stream_gateway.waiting_room import WaitingRoom


@dataclass(eq=False)
class One:
    address: str
    is_served: bool = False
    has_given_way: bool = False

    def give_way(self) -> None:
        self.has_given_way = True

    def stop(self) -> None:
        raise AssertionError


def test_the_oldest_of_the_same_address_goes_first() -> None:
    room = WaitingRoom(most=10, most_of_address=2)
    first, second, third, other = One("a"), One("a"), One("a"), One("b")
    for one in (other, first, second, third):
        room.enter(one)
    assert [one.has_given_way for one in (first, second, third, other)] == [True, *[False] * 3]


def test_addresses_of_one_network_of_ipv6_are_one_caller_but_for_a_proxy() -> None:
    proxy = "2001:db8:0:1::1"
    room = WaitingRoom(most=5, most_of_address=2, shared=proxy.__eq__)
    honest = One("2001:db8:0:2::5")
    room.enter(honest)
    proxied = [One(proxy), One(proxy)]
    many = [One(f"2001:db8:0:1::{number:x}") for number in range(2, 12)]
    for one in (*proxied, *many):
        room.enter(one)
    assert [one for one in (honest, *proxied) if one.has_given_way] == []
    assert room.everybody() == [honest, *proxied, *many[-2:]]
    for one in room.everybody():
        room.leave(one)
    assert room.everybody() == []


def test_those_with_a_whole_head_stay_and_a_newcomer_has_no_room() -> None:
    room = WaitingRoom(most=2, most_of_address=2)
    served = [One("a", is_served=True), One("b", is_served=True)]
    for one in served:
        room.enter(one)
    late = One("c")
    room.enter(late)
    assert not room.has_room_for(late)
    room.leave(served[0])
    assert room.has_room_for(late)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=60))
def test_the_bounds_hold_over_all_that_are_silent(steps: list[tuple[str, bool, bool]]) -> None:
    room = WaitingRoom(most=5, most_of_address=3)
    inside: list[One] = []
    for address, is_served, leaves in steps:
        one = One(address, is_served)
        room.enter(one)
        inside = [each for each in [*inside, one] if not each.has_given_way]
        if leaves:
            room.leave(inside.pop(0))
        assert room.everybody() == inside
        served = sum(each.is_served for each in inside)
        assert len(inside) <= max(5, served + 1)
        for name in "abc":
            own = [each for each in inside if each.address == name]
            assert len(own) <= max(3, sum(each.is_served for each in own) + 1)
