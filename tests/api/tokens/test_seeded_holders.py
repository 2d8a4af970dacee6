"""The tape's holders and the chain's largest accounts, merged, against a ledger of all accounts."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from api.accounts.largest import LargestAccount
from api.tokens.seeded_holders import Taped, is_even, merged, owners_of
from schemas.markets import Account
from tests.support.exploring import examples

OWNERS = [bytes([n]) * 32 for n in range(1, 7)]
ACCOUNTS = [bytes([n]) * 32 for n in range(100, 112)]
POOL = b"p" * 32
SLOT = 50

# account -> owner, amount on the chain, amount that the tape saw last (None: it never saw it)
chains = st.dictionaries(
    st.sampled_from(ACCOUNTS),
    st.tuples(
        st.sampled_from([*OWNERS, POOL]),
        st.integers(0, 2**64 - 1),
        st.none() | st.tuples(st.sampled_from([*OWNERS, POOL]), st.integers(1, 2**64 - 1)),
        st.booleans(),
    ),
)


@given(chains, st.integers(1, 12), st.sets(st.sampled_from(ACCOUNTS)))
@examples(300)
def test_holders_equal_a_ledger_that_knows_the_largest_accounts_exactly(
    chain: dict[bytes, tuple[bytes, int, tuple[bytes, int] | None, bool]],
    limit: int,
    listed: set[bytes],
) -> None:
    taped = {
        address: Account(*seen, is_vault) if seen else None
        for address, (_, _, seen, is_vault) in chain.items()
    }
    known: Counter[bytes] = Counter()  # by the tape
    expected: Counter[bytes] = Counter()
    for address, (owner, raw, _, _) in chain.items():
        seen = taped[address]
        if seen is not None and seen.is_vault:
            continue
        if seen is not None:
            known[seen.owner] += seen.amount_raw
        if address in listed:
            expected[owner] += raw
        elif seen is not None:
            expected[seen.owner] += seen.amount_raw
    for counted in (known, expected):
        del counted[POOL]
    accounts = [
        LargestAccount(address, owner, raw, SLOT)
        for address, (owner, raw, _, _) in chain.items()
        if address in listed
    ]
    of_listed = {each.address: taped[each.address] for each in accounts}
    owners = {owner: known[owner] for owner in owners_of(accounts, of_listed)}
    tape = Taped(SLOT, of_listed, owners, frozenset({POOL}))
    assert is_even(accounts, SLOT, tape)

    def ranked(balances: Counter[bytes]) -> list[tuple[bytes, int]]:
        found = [(owner, raw) for owner, raw in balances.items() if raw]
        return sorted(found, key=lambda each: (each[1], each[0]), reverse=True)

    top, more = merged(ranked(known)[: limit + 2 * len(accounts)], accounts, tape)
    assert top[:limit] == ranked(expected)[:limit]
    assert len(ranked(known)) + more == len(ranked(expected))


def test_an_account_that_one_side_saw_change_later_is_not_merged() -> None:
    first, second = OWNERS[:2]
    account = ACCOUNTS[0]

    def even(largest: LargestAccount, lane_slot: int, known: Account | None) -> bool:
        return is_even([largest], lane_slot, Taped(SLOT, {account: known}, {}, frozenset({POOL})))

    had = LargestAccount(account, first, 7, SLOT - 9)
    for known in (None, Account(first, 6, False), Account(second, 7, False)):
        assert even(had, SLOT, known)
        assert even(had, SLOT + 3, known)
        assert not even(had, SLOT - 1, known), "the tape may be newer"
        assert not even(replace(had, slot=SLOT + 1), SLOT + 1, known), "the lane is"
    same = Account(first, 7, False)
    assert even(had, SLOT - 1, same)
    closed = LargestAccount(account, b"", 0, SLOT)
    assert even(closed, SLOT - 1, None)
    assert not even(LargestAccount(account, b"", 0, SLOT + 1), SLOT + 1, None)
    vault = Account(first, 6, True)
    assert even(had, SLOT - 1, vault), "no holder's"
    assert even(LargestAccount(account, POOL, 9, SLOT + 5), SLOT + 5, None)
