"""The packed forms of the books: what goes in comes out, and each byte is where it is said."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.positions import (
    CHUNK_LOTS,
    LOT,
    Balance,
    ColdWallet,
    Lot,
    PackedError,
    Position,
    WalletDay,
    full_chunks,
    pack_balance,
    pack_cold,
    pack_cold_wallet,
    pack_position,
    pack_wallet_day,
    summary,
    tail_lots,
    unpack_balance,
    unpack_cold,
    unpack_cold_wallet,
    unpack_lots,
    unpack_position,
    unpack_wallet_day,
)

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
AMOUNT = st.one_of(U64, U64, st.integers(0, 2**128 - 1))


def records(record: type[Any]) -> st.SearchStrategy[Any]:
    names = [field.name for field in fields(record)]
    counts = names[names.index("buys") :]
    wide = {name: AMOUNT for name in names if name not in counts}
    ends = {
        name: U64 if name.endswith(("_slot", "_ms")) else U32
        for name in counts
        if not name.startswith("lots_")
    }
    return st.builds(record, **wide, **ends)


@given(records(Position), st.integers(0, 40), st.data())
def test_a_position_comes_back_with_its_lots(position: Position, opened: int, data: Any) -> None:
    position.lots_opened = opened
    position.lots_closed = data.draw(st.integers(0, opened))
    tail = b"".join(LOT.pack(number, 1, 2, 3, 4, 5, 1) for number in tail_lots(position))
    packed = pack_position(position, tail)
    assert unpack_position(packed) == (position, tail)
    assert [lot.quantity_raw for lot in unpack_lots(tail)] == [*tail_lots(position)]
    in_chunks = {number // CHUNK_LOTS for number in range(position.lots_closed, opened)}
    assert {*full_chunks(position)} == in_chunks - {
        number // CHUNK_LOTS for number in tail_lots(position)
    }


@given(records(WalletDay))
def test_a_wallets_day_comes_back(day: WalletDay) -> None:
    assert unpack_wallet_day(pack_wallet_day(day)) == day


def test_each_byte_is_where_it_is_said() -> None:
    position = Position(*range(1, 34))
    position.lots_opened, position.lots_closed = 17, 16
    lot = Lot(1, 2, 3, 4, 5, 6, 1)
    packed = pack_position(position, LOT.pack(*lot))
    amounts = b"".join(value.to_bytes(8, "little") for value in range(1, 23))
    counts = b"".join(value.to_bytes(4, "little") for value in (23, 24, 25, 26, 17, 16))
    places = b"".join(value.to_bytes(8, "little") for value in range(29, 34))
    lots = b"".join(value.to_bytes(8, "little") for value in (1, 2, 3, 4, 5))
    assert packed == b"\1" + amounts + counts + places + lots + b"\6\0\0\0\1"
    position.held_raw = 2**64
    wide = pack_position(position, LOT.pack(*lot))
    assert wide[:17] == b"\2" + (2**64).to_bytes(16, "little")
    assert len(wide) == len(packed) + 8 * 22


def test_what_has_not_happened_yet_is_0_everywhere() -> None:
    assert pack_position(Position(), b"") == b"\1" + bytes(22 * 8 + 6 * 4 + 5 * 8)
    assert pack_wallet_day(WalletDay()) == b"\1" + bytes(11 * 8 + 5 * 4 + 8)


def test_a_balance_comes_back() -> None:
    packed = pack_balance(b"m" * 32, 2**64 - 1, 9, True)
    assert len(packed) == 42
    assert unpack_balance(packed) == Balance(b"m" * 32, 2**64 - 1, 9, True)


@given(st.binary(max_size=300), st.lists(st.binary(max_size=1000), max_size=5))
def test_a_cold_position_comes_back(position: bytes, chunks: list[bytes]) -> None:
    assert unpack_cold(pack_cold(position, chunks)) == (position, chunks)


@pytest.mark.parametrize(
    "unpack",
    [unpack_position, unpack_wallet_day, unpack_balance, unpack_cold, unpack_cold_wallet],
)
@pytest.mark.parametrize("data", [b"", b"\1", b"\3" * 400, b"\1" + b"\xff" * 1000])
def test_other_bytes_are_refused_in_words(unpack: Any, data: bytes) -> None:
    with pytest.raises(PackedError, match="bytes"):
        unpack(data)


def test_seven_days_are_summed_exactly() -> None:
    days = [WalletDay(bought_lamports=2**64 - 1, buys=day, changed_slot=day) for day in range(7)]
    week = summary(days)
    assert week.bought_lamports == 7 * (2**64 - 1)
    assert (week.buys, week.changed_slot) == (21, 6)


@given(
    st.binary(max_size=300),
    st.dictionaries(st.binary(min_size=32, max_size=32), st.binary(min_size=42, max_size=42)),
)
def test_a_cold_wallet_comes_back(total: bytes, balances: dict[bytes, bytes]) -> None:
    wallet = ColdWallet(total, balances)
    assert unpack_cold_wallet(pack_cold_wallet(wallet)) == wallet
