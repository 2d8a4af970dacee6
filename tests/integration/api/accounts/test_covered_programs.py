"""Coverage of programs that is kept says what a reader says that asks for all of it each time."""

from __future__ import annotations

from random import Random

from api.accounts import wallets
from api.accounts.wallets import WalletAccountsReader
from api.positions.accounts_reader import AccountsReader, WalletAccounts
from schemas.redis_keys import COVERAGE_FLOOR, COVERED, account_tags
from schemas.solana.addresses import text
from tests.support.api.accounts_lane import AccountsLane, token_data
from tests.support.api.counted_stores import CountedStores

WALLET = text(bytes([7] * 32))
PROGRAMS = [bytes([each] * 32) for each in range(1, 5)]
TAGS = account_tags()


def of_programs(stores: CountedStores) -> int:
    """Return how often the coverage of a program was asked for."""
    names = {COVERED.make(tag=tag, address=text(each)) for tag in TAGS for each in PROGRAMS}
    return sum(each[1] in names for trip in stores.trips for each in trip)


async def change(lane: AccountsLane, tag: str, address: bytes, random: Random) -> None:
    """Change the coverage of a program in a partition, and the revision, as the agent does."""
    name = COVERED.make(tag=tag, address=text(address))
    async with lane.redis.pipeline(transaction=True) as written:
        written.delete(name)
        match random.randrange(3):
            case 0:
                slot = random.randrange(lane.slot)
                written.hset(name, mapping={"slot": slot, "given": lane.slot})
            case 1:
                written.hset(name, "reason", f"reason {random.random()}")
        written.hset(COVERAGE_FLOOR.make(tag=tag), "programs", random.randbytes(8))
        await written.execute()


async def both(reader: AccountsReader, stores: CountedStores, count: int) -> list[WalletAccounts]:
    """Return what is read of the wallet by a reader, and by one that knows nothing yet."""
    programs = PROGRAMS[:count]
    readers = reader, AccountsReader(stores)
    return [await each.of_wallet(WALLET, programs) for each in readers]


async def test_whatever_changes_is_seen_at_once(lane: AccountsLane, stores: CountedStores) -> None:
    await lane.advance()
    random, reader = Random(1), AccountsReader(stores)
    for tag in TAGS:
        for program in PROGRAMS:
            await change(lane, tag, program, random)
    for _ in range(150):
        tag = random.choice(TAGS)
        match random.randrange(6):
            case 0 | 1:
                await change(lane, tag, random.choice(PROGRAMS), random)
            case 2:
                await lane.lose(random.randrange(lane.slot - 5, lane.slot + 5), tag)
            case 3:
                floor, hole = COVERAGE_FLOOR.make(tag=tag), random.random() < 0.5
                await (
                    lane.redis.hset(floor, "hole", 9) if hole else lane.redis.hdel(floor, "hole")
                )
            case 4:
                await lane.cover(bytes([7] * 32), tags=[tag])
        kept, fresh = await both(reader, stores, random.randint(1, len(PROGRAMS)))
        assert kept == fresh


async def test_programs_are_asked_for_once_while_nothing_changes(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance()
    random, reader = Random(2), AccountsReader(stores)
    of_all = len(PROGRAMS) * len(TAGS)
    for tag in TAGS:
        await change(lane, tag, PROGRAMS[0], random)
    for expected in (of_all, 0, 0):
        stores.trips.clear()
        await reader.of_wallet(WALLET, PROGRAMS)
        assert of_programs(stores) == expected
    await change(lane, TAGS[5], PROGRAMS[1], random)
    for expected in (of_all, 0):
        stores.trips.clear()
        await reader.of_wallet(WALLET, PROGRAMS)
        assert of_programs(stores) == expected


async def test_while_there_is_no_revision_all_is_asked_for_each_time(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance()
    reader = AccountsReader(stores)
    for _ in range(2):
        stores.trips.clear()
        await reader.of_wallet(WALLET, PROGRAMS)
        assert of_programs(stores) == len(PROGRAMS) * len(TAGS)


async def test_a_reading_of_what_a_wallet_holds_serves_its_positions_as_well(
    lane: AccountsLane, stores: CountedStores
) -> None:
    await lane.advance(9)
    random, reader, holdings = Random(3), AccountsReader(stores), WalletAccountsReader(stores)
    raw, addresses = bytes([7] * 32), [random.randbytes(32) for _ in range(24)]
    for tag in TAGS:
        for program in PROGRAMS:
            await change(lane, tag, program, random)
    await lane.cover(raw)
    served = 0
    for _ in range(80):
        address = random.choice(addresses)
        match random.randrange(5):
            case 0 | 1:
                data = token_data(random.choice(addresses), raw, random.randrange(9))
                slot = lane.slot - random.randrange(3)
                await lane.write(address, data, found_by=[raw], slot=slot)
            case 2:
                await lane.write(address, b"", found_by=[raw], closed=True)
            case 3:
                await change(lane, random.choice(TAGS), random.choice(PROGRAMS), random)
            case 4:
                await lane.advance()
        [held] = await holdings.read([WALLET])
        assert isinstance(held, wallets.WalletAccounts)
        stores.trips.clear()
        found = await reader.of_wallet(WALLET, PROGRAMS, held.reading)
        served += not len(stores.trips)
        assert found == await AccountsReader(stores).of_wallet(WALLET, PROGRAMS)
    assert 40 < served < 80, "where coverage of programs changed, all is asked for"
