"""Jupiter Lock: escrows built by hand; what has vested is counted period by period."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import jupiter_lock
from schemas.protocols.contract import Account, Held, Position, Role, Unreadable, World
from schemas.protocols.registry import SLUGS, kind_of

WALLET, OTHER, MINT = (bytes([n]) * 32 for n in range(1, 4))
NOW_S = 1_790_000_000
WORLD = World(450_000_000, NOW_S, 1_050)
DAY_S = 86_400


def escrow(
    cliff_raw: int = 100,
    period_raw: int = 10,
    periods: int = 10,
    *,
    cliff_s: int = NOW_S - 3 * DAY_S,
    frequency_s: int = DAY_S,
    claimed: int = 0,
    cancelled_s: int = 0,
    recipient: bytes = WALLET,
    creator: bytes = OTHER,
    modes: tuple[int, int] = (0, 0),
) -> Account:
    data = jupiter_lock.ESCROW.tag + recipient + MINT + creator + bytes(33)
    data += bytes([*modes, 0]) + bytes(4)
    data += struct.pack("<QQQQQ", cliff_s, frequency_s, cliff_raw, period_raw, periods)
    data += struct.pack("<QQQ", claimed, 0, cancelled_s) + bytes(88)
    address = b"e" * 32
    assert kind_of(address, jupiter_lock.PROGRAM, data) is jupiter_lock.ESCROW
    return Account(address, jupiter_lock.ESCROW, 1, data, 90)


def read(*own: Account, now_s: int = NOW_S) -> list[Position]:
    with pytest.raises(StopIteration) as end:
        next(jupiter_lock.read(Held(WALLET, own), WORLD._replace(time_s=now_s)))
    found: list[Position] = end.value.value
    return found


def lines(position: Position) -> list[tuple[Role, bytes, int | None]]:
    return [(each.role, each.mint, each.amount_raw) for each in position.assets]


def test_what_has_vested_is_free_and_the_rest_is_locked_until_the_last_period() -> None:
    [position] = read(escrow(claimed=30))
    assert lines(position) == [(Role.SUPPLY, MINT, 100), (Role.LOCKED, MINT, 70)]
    [lock] = position.locks
    assert (lock.kind, lock.locked_raw, lock.claimable_raw) == ("vesting", 70, 100)
    assert lock.ends_ms == (NOW_S + 7 * DAY_S) * 1000


def test_before_the_cliff_nothing_has_vested() -> None:
    [position] = read(escrow(cliff_s=NOW_S + 1))
    assert lines(position) == [(Role.LOCKED, MINT, 200)]


@pytest.mark.parametrize(("period_raw", "periods"), [(0, 0), (10, 0), (0, 10)])
def test_without_periods_the_cliff_is_all_of_it(period_raw: int, periods: int) -> None:
    [position] = read(escrow(100, period_raw, periods, frequency_s=0, cliff_s=NOW_S))
    assert lines(position) == [(Role.SUPPLY, MINT, 100)]
    assert position.locks[0].ends_ms == NOW_S * 1000


def test_periods_without_length_never_pass() -> None:
    [position] = read(escrow(frequency_s=0))
    assert lines(position) == [(Role.SUPPLY, MINT, 100), (Role.LOCKED, MINT, 100)]
    assert position.locks[0].ends_ms is None


@pytest.mark.parametrize(
    ("modes", "named"),
    [
        ((0, 0), []),
        ((2, 2), []),
        ((1, 0), ["another recipient"]),
        ((0, 1), ["may cancel"]),
        ((3, 3), ["another recipient", "may cancel"]),
    ],
)
def test_what_the_creator_may_take_back_is_named(modes: tuple[int, int], named: list[str]) -> None:
    [position] = read(escrow(modes=modes))
    assert len(position.unsupported_fields) == len(named)
    for each, words in zip(position.unsupported_fields, named, strict=True):
        assert words in each
    [own] = read(escrow(modes=modes, creator=WALLET))
    assert own.unsupported_fields == []


def test_a_creator_has_nothing_back_of_what_has_vested() -> None:
    [position] = read(escrow(modes=(0, 1), cliff_s=NOW_S - 10 * DAY_S))
    assert position.unsupported_fields == []


@pytest.mark.parametrize(
    "own",
    [
        escrow(claimed=200, cliff_s=NOW_S - 99 * DAY_S),
        escrow(cancelled_s=NOW_S - 1),
        escrow(recipient=OTHER, creator=WALLET),
    ],
    ids=["claimed", "cancelled", "created"],
)
def test_what_is_not_the_wallets_is_no_position(own: Account) -> None:
    assert read(own) == []


@pytest.mark.parametrize(
    ("own", "detail"),
    [
        (escrow(claimed=131), "total_claimed_amount 131 at 184 of 130 vested"),
        (escrow(periods=1 << 63), "more than a token has"),
    ],
    ids=["claimed", "total"],
)
def test_bytes_that_the_program_does_not_write_are_unreadable(own: Account, detail: str) -> None:
    with pytest.raises(Unreadable, match=detail) as error:
        read(own)
    assert error.value.account == own.address


@given(
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 20),
    st.integers(0, 60),
    st.integers(1, 10 * DAY_S),
    st.integers(-100 * DAY_S, 600 * DAY_S),
)
def test_what_has_vested_is_a_sum_over_periods(
    cliff_raw: int, period_raw: int, periods: int, frequency_s: int, passed_s: int
) -> None:
    cliff_s = NOW_S - passed_s
    ends = [cliff_s + n * frequency_s for n in range(1, periods + 1)]
    free = period_raw * sum(each <= NOW_S for each in ends) + cliff_raw if passed_s >= 0 else 0
    locked = cliff_raw + period_raw * periods - free
    own = escrow(cliff_raw, period_raw, periods, cliff_s=cliff_s, frequency_s=frequency_s)
    both = [(Role.SUPPLY, MINT, free), (Role.LOCKED, MINT, locked)]
    found = [each for position in read(own) for each in lines(position)]
    assert found == [each for each in both if each[2]]
    for position in read(own):
        ends_ms = position.locks[0].ends_ms
        assert ends_ms is not None
        [over] = read(own, now_s=ends_ms // 1000)
        assert [each.role for each in over.assets] == [Role.SUPPLY]


def test_the_slug() -> None:
    assert SLUGS["p33"] is jupiter_lock.PROTOCOL
