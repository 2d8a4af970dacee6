"""The comparison of all accounts: nothing differs, and one byte of any kind in any store does.

The accounts are a simulated chain's, selected as ingest selects them and written by the books of
agent `accounts` to a real Valkey and ClickHouse.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clickhouse_connect.driver.client import Client

from infra.chain.account_truth import AccountTruth
from infra.chain.market import Knobs, Market
from infra.chain.source import AccountWrite, SlotCompleted, SlotEvent, SlotTransactions
from infra.clickhouse.client import connect as connect_clickhouse
from infra.redis.client import connect
from infra.settings import Settings
from pipeline.agents.accounts.agent import open_accounts
from pipeline.chaos import account_states, account_stores, accounts
from pipeline.chaos.account_kinds import COVERED, NAMES, is_token_account, kind_of
from pipeline.chaos.account_stores import Asked
from pipeline.chaos.differences import Differences
from pipeline.ingest.accounts.asked import Answer
from pipeline.ingest.accounts.batches import compose
from pipeline.ingest.accounts.ledger import SettledAccounts, Update
from pipeline.ingest.accounts.selection import Selection
from pipeline.ingest.accounts.tracked import Tracked
from schemas.accounts import (
    StoredAccount,
    compress,
    followed_of,
    largest_of,
    mint_account_of,
    pack,
    unpack,
)
from schemas.proto.tape_pb2 import Covered, SlotBatch
from schemas.redis_keys import ACCOUNT, FOUND_BY, account_tag, account_tags
from schemas.redis_keys import COVERED as COVERED_KEY
from schemas.rows import ACCOUNTS
from schemas.solana.addresses import METAPLEX_PROGRAM, SYSTEM_PROGRAM, TOKEN_PROGRAM, text
from schemas.topics import SETTLED_ACCOUNTS
from tests.support.systems import running_stores

pytestmark = [pytest.mark.slow, pytest.mark.processes]

SLOTS = 40
OF_ALL = (  # beside the kinds of programs that are covered whole
    accounts.OF_WALLET,
    accounts.MINT,
    accounts.METADATA,
    accounts.LARGEST,
    accounts.FOLLOWED,
)
BY_ADDRESS = (accounts.MINT, accounts.LARGEST, accounts.FOLLOWED)  # at no other


@dataclass(slots=True)
class World:
    """A chain that has ended: its notes, and what the stores have of it."""

    settings: Settings
    notes: Path
    asked: Asked
    largest: list[bytes]  # accounts of the mint whose holders are asked for
    last_slot: int = 0
    canonical: set[int] = field(default_factory=set)

    async def compared(self) -> Differences:
        found = Differences()
        state = account_states.after(self.notes, self.last_slot, self.canonical, ())
        stored = await account_stores.read(self.settings, self.asked, found)
        accounts.compare(state, stored, found)
        accounts.compare_at_slots(self.notes, self.canonical, set(), stored, found)
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("account-bytes")
    with running_stores(folder) as settings:
        yield asyncio.run(stored_chain(settings, folder / "accounts.truth"))


async def stored_chain(settings: Settings, notes: Path) -> World:
    """Run a chain and write what it left into the stores."""
    market = Market(Knobs(seed=7, rate=40.0))
    genesis = list(market.genesis_accounts())
    asked, largest = asked_of(genesis)
    world = World(settings, notes, asked, largest)
    tracked = Tracked(
        1_000,
        ((each, 1) for each in asked.wallets),
        ((each, 1) for each in asked.mints),
        ((each, 1) for each in asked.holders),
        ((each, 1) for each in asked.accounts),
    )
    for mint in asked.holders:
        tracked.follow_largest(largest_of(mint), largest)
    selection = Selection(tracked, ("positions", "arrays", "tokens"))
    slots = await slots_of(market, genesis, notes)
    lane: list[list[SlotBatch]] = [[] for _ in range(SETTLED_ACCOUNTS.partitions)]
    for settled in slots:
        answers = [] if world.canonical else [of_genesis(genesis, asked, largest, settled.slot - 1)]
        composed = await compose(settled, selection, answers, list)
        for batches, batch in zip(lane, composed.batches, strict=True):
            batches.append(batch)
        world.canonical.add(settled.slot)
    world.last_slot = slots[-1].slot
    await write(settings, lane)
    return world


def asked_of(genesis: list[AccountWrite]) -> tuple[Asked, list[bytes]]:
    """Return some wallets, mints and accounts to ask for, and the largest accounts of a mint."""
    wallets = {write.address for write in genesis if write.owner == SYSTEM_PROGRAM}
    tokens = [write for write in genesis if write.owner == TOKEN_PROGRAM and len(write.data) == 165]
    of_wallet = Counter(write.data[32:64] for write in tokens if write.data[32:64] in wallets)
    of_mint = Counter(write.data[:32] for write in tokens)
    described = {write.data[33:65] for write in genesis if len(write.data) == 607}
    [(popular, _), (other, _)] = of_mint.most_common(2)
    mints = {*sorted(described - {other})[:3], popular}
    largest = [write.address for write in tokens if write.data[:32] == popular][:20]
    followed = {write.address for write in tokens if write.data[:32] == other}
    holders = {wallet for wallet, _ in of_wallet.most_common(8)}
    return Asked(holders, mints, {popular}, {min(followed), other}), largest


def of_genesis(
    genesis: list[AccountWrite], asked: Asked, largest: list[bytes], slot: int
) -> Answer:
    """Return RPC's answer about all that there is before the first slot."""
    covered = [Covered(kind=Covered.PROGRAM, address=each, slot=slot) for each in COVERED]
    covered += [Covered(kind=Covered.WALLET, address=each, slot=slot) for each in asked.wallets]
    covered += [Covered(kind=Covered.MINT, address=each, slot=slot) for each in asked.mints]
    covered += [
        Covered(kind=Covered.HOLDERS, address=largest_of(each), slot=slot, accounts=largest)
        for each in asked.holders
    ]
    covered += [
        Covered(kind=Covered.ACCOUNT, address=followed_of(each), slot=slot)
        for each in asked.accounts
    ]
    updates = ((slot, update_of(write)) for write in genesis)
    return Answer.of(updates, covered, ready_slot=slot)


def update_of(write: AccountWrite) -> Update:
    return Update(
        write.address, write.owner, write.lamports, bytes(write.data), write.write_version
    )


async def slots_of(
    market: Market, genesis: list[AccountWrite], notes: Path
) -> list[SettledAccounts]:
    """Return the slots as the ledger settles them; none is left."""
    writes: defaultdict[int, dict[bytes, AccountWrite]] = defaultdict(dict)
    slots = []

    async def events() -> AsyncIterator[SlotEvent]:
        for event in market.generate(SLOTS):
            yield event

    with notes.open("wb") as sink:
        truth = AccountTruth(sink)
        assert len([*truth.genesis(genesis)]) == len(genesis)
        async for event in truth.events(events()):
            match event:
                case SlotTransactions(slot, transactions):
                    for each in transactions:
                        writes[slot] |= {write.address: write for write in each.writes}
                case SlotCompleted(header, of_bank):
                    of_slot = writes[header.slot] | {write.address: write for write in of_bank}
                    slots.append(
                        SettledAccounts(
                            header.slot,
                            header.parent_slot,
                            header.blockhash,
                            header.block_time * 1_000,
                            tuple(update_of(of_slot[at]) for at in sorted(of_slot)),
                            complete=True,
                        )
                    )
    return slots


async def write(settings: Settings, lane: list[list[SlotBatch]]) -> None:
    """Let the books of all partitions write what the lane says."""
    redis = connect(settings)
    rows: list[tuple[Any, ...]] = []
    try:
        for partition, batches in enumerate(lane):
            books = await open_accounts(settings, redis, partition)
            for batch in batches:
                await books.load([batch])
                books.apply(batch)
                writes = books.take()
                rows += writes.rows.get(ACCOUNTS.name, [])
                pipe = redis.pipeline(transaction=True)
                for command in writes.commands:
                    pipe.execute_command(*command)
                await pipe.execute()
                books.written()
    finally:
        await redis.aclose()
    with closing(connect_clickhouse(settings)) as client:
        client.insert(ACCOUNTS.name, rows, column_names=[*ACCOUNTS.columns])


async def test_every_account_is_compared_and_none_differs(world: World) -> None:
    found = await world.compared()
    assert not found.total, [str(each) for each in found.examples[:10]]
    lacking = {*NAMES, *OF_ALL} - {kind for kind, count in found.compared.items() if count}
    assert not lacking


def one_of_each(world: World) -> dict[str, bytes]:
    """Return an account of each kind that is compared, no account twice."""
    state = account_states.after(world.notes, world.last_slot, world.canonical, ())
    asked = world.asked
    [popular] = asked.holders
    found: dict[str, bytes] = {}
    for address, noted in sorted(state.accounts.items()):
        if not noted.lamports:
            continue
        if noted.owner in COVERED:
            kind = kind_of(noted.owner, noted.size, noted.first_data)
            assert kind is not None
            if kind.is_stored:
                found.setdefault(kind.name, address)
        elif address in asked.accounts:
            found[accounts.FOLLOWED] = address
        elif address in asked.mints:
            found[accounts.MINT] = address
        elif noted.owner == METAPLEX_PROGRAM and noted.first_data[33:65] in asked.mints:
            found[accounts.METADATA] = address
        elif is_token_account(noted.owner, noted.size):
            if noted.first_data[32:64] in asked.wallets:
                if noted.first_data[:32] != popular:
                    found[accounts.OF_WALLET] = address
            elif address in world.largest:
                found[accounts.LARGEST] = address
    return found


def place(address: bytes) -> str:
    return ACCOUNT.make(tag=account_tag(text(address)), address=text(address))


@contextmanager
def kept_rows(settings: Settings) -> Iterator[Client]:
    """Keep the rows of accounts apart, and bring them back."""
    with closing(connect_clickhouse(settings)) as client:
        client.command(f"CREATE TABLE kept AS {ACCOUNTS.name}")
        client.command(f"INSERT INTO kept SELECT * FROM {ACCOUNTS.name}")
        try:
            yield client
        finally:
            client.command(f"EXCHANGE TABLES kept AND {ACCOUNTS.name}")
            client.command("DROP TABLE kept SYNC")


Change = Callable[[StoredAccount], StoredAccount]


def last_byte(account: StoredAccount) -> StoredAccount:
    data = bytearray(account.data())
    data[-1] ^= 1
    return account._replace(frame=compress(bytes(data)))


def one_lamport(account: StoredAccount) -> StoredAccount:
    return account._replace(lamports=account.lamports + 1)


def program(account: StoredAccount) -> StoredAccount:
    """Another program's, of which all is compared as well."""
    other = next(each for each in COVERED if each != account.program)
    return account._replace(program=other)


@pytest.mark.parametrize("change", [last_byte, one_lamport, program, None])
async def test_what_is_changed_or_gone_in_redis_is_found_whatever_its_kind(
    world: World, change: Change | None
) -> None:
    changed = one_of_each(world)
    assert changed.keys() == {*NAMES, *OF_ALL}
    redis: Any = connect(world.settings)
    before = {place(address): await redis.get(place(address)) for address in changed.values()}
    try:
        if change is None:
            with kept_rows(world.settings) as client:
                # What was put away, readers have from ClickHouse.
                client.command(f"TRUNCATE TABLE {ACCOUNTS.name}")
                await redis.delete(*before)
                found = await world.compared()
        else:
            await redis.mset({at: pack(change(unpack(each))) for at, each in before.items()})
            found = await world.compared()
    finally:
        await redis.mset(before)
        await redis.aclose()
    assert not {kind for kind in changed if not found.counts[kind]}
    if change is not None:
        assert found.counts[accounts.AT_ITS_SLOT] == len(changed)


async def test_what_the_chain_does_not_have_is_found_whatever_its_kind(world: World) -> None:
    kinds = {kind: at for kind, at in one_of_each(world).items() if kind not in BY_ADDRESS}
    redis: Any = connect(world.settings)
    copies = [bytes([*address[:31], address[31] ^ 1]) for address in kinds.values()]
    try:
        for address, copy in zip(kinds.values(), copies, strict=True):
            await redis.set(place(copy), await redis.get(place(address)))
        found = await world.compared()
    finally:
        await redis.delete(*map(place, copies))
        await redis.aclose()
    assert not {kind for kind in kinds if not found.counts[kind]}
    assert found.counts[accounts.AT_ITS_SLOT] == len(kinds)


async def test_what_is_changed_or_gone_in_clickhouse_is_found_whatever_its_kind(
    world: World,
) -> None:
    named = {text(address): kind for kind, address in one_of_each(world).items()}
    columns = [*ACCOUNTS.columns]
    at = columns.index("data")
    for is_deleted in (False, True):
        with kept_rows(world.settings) as client:
            rows = client.query(
                f"SELECT {', '.join(columns)} FROM {ACCOUNTS.name} FINAL "
                "WHERE address IN {of:Array(String)}",
                parameters={"of": [*named]},
                column_formats={"data": "bytes"},
            ).result_rows
            kinds = {named[row[0]] for row in rows}
            assert {"stake account", "Drift user", accounts.OF_WALLET} <= kinds
            client.command(
                f"DELETE FROM {ACCOUNTS.name} WHERE address IN {{of:Array(String)}}",
                parameters={"of": [*named]},
            )
            if not is_deleted:
                changed = [
                    (*row[:at], bytes([*row[at][:-1], row[at][-1] ^ 1]), *row[at + 1 :])
                    for row in rows
                ]
                client.insert(ACCOUNTS.name, changed, column_names=columns)
            found = await world.compared()
        assert not {kind for kind in kinds if not found.counts[accounts.in_clickhouse(kind)]}
    assert not (await world.compared()).total


async def test_what_leads_to_accounts_is_compared_too(world: World) -> None:
    wallet = min(world.asked.wallets)
    mint = min(world.asked.mints)
    address = one_of_each(world)["stake account"]
    redis: Any = connect(world.settings)
    own = await redis.get(place(wallet))
    stake = await redis.get(place(address))
    sets = {
        name: await redis.smembers(name)
        for tag in account_tags()
        if await redis.scard(name := FOUND_BY.make(tag=tag, address=text(wallet)))
    }
    subject = text(mint_account_of(mint))
    coverage = COVERED_KEY.make(tag=account_tags()[2], address=subject)
    covered = await redis.hgetall(coverage)
    elsewhere = ACCOUNT.make(
        tag=next(tag for tag in account_tags() if tag != account_tag(text(address))),
        address=text(address),
    )
    try:
        await redis.set(place(wallet), pack(one_lamport(unpack(own))))
        await redis.delete(*sets, coverage, place(address))
        await redis.set(elsewhere, stake)
        await redis.set(place(mint), b"short")
        found = await world.compared()
    finally:
        await redis.delete(elsewhere)
        await redis.set(place(wallet), own)
        await redis.set(place(address), stake)
        await redis.hset(coverage, mapping=covered)
        for name, members in sets.items():
            await redis.sadd(name, *members)
        await redis.aclose()
    assert found.counts[accounts.LAMPORTS] == 1
    assert found.counts[accounts.FOUND_BY] == sum(map(len, sets.values()))
    assert found.counts[accounts.COVERAGE] == 1
    assert found.counts[accounts.MINT] >= 1  # of a mint that is not covered nothing is alive
    assert found.counts[account_stores.MISPLACED] == 1
    assert found.counts[account_stores.UNREADABLE] == 1
