"""The books of accounts on a real Valkey: whatever comes, in whatever order it is written."""

import asyncio
from random import Random

import pytest
from hypothesis import Phase, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from infra.chain.market.runtime.stake_pool import STAKE_POOL_PROGRAM, StakePool
from infra.settings import Settings
from schemas import redis_keys
from schemas.accounts import compress, largest_of, mint_account_of, unpack
from schemas.codec import CodecError
from schemas.proto.tape_pb2 import AccountVersion, Covered
from schemas.protocols.programs import OTHER
from schemas.solana.addresses import METAPLEX_PROGRAM, STAKE_PROGRAM, TOKEN_PROGRAM, text
from tests.integration.agents.accounts.conftest import (
    T0_MS,
    TAG,
    Player,
    asked,
    closing,
    native,
    raw,
    slot_batch,
    stake,
    token,
    version,
    vote,
)
from tests.integration.agents.accounts.oracle import expected
from tests.integration.agents.accounts.random_slots import ALICE, BOB, CAROL, random_batches

HOUR_MS = 3_600_000


def acct(address):
    return redis_keys.ACCOUNT.make(tag=TAG, address=text(address))


def own(finder):
    return redis_keys.FOUND_BY.make(tag=TAG, address=text(finder))


@pytest.fixture
async def player(settings):
    player = Player(settings)
    await player.redis.flushdb()
    yield player
    await player.redis.aclose()


async def play(settings: Settings, random: Random) -> None:
    player = Player(settings)
    await player.redis.flushdb()
    try:
        batches = random_batches(random, 25)
        at = 0
        while at < len(batches):
            until = min(at + random.randint(1, 4), len(batches))
            await player.apply(*batches[at:until])
            at = until
            dice = random.random()
            if dice < 0.4:
                await player.flush()
            elif dice < 0.6:  # killed before it wrote, or after and before it heard so
                if random.random() < 0.5:
                    await player.flush(heard=False)
                player.crash()
                await player.open()
                done = player.written.slot if player.written else 0
                at = sum(batch.slot <= done for batch in batches)
            elif dice < 0.8:
                await player.books.tick()
        await player.flush()
        assert await player.state() == expected(batches, TAG)
    finally:
        await player.redis.aclose()


@given(st.integers(0, 2**32))
@hypothesis_settings(max_examples=60, deadline=None, phases=[Phase.generate])
def test_whatever_is_killed_redis_has_what_the_slots_say(settings, seed):
    asyncio.run(play(settings, Random(seed)))


async def test_the_later_slot_wins_and_an_equal_one_is_taken(player):
    await player.apply(slot_batch(10, vote(raw(1, 1), 10)))
    await player.apply(slot_batch(11, asked(vote(raw(1, 1), 9), 9)))
    await player.flush()
    assert unpack(await player.redis.get(acct(raw(1, 1)))).slot == 10
    await player.apply(slot_batch(12, asked(vote(raw(1, 1), 10), 11)))
    await player.flush()
    assert unpack(await player.redis.get(acct(raw(1, 1)))).slot == 11


async def test_an_answer_does_not_bring_back_what_was_closed_after_it(player):
    await player.apply(
        slot_batch(10, closing(raw(1, 2))),
        slot_batch(11, asked(stake(raw(1, 2), ALICE, ALICE), 9)),
    )
    await player.flush()
    assert unpack(await player.redis.get(acct(raw(1, 2)))).closed
    assert not await player.redis.exists(own(ALICE))


async def test_what_finds_an_account_goes_with_it(player):
    await player.apply(slot_batch(10, stake(raw(1, 2), ALICE, BOB)))
    await player.flush()
    assert await player.redis.smembers(own(ALICE)) == {raw(1, 2)}
    player.crash()
    await player.apply(slot_batch(11, stake(raw(1, 2), CAROL, BOB)))
    await player.flush()
    assert not await player.redis.exists(own(ALICE))
    assert await player.redis.smembers(own(CAROL)) == {raw(1, 2)}
    player.crash()
    await player.apply(slot_batch(12, closing(raw(1, 2))))
    await player.flush()
    assert not await player.redis.exists(own(BOB), own(CAROL))


async def test_a_closing_stays_for_an_hour_of_the_chain(player):
    await player.apply(slot_batch(10, closing(raw(1, 1)), closing(raw(1, 2)), time_ms=T0_MS))
    await player.flush()
    await player.apply(slot_batch(11, vote(raw(1, 2)), time_ms=T0_MS + HOUR_MS - 1))
    await player.books.tick()
    await player.flush()
    assert await player.redis.exists(acct(raw(1, 1)))
    await player.apply(slot_batch(12, time_ms=T0_MS + HOUR_MS))
    await player.books.tick()
    await player.flush()
    assert not await player.redis.exists(acct(raw(1, 1)))
    assert await player.redis.exists(acct(raw(1, 2)))
    assert not await player.redis.exists(f"accts:{TAG}:closed")


async def test_a_wallet_let_go_takes_its_tokens_with_it_and_nothing_else(player):
    await player.apply(
        slot_batch(
            10,
            token(raw(1, 1), ALICE),
            stake(raw(1, 2), ALICE, ALICE),
            native(ALICE, 5),
            token(raw(1, 4), BOB),
            covered=[Covered(kind=Covered.WALLET, address=ALICE, slot=9)],
        )
    )
    await player.flush()
    player.crash()
    await player.apply(slot_batch(11, covered=[Covered(kind=Covered.WALLET, address=ALICE)]))
    await player.flush()
    assert not await player.redis.exists(acct(raw(1, 1)), acct(ALICE), f"cover:{TAG}:{text(ALICE)}")
    assert await player.redis.smembers(own(ALICE)) == {raw(1, 2)}
    assert await player.redis.exists(acct(raw(1, 4))) == 1


async def test_lamports_of_a_wallet_are_kept_whatever_program_has_its_account(player):
    curve = bytes(range(32))
    await player.apply(slot_batch(7, asked(version(ALICE, curve, b"", 5), 6)))
    await player.flush()
    stored = unpack(await player.redis.get(acct(ALICE)))
    assert (stored.slot, stored.lamports, stored.program, stored.size) == (6, 5, OTHER, 0)
    player.crash()
    await player.apply(slot_batch(8, covered=[Covered(kind=Covered.WALLET, address=ALICE)]))
    await player.flush()
    assert not await player.redis.exists(acct(ALICE))


async def test_what_is_below_its_program_s_coverage_is_swept_away(player):
    await player.apply(
        slot_batch(10, stake(raw(1, 1), ALICE, ALICE), stake(raw(1, 2), BOB, BOB)),
        slot_batch(
            20,
            asked(stake(raw(1, 2), BOB, BOB), 19),
            covered=[Covered(kind=Covered.PROGRAM, address=STAKE_PROGRAM, slot=19)],
        ),
    )
    await player.flush()
    await player.books.tick()
    await player.flush()
    assert not await player.redis.exists(acct(raw(1, 1)), own(ALICE))
    assert await player.redis.smembers(own(BOB)) == {raw(1, 2)}
    assert player.rows[text(raw(1, 1))][-1] == 1, "its row says that it is gone"
    assert player.rows[text(raw(1, 2))][-1] == 0


async def test_an_account_at_rest_goes_to_clickhouse_and_comes_back_when_touched(settings):
    player = Player(settings, account_cold_after_days=1)
    await player.redis.flushdb()
    cold = stake(raw(1, 1), ALICE, BOB, 7)
    await player.apply(slot_batch(10, cold, vote(raw(1, 2)), token(raw(1, 3), ALICE)))
    await player.flush()
    await player.apply(slot_batch(10 + 216_001, parent=10, time_ms=T0_MS))
    await player.books.tick()
    await player.flush()
    assert not await player.redis.exists(acct(raw(1, 1)), own(BOB))
    assert await player.redis.exists(acct(raw(1, 2)), acct(raw(1, 3))) == 2
    _, kind, _, found_by, lamports, data, slot, is_deleted = player.rows[text(raw(1, 1))]
    assert (kind, slot, is_deleted, lamports) == ("stake", 10, 0, cold.lamports)
    assert found_by == [text(ALICE), text(BOB)]
    assert len(data) == 200
    # private `_store`: the filter of cold accounts that the books hold.
    away = player.books._store.away
    assert await away.may_be([raw(1, 1), ALICE, BOB, CAROL]) == [True, True, True, False]
    player.crash()
    await player.apply(slot_batch(300_000, stake(raw(1, 1), CAROL, CAROL), parent=216_011))
    await player.flush()
    assert await player.redis.smembers(own(CAROL)) == {raw(1, 1)}
    player.crash()
    await player.redis.unlink(acct(raw(1, 1)), own(CAROL))  # as if it had rested again
    await player.apply(slot_batch(300_001, closing(raw(1, 1)), parent=300_000))
    await player.flush()
    assert player.rows[text(raw(1, 1))][-1] == 1
    await player.redis.aclose()


async def test_in_a_full_redis_the_accounts_at_rest_for_longest_make_room(player):
    for number in range(6):
        await player.apply(slot_batch(10 + number, stake(raw(1, number), ALICE, BOB)))
    await player.flush()
    await player.apply(slot_batch(20, stake(raw(1, 3), ALICE, CAROL)))
    assert await player.evict() == 5, "not the one that is not written yet"
    assert await player.redis.smembers(own(ALICE)) == {raw(1, 3)}
    await player.flush()
    assert await player.redis.smembers(own(CAROL)) == {raw(1, 3)}
    assert len(player.rows) == 6
    assert await player.evict() == 1
    assert await player.evict() == 0


async def test_an_account_that_cannot_be_read_is_left_out_alone(player):
    await player.apply(slot_batch(10, stake(raw(1, 1), ALICE, ALICE), vote(raw(1, 2))))
    await player.flush()
    await player.redis.set(acct(raw(1, 1)), b"spoiled")
    player.crash()
    await player.apply(slot_batch(11, stake(raw(1, 1), BOB, BOB), vote(raw(1, 2), 5)))
    await player.flush()
    assert await player.redis.get(acct(raw(1, 1))) == b"spoiled"
    assert unpack(await player.redis.get(acct(raw(1, 2)))).slot == 11
    assert await player.redis.hkeys(f"quarantine:{TAG}:accounts") == [text(raw(1, 1)).encode()]
    player.crash()
    await player.open()
    assert [*player.books.quarantine] == [text(raw(1, 1))]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"address": b"short"}, "accounts.address has 5 bytes"),
        ({"program": b""}, "accounts.program has 0 bytes"),
        ({"found_by": [b"x"]}, "accounts.found_by has 1 bytes"),
        ({"data": b"no frame"}, "accounts.data of"),
        ({"size": 3}, "accounts.data of"),
    ],
)
async def test_content_that_is_none_of_ours_is_named(player, change, said):
    version = stake(raw(1, 1), ALICE, ALICE)
    for name, value in change.items():
        version.ClearField(name)
        (getattr(version, name).extend if name == "found_by" else _setter(version, name))(value)
    with pytest.raises(CodecError, match=said):
        await player.apply(slot_batch(10, version))


def _setter(version, name):
    return lambda value: setattr(version, name, value)


async def test_a_revision_changes_with_the_coverage_of_programs_and_nothing_else(player):
    async def revision(slot, *covered):
        await player.apply(slot_batch(slot, stake(raw(1, 1), ALICE, ALICE), covered=covered))
        await player.flush()
        return await player.redis.hget(redis_keys.COVERAGE_FLOOR.make(tag=TAG), "programs")

    def of(kind, address, **said):
        return Covered(kind=kind, address=address, **said)

    found = [await revision(10)]  # of books that were opened: others may have written before
    for slot, covered in enumerate(
        (
            of(Covered.PROGRAM, STAKE_PROGRAM, slot=10),
            of(Covered.PROGRAM, STAKE_PROGRAM, reason="the node does not answer"),
            of(Covered.PROGRAM, STAKE_PROGRAM),
        ),
        11,
    ):
        found.append(await revision(slot, covered))
    assert len({*found}) == len(found)
    assert None not in found
    assert await revision(20) == found[-1]
    assert await revision(21, of(Covered.WALLET, ALICE, slot=20)) == found[-1]
    name = redis_keys.COVERED.make(tag=TAG, address=text(STAKE_PROGRAM))
    for slot, kind in enumerate((Covered.WALLET, Covered.HOLDERS), 22):
        # An ask for a program as a wallet or account does not cover the program's accounts.
        assert await revision(slot, of(kind, STAKE_PROGRAM, slot=20)) == found[-1]
        assert not await player.redis.exists(name)
    player.crash()
    assert await revision(30) not in found


async def test_the_largest_accounts_of_a_mint_are_kept_until_they_are_let_go(player):
    mint, first, second = raw(9, 1), raw(9, 2), raw(9, 3)
    subject = largest_of(mint)
    name = redis_keys.COVERED.make(tag=TAG, address=text(subject))

    def listed(slot, *accounts, **of):
        return Covered(kind=Covered.HOLDERS, address=subject, slot=slot, accounts=accounts, **of)

    both = asked(token(first, ALICE), 9), asked(token(second, BOB), 9)
    await player.apply(slot_batch(10, *both, covered=[listed(9, first, second, least_raw=7)]))
    await player.flush()
    record = {b"slot": b"9", b"given": b"10", b"accounts": first + second, b"least_raw": b"7"}
    assert await player.redis.hgetall(name) == record
    # A later list without the second, of which nobody has more: it is let go.
    gone = Covered(kind=Covered.HOLDERS, address=second)
    await player.apply(
        slot_batch(12, asked(token(first, ALICE), 11), covered=[gone, listed(11, first)])
    )
    await player.flush()
    assert await player.redis.hgetall(name) == {
        b"slot": b"11",
        b"given": b"12",
        b"accounts": first,
    }
    assert await player.redis.exists(acct(first)) == 1
    assert await player.redis.exists(acct(second), own(BOB)) == 0
    await player.apply(
        slot_batch(
            13, covered=[Covered(kind=Covered.HOLDERS, address=subject, reason="slots are lost")]
        )
    )
    await player.flush()
    assert await player.redis.hmget(name, "slot", "reason") == [None, b"slots are lost"]
    wrong = slot_batch(14, covered=[listed(13, b"short")])
    with pytest.raises(CodecError, match=r"covered\.accounts has 5 bytes"):
        await player.apply(wrong)


async def test_a_pool_is_found_by_its_mint_whoever_else_names_it(player):
    mint, pool = raw(7, 1), raw(7, 2)
    data = StakePool(ALICE, mint, 5, 4).data()
    version = AccountVersion(
        address=pool,
        program=STAKE_POOL_PROGRAM,
        lamports=1,
        size=len(data),
        data=compress(data),
        found_by=[mint],
    )
    await player.apply(slot_batch(7, version, stake(raw(7, 3), mint, mint, 1)))
    await player.flush()
    assert await player.redis.smembers(own(mint)) == {pool, raw(7, 3)}
    name = redis_keys.POOLS_OF.make(tag=TAG, mint=text(mint))
    assert await player.redis.smembers(name) == {pool}


async def test_a_pool_that_closes_or_changes_its_mint_is_not_found_by_it(player):
    mint, other, pool = raw(7, 1), raw(7, 4), raw(7, 2)

    def version(of):
        data = StakePool(ALICE, of, 5, 4).data()
        return AccountVersion(
            address=pool,
            program=STAKE_POOL_PROGRAM,
            lamports=1,
            size=len(data),
            data=compress(data),
            found_by=[of],
        )

    async def pools():
        names = [redis_keys.POOLS_OF.make(tag=TAG, mint=text(each)) for each in (mint, other)]
        return [await player.redis.smembers(name) for name in names]

    await player.apply(slot_batch(7, version(mint)))
    await player.apply(slot_batch(8, version(mint)))
    await player.flush()
    assert await pools() == [{pool}, set()]
    await player.apply(slot_batch(9, version(other)))
    await player.flush()
    assert await pools() == [set(), {pool}]
    await player.apply(slot_batch(10, AccountVersion(address=pool, closed=True, program=bytes(32))))
    await player.flush()
    assert await pools() == [set(), set()]


async def test_an_address_is_covered_as_a_mint_and_as_a_wallet_apart(player):
    """Each takes its own accounts with it; the mint's own goes when nobody keeps it."""
    both, held, described = raw(8, 1), raw(1, 1), raw(1, 2)
    of_mint, of_wallet = (
        redis_keys.COVERED.make(tag=TAG, address=text(each))
        for each in (mint_account_of(both), both)
    )
    mint = version(both, TOKEN_PROGRAM, bytes(82), 5)
    metadata = version(described, METAPLEX_PROGRAM, b"\4" + ALICE + both + bytes(50), 5)
    assert list(metadata.found_by) == [both]
    given = Covered(kind=Covered.MINT, address=both, slot=9)
    await player.apply(slot_batch(10, mint, metadata, covered=[given]))
    await player.flush()
    assert await player.redis.hget(of_mint, "slot") == b"9"
    assert not await player.redis.exists(of_wallet), "its token accounts are not known"
    given = Covered(kind=Covered.WALLET, address=both, slot=11)
    await player.apply(slot_batch(12, token(held, both), covered=[given]))
    await player.flush()
    assert await player.redis.exists(acct(both), acct(described), acct(held)) == 3
    player.crash()
    await player.apply(slot_batch(13, covered=[Covered(kind=Covered.WALLET, address=both)]))
    await player.flush()
    assert await player.redis.exists(acct(both), acct(described), of_mint) == 3
    assert not await player.redis.exists(acct(held), of_wallet)
    await player.apply(slot_batch(14, token(held, both), covered=[given]))
    gone = Covered(kind=Covered.HOLDERS, address=both)
    await player.apply(slot_batch(15, covered=[gone, Covered(kind=Covered.MINT, address=both)]))
    await player.flush()
    assert not await player.redis.exists(acct(both), acct(described), of_mint)
    assert await player.redis.exists(acct(held)) == 1
