"""Faults of account updates: none is lost, none leaves its slot or comes after the block."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from infra.chain.account_faults import AccountFaults
from infra.chain.faults import Disturbance, Faults
from infra.chain.source import AccountWrite, BlockHeader
from infra.chain.updates import AccountsUpdate, BlockUpdate, Update, Written

HEADER = BlockHeader(0, 0, "a", "b", 1, 1)


def slots(count: int, batches: int, each: int) -> list[Update]:
    updates: list[Update] = []
    version = 0
    for slot in range(1, count + 1):
        for _ in range(batches):
            written = []
            for _ in range(each):
                version += 1
                write = AccountWrite(bytes([version % 7]) * 32, bytes(32), 1, b"", version)
                written.append(Written(write, bytes(64)))
            updates.append(AccountsUpdate(slot, tuple(written), b""))
        updates.append(BlockUpdate(slot, replace(HEADER, slot=slot), (), b""))
    return updates


def versions(updates: list[Update]) -> dict[int, list[int]]:
    """Return the write versions by slot as they come, none after the slot's block."""
    found: dict[int, list[int]] = defaultdict(list)
    sealed: set[int] = set()
    for update in updates:
        if isinstance(update, AccountsUpdate):
            assert update.slot not in sealed
            found[update.slot] += [item.write.write_version for item in update.written]
        else:
            sealed.add(update.slot)
    return found


@given(
    duplicates=st.sampled_from([0.0, 0.5]),
    late=st.sampled_from([0.0, 0.3, 1.0]),
    reorder=st.booleans(),
    window=st.sampled_from([0, 5]),
    seed=st.integers(0, 99),
)
def test_no_account_is_lost_or_late_for_its_block(duplicates, late, reorder, window, seed):
    clean = slots(6, 4, 5)
    faults = AccountFaults(duplicates=duplicates, late=late, reorder=reorder)
    disturbance = Disturbance(Faults(reorder_window=window, accounts=faults, seed=seed))
    got = versions([*disturbance.feed(clean), *disturbance.flush()])
    for slot, expected in versions(clean).items():
        assert set(got[slot]) == set(expected)
        assert duplicates or Counter(got[slot]) == Counter(expected)


def test_faults_happen():
    clean = slots(20, 4, 5)
    faults = AccountFaults(duplicates=0.2, late=0.2, reorder=True)
    disturbance = Disturbance(Faults(accounts=faults))
    got = versions([*disturbance.feed(clean), *disturbance.flush()])
    counts = disturbance.take_counts()
    assert counts["account_duplicate"] > 20
    assert counts["account_late"] > 20
    assert sum(one != sorted(one) for one in got.values()) > 10
