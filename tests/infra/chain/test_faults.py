from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from google.protobuf.message import DecodeError

from infra.chain import updates
from infra.chain.faults import Disturbance, Faults
from infra.chain.server import LocalChain
from infra.chain.source import SlotEvent, SlotStarted
from infra.chain.updates import BlockUpdate, SlotUpdate, TransactionUpdate, Update
from schemas.proto.geyser_pb2 import SubscribeUpdate

EVERYTHING = Faults(duplicates=0.2, reorder_window=120, missing_statuses=0.2, malformed=0.1, seed=3)


class _NoSource:
    """A source for a chain that is fed by hand."""

    def genesis_accounts(self) -> tuple[()]:
        return ()

    def __getattr__(self, name: str) -> object:
        raise AssertionError(name)


@pytest.fixture(scope="module")
def sequence(market_events: list[SlotEvent]) -> list[Update]:
    chain = LocalChain(_NoSource())  # type: ignore[arg-type]
    for event in market_events:
        chain.publish(event)
    return chain.replay.read(0, 1_000_000)


def _disturbed(sequence: list[Update], faults: Faults) -> list[Update]:
    disturbance = Disturbance(faults)
    return [*disturbance.feed(sequence), *disturbance.flush()]


def _intact(update: Update) -> bool:
    return not isinstance(update, TransactionUpdate) or bool(
        not update.cut_bytes and _readable(update)
    )


def _readable(update: TransactionUpdate) -> bool:
    message = SubscribeUpdate.FromString(updates.transaction_update(b"", update))
    return bool(message.transaction.transaction.transaction.message.account_keys)


def test_a_perfect_provider_changes_nothing(sequence: list[Update]) -> None:
    assert not Faults(seed=9).disturbs
    assert _disturbed(sequence, Faults(seed=9)) == sequence


def test_the_same_seed_gives_the_same_faults(sequence: list[Update]) -> None:
    once, again = (_disturbed(sequence, EVERYTHING) for _ in range(2))
    assert once == again
    assert once != _disturbed(sequence, replace(EVERYTHING, seed=4))


def test_the_pieces_fed_do_not_matter(sequence: list[Update]) -> None:
    disturbance = Disturbance(EVERYTHING)
    one_by_one = [out for update in sequence for out in disturbance.feed([update])]
    assert one_by_one + disturbance.flush() == _disturbed(sequence, EVERYTHING)


def test_nothing_is_lost_whatever_happens(sequence: list[Update]) -> None:
    disturbed = _disturbed(sequence, EVERYTHING)
    before = {update for update in sequence if not isinstance(update, SlotUpdate)}
    after = [update for update in disturbed if _intact(update)]
    assert before == {update for update in after if not isinstance(update, SlotUpdate)}
    # A missing status is silent, because it still releases what waits for its commitment.
    assert Counter(replace(u, silent=False) for u in after if isinstance(u, SlotUpdate)) == (
        Counter(u for u in sequence if isinstance(u, SlotUpdate))
    )


def test_every_fault_happens(sequence: list[Update]) -> None:
    disturbance = Disturbance(EVERYTHING)
    disturbed = [*disturbance.feed(sequence), *disturbance.flush()]
    counts = disturbance.take_counts()
    transactions = sum(isinstance(update, TransactionUpdate) for update in sequence)
    statuses = sum(isinstance(update, SlotUpdate) for update in sequence)
    assert counts["duplicate"] == pytest.approx(0.2 * transactions, rel=0.3)
    assert counts["malformed"] == pytest.approx(0.1 * transactions, rel=0.3)
    assert counts["missing_status"] == pytest.approx(0.2 * statuses, rel=0.4)
    assert len(disturbed) == len(sequence) + counts["duplicate"] + counts["malformed"]
    seen = Counter(update for update in disturbed if isinstance(update, TransactionUpdate))
    assert sum(count - 1 for count in seen.values()) == counts["duplicate"]
    assert not disturbance.take_counts()


def test_the_order_is_shuffled_across_slots_but_bounded(sequence: list[Update]) -> None:
    disturbed = _disturbed(sequence, Faults(reorder_window=120))
    slots = [update.slot for update in disturbed if isinstance(update, TransactionUpdate)]
    assert slots != sorted(slots)
    started = {update.slot for update in sequence}
    newest = 0
    for update in disturbed:
        newest = max(newest, update.slot)
        if isinstance(update, TransactionUpdate | BlockUpdate):
            between = sum(update.slot < slot <= newest for slot in started)
            assert between <= 1
    indexes = [
        update.transaction.index
        for update in disturbed
        if isinstance(update, TransactionUpdate) and update.slot == slots[len(slots) // 2]
    ]
    assert indexes != sorted(indexes)


def test_a_block_comes_after_all_of_its_transactions(sequence: list[Update]) -> None:
    complete: set[int] = set()
    for update in _disturbed(sequence, EVERYTHING):
        if isinstance(update, BlockUpdate):
            complete.add(update.slot)
        elif isinstance(update, TransactionUpdate):
            assert update.slot not in complete


def test_mangled_copies_are_nobodys_transactions(sequence: list[Update]) -> None:
    faults = Faults(malformed=1.0)
    unreadable = keyless = 0
    originals = {u.transaction.signature for u in sequence if isinstance(u, TransactionUpdate)}
    for update in _disturbed(sequence, faults):
        if not isinstance(update, TransactionUpdate):
            continue
        try:
            message = SubscribeUpdate.FromString(updates.transaction_update(b"", update))
        except DecodeError:
            unreadable += 1
            continue
        info = message.transaction.transaction
        if not info.transaction.message.account_keys:
            keyless += 1
            assert info.signature not in originals
    transactions = sum(isinstance(update, TransactionUpdate) for update in sequence)
    assert unreadable + keyless == transactions
    assert min(unreadable, keyless) > transactions // 4


@pytest.mark.parametrize(
    ("knobs", "message"),
    [({"duplicates": 1.5}, "duplicates is a share"), ({"lag_every": -1}, "lag_every is not below")],
)
def test_impossible_knobs_are_refused(knobs: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults(**knobs)  # type: ignore[arg-type]


def test_the_sequence_is_worth_disturbing(market_events: list[SlotEvent]) -> None:
    parents = Counter(e.parent_slot for e in market_events if isinstance(e, SlotStarted))
    assert max(parents.values()) > 1, "the market made no fork"
