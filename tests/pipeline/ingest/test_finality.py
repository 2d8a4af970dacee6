"""Final and rolled back slots, against an oracle that knows the tree beforehand."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.finality import (
    AWAITED,
    NOT_KNOWN,
    NOT_SETTLED,
    ROLLED_BACK,
    Counts,
    Finality,
    Finalized,
    Gap,
    RolledBack,
    Unfinal,
)
from pipeline.ingest.ledger import Ledger, Settled, Status
from tests.support.exploring import examples


def of(slot: int, parent: int | None) -> Unfinal:
    return Unfinal(slot, parent, slot * 400, Counts(), frozenset({f"w{slot}"}))


def kinds(conclusions: list[Finalized | RolledBack | Gap]) -> list[tuple[str, int]]:
    return [
        (type(each).__name__, each.first if isinstance(each, Gap) else each.slot)
        for each in conclusions
    ]


def settled(*links: tuple[int, int | None], before: int | None = None) -> Finality:
    finality = Finality(600, before)
    for slot, parent in links:
        assert finality.settled(of(slot, parent)) == []
    return finality


def test_a_confirmed_slot_beside_a_final_one_was_rolled_back() -> None:
    finality = settled((10, 9), (11, 10), (12, 10))
    final, back, last = finality.final(12, 10, 12)
    assert (final, last) == (
        Finalized(10, 9, 4000, Counts()),
        Finalized(12, 10, 4800, Counts()),
    )
    assert back == RolledBack(11, 10, Counts(), frozenset({"w11"}))
    assert len(finality) == 0


def test_it_is_the_ledger_that_says_so() -> None:
    """As found in review: the number 12 made 11 final, whose trades stayed."""
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    decisions = []
    for slot, parent, status in (
        (10, 9, "CONFIRMED"),
        (11, 10, "CONFIRMED"),
        (12, 10, "FINALIZED"),
    ):
        ledger.block_meta(slot, parent, "", slot)
        decisions += ledger.status(slot, parent, Status[status])
    assert [each.slot for each in decisions if isinstance(each, Settled)] == [10, 11, 12]
    assert [each.slot for each in decisions if isinstance(each, Finalized)] == [10, 12]
    assert [each.slot for each in decisions if isinstance(each, RolledBack)] == [11]


def test_a_number_says_nothing_of_what_is_below_an_unknown_parent() -> None:
    finality = settled((10, 9), (11, 10), (15, None))
    assert kinds(finality.final(15, None, 15)) == [("Finalized", 15)]
    assert kinds(finality.final(10, 9, 15)) == [("Finalized", 10)]
    assert kinds(finality.final(11, 10, 15)) == [("Finalized", 11)]
    assert finality.final(11, 10, 15) == []


def test_slots_before_a_hole_are_a_gap_once_the_node_is_far_above() -> None:
    """Found by chaos: a slot that was rolled back while ingest was down was never named."""
    last = 12 + AWAITED + 1
    above = [(20, None), *((slot, slot - 1) for slot in range(21, last + 1))]
    finality = settled((9, 8), (10, 9), (11, 10), (12, 11), *above)
    assert kinds(finality.final(10, 9, last)) == [("Finalized", 9), ("Finalized", 10)]
    said = {slot: finality.final(slot, parent, last) for slot, parent in above}
    gaps = {
        slot: [each for each in conclusions if isinstance(each, Gap)]
        for slot, conclusions in said.items()
    }
    assert {slot: found for slot, found in gaps.items() if found} == {
        last - 1: [Gap(11, 11, NOT_KNOWN)],
        last: [Gap(12, 12, NOT_KNOWN)],
    }
    assert finality.final(12, 11, last) == []
    assert len(finality) == 0


def test_slots_of_a_gap_are_not_named_again_while_their_end_is_unknown() -> None:
    finality = settled((11, 10), (12, 11), (100, None))
    finality.gap(Gap(11, 40, "no RPC"))
    assert kinds(finality.final(100, None, 100)) == [("Finalized", 100)]


def test_a_final_slot_that_another_took_the_place_of_is_a_gap() -> None:
    finality = settled((10, 9), (11, 10), (13, 11))
    assert finality.final(12, 10, 13) == []  # a word that nothing descends from
    assert finality.settled(of(14, 12)) == []
    conclusions = [
        *(("Gap", 12), ("Finalized", 10), ("RolledBack", 11), ("RolledBack", 13)),
        ("Finalized", 14),
    ]
    assert kinds(finality.final(14, 12, 14)) == conclusions
    assert finality.final(12, 10, 14) == []  # once


def test_the_word_on_a_slot_may_come_after_that_on_its_descendant() -> None:
    finality = settled((10, 9), (11, 10), (13, 11), (14, 12))
    assert kinds(finality.final(14, 12, 14)) == [("RolledBack", 13), ("Finalized", 14)]
    assert kinds(finality.final(12, 10, 14)) == [("Gap", 12), ("Finalized", 10), ("RolledBack", 11)]


def test_one_wrong_word_rolls_nothing_back() -> None:
    slots = [slot for slot in range(50, 401) if slot != 390]  # which was skipped
    finality = settled(*zip(slots, [49, *slots], strict=False))
    assert finality.final(390, 50, 400) == []
    found = finality.final(400, 399, 400)
    assert {type(each) for each in found} == {Finalized}
    assert len(found) == 350


def test_another_block_of_a_settled_slot_says_nothing_of_its_siblings() -> None:
    finality = settled((10, 9), (11, 10), (12, 10))
    assert kinds(finality.final(12, 11, 12)) == [("Finalized", 12)]


def test_a_node_that_says_all_again_changes_nothing() -> None:
    finality = Finality(20)
    for slot in range(10, 500):
        finality.settled(of(slot, slot - 1))
        assert kinds(finality.final(slot, slot - 1, slot)) == [("Finalized", slot)]
    for slot in range(10, 500):
        assert finality.final(slot, slot - 1, 499) == []
    finality.settled(of(500, 499))
    assert kinds(finality.final(500, 499, 500)) == [("Finalized", 500)]


def test_no_parent_is_believed_that_is_not_below() -> None:
    for parent in (10, 11):
        finality = settled((10, parent), (11, 10))
        assert kinds(finality.final(11, 10, 11)) == [("Finalized", 10), ("Finalized", 11)]
    ledger = Ledger()
    ledger.connected(from_slot=0)
    decisions = []
    for slot in (0, 1, 2):  # a chain whose first slot is its own parent
        ledger.block_meta(slot, max(slot - 1, 0), "", slot)
        decisions += ledger.status(slot, None, Status.FINALIZED)
    assert [each.slot for each in decisions if isinstance(each, Settled)] == [1, 2]


def test_a_gap_that_was_said_is_not_said_again() -> None:
    finality = settled((10, 9))
    finality.gap(Gap(11, 12, "no RPC"))
    assert finality.settled(of(13, 12)) == []
    assert finality.final(12, 11, 13) == []
    assert kinds(finality.final(13, 12, 13)) == [("Finalized", 13)]


def test_what_an_earlier_process_settled_is_a_gap_where_it_was_rolled_back() -> None:
    finality = settled((12, 10), before=11)
    assert finality.final(12, 10, 12) == [
        Gap(11, 11, ROLLED_BACK),
        Finalized(12, 10, 4800, Counts()),
    ]
    assert kinds(settled((12, 11), before=11).final(12, 11, 12)) == [("Finalized", 12)]


def test_final_before_it_is_settled() -> None:
    finality = settled((10, 9), (11, 10))
    assert finality.final(12, 10, 11) == []
    assert kinds(finality.settled(of(12, 10))) == [
        ("Finalized", 10),
        ("RolledBack", 11),
        ("Finalized", 12),
    ]


@examples(500)
@given(seed=st.integers(0, 2**32), slots=st.integers(1, 60), early=st.booleans())
def test_against_a_tree(seed: int, slots: int, early: bool) -> None:
    """Some settled slots leave the chain, some of it is settled never; statuses come in any order
    of a node that names each final slot, before or after it is settled.
    """
    random = Random(seed)
    parents: dict[int, int] = {}
    chain, head, fork = [9], 9, 9
    for slot in range(10, 10 + slots):
        dice = random.random()
        if dice < 0.1:
            continue
        if dice < 0.35:
            parents[slot], fork = random.choice([head, fork]), slot
        else:
            parents[slot], head = head, slot
            chain.append(slot)
    has = {slot for slot in parents if slot not in chain or random.random() < 0.9}
    finality = Finality(600)
    conclusions: list[Finalized | RolledBack | Gap] = []
    last = None
    waiting: list[int] = []
    for slot in sorted(parents):
        if slot in chain and early:
            conclusions += finality.final(slot, parents[slot], last)
        if slot in has:
            conclusions += finality.settled(of(slot, parents[slot]))
            last = slot
        if slot in chain and not early:
            waiting.append(slot)
        while waiting and random.random() < 0.6:
            each = waiting.pop(0)
            conclusions += finality.final(each, parents[each], last)
    for each in waiting:
        conclusions += finality.final(each, parents[each], last)
    final = [each.slot for each in conclusions if isinstance(each, Finalized)]
    back = [each.slot for each in conclusions if isinstance(each, RolledBack)]
    gaps = [each.first for each in conclusions if isinstance(each, Gap)]
    assert final == [slot for slot in chain if slot in has], "all of the chain, each once"
    assert len(back) == len(set(back))
    assert set(back) <= has - set(chain)
    first = min(has, default=0)
    for slot in has - set(chain):
        below = max((each for each in chain if each < slot), default=9)
        above = [each for each in chain if each > slot and each in has]
        if above and below >= first:
            assert slot in back, "what is between two final slots was rolled back"
    assert len(gaps) == len(set(gaps))
    last_had = max((slot for slot in chain if slot in has), default=0)
    lacking = [slot for slot in chain[1:] if slot not in has and first < slot < last_had]
    assert set(gaps) == set(lacking)
    assert {each.reason for each in conclusions if isinstance(each, Gap)} <= {NOT_SETTLED}


def test_a_restart_still_names_what_was_settled_before_it_and_rolled_back() -> None:
    """The slot left the chain before the last one that the earlier process settled."""
    earlier = [
        Unfinal(slot, parent, slot * 400, Counts(), frozenset({f"w{slot}"}))
        for slot, parent in ((9, 8), (10, 9), (11, 10), (12, 10))
    ]
    finality = Finality(100, 12, earlier)
    assert finality.settled(Unfinal(13, 12, 13 * 400, Counts(), frozenset())) == []
    conclusions = finality.final(13, 12, 13)
    assert kinds(conclusions) == [
        ("Finalized", 9),
        ("Finalized", 10),
        ("RolledBack", 11),
        ("Finalized", 12),
        ("Finalized", 13),
    ]
    assert [each.wallets for each in conclusions if isinstance(each, RolledBack)] == [{"w11"}]


def test_a_gap_of_an_earlier_process_is_not_named_again() -> None:
    earlier = [Unfinal(10, 9, 0, Counts(), frozenset()), Unfinal(12, 11, 0, Counts(), frozenset())]
    finality = Finality(100, 12, earlier, [Gap(11, 11, "lost")])
    conclusions = [*finality.final(11, 10, 12), *finality.final(12, 11, 12)]
    assert kinds(conclusions) == [("Finalized", 10), ("Finalized", 12)]
