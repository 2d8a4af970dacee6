"""Filters of `getProgramAccounts` against plain comparisons, and their indexes against scans."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.program_filters import ProgramFilters
from infra.chain.rpc_params import RpcError
from schemas.solana import base58
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support.account_writes import address, token_account, write

short = st.binary(max_size=6)


def memcmp(offset: int, data: bytes, form: str) -> dict[str, Any]:
    match form:
        case "base64":
            given: Any = base64.b64encode(data).decode()
        case "list":
            return {"memcmp": {"offset": offset, "bytes": list(data)}}
        case _:
            given = base58.encode(data)
    return {"memcmp": {"offset": offset, "bytes": given, "encoding": form}}


@given(
    st.binary(max_size=12),
    st.integers(0, 14),
    st.data(),
    st.sampled_from(["base58", "base64", "list"]),
)
def test_bytes_are_compared_at_their_offset(
    data: bytes, offset: int, draw: st.DataObject, form: str
) -> None:
    inside = draw.draw(st.integers(0, 4).map(lambda size: data[offset : offset + size]))
    wanted = draw.draw(st.one_of(st.just(inside), short))
    filters = ProgramFilters.read([memcmp(offset, wanted, form)])
    expected = offset <= len(data) and data[offset:].startswith(wanted)
    assert filters.match(write(address(1), data=data)) == expected


@given(st.binary(max_size=4), st.lists(st.integers(0, 4), max_size=3))
def test_every_size_must_be_that_of_the_data(data: bytes, sizes: list[int]) -> None:
    filters = ProgramFilters.read([{"dataSize": size} for size in sizes])
    assert filters.match(write(address(1), data=data)) == all(len(data) == s for s in sizes)


OWNED = memcmp(32, address(7), "base58")
MINTED = memcmp(0, address(8), "base64")
TYPED = memcmp(165, b"\x02", "base58")


@pytest.mark.parametrize(
    ("program", "filters", "expected"),
    [
        (TOKEN_PROGRAM, [OWNED, {"dataSize": 165}], ("owner", address(7))),
        (TOKEN_PROGRAM, [{"dataSize": 165}, MINTED], ("mint", address(8))),
        (TOKEN_PROGRAM, [MINTED, OWNED, "tokenAccountState"], ("owner", address(7))),
        (TOKEN_2022_PROGRAM, [OWNED, TYPED], ("owner", address(7))),
        (TOKEN_PROGRAM, [OWNED, TYPED], None),
        (TOKEN_PROGRAM, [OWNED], None),
        (TOKEN_PROGRAM, [OWNED, {"dataSize": 82}], None),
        (STAKE_PROGRAM, [OWNED, {"dataSize": 165}], None),
        (TOKEN_PROGRAM, [memcmp(32, b"short", "base58"), {"dataSize": 165}], None),
        (TOKEN_PROGRAM, None, None),
    ],
)
def test_token_accounts_are_looked_up_where_an_index_has_them(
    program: bytes, filters: Any, expected: Any
) -> None:
    assert ProgramFilters.read(filters).token_key(program) == expected


def test_token_account_state_is_that_of_initialized_accounts() -> None:
    filters = ProgramFilters.read(["tokenAccountState"])
    for data, expected in (
        (token_account(address(1), address(2)), True),
        (token_account(address(1), address(2), extended=True), True),
        (token_account(address(1), address(2), state=0), False),
        (bytes(165), False),
        (b"", False),
    ):
        assert filters.match(write(address(3), TOKEN_PROGRAM, data=data)) == expected


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({}, "filters is a list"),
        ([{"dataSize": 1}] * 5, "Too many filters provided; max 4"),
        ([{"dataSize": -1}], "no dataSize, memcmp or tokenAccountState"),
        ([{"dataSize": True}], "no dataSize, memcmp or tokenAccountState"),
        (["tokenaccountstate"], "no dataSize, memcmp or tokenAccountState"),
        ([{"memcmp": {"bytes": "1"}}], "no dataSize, memcmp or tokenAccountState"),
        ([{"memcmp": {"offset": 0, "bytes": 1}}], "bytes is a text, or a list"),
        ([{"memcmp": {"offset": 0, "bytes": [256]}}], "bytes is a text, or a list"),
        ([memcmp(0, b"x", "base85")], "unknown variant `base85`"),
        ([memcmp(0, bytes(129), "base58")], "Invalid param: DataTooLarge"),
        ([memcmp(0, bytes(129), "base64")], "Invalid param: DataTooLarge"),
        ([memcmp(0, bytes(129), "list")], "Invalid param: DataTooLarge"),
        ([{"memcmp": {"offset": 0, "bytes": "0"}}], "Invalid param: Base58DecodeError"),
        (
            [{"memcmp": {"offset": 0, "bytes": "=", "encoding": "base64"}}],
            "Invalid param: Base64DecodeError",
        ),
    ],
)
def test_bad_filters_are_refused(filters: Any, message: str) -> None:
    with pytest.raises(RpcError, match=message) as caught:
        ProgramFilters.read(filters)
    assert caught.value.code == -32602
