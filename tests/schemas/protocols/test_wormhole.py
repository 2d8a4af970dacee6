"""W deposited to vote with, and W that vests."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import wormhole
from schemas.protocols.contract import Account, Held, Kind, Position, World
from tests.support.exploring import examples

WALLET, AT, DELEGATE, OTHER = (bytes([n]) * 32 for n in range(1, 5))


def account(kind: Kind, body: bytes) -> Account:
    return Account(AT, kind, 1, kind.tag + body, 50)


def deposit(
    amount: int, vesting: int, delegate: bytes = DELEGATE, owner: bytes = WALLET
) -> Account:
    body = bytes(3) + struct.pack("<QQ", amount, vesting) + owner + delegate + bytes(10)
    return account(wormhole.DEPOSIT, body)


def vesting(amount: int, vester: bytes = WALLET) -> Account:
    return account(wormhole.VESTING, vester + struct.pack("<QB", amount, 1) + AT + bytes(32))


def read(*own: Account) -> list[Position]:
    reading = wormhole.read(Held(WALLET, own), World(9, 9, 9))
    with pytest.raises(StopIteration) as end:
        next(reading)
    found: list[Position] = end.value.value
    return found


def test_a_deposit_is_free_and_votes_by_its_delegate() -> None:
    [found] = read(deposit(7, 5))
    assert [(each.role, each.mint, each.amount_raw) for each in found.assets] == [
        ("supply", wormhole.W, 7)
    ]
    assert found.voting is not None
    assert (found.voting.power_raw, found.voting.delegate) == (12, DELEGATE)
    assert not found.locks


def test_a_deposit_of_no_delegate_names_none() -> None:
    [found] = read(deposit(7, 0, bytes(32)))
    assert found.voting is not None
    assert found.voting.delegate is None


def test_what_vests_is_counted_once_in_its_own_account() -> None:
    found = read(deposit(7, 5), vesting(5))
    assert [each.amount_raw for position in found for each in position.assets] == [7, 5]
    assert [each.role for each in found[1].assets] == ["locked"]
    assert found[1].unsupported_fields


def test_empty_and_other_wallets_accounts_are_no_positions() -> None:
    assert read(deposit(0, 0), vesting(0), deposit(7, 0, owner=OTHER), vesting(7, OTHER)) == []


@given(st.binary(max_size=140))
@examples(200)
def test_random_bytes_are_read_or_left_out(data: bytes) -> None:
    for kind in (wormhole.DEPOSIT, wormhole.VESTING):
        at = kind.wallets[0] - 8
        body = data[:at] + WALLET[: max(0, len(data) - at)] + data[at + 32 :]
        found = read(account(kind, body))
        assert len(found) <= (len(body) + 8 >= 81)
