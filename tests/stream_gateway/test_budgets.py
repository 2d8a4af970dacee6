"""What a key may have of bytes: never more than a minute's worth and what the time brings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schemas.plans import BUSINESS, ENTERPRISE, FREE
from stream_gateway.budgets import Budget, Budgets

MIB = 1024 * 1024
WRITE = 300_000  # the largest


@given(
    steps=st.lists(
        st.tuples(st.floats(0, 30), st.lists(st.integers(1, WRITE), max_size=40)), max_size=30
    )
)
def test_in_no_time_more_is_had_than_the_plan_says(steps):
    budgets = Budgets()
    now_s = had = 0.0
    budgets.fill(now_s, set())
    budget = budgets.of("f", FREE)
    for elapsed_s, writes in steps:
        now_s += elapsed_s
        budgets.fill(now_s, {"f"})
        for size in writes:
            if budget.live > 0:
                budget.live -= size
                had += size
    assert had <= 64 * MIB * (1 + now_s / 60) + WRITE
    assert budget.replay == 16 * MIB


def test_connecting_again_brings_no_new_budget():
    budgets = Budgets()
    budgets.fill(100.0, set())
    budgets.of("f", BUSINESS).replay -= 200 * MIB
    budgets.fill(101.0, set())  # nobody is connected
    assert budgets.of("f", BUSINESS).replay < 61 * MIB
    budgets.fill(161.0, set())
    assert len(budgets) == 0  # it is full again, and nobody has it
    assert budgets.of("f", BUSINESS).replay == 256 * MIB


def test_a_key_that_changes_its_plan_has_the_new_plans_bytes_and_what_it_used_is_used():
    budgets = Budgets()
    budget = budgets.of("f", FREE)
    budget.live -= 60 * MIB
    budget.replay -= 17 * MIB
    assert budgets.of("f", BUSINESS) is budget  # which its open connections have as well
    assert (budget.live, budget.replay) == ((1024 - 60) * MIB, (256 - 17) * MIB)
    budgets.of("f", BUSINESS)
    assert budget.live == (1024 - 60) * MIB
    budget.fill(60.0)
    assert (budget.live, budget.replay) == (1024 * MIB, 256 * MIB)


def test_a_smaller_plan_begins_empty_where_more_than_it_has_was_used_and_not_in_debt():
    budgets = Budgets()
    budget = budgets.of("f", BUSINESS)
    budget.live -= 1000 * MIB
    budget.replay -= 257 * MIB  # the last page may go below zero, and counts
    budgets.of("f", FREE)
    assert (budget.live, budget.replay) == (0, -MIB)
    budget.fill(30.0)
    assert (budget.live, budget.replay) == (32 * MIB, 7 * MIB)
    budget.fill(600.0)
    assert (budget.live, budget.replay) == (64 * MIB, 16 * MIB)
    assert budget.is_full


def test_a_budget_that_somebody_has_is_kept():
    budgets = Budgets()
    budget = budgets.of("f", FREE)
    budgets.fill(1.0, {"f"})
    assert budgets.of("f", FREE) is budget


def test_no_plan_is_without_a_bound_and_enterprise_has_ten_times_that_of_business():
    budget, business = Budget.of(ENTERPRISE), Budget.of(BUSINESS)
    assert (budget.live, budget.replay) == (10 * business.live, 10 * business.replay)
    budget.replay -= 2 * budget.replay_most
    budget.fill(60.0)
    assert (budget.replay, budget.is_full) == (0, False)
