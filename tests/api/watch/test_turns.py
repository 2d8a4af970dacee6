"""Whose turn it is, and how soon."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from api.watch.turns import Turns


def test_no_wallet_sooner_than_its_time_and_no_more_than_the_pace() -> None:
    turns = Turns(per_s=2.0, every_s=10.0)
    turns.set(["a", "b", "c"], 0.0)
    taken = {}
    for tick in range(121):
        now_s = tick / 4
        if (wallet := turns.next(now_s)) is not None:
            taken.setdefault(wallet, []).append(now_s)
    assert taken == {
        "a": [0.0, 10.0, 20.0, 30.0],
        "b": [0.5, 10.5, 20.5],
        "c": [1.0, 11.0, 21.0],
    }


def test_the_longest_wait_comes_first_and_those_that_left_do_not_come() -> None:
    turns = Turns(per_s=1.0, every_s=1.0)
    turns.set(["a", "b"], 0.0)
    assert turns.next(0.0) == "a"
    turns.set(["a", "c"], 0.5)
    assert [turns.next(now_s) for now_s in (1.0, 2.0, 3.0)] == ["c", "a", "c"]
    turns.set([], 3.5)
    assert turns.next(9.0) is None
    assert (turns.overdue_s(9.0), turns.wait_s(9.0)) == (0.0, inf)
    turns.set(["b"], 9.0)
    assert (turns.overdue_s(11.0), turns.wait_s(9.0)) == (2.0, 0.0)


def test_how_long_nobody_s_turn_is() -> None:
    turns = Turns(per_s=4.0, every_s=10.0)
    turns.set(["a", "b"], 0.0)
    turns.next(0.0)
    assert turns.wait_s(0.0) == 0.25
    turns.next(0.25)
    assert turns.wait_s(0.25) == 9.75


@given(
    st.lists(st.tuples(st.frozensets(st.sampled_from("abcdef")), st.floats(0.0, 5.0)), max_size=30)
)
def test_only_wallets_that_are_watched_have_a_turn_and_all_of_them_do(steps: list) -> None:
    turns = Turns(per_s=1000.0, every_s=2.0)
    now_s, last = 0.0, {}
    for wallets, pause_s in steps:
        now_s += pause_s
        turns.set(wallets, now_s)
        last = {wallet: at for wallet, at in last.items() if wallet in wallets}
        while (wallet := turns.next(now_s)) is not None:
            assert wallet in wallets
            assert now_s - last.get(wallet, -2.0) >= 2.0 - 1e-6
            last[wallet] = now_s
            now_s += 0.001
        assert last.keys() == wallets
