"""Meteora's positions, on worlds built by hand and on hostile bytes."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import meteora_damm_v2 as damm_v2
from schemas.protocols import meteora_dlmm as dlmm
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    Lock,
    Position,
    Reading,
    Role,
    Unreadable,
    World,
)
from schemas.protocols.decimals import decimals_of, whole_ratio
from schemas.protocols.math import bins, damm
from schemas.protocols.mint import MINT
from schemas.protocols.registry import kind_of
from tests.support.exploring import examples

WALLET, OTHER, AT, PAIR, X, Y, R = (bytes([n]) * 32 for n in range(1, 8))
WORLD = World(slot=1000, time_s=2000, epoch=3)
U128_MAX = (1 << 128) - 1
HOSTILE = st.one_of(st.binary(max_size=64), st.sampled_from((b"\0", b"\xff", b"\x80\x7f")))


def put(size: int, tag: bytes, *fields: tuple[int, bytes]) -> bytearray:
    data = bytearray(size)
    data[: len(tag)] = tag
    for at, value in fields:
        data[at : at + len(value)] = value
    return data


def wide(value: int, size: int = 16) -> bytes:
    return value.to_bytes(size, "little")


def account(address: bytes, kind: Kind, data: bytes, slot: int = 50) -> Account:
    return Account(address, kind, 1, bytes(data), slot)


def mint(address: bytes, decimals: int) -> Account:
    return account(address, MINT, bytes(44) + bytes((decimals, 1)) + bytes(36))


def driven(reading: Reading, known: dict[bytes, Account], rounds: int = 8) -> list[Position]:
    try:
        wanted = next(reading)
        for _ in range(rounds):
            wanted = reading.send({each: known[each] for each in wanted if each in known})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("the reading asks without an end")


def read_or_named(reading: Callable[[], list[Position]]) -> list[Position]:
    """Return what is read; nothing where the account that cannot be read is named."""
    try:
        return reading()
    except Unreadable as error:
        if error.account != AT:
            raise
        return []


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


# --- DLMM: bins 69 and 70, so that two arrays are read ---

LOWER, UPPER = 69, 70
SHARE = 5 << 64


def bin_position(*more: tuple[int, bytes], size: int = 8120) -> bytearray:
    return put(
        size,
        dlmm.POSITION.tag,
        (8, PAIR),
        (40, WALLET),
        (72, wide(SHARE) + wide(SHARE)),
        (1192 + 32, struct.pack("<Q", 9)),
        (4552, wide(1 << 64) + wide(0) + struct.pack("<QQ", 3, 4)),
        (7912, struct.pack("<ii", LOWER, UPPER)),
        *more,
    )


def bin_pair(*more: tuple[int, bytes]) -> bytearray:
    reward = R + bytes(64) + struct.pack("<QQ", 0, 1900) + wide(30 << 64) + struct.pack("<Q", 1890)
    return put(
        904,
        dlmm.PAIR.tag,
        (35, b"\x01"),
        (76, struct.pack("<iH", UPPER, 25)),
        (86, b"\x01"),
        (88, X + Y),
        (264, reward),
        *more,
    )


def bin_array(index: int, place: int) -> bytearray:
    one = struct.pack("<QQ", 101, 41) + wide(0) + wide(10 << 64) + wide(2 << 64) + wide(0)
    one += wide(3 << 64) + wide(1 << 63)
    return put(10136, dlmm.BIN_ARRAY.tag, (8, struct.pack("<q", index)), (56 + 144 * place, one))


def in_bins(
    position: bytes, wallet: bytes = WALLET, pair: bytes | None = None, without: int | None = None
) -> list[Position]:
    known = {
        PAIR: account(PAIR, dlmm.PAIR, bin_pair() if pair is None else pair),
        X: mint(X, 6),
        Y: mint(Y, 9),
    }
    for index, place in ((0, 69), (1, 0)):
        address = dlmm.array_address(PAIR, index)
        if index != without:
            known[address] = account(address, dlmm.BIN_ARRAY, bin_array(index, place), 40 + index)
    held = Held(wallet, [account(AT, dlmm.POSITION, position)])
    return driven(dlmm.read(held, WORLD), known)


def test_a_position_over_two_arrays_has_its_part_of_each_bin() -> None:
    [position] = in_bins(bin_position())
    assert lines(position) == [
        (Role.SUPPLY, X, 50 + 50),
        (Role.SUPPLY, Y, 20 + 20),
        (Role.REWARD, X, 3 + 5 * 2 + 5 * 3),
        (Role.REWARD, Y, 4 + 2 + 2),
        # 10 s at 30 a second, by 15 and by 10 shares: 2 more a share, in the active bin only
        (Role.REWARD, R, 9 + 5 * 2 + 5 * (2 + 2)),
    ]
    assert [each.decimals for each in position.assets] == [6, 9, 6, 9, None]
    assert (position.market, position.reference_slot, position.locks) == (PAIR, 40, [])
    found = position.range
    assert found is not None
    assert (found.lower_index, found.upper_index, found.current_index) == (69, 70, 70)
    assert found.is_in_range is True
    assert found.lower is not None
    assert abs(found.lower / (Fraction(10025, 10000) ** 69 / 1000) - 1) < Fraction(1, 10**15)


@pytest.mark.parametrize(
    ("by_time", "point", "lock"),
    [
        (b"\x01", 2001, Lock("term", 2 * SHARE, 0, ends_ms=2_001_000)),
        (b"\x01", 2000, None),
        (b"\x00", 1001, Lock("term", 2 * SHARE, 0, ends_slot=1001)),
        (b"\x00", 1000, None),
        (b"\x01", 2**64 - 1, Lock("term", 2 * SHARE, 0, ends_ms=2**53 - 1)),
    ],
)
def test_liquidity_is_locked_until_a_slot_or_a_time(
    by_time: bytes, point: int, lock: Lock | None
) -> None:
    data = bin_position((7992, struct.pack("<Q", point)))
    [position] = in_bins(data, pair=bin_pair((86, by_time)))
    assert position.locks == ([lock] if lock else [])
    assert lines(position)[0] == (Role.LOCKED if lock else Role.SUPPLY, X, 100)
    assert lines(position)[2][0] is Role.REWARD


def test_fees_are_the_fee_owners_and_nothing_else_is() -> None:
    data = bin_position((8001, OTHER), (7960, R))
    [owned] = in_bins(data)
    [claimed] = in_bins(data, wallet=OTHER)
    whole = lines(in_bins(bin_position())[0])
    assert sorted(lines(owned) + lines(claimed)) == sorted(whole)
    assert lines(claimed) == whole[2:4]
    assert in_bins(data, wallet=R) == [], "an operator owns nothing"


def test_what_is_beyond_seventy_bins_follows_the_base() -> None:
    size = 8120 + 112
    data = bin_position(
        (7912, struct.pack("<ii", 0, 70)),
        (72, bytes(32)),
        (8120, wide(SHARE) + bytes(32) + struct.pack("<QQ", 1, 0)),
        (8120 + 64, wide(3 << 64) + bytes(16) + struct.pack("<QQ", 7, 0)),
        size=size,
    )
    [position] = in_bins(data, without=0)
    assert position.missing == [], "an array without shares is not asked for"
    assert lines(position) == [
        (Role.SUPPLY, X, 50),
        (Role.SUPPLY, Y, 20),
        (Role.REWARD, X, 3 + 7),
        (Role.REWARD, Y, 4 + 2),
        (Role.REWARD, R, 9 + 1 + 5 * 4),
    ]
    with pytest.raises(Unreadable, match="71 bins in 8231 bytes"):
        in_bins(data[:-1])


def bin_by_bin(
    position: bytes, arrays: dict[int, bytes], rewards: list[tuple[int, int]]
) -> list[int]:
    """Return X, Y, fees and rewards of a position field by field; `rewards` has rate and seconds.

    Raises Unreadable for the first counter of the first bin that fell.
    """

    def word(data: bytes, at: int, size: int = 8) -> int:
        return int.from_bytes(data[at : at + size], "little")

    lower, upper = struct.unpack_from("<ii", position, 7912)
    total = [0] * 6
    for number, bin_id in enumerate(range(lower, upper + 1)):
        more = 8120 + 112 * (number - 70)
        share_at = 72 + 16 * number if number < 70 else more
        rewards_at = 1192 + 48 * number if number < 70 else more + 16
        fees_at = 4552 + 48 * number if number < 70 else more + 64
        of_counters = [fees_at, fees_at + 16, rewards_at, rewards_at + 16][: 2 + len(rewards)]
        pending = [fees_at + 32, fees_at + 40, rewards_at + 32, rewards_at + 40]
        for counter in range(len(of_counters)):
            total[2 + counter] += word(position, pending[counter])
        share = word(position, share_at, 16)
        if not share:
            continue
        index, place = divmod(bin_id, 70)
        at = 56 + 144 * place
        supply = word(arrays[index], at + 32, 16)
        for leg in range(2):
            reserve_raw = word(arrays[index], at + 8 * leg)
            total[leg] += share * reserve_raw // supply if supply else 0
        for counter, seen_at in enumerate(of_counters):
            stored = word(arrays[index], at + (80, 96, 48, 64)[counter], 16)
            if counter > 1 and bin_id == UPPER and supply >> 64:
                rate_q64, seconds = rewards[counter - 2]
                stored += rate_q64 * seconds // 15 // (supply >> 64)
            grown = stored - word(position, seen_at, 16)
            if grown < 0:
                name = ("fee_x", "fee_y", "reward_0", "reward_1")[counter]
                raise Unreadable(f"bin {bin_id} has less {name} per share than was seen", AT)
            total[2 + counter] += (share >> 64) * grown >> 64
    return total


@given(
    st.randoms(use_true_random=True),
    st.integers(-300, UPPER + 5),
    st.integers(1, 300),
    st.integers(0, 2),
    st.sampled_from((0, 64, 130)),
)
@examples(60)
def test_bins_by_columns_are_what_they_are_one_by_one(
    random: Random, lower: int, width: int, rewards: int, seen_bits: int
) -> None:
    def some(bits: int) -> int:
        return random.getrandbits(min(random.choice((0, bits // 2, bits)), 128))

    data = bytearray(bin_position(size=8120 + 112 * max(width - 70, 0)))
    struct.pack_into("<ii", data, 7912, lower, lower + width - 1)
    for number in range(width):
        parts = wide(some(70))
        counters = [
            b"".join(
                (wide(some(seen_bits)), wide(some(seen_bits)), wide(some(64), 8), wide(some(64), 8))
            )
            for _ in range(2)
        ]
        if number < 70:
            places = (72 + 16 * number, 1192 + 48 * number, 4552 + 48 * number)
        else:
            more = 8120 + 112 * (number - 70)
            places = (more, more + 16, more + 64)
        for at, part in zip(places, (parts, *counters), strict=True):
            data[at : at + len(part)] = part
    arrays = {
        index: bytes(put(10136, dlmm.BIN_ARRAY.tag)[:56] + random.randbytes(10080))
        for index in range(lower // 70, (lower + width - 1) // 70 + 1)
    }
    rates = [(some(100), 10 * (1 + number)) for number in range(rewards)]
    kept = [
        (
            at,
            bytes([7 + number]) * 32
            + bytes(72)
            + struct.pack("<Q", 1900)
            + wide(rate)
            + struct.pack("<Q", 1900 - seconds),
        )
        for number, (at, (rate, seconds)) in enumerate(zip((264, 408), rates, strict=False))
    ]
    pair = bin_pair((264, bytes(144)), *kept)
    known = {PAIR: account(PAIR, dlmm.PAIR, pair), X: mint(X, 6), Y: mint(Y, 9)}
    for index, array in arrays.items():
        address = dlmm.array_address(PAIR, index)
        known[address] = account(address, dlmm.BIN_ARRAY, array)
    held = Held(WALLET, [account(AT, dlmm.POSITION, data)])
    try:
        expected = bin_by_bin(bytes(data), arrays, rates)
    except Unreadable as fell:
        with pytest.raises(Unreadable, match=f"^{fell}$") as failure:
            driven(dlmm.read(held, WORLD), known)
        assert failure.value.account == AT
        return
    [position] = driven(dlmm.read(held, WORLD), known)
    legs = [X, Y, X, Y, *(bytes([7 + number]) * 32 for number in range(rewards))]
    assert [(each.mint, each.amount_raw) for each in position.assets] == [
        (leg, raw) for leg, raw in zip(legs, expected, strict=False) if raw
    ]


def test_without_an_array_or_the_pair_amounts_are_not_known() -> None:
    [position] = in_bins(bin_position(), without=1)
    assert position.missing == [dlmm.array_address(PAIR, 1)]
    assert {each.amount_raw for each in position.assets} == {None}
    assert position.unsupported_fields
    assert position.range is not None
    held = Held(WALLET, [account(AT, dlmm.POSITION, bin_position())])
    [position] = driven(dlmm.read(held, WORLD), {})
    assert PAIR in position.missing
    assert (position.assets, position.range) == ([], None)


def test_bins_with_limit_orders_pay_no_rewards() -> None:
    [position] = in_bins(bin_position(), pair=bin_pair((35, b"\x02")))
    assert R not in {each.mint for each in position.assets}


def test_a_position_of_the_first_version_is_named_without_amounts() -> None:
    one_share = (72 + 8 * 69, struct.pack("<Q", 1))
    data = put(7560, dlmm.POSITION_V1.tag, (8, PAIR), (40, WALLET), one_share)
    of_first = account(AT, dlmm.POSITION_V1, data)
    known = {PAIR: account(PAIR, dlmm.PAIR, bin_pair(), slot=7)}
    [position] = driven(dlmm.read(Held(WALLET, [of_first]), WORLD), known)
    assert lines(position) == [
        (role, each, None) for role in (Role.SUPPLY, Role.REWARD) for each in (X, Y)
    ]
    assert (position.market, position.reference_slot, position.missing) == (PAIR, 7, [])
    assert position.unsupported_fields
    [position] = driven(dlmm.read(Held(WALLET, [of_first]), WORLD), {})
    assert (position.assets, position.missing) == ([], [PAIR])
    assert driven(dlmm.read(Held(OTHER, [of_first]), WORLD), {}) == []


def test_an_emptied_position_of_the_first_version_has_what_is_pending_and_no_more() -> None:
    """It may stay open for ever: an unknown amount would make the wallet's sums null as long."""
    empty = put(7560, dlmm.POSITION_V1.tag, (8, PAIR), (40, WALLET), (3992, wide(7) + wide(8)))
    known = {PAIR: account(PAIR, dlmm.PAIR, bin_pair(), slot=7)}
    held = Held(WALLET, [account(AT, dlmm.POSITION_V1, empty)])
    [position] = driven(dlmm.read(held, WORLD), known)
    assert (position.assets, position.missing) == ([], [])
    assert position.unsupported_fields == ["range"]
    for at, values in ((3992 + 32, (3, 4)), (3992 + 69 * 48 + 32, (10, 0)), (632 + 32, (5, 0))):
        struct.pack_into("<QQ", empty, at, *values)
    held = Held(WALLET, [account(AT, dlmm.POSITION_V1, empty)])
    [position] = driven(dlmm.read(held, WORLD), known)
    assert lines(position) == [(Role.REWARD, X, 13), (Role.REWARD, Y, 4), (Role.REWARD, R, 5)]


@pytest.mark.parametrize(
    ("position", "pair", "match"),
    [
        (bin_position((7912, struct.pack("<ii", 5, 4))), None, "upper_bin_id is 4"),
        (bin_position((7912, struct.pack("<ii", -(2**31), 2**31 - 1))), None, "upper_bin_id"),
        (bin_position()[:8119], None, "8119 bytes"),
        (bin_position((4552, wide(U128_MAX))), None, "less fee_x per share"),
        (bin_position((1192, wide(U128_MAX))), None, "less reward_0 per share"),
        (bin_position(), bin_pair((35, b"\x03")), "function_type is 3"),
        (bin_position(), bin_pair((86, b"\x02")), "activation_type 2"),
    ],
)
def test_what_is_no_position_is_named(
    position: bytearray, pair: bytearray | None, match: str
) -> None:
    with pytest.raises(Unreadable, match=match) as failure:
        in_bins(position, pair=pair)
    assert failure.value.account == AT


@given(st.integers(0, 8120), st.integers(0, 904), HOSTILE, HOSTILE)
@examples(300)
def test_hostile_bins_are_read_or_named(at: int, at_pair: int, first: bytes, second: bytes) -> None:
    position = bytes(bin_position((at, first)))[:8120]
    pair = bytes(bin_pair((at_pair, second)))[:904]
    found = read_or_named(lambda: in_bins(position, pair=pair))
    assert len(found) <= 1


@given(st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**16 - 1))
@examples(200)
def test_the_price_of_a_bin_is_the_power_of_its_step(bin_id: int, bin_step_bps: int) -> None:
    price = bins.price_of(bin_id, bin_step_bps)
    if price is None:
        assert abs(bin_id) >= 2**19 or bin_step_bps * abs(bin_id) > 10_000
    elif abs(bin_id) <= 500 and bin_step_bps <= 400:
        exact = (1 + Fraction(bin_step_bps, 10_000)) ** bin_id
        assert abs(price / exact - 1) < Fraction(1, 10**6)


# --- DAMM v2 ---

NFT = bytes([9]) * 32
ONE = 1 << 64


def share(*more: tuple[int, bytes]) -> bytearray:
    return put(
        408,
        damm_v2.POSITION.tag,
        (8, PAIR),
        (40, NFT),
        (104, wide((1 << 256) - (1 << 64), 32)),
        (136, struct.pack("<QQ", 3, 4)),
        (152, wide(600 << 64) + wide(300 << 64) + wide(100 << 64)),
        (248, struct.pack("<Q", 5)),
        *more,
    )


def pool(*more: tuple[int, bytes]) -> bytearray:
    reward = b"\1" + bytes(15) + R + bytes(64) + struct.pack("<QQ", 0, 1900) + wide(7 << 64)
    return put(
        1112,
        damm_v2.POOL.tag,
        (168, X + Y),
        (360, wide(2000 << 64)),
        (424, wide(ONE // 2) + wide(2 * ONE) + wide(ONE)),
        (480, b"\x01"),
        (488, wide(2 << 64, 32) + wide(1 << 64, 32)),
        (680, struct.pack("<QQ", 999, 77)),
        (728, reward + wide(0, 32) + struct.pack("<Q", 1890)),
        *more,
    )


def vesting(cliff: int, released: int) -> bytes:
    schedule = struct.pack("<QQ", cliff, 10) + wide(100 << 64) + wide(50 << 64)
    return schedule + wide(released << 64) + struct.pack("<H", 4)


def in_pool(
    data: bytes,
    of_pool: bytes | None = None,
    apart: tuple[bytes, ...] = (),
    tokens: dict[bytes, int] | None = None,
) -> list[Position]:
    known = {
        PAIR: account(PAIR, damm_v2.POOL, pool() if of_pool is None else of_pool, 41),
        X: mint(X, 6),
        Y: mint(Y, 6),
    }
    accounts = [account(AT, damm_v2.POSITION, data)]
    for number, schedule in enumerate(apart):
        named = put(184, damm_v2.VESTING.tag, (8, AT), (40, schedule))
        accounts.append(account(bytes([80 + number]) * 32, damm_v2.VESTING, named, 30))
    return driven(
        damm_v2.read(Held(WALLET, accounts, {NFT: 1} if tokens is None else tokens), WORLD), known
    )


def test_all_liquidity_counts_and_only_what_is_unlocked_is_free() -> None:
    [position] = in_pool(share())
    assert lines(position) == [
        (Role.SUPPLY, X, 300),
        (Role.LOCKED, X, 200),
        (Role.SUPPLY, Y, 300),
        (Role.LOCKED, Y, 200),
        (Role.REWARD, X, 3 + 2000),
        (Role.REWARD, Y, 4 + 2000),  # its counter has overflowed since: 2 a share
        (Role.REWARD, R, 5 + 34),  # 10 s at 7 a second, half of it, rounded down
    ]
    assert position.locks == [Lock("vesting", 300 << 64), Lock("permanent", 100 << 64, 0)]
    assert position.unsupported_fields, "of the vesting apart from it nothing is known"
    assert (position.id, position.stands_for) == (NFT, {NFT: 1})
    found = position.range
    assert found is not None
    assert [found.lower, found.current, found.upper] == [Fraction(1, 4), Fraction(1), Fraction(4)]


def test_vestings_inside_and_apart_set_liquidity_free_by_periods() -> None:
    data = share((312, vesting(3000, 150)))  # 150 of 300 left, not before its cliff
    [position] = in_pool(data, apart=(vesting(1985, 150),))
    inside = Lock("vesting", 150 << 64, 0, ends_ms=3_040_000)
    outside = Lock("vesting", 150 << 64, 0, ends_ms=2_025_000)  # the cliff and one period: 150
    assert position.locks == [outside, inside, Lock("permanent", 100 << 64, 0)]
    assert position.unsupported_fields == []
    assert position.reference_slot == 30
    [later] = in_pool(data, apart=(vesting(1965, 150),))
    assert later.locks[0].claimable_raw == 100 << 64
    assert lines(later)[:2] == [(Role.SUPPLY, X, 350), (Role.LOCKED, X, 150)]


def test_a_vesting_by_slots_ends_at_a_slot() -> None:
    [position] = in_pool(share((312, vesting(3000, 0))), of_pool=pool((480, b"\x00")))
    assert position.locks[0] == Lock("vesting", 300 << 64, 0, ends_slot=3040)


def test_a_vesting_that_ends_beyond_what_json_counts_exactly_ends_at_the_last_of_it() -> None:
    data = share((312, vesting(2**64 - 1, 0)))
    [by_time] = in_pool(data)
    assert by_time.locks[0].ends_ms == 9_007_199_254_740_991  # Number.MAX_SAFE_INTEGER
    [by_slot] = in_pool(data, of_pool=pool((480, b"\x00")))
    assert by_slot.locks[0].ends_slot == 9_007_199_254_740_991


@pytest.mark.parametrize(
    ("by_time", "point", "ends"),
    [(b"\x01", 2001, (2_001_000, None)), (b"\x00", 1001, (None, 1001))],
)
def test_nothing_of_a_pool_is_free_before_its_activation(
    by_time: bytes, point: int, ends: tuple[int | None, int | None]
) -> None:
    at = (472, struct.pack("<Q", point) + by_time)
    early = (472, struct.pack("<Q", point - 1) + by_time)
    [position] = in_pool(share(), pool(at))
    assert lines(position)[:2] == [(Role.LOCKED, X, 500), (Role.LOCKED, Y, 500)]
    assert position.locks[-1] == Lock("term", 600 << 64, 0, *ends)
    [position] = in_pool(share(), pool(early))
    assert lines(position)[0] == (Role.SUPPLY, X, 300)
    assert "term" not in {each.kind for each in position.locks}


def test_nothing_of_a_vesting_is_free_before_its_pools_activation() -> None:
    """It may pass its cliff earlier; locked and free are then still all the liquidity."""
    data = share((312, vesting(1965, 0)))  # 250 of 300 could be released
    [position] = in_pool(data, pool((472, struct.pack("<QB", 2100, 1))))
    assert {each.role for each in position.assets} == {Role.LOCKED, Role.REWARD}
    assert position.locks == [
        Lock("vesting", 300 << 64, 0, ends_ms=2_100_000),
        Lock("permanent", 100 << 64, 0),
        Lock("term", 600 << 64, 0, ends_ms=2_100_000),
    ]


def test_a_compounding_pool_is_shared_by_its_reserves() -> None:
    [position] = in_pool(share(), of_pool=pool((484, b"\x02")))
    whole = dict.fromkeys((X, Y), 0)
    for role, mint_, raw in lines(position):
        if role is not Role.REWARD:
            whole[mint_] += raw or 0
    assert whole == {X: 999 // 2, Y: 77 // 2}
    assert position.range is not None
    assert (position.range.lower, position.range.is_in_range) == (None, True)


def test_a_wallet_without_the_nft_has_no_position() -> None:
    assert in_pool(share(), tokens={}) == []
    assert in_pool(share(), tokens={NFT: 0, X: 1}) == []


def test_without_the_pool_the_position_stays() -> None:
    held = Held(WALLET, [account(AT, damm_v2.POSITION, share())], {NFT: 1})
    [position] = driven(damm_v2.read(held, WORLD), {})
    assert (position.missing, position.assets) == ([PAIR], [])
    assert position.unsupported_fields


@pytest.mark.parametrize(
    ("data", "of_pool", "match"),
    [
        (share()[:400], None, "400 bytes"),
        (share(), pool((484, b"\x03")), "collect_fee_mode 3"),
        (share(), pool((480, b"\x09")), "activation_type is 9"),
        (share(), pool((424, bytes(16))), "sqrt_price"),
        (share(), pool((456, wide(3 * ONE))), "sqrt_price"),
    ],
)
def test_what_is_no_share_of_a_pool_is_named(
    data: bytearray, of_pool: bytearray | None, match: str
) -> None:
    with pytest.raises(Unreadable, match=match) as failure:
        in_pool(data, of_pool=of_pool)
    assert failure.value.account == AT


@given(st.integers(40, 408), st.integers(168, 1112), HOSTILE, HOSTILE, st.binary(max_size=80))
@examples(300)
def test_hostile_pools_are_read_or_named(
    at: int, at_pool: int, first: bytes, second: bytes, schedule: bytes
) -> None:
    data = bytes(share((at, first)))[:408]
    of_pool = bytes(pool((at_pool, second)))[:1112]
    found = read_or_named(lambda: in_pool(data, of_pool=of_pool, apart=(schedule,)))
    assert len(found) <= 1


@given(
    st.integers(0, 2**128 - 1),
    st.lists(st.integers(1, 2**100), min_size=3, max_size=3).map(sorted),
    st.integers(0, 100),
)
@examples(200)
def test_parts_of_liquidity_are_never_more_than_the_whole(
    liquidity: int, prices: list[int], percent: int
) -> None:
    low, price, high = prices
    part = liquidity * percent // 100
    for amount in (
        lambda of: damm.amount_a(of, price, high),
        lambda of: damm.amount_b(of, low, price),
    ):
        whole, one, rest = amount(liquidity), amount(part), amount(liquidity - part)
        assert whole - 1 <= one + rest <= whole


def test_decimals_are_of_mints_that_can_be_read() -> None:
    known = {X: mint(X, 6), Y: account(Y, MINT, bytes(82))}
    decimals = decimals_of((X, Y, R), known)
    assert decimals == {X: 6}
    assert whole_ratio(X, X, decimals) == 0
    assert whole_ratio(X, Y, decimals) is None


@pytest.mark.skipif(
    not (Path(__file__).parents[4] / "shared" / "corpus").exists(),
    reason="the corpus of real accounts is not here",
)
def test_a_real_position_of_the_first_version_is_found_by_its_owner() -> None:
    folder = Path(__file__).parents[4] / "shared" / "corpus" / "accounts" / "p17-meteora-dlmm"
    stored = json.loads((folder / "Position-1ca811f4bb17.json").read_text())["account"]
    data = base64.b64decode(stored["data"][0])
    assert kind_of(AT, dlmm.PROGRAM, data) is dlmm.POSITION_V1
    [wallet] = dlmm.POSITION_V1.found_by(data)
    held = Held(wallet, [account(AT, dlmm.POSITION_V1, data)])
    [position] = driven(dlmm.read(held, WORLD), {})
    assert position.market == data[8:40]
    lower, upper = struct.unpack_from("<ii", data, 7352)
    shares = struct.unpack_from("<70Q", data, 72)
    assert [bool(each) for each in shares] == [number <= upper - lower for number in range(70)]
