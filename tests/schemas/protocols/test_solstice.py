"""eUSX by the rate of its vault, and USX in its cooldown."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.protocols import solstice
from schemas.protocols.contract import Account, Held, Kind, Position, Unreadable, World
from schemas.protocols.solstice import EUSX, POOL_ADDRESS, SCHEDULE_ADDRESS
from tests.support.exploring import examples

WALLET, AT, USX, OTHER = (bytes([n]) * 32 for n in range(1, 5))
NOW = 1_790_000_000
U64 = st.integers(0, 2**64 - 1)


def account(kind: Kind, address: bytes, body: bytes, slot: int = 50) -> Account:
    assert kind.size is not None
    return Account(address, kind, 1, (kind.tag + body).ljust(kind.size, b"\0"), slot)


def pool(assets: int, supply: int) -> Account:
    totals = assets.to_bytes(16, "little") + supply.to_bytes(16, "little")
    return account(solstice.POOL, POOL_ADDRESS, b"\1" + USX + b"\6" + bytes(33) + totals)


def schedule(amount: int, start_s: int, end_s: int) -> Account:
    body = struct.pack("<BQQQ", 1, amount, start_s, end_s)
    return account(solstice.SCHEDULE, SCHEDULE_ADDRESS, body, 40)


def cooldown(amount: int, end_s: int, user: bytes = WALLET) -> Account:
    body = user + b"\1" + USX + struct.pack("<QQ", amount, end_s)
    return account(solstice.COOLDOWN, AT, body)


def read(shares: int, *chain: Account, own: tuple[Account, ...] = ()) -> list[Position]:
    there = {each.address: each for each in chain}
    reading = solstice.read(Held(WALLET, own, {EUSX: shares}), World(9, NOW, 3))
    try:
        wanted = next(reading)
        reading.send({each: there[each] for each in wanted if each in there})
    except StopIteration as end:
        found: list[Position] = end.value
        return found
    raise AssertionError("more than one round")


def lines(position: Position) -> list[tuple[str, bytes, int | None]]:
    return [(each.role.value, each.mint, each.amount_raw) for each in position.assets]


def test_shares_are_worth_what_counts_of_the_vault() -> None:
    [found] = read(10, pool(1299, 999), schedule(400, NOW - 75, NOW + 25))
    assert lines(found) == [("supply", USX, 12)]  # 10 x (1299 - 100 + 1) / (999 + 1)
    assert found.stands_for == {EUSX: 10}
    assert found.reference_slot == 40
    [grown] = read(10, pool(1299, 999), schedule(400, NOW - 100, NOW))
    assert lines(grown) == [("supply", USX, 13)]


def test_without_its_schedule_the_amount_is_not_known() -> None:
    [found] = read(10, pool(1299, 999))
    assert lines(found) == [("supply", USX, None)]
    assert found.missing == [SCHEDULE_ADDRESS]
    assert found.unsupported_fields


def test_without_its_vault_eusx_stays_a_token() -> None:
    assert read(10, schedule(400, NOW - 75, NOW + 25)) == []


@pytest.mark.parametrize(("end_s", "role"), [(NOW + 1, "pending"), (NOW, "supply")])
def test_a_cooldown_ends_by_time(end_s: int, role: str) -> None:
    [found] = read(0, own=(cooldown(7, end_s),))
    assert lines(found) == [(role, USX, 7)]
    [lock] = found.locks
    assert (lock.locked_raw, lock.claimable_raw) == ((7, 0) if role == "pending" else (0, 7))
    assert lock.ends_ms == end_s * 1000


def test_an_empty_cooldown_and_another_wallets_are_no_positions() -> None:
    assert read(0, own=(cooldown(0, NOW), cooldown(7, NOW, OTHER))) == []


@pytest.mark.parametrize(
    "chain",
    [
        (pool(99, 999), schedule(400, NOW - 75, NOW + 25)),
        (pool(1299, 999), schedule(1, NOW + 25, NOW + 25)),
        (pool(1299, 999), pool(1299, 999)._replace(address=SCHEDULE_ADDRESS)),
        (cooldown(7, NOW)._replace(address=POOL_ADDRESS),),
    ],
)
def test_hostile_references_are_unreadable(chain: tuple[Account, ...]) -> None:
    with pytest.raises(Unreadable):
        read(10, *chain)


@given(U64, st.integers(0, 2**70), st.integers(0, 2**70), U64, U64)
@examples(200)
def test_a_vault_never_owes_more_than_it_has(
    shares: int, others: int, assets: int, vesting: int, seconds: int
) -> None:
    there = schedule(min(vesting, assets), NOW - 5, min(NOW + seconds, 2**64 - 1))
    found = read(shares, pool(assets, shares + others), there)
    worth = [each.amount_raw or 0 for position in found for each in position.assets]
    assert sum(worth) <= assets
