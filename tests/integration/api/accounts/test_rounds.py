"""Rounds of readings: what later ones wanted before comes with the first, unchanged otherwise."""

from __future__ import annotations

from random import Random

import pytest

from api.positions import rounds
from api.positions.accounts_reader import AccountsReader
from api.positions.rounds import LaterRounds
from schemas.solana.addresses import STAKE_PROGRAM
from tests.support.api.accounts_lane import AccountsLane
from tests.support.api.counted_stores import CountedStores
from tests.support.stake import stake_data

OWNER = bytes([7] * 32)


async def store(lane: AccountsLane, address: bytes, amount: int) -> None:
    data = stake_data(OWNER, stake=amount)
    await lane.write(address, data, program=STAKE_PROGRAM, slot=lane.slot)


async def test_each_round_is_sent_what_is_stored_whatever_was_wanted_before(
    lane: AccountsLane, stores: CountedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MOST_AHEAD", 5)
    await lane.advance(9)
    random, reader = Random(1), AccountsReader(stores)
    later = LaterRounds(reader)
    addresses = [random.randbytes(32) for _ in range(12)]
    for _ in range(60):
        await store(lane, random.choice(addresses), random.randrange(10**9))
        request = later.of(random.choice(["one", "other"]))
        for _ in range(random.randrange(1, 4)):
            wanted = random.sample(addresses, random.randrange(1, 5))
            assert await request.at(wanted) == await reader.at(wanted)
        request.close()


async def test_what_later_rounds_wanted_before_takes_no_trip_of_its_own(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance(9)
    addresses = [bytes([number]) * 32 for number in range(1, 6)]
    for address in addresses[:4]:
        await store(lane, address, 5)
    pool, array, mint, other, absent = addresses
    later = LaterRounds(AccountsReader(stores))

    async def trips_of(*wanted: list[bytes], asked: str = "wallet") -> int:
        stores.trips.clear()
        request = later.of(asked)
        for each in wanted:
            assert [*await request.at(each)] == [address for address in each if address != absent]
        request.close()
        return len(stores.trips)

    assert await trips_of([pool], [array, absent], [mint]) == 3
    assert await trips_of([pool], [array, absent], [mint]) == 1
    assert await trips_of([pool], [array, absent], [mint], asked="another wallet") == 3
    assert await trips_of([pool], [array], [other]) == 2
    assert await trips_of([pool], [array], [other]) == 1
    assert await trips_of([pool], [array, absent]) == 2
    assert await trips_of([pool]) == 1


async def test_what_was_read_ahead_is_of_this_request(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance(9)
    pool, array = bytes([1]) * 32, bytes([2]) * 32
    later = LaterRounds(AccountsReader(stores))
    for amount in (5, 6):
        for address in (pool, array):
            await store(lane, address, amount)
        request = later.of("wallet")
        await request.at([pool])
        found = await request.at([array])
        assert found[array].data == stake_data(OWNER, stake=amount)
        request.close()
