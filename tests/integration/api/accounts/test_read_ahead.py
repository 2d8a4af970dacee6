"""What a wallet had is read along with the question what it has: a fresh reader says the same."""

from __future__ import annotations

from random import Random

import pytest

from api.positions import accounts_reader
from api.positions.accounts_reader import AccountsReader
from schemas.accounts import MOST_OF_WALLET
from schemas.redis_keys import FOUND_BY, account_tag
from schemas.solana.addresses import text
from tests.support.api.accounts_lane import AccountsLane, token_data
from tests.support.api.counted_stores import CountedStores

RAW = bytes([7] * 32)
WALLET = text(RAW)
PROGRAMS = [bytes([1] * 32)]


async def give(lane: AccountsLane, address: bytes, amount_raw: int) -> None:
    data = token_data(bytes(32), RAW, amount_raw)
    await lane.write(address, data, found_by=[RAW], slot=lane.slot)


async def test_whatever_a_wallet_gets_and_loses_is_seen_at_once(
    lane: AccountsLane, stores: CountedStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts_reader, "MOST_AHEAD", 10)  # of up to 24
    await lane.advance(9)
    await lane.cover(RAW)
    random, reader = Random(1), AccountsReader(stores)
    addresses = [random.randbytes(32) for _ in range(24)]
    sizes = set()
    for _ in range(120):
        address = random.choice(addresses)
        match random.randrange(4):
            case 0 | 1:
                await give(lane, address, random.randrange(9))
            case 2:
                await lane.write(address, b"", found_by=[RAW], closed=True)
            case 3:
                tag = account_tag(text(address))
                await lane.redis.srem(FOUND_BY.make(tag=tag, address=WALLET), address)
        kept = await reader.of_wallet(WALLET, PROGRAMS)
        assert kept == await AccountsReader(stores).of_wallet(WALLET, PROGRAMS)
        sizes.add(kept.read)
    assert min(sizes) < 10 < max(sizes)


async def test_a_wallet_that_is_as_it_was_takes_one_trip(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance(9)
    await lane.cover(RAW)
    await give(lane, bytes([1] * 32), 5)
    await give(lane, bytes([2] * 32), 5)
    reader = AccountsReader(stores)
    first = await reader.of_wallet(WALLET, PROGRAMS)
    stores.trips.clear()
    assert await reader.of_wallet(WALLET, PROGRAMS) == first
    assert len(stores.trips) == 1
    await give(lane, bytes([3] * 32), 5)
    stores.trips.clear()
    found = await reader.of_wallet(WALLET, PROGRAMS)
    assert [account.address[0] for account in found.accounts] == [1, 2, 3]
    assert len(stores.trips) == 2


async def test_a_wallet_that_has_nothing_takes_one_trip(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance(9)
    await lane.cover(RAW)
    reader = AccountsReader(stores)
    for expected in (2, 1):  # first it is counted
        stores.trips.clear()
        assert (await reader.of_wallet(WALLET, PROGRAMS)).accounts == []
        assert len(stores.trips) == expected


async def test_a_wallet_that_has_grown_large_is_read_whole_but_once(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance(9)
    await lane.cover(RAW)
    await give(lane, bytes([1] * 32), 5)
    reader = AccountsReader(stores)
    await reader.of_wallet(WALLET, PROGRAMS)
    many = [number.to_bytes(32, "big") for number in range(MOST_OF_WALLET + 1)]
    tag = account_tag(text(many[0]))
    await lane.redis.sadd(FOUND_BY.make(tag=tag, address=WALLET), *many)
    for expected in (True, False):
        stores.trips.clear()
        found = await reader.of_wallet(WALLET, PROGRAMS)
        assert found.known == MOST_OF_WALLET + 2
        assert not found.is_whole
        assert any(each[0] == "SMEMBERS" for trip in stores.trips for each in trip) is expected
