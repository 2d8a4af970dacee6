"""The packed forms of markets: there and back, and what is refused."""

from __future__ import annotations

import struct
from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.markets import (
    BUCKET,
    MAX_VOLUME,
    ColdMarket,
    Head,
    PoolFacts,
    Window,
    pack_cold,
    pack_head,
    pack_pool,
    unpack_cold,
    unpack_cold_fields,
    unpack_head,
    unpack_pool,
    unpack_standing,
    window,
)
from schemas.money import USDC, WSOL

HASHES = st.dictionaries(st.binary(max_size=70), st.binary(max_size=200), max_size=6)


def test_a_mint_of_which_nothing_is_known_has_no_figures() -> None:
    head, _ = unpack_head(pack_head(Head(), []))
    assert not any(astuple(head))


def test_a_window_adds_up_its_buckets_and_begins_with_the_price_before_it() -> None:
    def bucket(start_min: int, times: int) -> bytes:
        figures = [times * each for each in (1, 10, 100, 1000, 10**4, 10**5, 10**6, 10**7)]
        return BUCKET.pack(start_min, *figures, times, 1, times, 2)

    series = b"".join(map(bucket, (40, 41, 50, 51), (3, 4, 5, 6)))
    then = {"then_sol": (1 << 64) + 3, "then_usd": (2 << 64) + 3}
    assert window(series, 50, 10) == Window(
        9, 90, 900, 9000, 90_000, 9 * 10**5, 9 * 10**6, 9 * 10**7, **then
    )


@pytest.mark.parametrize("liquidity_lamports", [None, 0, 7, MAX_VOLUME])
@pytest.mark.parametrize("pools", [[], [bytes([1]) * 32, bytes([2]) * 32]])
def test_a_head_comes_back_with_its_pools(
    liquidity_lamports: int | None, pools: list[bytes]
) -> None:
    head = Head(1 << 127, 2, 3, 4, 5 << 70, 6, 7, 8, 9, 10, 11, True, liquidity_lamports)
    packed = pack_head(head, pools)
    assert unpack_head(packed) == (head, pools)
    assert packed[112:128] == struct.pack("<IQI", 10, 0, 11)
    assert unpack_head(packed[:116] + b"\1" * 8 + packed[124:]) == (head, pools)
    standing = unpack_standing(packed)
    assert standing._asdict() == {name: getattr(head, name) for name in standing._fields}


@given(HASHES, HASHES, st.dictionaries(st.binary(max_size=40), st.integers(0, 2**53)))
def test_a_cold_market_comes_back(
    fields: dict[bytes, bytes], accounts: dict[bytes, bytes], traders: dict[bytes, int]
) -> None:
    assert unpack_cold(pack_cold(ColdMarket(fields, accounts, traders))) == (
        fields, accounts, traders,
    )  # fmt: skip
    packed = pack_cold(ColdMarket(fields, accounts, {}))  # as earlier versions did
    assert unpack_cold(packed) == (fields, accounts, {})
    alone = len(pack_cold(ColdMarket(fields, {}, {}))) - 4
    assert unpack_cold_fields(packed[:alone]) == fields
    for cut in (packed[:-1], packed[: len(packed) // 2]):
        with pytest.raises(struct.error):
            unpack_cold(cut)
    if fields:
        with pytest.raises(struct.error):
            unpack_cold_fields(packed[: alone - 1])


def test_equal_markets_are_equal_bytes() -> None:
    one = ColdMarket({b"a": b"1", b"b": b""}, {}, {b"a": 1, b"b": 2})
    other = ColdMarket({b"b": b"", b"a": b"1"}, {}, {b"b": 2, b"a": 1})
    assert pack_cold(one) == pack_cold(other)


@given(
    st.sampled_from([None, 7]),
    st.sampled_from([None, 0, 9]),
    st.sampled_from(["", WSOL, USDC]),
    st.booleans(),
    st.binary(max_size=200),
)
def test_a_pool_comes_back_with_its_quote(
    reserve_raw: int | None,
    liquidity_lamports: int | None,
    quote_mint: str,
    traders_by_address: bool,
    quarters: bytes,
) -> None:
    pool = PoolFacts(
        "pump-swap", 3, 4, 1, 2, 5, 6, reserve_raw, None, liquidity_lamports, quote_mint,
        traders_by_address,
    )  # fmt: skip
    assert unpack_pool(pack_pool(pool, quarters)) == (pool, quarters)


@pytest.mark.parametrize(("lamports", "known"), [(9, 9), (0, None)])
def test_a_pool_of_before_has_no_quote_and_short_names_of_traders(
    lamports: int, known: int | None
) -> None:
    """Its record is the same without the quote's 32 bytes; 0 lamports may have been unknown."""
    pool = PoolFacts("orca", 3, 4, 1, 2, 5, 6, 7, 8, lamports, USDC)
    packed = pack_pool(pool, b"series")
    at = packed.index(b"orca") + 4
    before = bytes([packed[0] & 3]) + packed[1:at] + packed[at + 32 :]
    first = replace(pool, quote_mint="", liquidity_lamports=known, traders_by_address=False)
    assert unpack_pool(before) == (first, b"series")
