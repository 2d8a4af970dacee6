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
    accounts = OpenedAccounts(kept_bytes=1_000)  # of one account
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
    least = OpenedAccounts(most_bytes=len(MINT) - 1)
    first = least.get(ADDRESS, pack(stored()))
    assert least.get(ADDRESS, pack(stored())) is not first


def test_the_oldest_gives_way_where_all_are_too_many_bytes() -> None:
    packed = pack(stored())
    accounts = OpenedAccounts(kept_bytes=2_000)
    first = accounts.get(ADDRESS, packed)
    accounts.get(b"b" * 32, packed)
    assert accounts.get(ADDRESS, packed) is first
    for number in range(4):
        accounts.get(number.to_bytes(32, "big"), packed)
    last = accounts.get(b"c" * 32, packed)
    assert accounts.get(b"c" * 32, packed) is last
    assert accounts.get(ADDRESS, packed) is not first


def test_versions_of_one_account_count_once() -> None:
    accounts = OpenedAccounts(kept_bytes=2_000)
    other = accounts.get(b"b" * 32, pack(stored()))
    for slot in range(100):
        accounts.get(ADDRESS, pack(stored(slot=slot)))
    assert accounts.get(b"b" * 32, pack(stored())) is other
