"""What the books of accounts write is what is answered: random lives of stake accounts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest

from api.accounts.following import Following
from api.accounts.mints import MintReader
from api.positions.accounts_reader import AccountsReader
from api.positions.by_mint import ByMint
from api.positions.prices import PriceReader
from api.positions.reader import Positions
from api.positions.rewards import RewardsReader
from api.stores.clients import Stores
from api.tokens.backing import Backing
from api.tokens.pool_prices import PoolPrices
from api.tokens.reader import TokenReader
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.accounts.agent import GROUP, open_accounts
from pipeline.sinks.redis import Watermark, commit
from schemas import redis_keys
from schemas.accounts import compress, followed_of
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.protocols.contract import (
    Asset,
    Held,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    World,
)
from schemas.protocols.native_stake import STAKE
from schemas.protocols.registry import SLUGS, kind_of
from schemas.protocols.token import TOKEN
from schemas.solana import addresses
from schemas.solana.addresses import text
from schemas.topics import SETTLED_ACCOUNTS
from tests.support.stake import clock_data, history_data, stake_data

SOL = 10**9
T0_MS = 1_763_700_000_000
FIRST = 1000


def version(address: bytes, program: bytes, data: bytes, lamports: int) -> AccountVersion:
    """Return what ingest sends of an account."""
    kind = kind_of(address, program, data)
    assert kind is not None
    return AccountVersion(
        address=address,
        program=program,
        lamports=lamports,
        size=len(data),
        data=compress(data),
        found_by=kind.found_by(data),
    )


class Lane:
    """All partitions of the lane of accounts, through their books into Redis."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.redis = connect(settings)
        self.books: list[Any] = []
        self.written: Watermark | None = None

    async def play(self, slot: int, versions: list[AccountVersion], *covered: Covered) -> None:
        """Apply a slot and write what it changed."""
        mark = Watermark(slot, slot, T0_MS + slot * 400)
        for partition in range(SETTLED_ACCOUNTS.partitions):
            if len(self.books) == partition:
                self.books.append(await open_accounts(self.settings, self.redis, partition))
            of_partition = [
                each
                for each in versions
                if SETTLED_ACCOUNTS.partition(text(each.address)) == partition
            ]
            batch = SlotBatch(
                slot=slot,
                complete=True,
                parent=slot - 1,
                block_time_ms=mark.time_ms,
                accounts=sorted(of_partition, key=lambda each: each.address),
                covered=covered,
            )
            books = self.books[partition]
            await books.load([batch])
            books.apply(batch)
            tag = redis_keys.tag_of_partition(SETTLED_ACCOUNTS, partition)
            name = redis_keys.WATERMARK.make(tag=tag, group=GROUP)
            await commit(self.redis, name, self.written, mark, books.take().commands)
            books.written()
        self.written = mark


@pytest.fixture
async def lane(settings: Settings) -> AsyncIterator[Lane]:
    made = Lane(settings)
    await made.redis.flushdb()
    yield made
    await made.redis.aclose()


@pytest.fixture
async def positions(settings: Settings) -> AsyncIterator[Positions]:
    stores = Stores(settings)
    following = Following(stores, settings)
    rewards = RewardsReader(stores, following)
    # Without the cache of answers.
    accounts = AccountsReader(stores)
    tokens = TokenReader(stores)
    prices = PriceReader(
        tokens, MintReader(stores), PoolPrices(stores, tokens, accounts), Backing(stores)
    )
    yield Positions(accounts, ByMint(stores, accounts), prices, rewards, following)
    await following.aclose()
    await stores.close()


async def test_answers_follow_the_lane(lane: Lane, positions: Positions) -> None:
    rng = Random(8)
    wallets = [rng.randbytes(32) for _ in range(4)]
    alive: dict[bytes, tuple[bytes, int]] = {}  # account -> withdrawer, lamports
    history = version(
        addresses.STAKE_HISTORY,
        addresses.SYSVAR_PROGRAM,
        history_data({99: (1000 * SOL, 900 * SOL, 900 * SOL)}),
        1,
    )
    for step in range(40):
        slot = FIRST + step
        versions = [history] if not step else []
        clock = clock_data(slot, 100, T0_MS // 1000)
        versions.append(version(addresses.CLOCK, addresses.SYSVAR_PROGRAM, clock, 1))
        for address in rng.sample([*alive], rng.randint(0, min(3, len(alive)))):
            if rng.random() < 0.5:
                del alive[address]
                versions.append(
                    AccountVersion(address=address, program=addresses.SYSTEM_PROGRAM, closed=True)
                )
            else:  # it grows, or changes hands
                alive[address] = rng.choice(wallets), rng.randint(1, 10**12)
        for _ in range(rng.randint(0, 4)):
            alive[rng.randbytes(32)] = rng.choice(wallets), rng.randint(1, 10**12)
        versions += [
            version(address, addresses.STAKE_PROGRAM, stake_data(owner), lamports)
            for address, (owner, lamports) in alive.items()
        ]
        covered = [Covered(address=addresses.STAKE_PROGRAM, slot=slot, kind=Covered.PROGRAM)] * (
            step == 10
        )
        await lane.play(slot, versions, *covered)
        for wallet in wallets:
            answer = await positions.of_route(
                text(wallet), "staking", SLUGS["staking"], "native", "k"
            )
            assert (answer["as_of_slot"], answer["as_of_ms"]) == (slot, T0_MS + slot * 400)
            assert answer["is_complete"] == (step >= 10), answer["errors"]
            found = {
                each["position_id"]: each["assets"][0]["amount_raw"] for each in answer["positions"]
            }
            assert found == {
                text(address): str(lamports)
                for address, (owner, lamports) in alive.items()
                if owner == wallet
            }
            if step >= 10:
                assert answer["coverage"]["since_slot"] == FIRST + 10
    assert len(alive) > 20


WALLET, VAULT, MINT = (bytes([n]) * 32 for n in (51, 52, 53))


def read_vault(held: Held, world: World) -> Reading:
    """Read a vault, as a pool's reading does."""
    known = yield [VAULT]
    positions = [Position("liquidity", account) for account in held.accounts]
    for position in positions:
        if VAULT in known:
            amount = int.from_bytes(known[VAULT].data[64:72], "little")
            position.assets = [Asset(Role.SUPPLY, MINT, amount)]
        else:
            position.missing = [VAULT]
    return positions


async def test_a_vault_is_asked_for_and_used_while_it_is_followed_alone(
    lane: Lane, positions: Positions
) -> None:
    protocol = Protocol(
        "made", (STAKE,), (Route("liquidity", Shape.LIQUIDITY, "made"),), read_vault
    )

    async def answer() -> Any:
        return await positions.of_route(text(WALLET), "made", protocol, "liquidity", "key")

    async def is_lacking() -> bool:
        found = await answer()
        codes = [(each["account"], each["code"]) for each in found["errors"]]
        if found["is_complete"]:
            return False
        assert codes == [(text(VAULT), "reference_missing")]
        assert "asked for" in found["errors"][0]["detail"]
        return True

    def vault(amount: int, asked_slot: int | None = None) -> AccountVersion:
        data = MINT + WALLET[::-1] + amount.to_bytes(8, "little") + bytes(36) + b"\1" + bytes(56)
        found = version(VAULT, TOKEN.program, data, 2_039_280)
        if asked_slot is not None:
            found.asked_slot = asked_slot
        return found

    clock = version(addresses.CLOCK, addresses.SYSVAR_PROGRAM, clock_data(FIRST, 100, 9), 1)
    staked = version(WALLET[::-1], STAKE.program, stake_data(WALLET), SOL)
    stakes = Covered(kind=Covered.PROGRAM, address=STAKE.program, slot=FIRST)
    await lane.play(FIRST, [clock, staked], stakes)
    assert await is_lacking()
    asked = await lane.redis.xrange(redis_keys.ASKED_ACCOUNTS.make())
    assert [fields for _, fields in asked] == [{b"account": VAULT}]
    # Another mint's list may have left a version that nobody follows.
    await lane.play(FIRST + 1, [vault(5)])
    assert await is_lacking()
    given = Covered(kind=Covered.ACCOUNT, address=followed_of(VAULT), slot=FIRST + 1)
    await lane.play(FIRST + 2, [vault(6, FIRST + 1)], given)
    found = await answer()
    assert found["is_complete"]
    assert found["positions"][0]["assets"][0]["amount_raw"] == "6"
    await lane.play(FIRST + 3, [vault(7)])
    assert (await answer())["positions"][0]["assets"][0]["amount_raw"] == "7"
    # It is let go: what is stored goes, and would not be used if it did not.
    left = Covered(kind=Covered.ACCOUNT, address=followed_of(VAULT))
    await lane.play(FIRST + 4, [], left)
    assert await is_lacking()
    await lane.play(FIRST + 5, [], Covered(kind=Covered.HOLDERS, address=VAULT))
    tag = redis_keys.account_tag(text(VAULT))
    assert not await lane.redis.exists(redis_keys.ACCOUNT.make(tag=tag, address=text(VAULT)))
    again = Covered(kind=Covered.ACCOUNT, address=followed_of(VAULT), slot=FIRST + 5)
    await lane.play(FIRST + 6, [vault(8, FIRST + 5)], again)
    assert (await answer())["positions"][0]["assets"][0]["amount_raw"] == "8"
    # Slots are lost: nothing is certain until it is asked again.
    await lane.play(FIRST + 7, [], Covered(kind=Covered.ALL, reason="slots were lost"))
    lost = await answer()
    assert {each["code"] for each in lost["errors"]} == {"not_covered", "reference_missing"}


def read_reward(held: Held, world: World) -> Reading:
    """Read a reward that is no more than its vault holds, as a farm's reading does."""
    known = yield [VAULT]
    positions = [Position("rewards", account) for account in held.accounts]
    for position in positions:
        amount = None
        if VAULT in known:
            amount = int.from_bytes(known[VAULT].data[64:72], "little")
        else:
            position.lacking = [VAULT]
        position.assets = [Asset(Role.REWARD, MINT, amount, 6)]
    return positions


async def test_a_vault_that_a_line_lacks_is_asked_for_and_is_no_error(
    lane: Lane, positions: Positions
) -> None:
    protocol = Protocol("made", (STAKE,), (Route("rewards", Shape.REWARDS, "made"),), read_reward)

    async def amount() -> Any:
        found = await positions.of_route(text(WALLET), "made", protocol, "rewards", "key")
        assert found["is_complete"], found["errors"]
        return found["positions"][0]["assets"][0]["amount_raw"]

    clock = version(addresses.CLOCK, addresses.SYSVAR_PROGRAM, clock_data(FIRST, 100, 9), 1)
    staked = version(WALLET[::-1], STAKE.program, stake_data(WALLET), SOL)
    await lane.play(
        FIRST, [clock, staked], Covered(kind=Covered.PROGRAM, address=STAKE.program, slot=FIRST)
    )
    assert await amount() is None
    asked = await lane.redis.xrange(redis_keys.ASKED_ACCOUNTS.make())
    assert [fields for _, fields in asked] == [{b"account": VAULT}]
    data = MINT + WALLET[::-1] + (6).to_bytes(8, "little") + bytes(36) + b"\1" + bytes(56)
    vault = version(VAULT, TOKEN.program, data, 2_039_280)
    vault.asked_slot = FIRST + 1
    given = Covered(kind=Covered.ACCOUNT, address=followed_of(VAULT), slot=FIRST + 1)
    await lane.play(FIRST + 1, [vault], given)
    assert await amount() == "6"
