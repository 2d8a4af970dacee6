"""Accounts that are kept opened: always what is stored, however often and whatever was before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from api.positions import opened
from api.positions.opened import OpenedAccounts
from schemas.accounts import StoredAccount, compress, pack
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support.exploring import examples

ADDRESS = b"a" * 32
MINT = bytes(82)


def stored(data: bytes = MINT, slot: int = 5, program: bytes = TOKEN_PROGRAM) -> StoredAccount:
    return StoredAccount(slot, 7, program, len(data), compress(data))


VERSIONS = st.sampled_from(
    [
        pack(stored()),
        pack(stored(slot=6)),
        pack(stored(b"\1" + MINT[1:])),
        pack(stored(b"no protocol knows it", program=STAKE_PROGRAM)),
        pack(stored(b"")._replace(closed=True)),
        pack(stored())[:-1],
        b"",
    ]
)


@given(st.lists(st.tuples(st.sampled_from([ADDRESS, b"b" * 32]), VERSIONS), max_size=30))
@examples(100)
def test_it_is_what_is_stored(asked: list[tuple[bytes, bytes]]) -> None:
    accounts = OpenedAccounts()
    for address, packed in asked:
        assert accounts.get(address, packed) == opened.opened(address, packed)


@given(
    st.lists(st.tuples(st.sampled_from([ADDRESS, b"b" * 32]), st.none() | VERSIONS), max_size=30)
)
@examples(100)
def test_all_of_several_are_what_each_is(asked: list[tuple[bytes, bytes | None]]) -> None:
    accounts = OpenedAccounts()
    for address, packed in asked:
        account = None if packed is None else opened.opened(address, packed)
        expected = {} if account is None else {address: account}
        assert accounts.all_of([(address, packed)]) == expected


def test_a_known_account_has_its_slot_and_data() -> None:
    account = OpenedAccounts().get(ADDRESS, pack(stored()))
    assert account is not None
    assert (account.kind.name, account.slot, account.lamports) == ("mint", 5, 7)
    assert account.data == MINT


def test_the_same_bytes_are_not_opened_again() -> None:
    accounts = OpenedAccounts()
    first = accounts.get(ADDRESS, pack(stored()))
    assert accounts.get(ADDRESS, pack(stored())) is first


def test_what_is_kept_is_bounded() -> None:
    accounts = OpenedAccounts()
    large = pack(stored(bytes(165) + b"\1" + bytes(opened.MOST_BYTES), program=TOKEN_2022_PROGRAM))
    first = accounts.get(ADDRESS, large)
    assert first is not None
    assert accounts.get(ADDRESS, large) is not first
    least = OpenedAccounts(1, len(MINT) - 1)
    first = least.get(ADDRESS, pack(stored()))
    assert least.get(ADDRESS, pack(stored())) is not first
    first = accounts.get(ADDRESS, pack(stored()))
    for number in range(opened.KEPT):
        accounts.get(number.to_bytes(32, "big"), pack(stored()))
    assert accounts.get(ADDRESS, pack(stored())) is not first
