"""Wallets that wait for their SOL before they are read."""

from __future__ import annotations

from api.watch.ahead import EVERY_S, WAIT_S, Ahead


def test_a_wallet_waits_once_a_minute_and_comes_once() -> None:
    ahead = Ahead()
    assert ahead.begin("a", 0.0)
    assert ahead.begin("b", 0.5)
    assert (ahead.wait_s(0.5, 9.0), ahead.wait_s(0.5, 0.2)) == (WAIT_S - 0.5, 0.2)
    assert ahead.next(WAIT_S - 0.1) is None
    assert [ahead.next(WAIT_S + 0.5) for _ in range(3)] == ["a", "b", None]
    assert ahead.wait_s(50.0, 9.0) == 9.0
    assert not ahead.begin("a", EVERY_S - 0.1)
    assert ahead.begin("a", EVERY_S)


def test_one_whose_sol_was_outdated_waits_again_and_one_that_left_does_not() -> None:
    ahead = Ahead()
    ahead.begin("a", 0.0)
    ahead.begin("b", 0.0)
    ahead.outdated("a")
    assert ahead.begin("a", 10.0)
    ahead.keep({"a"})
    assert [ahead.next(20.0) for _ in range(3)] == ["a", "a", None]
    assert ahead.begin("b", 20.0), "it is new"
