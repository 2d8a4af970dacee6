"""PYTH in stake accounts: what is bound, what is free, and until when."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import pyth
from schemas.protocols.contract import Account, Held, Lock, Position, Unreadable, World
from schemas.protocols.pyth import EPOCH_S, PYTH, Staked, Vesting, unvested
from schemas.protocols.token import TOKEN
from schemas.solana.derived import derived
from tests.support.exploring import examples

WALLET, AT, PUBLISHER = (bytes([n]) * 32 for n in range(1, 4))
EPOCH = 2_900
WORLD = World(100, EPOCH * EPOCH_S + 5, 900)
CUSTODY = derived(pyth.PROGRAM, b"custody", AT)
METADATA = derived(pyth.PROGRAM, b"stake_metadata", AT)


def slot(amount: int, activation: int, unlocking: int | None, publisher: bytes | None) -> bytes:
    data = struct.pack("<BQQ", 1, amount, activation)
    data += b"\0" if unlocking is None else struct.pack("<BQ", 1, unlocking)
    data += b"\0" if publisher is None else b"\1" + publisher
    return data.ljust(200, b"\0")


def stake(*slots: bytes, owner: bytes = WALLET) -> Account:
    return Account(AT, pyth.POSITIONS, 1, pyth.POSITIONS.tag + owner + b"".join(slots), 90)


def custody(amount: int, mint: bytes = PYTH) -> Account:
    data = mint + bytes(32) + struct.pack("<Q", amount) + bytes(36) + b"\1" + bytes(56)
    return Account(CUSTODY, TOKEN, 1, data, 70)


def metadata(lock: bytes = b"\0") -> Account:
    data = pyth.METADATA.tag + bytes(4) + WALLET + lock + bytes(3)
    return Account(METADATA, pyth.METADATA, 1, data, 80)


def config(listed_s: int | None) -> Account:
    option = b"\0" if listed_s is None else struct.pack("<Bq", 1, listed_s)
    data = pyth.CONFIG.tag + bytes(171) + option + bytes(80)
    return Account(pyth.CONFIG_ADDRESS, pyth.CONFIG, 1, data, 60)


def read(mine: Account, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = pyth.read(Held(WALLET, [mine]), WORLD)
    try:
        wanted = next(reading)
        reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than one round")


def lines(position: Position) -> Mapping[str, int | None]:
    assert {each.mint for each in position.assets} <= {PYTH}
    return {each.role.value: each.amount_raw for each in position.assets}


def test_tokens_that_back_votes_and_publishers_are_bound_once() -> None:
    slots = (slot(70, 1, None, None), slot(40, 1, None, PUBLISHER), slot(20, 1, None, PUBLISHER))
    [found] = read(stake(*slots), custody(100), metadata())
    assert lines(found) == {"supply": 30, "locked": 70}
    assert found.reference_slot == 70
    assert not found.missing


def test_tokens_that_have_not_vested_back_votes_but_no_publisher() -> None:
    lock = struct.pack("<BQqQQ", 1, 40, 0, EPOCH_S, 2 * EPOCH)
    slots = (slot(50, 1, None, None), slot(60, 1, None, PUBLISHER))
    [found] = read(stake(*slots), custody(100), metadata(lock))
    assert lines(found) == {"supply": 20, "locked": 80}
    [vesting] = [each for each in found.locks if each.kind == "vesting"]
    assert vesting.locked_raw == 20
    assert vesting.ends_ms == 2 * EPOCH * EPOCH_S * 1000


@pytest.mark.parametrize(
    ("activation", "unlocking", "locked", "ends"),
    [
        (EPOCH + 1, None, 9, None),
        (EPOCH, None, 9, None),
        (EPOCH, EPOCH + 1, 9, EPOCH + 2),
        (EPOCH - 1, EPOCH, 9, EPOCH + 1),
        (EPOCH - 2, EPOCH - 1, 0, EPOCH),
        (EPOCH + 3, EPOCH, 9, EPOCH + 3),
    ],
)
def test_a_position_is_locked_for_an_epoch_after_its_unlocking_began(
    activation: int, unlocking: int | None, locked: int, ends: int | None
) -> None:
    [found] = read(stake(slot(9, activation, unlocking, None)), custody(9), metadata())
    [lock] = found.locks
    assert lock.locked_raw == locked
    assert lock.claimable_raw == (None if unlocking is None else 9 - locked)
    assert lock.ends_ms == (None if ends is None else ends * EPOCH_S * 1000)


def test_a_position_that_is_unlocked_binds_no_tokens() -> None:
    """The program keeps its slot until it next merges positions (`PositionState::UNLOCKED`)."""
    over, running = slot(70, 1, EPOCH - 1, None), slot(70, 1, EPOCH, None)
    published = slot(50, 1, EPOCH - 9, PUBLISHER)
    [found] = read(stake(over, published, slot(40, 1, None, None)), custody(100), metadata())
    assert lines(found) == {"supply": 60, "locked": 40}
    [found] = read(stake(over, published), custody(100), metadata())
    assert lines(found) == {"supply": 100}
    [found] = read(stake(running, published), custody(100), metadata())
    assert lines(found) == {"supply": 30, "locked": 70}


def test_a_vesting_schedule_after_listing_waits_for_the_listing() -> None:
    lock = struct.pack("<BQQQ", 2, 40, EPOCH_S, 4)
    [waiting] = read(stake(), custody(100), metadata(lock), config(None))
    assert lines(waiting) == {"supply": 60, "locked": 40}
    listed = config((EPOCH - 3) * EPOCH_S)
    [vesting] = read(stake(), custody(100), metadata(lock), listed)
    assert lines(vesting) == {"supply": 90, "locked": 10}
    assert vesting.reference_slot == 60
    [unknown] = read(stake(), custody(100), metadata(lock))
    assert unknown.missing == [pyth.CONFIG_ADDRESS]
    assert unknown.unsupported_fields


@pytest.mark.parametrize(
    ("start_s", "ends_ms"),
    [
        (-4 * EPOCH_S - 1, 0),
        (-4 * EPOCH_S, 0),
        (-4 * EPOCH_S + 1, 1_000),
        (2**62, 2**53 - 1),
    ],
)
def test_a_schedule_ends_within_the_times_that_json_has(start_s: int, ends_ms: int) -> None:
    lock = struct.pack("<BQqQQ", 1, 40, start_s, EPOCH_S, 4)
    [found] = read(stake(), custody(100), metadata(lock))
    assert [each.ends_ms for each in found.locks] == [ends_ms]


def test_without_its_custody_only_what_is_bound_is_known() -> None:
    [found] = read(stake(slot(7, 1, None, None)), metadata())
    assert lines(found) == {"supply": None, "locked": 7}
    assert found.missing == [CUSTODY]


def test_an_empty_stake_account_is_no_position() -> None:
    assert read(stake(bytes(200)), custody(0), metadata()) == []


def schedule(*, period_s: int, periods: int, start_s: int = 0) -> bytes:
    return struct.pack("<BQqQQ", 1, 40, start_s, period_s, periods)


@pytest.mark.parametrize("lock", [schedule(period_s=0, periods=0), b"\3", b"\1"])
def test_an_account_that_a_stranger_opened_for_the_wallet_is_no_position(lock: bytes) -> None:
    """`create_stake_account` takes any owner and schedule; a position needs the owner to sign."""
    assert read(stake(), custody(0), metadata(lock)) == []
    assert read(stake(bytes(200 * 300)), custody(0), metadata(lock)) == []


def test_a_strangers_schedule_locks_no_more_than_the_tokens_that_are_there() -> None:
    """One unit of PYTH in its custody makes an account that a stranger opened a position."""
    lock = struct.pack("<BQqQQ", 1, 2**64 - 1, WORLD.time_s + 1, 9, 9)
    [found] = read(stake(), custody(1), metadata(lock))
    assert lines(found) == {"locked": 1}
    assert [each.locked_raw for each in found.locks] == [1]


def test_a_schedule_without_periods_is_over_when_it_starts() -> None:
    [over] = read(stake(), custody(100), metadata(schedule(period_s=9, periods=0)))
    assert lines(over) == {"supply": 100}
    assert over.unsupported_fields == []
    later = schedule(period_s=9, periods=0, start_s=WORLD.time_s + 1)
    [waiting] = read(stake(), custody(100), metadata(later))
    assert lines(waiting) == {"supply": 60, "locked": 40}


def test_a_schedule_whose_periods_have_no_length_locks_all_and_leaves_no_sum_unknown() -> None:
    """The program divides by the length: `withdraw_stake` fails from the start of the schedule."""
    endless = metadata(schedule(period_s=0, periods=4))
    [found] = read(stake(), custody(1), endless)
    assert lines(found) == {"locked": 1}
    assert found.locks == [Lock("vesting")]
    assert found.unsupported_fields
    [staked] = read(stake(slot(7, 1, None, None)), custody(100), endless)
    assert lines(staked) == {"locked": 100}
    listed = struct.pack("<BQQQ", 2, 40, 0, 4)
    [waiting] = read(stake(), custody(100), metadata(listed), config(None))
    assert lines(waiting) == {"supply": 60, "locked": 40}


def test_an_account_of_another_wallet_is_left_out() -> None:
    assert read(stake(slot(7, 1, None, None), owner=PUBLISHER), custody(7), metadata()) == []


@pytest.mark.parametrize(
    "chain",
    [
        (custody(1, mint=PUBLISHER), metadata()),
        (metadata()._replace(address=CUSTODY), metadata()),
        (custody(1), custody(1)._replace(address=METADATA)),
        (custody(1), metadata(b"\3")),
        (custody(1), metadata(b"\1")),
    ],
)
def test_references_that_are_not_what_they_should_be_are_unreadable(
    chain: tuple[Account, ...],
) -> None:
    with pytest.raises(Unreadable) as error:
        read(stake(slot(7, 1, None, None)), *chain)
    assert error.value.account == AT


def test_a_position_with_a_tag_that_does_not_exist_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="tag 2 at 40"):
        read(stake(b"\2".ljust(200, b"\0")), custody(1), metadata())


def test_room_for_more_positions_than_an_index_has_is_only_room() -> None:
    last = bytes(200 * 255), slot(7, 1, None, None)
    [found] = read(stake(*last, bytes(200 * 50_000)), custody(9), metadata())
    assert lines(found) == {"supply": 2, "locked": 7}


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**40),
    st.integers(1, 2**32),
    st.integers(1, 2**16),
    st.integers(0, 2**41),
)
@examples(200)
def test_what_has_not_vested_only_falls(
    initial: int, start: int, period: int, periods: int, now: int
) -> None:
    vesting = Vesting(initial, start, period, periods)
    left, later = (unvested(vesting, None, at) for at in (now, now + period))
    assert left is not None
    assert later is not None
    assert 0 <= later <= left <= initial
    assert left == initial or now >= start
    assert unvested(vesting, None, start + period * periods) == 0


@given(st.binary(max_size=700))
@examples(200)
def test_random_bytes_are_read_or_unreadable(data: bytes) -> None:
    account = Account(AT, pyth.POSITIONS, 1, pyth.POSITIONS.tag + WALLET + data, 90)
    with suppress(Unreadable):
        staked = [*pyth.slots(account)]
        assert all(isinstance(each, Staked) for each in staked)
        assert len(staked) <= len(data) // 200
