"""Holders against a dict of accounts: counts, the top, precision, what is no holder."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.domain.holders import MAX_POOLS, MOST_IN_MEMORY, TOP, Holders, Ranking
from schemas.markets import BURNED, EXACT_BELOW

CHANGES = st.lists(
    st.tuples(
        st.integers(0, 12),  # account
        st.integers(0, 5),  # owner
        st.one_of(st.just(0), st.integers(0, 100), st.integers(2**53 - 2, 2**63)),
        st.booleans(),
    ),
    max_size=60,
)


def owner_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


class Store:
    """What Redis would hold: everything, while `Holders` knows a part."""

    def __init__(self) -> None:
        self.accounts: dict[bytes, tuple[bytes, int]] = {}
        self.vaults: set[bytes] = set()
        self.pools: set[bytes] = set()

    def owners(self) -> dict[bytes, int]:
        sums: dict[bytes, int] = defaultdict(int)
        for account, (owner, amount) in self.accounts.items():
            if account not in self.vaults and owner not in self.pools and owner not in BURNED:
                sums[owner] += amount
        return {owner: amount for owner, amount in sums.items() if amount}

    def ranked(self) -> list[tuple[bytes, int]]:
        pairs = self.owners().items()
        return sorted(pairs, key=lambda pair: (float(pair[1]), pair[0]), reverse=True)


def change(
    holders: Holders, store: Store, account: bytes, owner: bytes, amount: int, *, is_vault: bool
) -> None:
    """Change both, and load before what the loader would load."""
    if account not in holders.accounts:
        assert account not in store.accounts
        holders.accounts[account] = None
    known = store.owners()
    for one in (owner, store.accounts.get(account, (owner, 0))[0]):
        holders.owners.setdefault(one, known.get(one, 0))
    holders.set(account, owner, amount, is_vault=is_vault)
    store.accounts[account] = owner, amount
    if is_vault:
        store.vaults.add(account)


@given(CHANGES, st.integers(0, 60))
def test_holders_equal_a_plain_sum(changes: list[tuple[int, int, int, bool]], pool_at: int) -> None:
    holders, store = Holders(), Store()
    holders.created_by(owner_of(1))
    for at, (account, owner, amount, is_vault) in enumerate(changes):
        if at == pool_at:
            holders.owners.setdefault(owner_of(2), 0)
            holders.exclude(owner_of(2))
            store.pools.add(owner_of(2))
        change(
            holders,
            store,
            b"a%31d" % account,
            owner_of(owner),
            amount,
            is_vault=is_vault and account > 9,
        )
        expected = store.owners()
        assert holders.count == len(expected)
        assert holders.top(TOP) == store.ranked()[:TOP]
        assert holders.creator_raw == expected.get(owner_of(1), 0)


@pytest.mark.parametrize("equal", [False, True])
def test_the_top_of_many_is_right_however_they_move(equal: bool) -> None:
    rng = random.Random(3)
    holders, store = Holders(), Store()
    for step in range(4500):
        number = rng.randrange(1500)
        amount = rng.choice((0, 7 if equal else rng.randrange(1, 2**60), rng.randrange(50)))
        if step > 3000 and rng.random() < 0.7 and (ranked := store.ranked()):
            # The large ones leave.
            number = int.from_bytes(ranked[rng.randrange(min(120, len(ranked)))][0], "big")
            amount = 0
        if holders.ranking.may_run_short(1):
            limit = MOST_IN_MEMORY + 1
            stored = store.ranked()
            holders.fill(stored[:limit], all_of_them=len(stored) < limit)
        change(holders, store, owner_of(number), owner_of(number), amount, is_vault=False)
        if step % 97 == 0 or step > 4450:
            assert holders.top(TOP) == store.ranked()[:TOP]
            assert holders.count == len(store.owners())


def test_what_is_in_memory_wins_over_what_the_store_says() -> None:
    holders, store = Holders(), Store()
    for number in range(1, 500):
        change(holders, store, owner_of(number), owner_of(number), number, is_vault=False)
    before = store.ranked()
    change(holders, store, owner_of(499), owner_of(499), 0, is_vault=False)
    change(holders, store, owner_of(1), owner_of(1), 10_000, is_vault=False)
    holders.fill(before[:MOST_IN_MEMORY], all_of_them=False)
    assert holders.top(3) == store.ranked()[:3]
    assert holders.top(3)[0] == (owner_of(1), 10_000)


def test_burn_addresses_hold_nothing() -> None:
    holders, store = Holders(), Store()
    for at, owner in enumerate(BURNED):
        change(holders, store, owner_of(100 + at), owner, 5, is_vault=False)
    assert holders.count == 0
    assert holders.top(TOP) == []


def test_a_rounded_score_is_marked_to_be_read_exactly() -> None:
    holders = Holders()
    holders.loaded(b"small", EXACT_BELOW - 1)
    holders.loaded(b"large", EXACT_BELOW)
    assert holders.rounded == {b"large"}


def test_more_pools_than_are_followed_stay_as_they_were_read() -> None:
    holders = Holders()
    holders.pools = dict.fromkeys(owner_of(number) for number in range(MAX_POOLS + 1))
    holders.owners[b"new"] = 5
    holders.exclude(b"new")
    assert (len(holders.pools), holders.owners[b"new"]) == (MAX_POOLS + 1, 5)


def test_the_smallest_of_a_ranking_that_left_some_out_may_leave_and_return() -> None:
    ranking = Ranking()
    for number in range(MOST_IN_MEMORY + 1):
        ranking.move(owner_of(number), 0, number + 1)
    ranked = len(ranking)
    assert ranked == MOST_IN_MEMORY + 1 - MOST_IN_MEMORY // 3
    smallest = ranking.owners(ranked)[-1]
    amount = int.from_bytes(smallest, "big") + 1
    ranking.move(smallest, amount, 0)
    assert len(ranking) == ranked - 1
    ranking.move(smallest, 0, amount)
    assert ranking.owners(ranked)[-1] == smallest
    ranking.move(owner_of(1), 0, amount - 2)
    ranking.move(owner_of(1), amount - 2, 0)
    assert len(ranking) == ranked
    assert ranking.owners(ranked)[-1] == smallest


def test_a_balance_that_a_float_holds_again_is_written_exactly() -> None:
    holders = Holders()
    holders.owners = dict.fromkeys((b"far", b"at", b"below", b"above"), 0)
    for number, (owner, before, after) in enumerate(
        [
            (b"far", 2 * EXACT_BELOW, 5),
            (b"at", EXACT_BELOW, EXACT_BELOW - 1),
            (b"below", EXACT_BELOW - 1, 5),
            (b"above", 2 * EXACT_BELOW, EXACT_BELOW),
        ]
    ):
        holders.accounts[owner_of(number)] = None
        holders.set(owner_of(number), owner, before, is_vault=False)
        holders.set(owner_of(number), owner, after, is_vault=False)
    assert holders.shrunk == {b"far", b"at"}


def test_a_ranking_may_run_short_only_where_it_left_some_out_and_few_are_left() -> None:
    ranking = Ranking()
    assert not ranking.may_run_short(1)  # all that there are
    floor = (0.5, b"")
    keys = [(float(number), owner_of(number)) for number in range(1, TOP + 2)]
    ranking.fill(keys, floor)
    assert not ranking.may_run_short(1)
    assert ranking.may_run_short(2)
    ranking.fill(keys, None)
    assert not ranking.may_run_short(2)
