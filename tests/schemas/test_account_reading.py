"""What a reader makes of the answers of all partitions, and of stored accounts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import redis_keys
from schemas.account_reading import (
    Coverage,
    PartitionState,
    as_of_slot,
    coverage,
    covered_since,
    living,
    partition_state,
    program_coverage,
    program_questions,
    questions,
)
from schemas.accounts import StoredAccount, compress, pack
from schemas.protocols.contract import Kind
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_PROGRAM, text
from tests.support.exploring import examples

ALICE, BOB = bytes([2] * 32), bytes([3] * 32)
NOT_COVERED = (None, None, None)


NEVER = (None, None, None)  # lost slots, a hole, the revision of programs


def answers(slot=b"100", floor=NEVER, found=(), away=0, covered=NOT_COVERED):
    return [[slot, b"4000"], floor, set(found), [away], covered]


def state(slot=100, found=(), **covered):
    names = {"alice": ALICE, "stake": STAKE_PROGRAM}
    coverage = {names[name]: Coverage(since) for name, since in covered.items()}
    return PartitionState(slot, coverage, frozenset(found), may_be_away=False)


def token(owner, slot=10, closed=False):
    data = b"" if closed else bytes([9] * 32) + owner + bytes(101)
    return pack(StoredAccount(slot, 1, TOKEN_PROGRAM, len(data), compress(data), closed))


def stake(withdrawer, slot=10):
    data = bytes(12) + BOB + withdrawer + bytes(124)
    return pack(StoredAccount(slot, 1, STAKE_PROGRAM, len(data), compress(data)))


def test_the_questions_are_all_of_one_partition():
    asked = questions("{a5}", ALICE)
    assert all("{a5}" in command[1] for command in asked)
    assert ("SMEMBERS", f"own:{{a5}}:{text(ALICE)}") in asked
    assert len(redis_keys.account_tags()) == 8
    said = answers(b"100", NEVER, [b"x" * 32], 1, [b"7", b"50", None])
    assert len(said) == len(asked)
    found = partition_state(ALICE, said, {STAKE_PROGRAM: Coverage(None)})
    assert found == PartitionState(
        100,
        {ALICE: Coverage(7), STAKE_PROGRAM: Coverage(None)},
        frozenset([b"x" * 32]),
        may_be_away=True,
        time_ms=4_000,
    )


@pytest.mark.parametrize(
    ("floor", "covered", "expected"),
    [
        (NEVER, [b"7", b"50", None], Coverage(7)),
        ((b"50", None, b"x"), [b"7", b"50", None], Coverage(7)),
        ((b"51", None, None), [b"7", b"50", None], Coverage(None, "slots before 51 were lost")),
        (
            (b"50", b"90", None),
            [b"7", b"50", None],
            Coverage(None, "what changed since slot 90 is being asked for"),
        ),
        (NEVER, [None, None, b"the block is gone"], Coverage(None, "the block is gone")),
        (NEVER, NOT_COVERED, Coverage(None)),
    ],
)
def test_coverage_counts_from_the_first_slot_after_a_loss(floor, covered, expected):
    found = partition_state(ALICE, answers(b"100", floor, (), 0, covered))
    assert found.coverage[ALICE] == expected


RECORDS = st.tuples(
    st.sampled_from([None, b"7", b"8"]),
    st.sampled_from([None, b"50", b"60"]),
    st.sampled_from([None, b"why"]),
)
FLOORS = st.tuples(
    st.sampled_from([None, b"50", b"55"]), st.sampled_from([None, b"90"]), st.just(b"revision")
)


@examples(300)
@given(FLOORS, st.lists(RECORDS, min_size=3, max_size=3))
def test_what_is_covered_follows_from_each_answer_alone(floor, records):
    programs = [BOB, STAKE_PROGRAM, TOKEN_PROGRAM]
    assert len(program_questions("{a5}", tuple(programs))) == len(records)
    found = program_coverage(programs, list(floor), [*map(list, records)])
    for address, record in zip(programs, records, strict=True):
        assert found[address] == coverage(record, floor)


def test_all_partitions_have_to_be_covered_and_the_last_of_them_says_since_when():
    states = [state(alice=7), state(alice=9), state(alice=8)]
    assert covered_since(states, ALICE) == Coverage(9)
    assert covered_since([*states, state()], ALICE) == Coverage(None)
    lacking = PartitionState(1, {ALICE: Coverage(None, "why")}, frozenset(), may_be_away=False)
    assert covered_since([*states, lacking], ALICE) == Coverage(None, "why")


def test_an_answer_is_as_of_the_partition_that_is_furthest_behind():
    assert as_of_slot([state(103), state(100), state(101)]) == 100
    assert as_of_slot([state(103), state(None)]) is None


def test_alive_is_what_names_the_wallet_is_not_closed_and_not_below_its_coverage():
    stored = {
        b"a" * 32: token(ALICE),
        b"b" * 32: token(BOB),
        b"c" * 32: token(ALICE, closed=True),
        b"d" * 32: token(ALICE, slot=8),
        b"e" * 32: stake(ALICE, slot=8),
        b"f" * 32: stake(ALICE, slot=5),
        b"g" * 32: None,
    }
    found = living(ALICE, state(alice=9, stake=6), stored)
    assert {*found.accounts} == {b"a" * 32, b"e" * 32}
    assert [kind.name for kind, _, _ in found.accounts.values()] == ["token", "stake"]
    assert found.unreadable == {}


def test_without_coverage_everything_that_is_known_is_shown():
    found = living(ALICE, state(), {b"a" * 32: token(ALICE, slot=1)})
    assert [*found.accounts] == [b"a" * 32]


def test_what_cannot_be_read_is_named_and_the_rest_is_shown():
    stored = {b"a" * 32: b"spoiled", b"b" * 32: token(ALICE)[:-3], b"c" * 32: token(ALICE)}
    found = living(ALICE, state(), stored)
    assert {*found.unreadable} == {b"a" * 32, b"b" * 32}
    assert "7 bytes" in found.unreadable[b"a" * 32]
    assert [*found.accounts] == [b"c" * 32]


OFFSETS = st.lists(st.integers(0, 80), max_size=3).map(tuple)


@given(OFFSETS, OFFSETS, OFFSETS, st.lists(st.sampled_from([ALICE, BOB, bytes(32)]), max_size=4))
@examples(200)
def test_a_kind_names_what_finds_its_accounts(wallets, mints, more, parts):
    data = b"".join(parts)
    kind = Kind("thing", STAKE_PROGRAM, wallets=wallets, mints=mints, mints_at=lambda _: more)
    for address in (ALICE, BOB, bytes(32), b"\2" * 31):
        assert kind.names(data, address) == (address in kind.found_by(data))
        represents = address in kind.represented_by(data)
        assert kind.is_represented_by(data, address) == represents
