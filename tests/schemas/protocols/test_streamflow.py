"""Stakes of Streamflow's pools, their terms and notices."""

from __future__ import annotations

import struct

import pytest

from schemas.protocols import streamflow
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable, World

WALLET, AT, POOL, MINT, OTHER = (bytes([n]) * 32 for n in range(1, 6))
NOW = 1_790_000_000


BYTES = {streamflow.ENTRY: 224, streamflow.POOL: 296}  # of which 220 and 291 are fields


def account(kind: Kind, address: bytes, fields: dict[int, bytes], slot: int = 50) -> Account:
    data = bytearray(BYTES[kind])
    for at, value in {0: kind.tag, **fields}.items():
        data[at : at + len(value)] = value
    return Account(address, kind, 1, bytes(data), slot)


def u64(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}Q", *values)


def entry(
    amount: int, left_s: int, noticed_s: int = 0, closed_s: int = 0, owner: bytes = WALLET
) -> Account:
    fields = {12: POOL, 44: OTHER, 76: owner, 108: u64(amount, 1000)}
    fields |= {140: u64(NOW - 1000 + left_s, closed_s), 172: u64(noticed_s)}
    return account(streamflow.ENTRY, AT, fields)


def pool(period_s: int = 0) -> Account:
    return account(streamflow.POOL, POOL, {10: MINT, 228: u64(period_s)}, 40)


def read(mine: Account, *chain: Account) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = streamflow.read(Held(WALLET, [mine]), World(9, NOW, 3))
    try:
        wanted = next(reading)
        reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than one round")


@pytest.mark.parametrize(
    ("left_s", "period_s", "noticed_s", "role"),
    [
        (5, 0, 0, "locked"),
        (0, 0, 0, "supply"),
        (0, 60, 0, "locked"),
        (0, 60, NOW - 59, "pending"),
        (0, 60, NOW - 60, "supply"),
        (5, 60, NOW - 60, "pending"),
    ],
)
def test_a_stake_is_free_after_its_term_and_its_notice(
    left_s: int, period_s: int, noticed_s: int, role: str
) -> None:
    [found] = read(entry(7, left_s, noticed_s), pool(period_s))
    [asset] = found.assets
    assert (asset.role, asset.mint, asset.amount_raw) == (role, MINT, 7)
    assert found.locks[0].ends_ms == (NOW + left_s) * 1000
    assert [each.kind for each in found.locks] == ["term", "cooldown"][: 2 if period_s else 1]
    if period_s:
        ends_ms = (noticed_s + period_s) * 1000 if noticed_s else None
        assert found.locks[1].ends_ms == ends_ms
    assert found.reference_slot == 40


@pytest.mark.parametrize(("entry_bytes", "pool_bytes"), [(220, 291), (224, 296)])
def test_accounts_are_known_with_and_without_the_bytes_that_align_them(
    entry_bytes: int, pool_bytes: int
) -> None:
    mine, its = entry(7, 5), pool()
    mine = mine._replace(data=mine.data[:entry_bytes])
    its = its._replace(data=its.data[:pool_bytes])
    for each in (mine, its):
        assert each.kind.matches(each.address, streamflow.PROGRAM, each.data)
    [found] = read(mine, its)
    assert [each.amount_raw for each in found.assets] == [7]


def test_accounts_that_end_before_their_fields_do_are_none() -> None:
    mine, its = entry(7, 5), pool()
    assert read(mine._replace(data=mine.data[:219]), its) == []
    with pytest.raises(Unreadable) as error:
        read(mine, its._replace(data=its.data[:290]))
    assert error.value.account == AT


def test_without_its_pool_a_stake_is_of_an_unknown_mint() -> None:
    [found] = read(entry(7, 5))
    assert (found.assets, found.missing, found.locks[0].locked_raw) == ([], [POOL], 7)
    assert found.unsupported_fields


def test_closed_empty_and_other_wallets_stakes_are_no_positions() -> None:
    assert read(entry(7, 5, closed_s=9), pool()) == []
    assert read(entry(0, 5), pool()) == []
    assert read(entry(7, 5, owner=OTHER), pool()) == []


def test_a_pool_that_is_none_is_unreadable() -> None:
    with pytest.raises(Unreadable) as error:
        read(entry(7, 5), entry(7, 5)._replace(address=POOL))
    assert error.value.account == AT


def test_the_latest_times_are_read() -> None:
    most = (1 << 64) - 1
    fields = {12: POOL, 76: WALLET, 108: u64(most, most), 140: u64(most), 172: u64(most)}
    [found] = read(account(streamflow.ENTRY, AT, fields), pool(most))
    assert {each.ends_ms for each in found.locks} == {(1 << 53) - 1}
