"""The lane of accounts over a broker: what a reader of it has equals the chain, slot for slot."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from infra.kafka.topics import TopicsWrong
from infra.local.process import free_port
from pipeline.ingest.accounts.traded import NEWEST, TradedMints
from schemas.accounts import decompress, followed_of, largest_of
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.redis_keys import (
    ACTIVE,
    ASKED_ACCOUNTS,
    COVERAGE_FLOOR,
    COVERED,
    TRACKED_ACCOUNTS,
    TRACKED_HOLDERS,
    TRACKED_MINTS,
    TRACKED_WALLETS,
    account_tags,
    mint_tag,
)
from schemas.solana.addresses import STAKE_PROGRAM, TOKEN_PROGRAM, text
from schemas.topics import SETTLED_ACCOUNTS
from tests.support.account_node import MINTS, WALLETS, AccountNode, Held
from tests.support.forked import Forked
from tests.support.systems import running_valkey
from tests.support.topics import values_of
from tests.support.waiting import eventually_async

pytestmark = pytest.mark.processes


async def slots_of(kafka: str) -> list[dict[int, SlotBatch]]:
    """Return the lane's slots, ascending: each one's batches by partition.

    They end where not all partitions have been read: up to there the lane is one state.
    """
    try:
        values = await values_of(kafka, SETTLED_ACCOUNTS)
    except TopicsWrong:  # not created yet
        return []
    slots: dict[int, dict[int, SlotBatch]] = {}
    lasts = []
    for partition, records in values.items():
        lasts.append(-1)
        for value in records:
            batch = SlotBatch.FromString(value)
            assert partition not in slots.setdefault(batch.slot, {}), "each slot once"
            slots[batch.slot][partition] = batch
            lasts[-1] = batch.slot
    return [batches for slot, batches in sorted(slots.items()) if slot <= min(lasts)]


async def false_slots(kafka: str, node: AccountNode) -> list[object]:
    """Return the slots that say they are complete, where what is covered is not the chain's."""
    reader = Reader()
    found: list[object] = []
    for batches in await slots_of(kafka):
        for partition, batch in batches.items():
            reader.apply(partition, batch)
        if all(batch.complete for batch in batches.values()):
            wrong = [each for each in differences(reader, node) if "differ" in str(each)]
            if wrong:
                found.append((reader.slot, wrong))
    return found


@dataclass
class Reader:
    """Applies the lane as `schemas/proto/tape.proto` says; slow and plain."""

    stored: dict[bytes, tuple[int, AccountVersion]] = field(default_factory=dict)
    # by partition
    said: dict[int, dict[tuple[int, bytes], int | None]] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    # (slot, kind, address) -> partitions that give it
    given: Counter[tuple[int, int, bytes]] = field(default_factory=Counter)
    withdrawn: set[tuple[int, bytes]] = field(default_factory=set)  # with a reason
    largest: dict[bytes, list[bytes]] = field(default_factory=dict)
    slots: list[int] = field(default_factory=list)
    incomplete: list[int] = field(default_factory=list)
    at: dict[int, int] = field(default_factory=dict)  # partition -> slot

    @classmethod
    async def of(cls, kafka: str) -> Reader:
        reader = cls()
        for batches in await slots_of(kafka):
            for partition, batch in batches.items():
                reader.apply(partition, batch)
        return reader

    def apply(self, partition: int, batch: SlotBatch) -> None:
        assert batch.slot > self.at.get(partition, -1), "slots ascend, each once"
        self.at[partition] = batch.slot
        if partition == 0:
            self.slots.append(batch.slot)
        if not batch.complete:
            self.incomplete.append(batch.slot)
        for version in batch.accounts:
            slot = version.asked_slot if version.HasField("asked_slot") else batch.slot
            assert slot <= batch.slot
            if slot >= self.stored.get(version.address, (-1, None))[0]:
                self.stored[version.address] = slot, version
        said = self.said.setdefault(partition, {})
        for each in batch.covered:
            if each.kind == Covered.ALL:  # comes before what the slot gives
                said.clear()
            said[each.kind, each.address] = each.slot if each.HasField("slot") else None
            self.reasons.append(each.reason)
            if each.HasField("slot"):
                self.given[batch.slot, each.kind, each.address] += 1
            elif each.reason:
                self.withdrawn.add((each.kind, each.address))
            if each.kind == Covered.HOLDERS and each.HasField("slot"):
                self.largest[each.address] = [*each.accounts]

    def covered(self, kind: int, address: bytes) -> bool:
        return all(
            self.said.get(partition, {}).get((kind, address)) is not None
            for partition in range(SETTLED_ACCOUNTS.partitions)
        )

    @property
    def torn(self) -> set[tuple[int, bytes]]:
        """What some partitions give in a slot and others do not: its process was killed amid it."""
        return {
            (kind, address)
            for (_, kind, address), partitions in self.given.items()
            if partitions < SETTLED_ACCOUNTS.partitions
        }

    @property
    def slot(self) -> int:
        return min(self.at.values(), default=-1)

    def alive(
        self, subject: tuple[int, bytes], of: Callable[[AccountVersion], bool]
    ) -> dict[bytes, Held]:
        return {
            address: Held(v.program, v.lamports, decompress(v.data, v.size))
            for address, (slot, v) in self.stored.items()
            if not v.closed and of(v) and slot >= self.since(address, subject)
        }

    def since(self, address: bytes, subject: tuple[int, bytes]) -> int:
        return self.said[SETTLED_ACCOUNTS.partition(text(address))][subject] or 0


def differences(reader: Reader, node: AccountNode) -> list[object]:
    """What is covered and not as it is on the chain, at the last slot of the lane."""
    truth = node.at(reader.slot).accounts
    found: list[object] = []
    program = Covered.PROGRAM, STAKE_PROGRAM
    stakes = {a: h for a, h in truth.items() if h.owner == STAKE_PROGRAM}
    if not reader.covered(*program):
        found.append("stake is not covered")
    elif reader.alive(program, lambda v: v.program == STAKE_PROGRAM) != stakes:
        found.append("stake accounts differ")
    for wallet in WALLETS:
        if not reader.covered(Covered.WALLET, wallet):
            found.append(("not covered", wallet[:2]))
            continue
        tokens = {
            a: h for a, h in truth.items() if h.owner == TOKEN_PROGRAM and h.data[32:64] == wallet
        }
        kept = reader.alive(
            (Covered.WALLET, wallet),
            lambda v, w=wallet: v.program == TOKEN_PROGRAM and w in v.found_by,
        )
        if kept != tokens:
            found.append(("tokens differ", wallet[:2]))
    return found


def check_after_a_kill(reader: Reader, node: AccountNode) -> None:
    """Check that nothing was withdrawn but what a slot gave that the kill came amid.

    Programs are given one after the other, so there may be some.
    """
    assert reader.withdrawn <= reader.torn
    assert {*reader.reasons} <= {"", "its accounts were not all written"}
    if not reader.torn:
        assert differences(reader, node) == []


@dataclass
class Role:
    """`soltape ingest accounts` as a child process."""

    environment: dict[str, str]
    log_file: Path
    process: Forked | None = None

    def start(self) -> None:
        ours = {"METRICS_PORT_INGEST_ACCOUNTS": str(free_port()), "LOG_FORMAT": "json"}
        environment = os.environ | self.environment | ours
        self.process = Forked(("ingest", "accounts"), environment, self.log_file)

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=240)

    @property
    def log(self) -> str:
        return self.log_file.read_text() if self.log_file.exists() else ""


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    with running_valkey(tmp_path) as port:
        yield f"redis://127.0.0.1:{port}/0"


@asynccontextmanager
async def lane(
    node: AccountNode, kafka: str, url: str, folder: Path, **settings: str
) -> AsyncIterator[tuple[Role, Any]]:
    """Run the role against a node."""
    async with node.serve() as served, Redis.from_url(url) as redis:
        environment = {"KAFKA_BOOTSTRAP": kafka, "REDIS_URL": url, "SOLTAPE_DATA": str(folder)}
        role = Role(environment | served | settings, folder / "accounts.log")
        role.start()
        try:
            yield role, redis
        finally:
            if role.process is not None and role.process.poll() is None:
                role.stop(signal.SIGKILL)


async def ask(redis: Any, *wallets: bytes) -> None:
    for wallet in wallets:
        await redis.xadd(ASKED_ACCOUNTS.make(), {"wallet": wallet}, maxlen=10_000)


async def until_equal(kafka: str, node: AccountNode, role: Role) -> Reader:
    """Return the reader once all that should be covered is, and equals the chain."""
    seen: list[object] = []

    async def is_equal() -> Reader | None:
        reader = await Reader.of(kafka)
        if reader.slot < 0:
            return None
        seen[:] = differences(reader, node)
        return None if seen else reader

    return await eventually_async(is_equal, lambda: (seen, role.log[-3000:]))


async def until_complete(kafka: str, role: Role) -> Reader:
    """Return the reader once its last slot says that it is complete."""

    async def is_complete() -> Reader | None:
        reader = await Reader.of(kafka)
        return None if reader.slots[-1] in reader.incomplete else reader

    return await eventually_async(is_complete, lambda: role.log[-3000:])


async def reach(kafka: str, slot: int) -> Reader:
    async def has_reached() -> Reader | None:
        reader = await Reader.of(kafka)
        return reader if reader.slot >= slot else None

    return await eventually_async(has_reached)


@pytest.mark.parametrize("refuses_system", [False, True])
async def test_tracked_wallets_and_programs_equal_the_chain(
    kafka, redis_url, tmp_path, refuses_system
):
    node = AccountNode(3, refuses_system=refuses_system, disconnect_chance=0.02)
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await ask(redis, *WALLETS[:6])
        await redis.xadd(ASKED_ACCOUNTS.make(), {"mint": MINTS[0]})
        await eventually_async(lambda: node.streams > 0)
        await ask(redis, *WALLETS[6:])
        reader = await until_equal(kafka, node, role)
        assert reader.covered(Covered.MINT, MINTS[0])
        for _ in range(3):  # it stays so, with nothing asked again
            asked = node.calls["getTokenAccountsByOwner"]
            reader = await reach(kafka, reader.slot + 30)
            assert differences(reader, node) == []
            assert node.calls["getTokenAccountsByOwner"] == asked == 2 * len(WALLETS)
        assert reader.slots == [
            b.slot for b in node.banks if reader.slots[0] <= b.slot <= reader.slots[-1]
        ]
        assert await redis.zcard(TRACKED_WALLETS.make()) == len(WALLETS)
        assert any(request.transactions for request in node.requests) == refuses_system
        assert role.stop() == 0


async def test_the_largest_accounts_of_a_mint_follow_the_chain(kafka, redis_url, tmp_path):
    node = AccountNode(4)
    subjects = [largest_of(mint) for mint in MINTS]
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await eventually_async(lambda: node.streams > 0)
        for mint in (*MINTS, bytes(range(32))):  # the last is no mint
            await redis.xadd(ASKED_ACCOUNTS.make(), {"holders": mint})

        async def are_covered() -> Reader | None:
            reader = await Reader.of(kafka)
            known = all(reader.covered(Covered.HOLDERS, each) for each in subjects)
            return (
                reader
                if known and "RPC refuses it (error -32602)" in "".join(reader.reasons)
                else None
            )

        reader = await eventually_async(are_covered, lambda: role.log[-3000:])
        asked = node.calls["getTokenLargestAccounts"]
        await reach(kafka, reader.slot + 40)
        reader = await reach(kafka, reader.slot + 40)
        truth = node.at(reader.slot).accounts
        listed = [each for subject in subjects for each in reader.largest[subject]]
        assert len(listed) > 20
        for address in listed:
            version = reader.stored[address][1]
            assert version.closed == (address not in truth)
            if not version.closed:
                assert decompress(version.data, version.size) == truth[address].data
        kept = {
            address
            for address, (_, version) in reader.stored.items()
            if not version.closed and version.program == TOKEN_PROGRAM and version.size == 165
        }
        assert kept <= {*listed}, "nobody asked for others"
        assert node.calls["getTokenLargestAccounts"] == asked, "the stream brings what changes"
        assert await redis.zcard(TRACKED_HOLDERS.make()) == len(MINTS) + 1
        # Another process follows them further, by what agent `accounts` has written.
        for subject in subjects:
            name = COVERED.make(tag=account_tags()[0], address=text(subject))
            await redis.hset(name, "accounts", b"".join(reader.largest[subject]))
        role.stop(signal.SIGKILL)
        role.start()
        reader = await reach(kafka, reader.slot + 60)
        truth = node.at(reader.slot).accounts
        for address in (each for subject in subjects for each in reader.largest[subject]):
            assert reader.stored[address][1].closed == (address not in truth)
        assert role.stop() == 0


async def test_accounts_that_are_asked_for_by_address_follow_the_chain_until_they_are_let_go(
    kafka, redis_url, tmp_path
):
    node = AccountNode(6)
    numbers = [number for number in range(60) if number % 3]
    wanted = [bytes([3, number]) + bytes(30) for number in numbers[:12]]
    no_token = WALLETS[0]
    subjects = [followed_of(each) for each in wanted]
    async with lane(node, kafka, redis_url, tmp_path, ACCOUNT_TRACKED_MAX="100") as (role, redis):
        await eventually_async(lambda: node.streams > 0)
        for address in (*wanted, no_token):
            await redis.xadd(ASKED_ACCOUNTS.make(), {"account": address})

        def check(reader: Reader) -> None:
            truth = node.at(reader.slot).accounts
            for address in wanted:
                version = reader.stored[address][1]
                assert version.closed == (address not in truth)
                if not version.closed:
                    assert decompress(version.data, version.size) == truth[address].data
                assert reader.stored[address][0] >= reader.since(
                    address, (Covered.ACCOUNT, followed_of(address))
                )

        async def are_covered() -> Reader | None:
            reader = await Reader.of(kafka)
            known = all(reader.covered(Covered.ACCOUNT, each) for each in subjects)
            return reader if known else None

        reader = await eventually_async(are_covered, lambda: role.log[-3000:])
        check(reader)
        reader = await reach(kafka, reader.slot + 40)
        check(reader)
        kept = {
            address
            for address, (_, version) in reader.stored.items()
            if version.program == TOKEN_PROGRAM and version.size == 165
        }
        assert kept <= {*wanted}, "nobody asked for others"
        assert not reader.covered(Covered.ACCOUNT, followed_of(no_token))
        assert {*await redis.zrange(TRACKED_ACCOUNTS.make(), 0, -1)} == {*wanted}
        role.stop(signal.SIGKILL)
        role.start()
        reader = await reach(kafka, reader.slot + 60)
        check(reader)
        for number in range(100):  # as many as may be followed: the others leave
            await redis.xadd(ASKED_ACCOUNTS.make(), {"account": bytes([4, number]) + bytes(30)})

        async def are_let_go() -> Reader | None:
            reader = await Reader.of(kafka)
            is_kept = any(reader.covered(Covered.ACCOUNT, each) for each in subjects)
            return None if is_kept or await redis.zcard(TRACKED_ACCOUNTS.make()) > 100 else reader

        reader = await eventually_async(are_let_go, lambda: role.log[-3000:])
        for partition, said in reader.said.items():
            gone = [each for each in wanted if said.get((Covered.HOLDERS, each), 0) is None]
            assert gone == wanted, partition
        assert role.stop() == 0


async def test_a_killed_process_goes_on_where_the_log_ends(kafka, redis_url, tmp_path):
    node = AccountNode(5)
    async with lane(node, kafka, redis_url, tmp_path, ACCOUNT_STREAMS="3") as (role, redis):
        await ask(redis, *WALLETS)
        reader = await until_equal(kafka, node, role)
        for _ in range(2):
            role.stop(signal.SIGKILL)
            await eventually_async(lambda at=node.tip.slot: node.tip.slot > at + 10)
            role.start()
            reader = await reach(kafka, node.tip.slot + 10)
            check_after_a_kill(reader, node)
        reader = await until_equal(kafka, node, role)
        assert reader.slots == [
            b.slot for b in node.banks if reader.slots[0] <= b.slot <= reader.slots[-1]
        ]
        assert await false_slots(kafka, node) == []


async def test_a_hole_is_mended_from_its_blocks(kafka, redis_url, tmp_path):
    node = AccountNode(7)
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await ask(redis, *WALLETS)
        await until_equal(kafka, node, role)
        first = node.tip.slot + 1
        node.lost = set(range(first, first + 200))
        node.disconnect()
        await eventually_async(lambda: node.tip.slot > first + 200)
        began = len(node.banks)
        reader = await until_equal_past(kafka, node, role, first + 205)
        took_s = (len(node.banks) - began) * node.slot_s  # of the chain: it waits for nothing
        assert took_s < 20, f"mended after {took_s:.0f} s"
        assert not any(reader.reasons), "nothing was withdrawn"
        assert set(reader.incomplete) >= {b.slot for b in node.banks if b.slot in node.lost}
        assert await false_slots(kafka, node) == []


async def test_a_hole_that_a_killed_process_leaves_is_mended_by_the_next(
    kafka, redis_url, tmp_path
):
    node = AccountNode(11)
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await ask(redis, *WALLETS)
        await until_equal(kafka, node, role)
        first = node.tip.slot + 1
        node.lost = set(range(first, first + 20))
        node.withheld = {"getMultipleAccounts"}  # it learns of blocks, not of what changed in them
        node.disconnect()
        await eventually_async(lambda: node.tip.slot > first + 20)
        reader = await reach(kafka, first + 21)
        assert differences(reader, node)
        assert reader.slots[-1] in reader.incomplete
        role.stop(signal.SIGKILL)
        role.start()
        reader = await reach(kafka, reader.slot + 5)
        assert reader.slots[-1] in reader.incomplete
        node.withheld = set()
        await until_equal_past(kafka, node, role, reader.slot + 10)
        reader = await until_complete(kafka, role)
        assert Covered.ALL not in {kind for kind, _ in reader.withdrawn}, "no slot was lost"
        assert await false_slots(kafka, node) == []


async def test_a_hole_whose_blocks_are_gone_withdraws_coverage_and_gives_it_again(
    kafka, redis_url, tmp_path
):
    node = AccountNode(9)
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await ask(redis, *WALLETS)
        await until_equal(kafka, node, role)
        first = node.tip.slot + 1
        node.lost = node.blocks_lost = set(range(first, first + 40))
        node.disconnect()
        await eventually_async(lambda: node.tip.slot > first + 40)
        reader = await until_equal_past(kafka, node, role, first + 45)
        assert any("lost" in reason for reason in reader.reasons)
        assert await false_slots(kafka, node) == []


async def test_what_the_agent_loses_in_one_partition_is_covered_again(kafka, redis_url, tmp_path):
    node = AccountNode(9)
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await ask(redis, *WALLETS)
        reader = await until_equal(kafka, node, role)
        floor = reader.slot
        await redis.hset(COVERAGE_FLOOR.make(tag=account_tags()[3]), "slot", floor)

        async def is_given_again() -> Reader | None:
            reader = await Reader.of(kafka)
            given = {(k, address) for slot, k, address in reader.given if slot > floor}
            wanted = {(Covered.WALLET, each) for each in WALLETS}
            return reader if wanted | {(Covered.PROGRAM, STAKE_PROGRAM)} <= given else None

        await eventually_async(is_given_again, lambda: role.log[-3000:])
        await until_equal_past(kafka, node, role, floor)
        assert await false_slots(kafka, node) == []


async def until_equal_past(kafka: str, node: AccountNode, role: Role, slot: int) -> Reader:
    await reach(kafka, slot)
    return await until_equal(kafka, node, role)


async def test_the_least_recently_asked_wallet_leaves_with_its_coverage(kafka, redis_url, tmp_path):
    node = AccountNode(11)
    strangers = [bytes([9, n]) + bytes(30) for n in range(100)]
    async with lane(node, kafka, redis_url, tmp_path, ACCOUNT_TRACKED_MAX="100") as (role, redis):
        await ask(redis, WALLETS[0])
        covered = partial(has_covered, kafka, WALLETS[0])
        await eventually_async(partial(covered, True))
        await ask(redis, *strangers)
        await eventually_async(partial(covered, False))
        await eventually_async(partial(is_untracked, redis, WALLETS[0]))
        assert await redis.zcard(TRACKED_WALLETS.make()) == 100
        assert role.process is not None


async def test_a_mint_that_trades_is_kept_until_others_were_asked_for_since(
    kafka, redis_url, tmp_path
):
    node = AccountNode(12)
    traded, subject = MINTS[0], (Covered.MINT, MINTS[0])
    async with lane(node, kafka, redis_url, tmp_path, ACCOUNT_TRACKED_MAX="100") as (role, redis):

        async def trade(mint: bytes, time_ms: int) -> None:
            await redis.zadd(ACTIVE.make(tag=mint_tag(text(mint))), {text(mint): time_ms})

        async def is_covered(wanted: bool) -> bool:
            reader = await Reader.of(kafka)
            return subject in reader.said.get(0, {}) and reader.covered(*subject) == wanted

        await trade(traded, 1_000)
        await eventually_async(partial(is_covered, True), lambda: role.log[-3000:])
        assert await redis.zrange(TRACKED_MINTS.make(), 0, -1) == [traded]
        reader = await Reader.of(kafka)
        assert decompress(reader.stored[traded][1].data, 82) == node.tip.accounts[traded].data
        for number in range(100):
            await redis.xadd(ASKED_ACCOUNTS.make(), {"mint": bytes([9, number]) + bytes(30)})
        await eventually_async(partial(is_covered, False), lambda: role.log[-3000:])
        assert await redis.zcard(TRACKED_MINTS.make()) <= 100
        await trade(traded, 2_000)  # it trades again
        await eventually_async(partial(is_covered, True), lambda: role.log[-3000:])


async def test_what_traded_is_seen_once_the_last_traded_of_each_partition_first(redis_url):
    mints = [bytes([8, number]) + bytes(30) for number in range(5)]
    async with Redis.from_url(redis_url) as redis:
        traded = TradedMints(redis)
        assert await traded.look() == {}
        tag = mint_tag(text(mints[0]))

        async def trade(time_ms: int, *some: bytes) -> None:
            await redis.zadd(ACTIVE.make(tag=tag), {text(mint): time_ms for mint in some})

        await trade(1_000, *mints[:2])
        await trade(2_000, mints[2])
        assert [*await traded.look()][2] == mints[2]
        assert await traded.look() == {}
        await trade(2_000, mints[3])  # of the second that was looked at
        assert [*await traded.look()] == [mints[3]]
        await trade(3_000, mints[0])
        assert [*await traded.look()] == [mints[0]]
        await trade(4_000, *(bytes([7, number]) + bytes(30) for number in range(NEWEST)))
        await trade(3_999, mints[4])
        assert len(seen := await traded.look()) == NEWEST
        assert mints[4] not in seen, "one look sees as many as it may"
        await redis.zadd(ACTIVE.make(tag=tag), {"no address": 5_000, text(mints[1]): 5_000})
        assert [*await traded.look()] == [mints[1]], "what is no address keeps no other out"


async def has_covered(kafka: str, wallet: bytes, wanted: bool) -> bool:
    reader = await Reader.of(kafka)
    subject = (Covered.WALLET, wallet)
    return subject in reader.said.get(0, {}) and reader.covered(*subject) == wanted


async def is_untracked(redis: Any, wallet: bytes) -> bool:
    return await redis.zscore(TRACKED_WALLETS.make(), wallet) is None


async def test_a_standby_takes_over_and_the_lane_has_each_slot_once(kafka, redis_url, tmp_path):
    node = AccountNode(13)
    async with lane(node, kafka, redis_url, tmp_path) as (role, redis):
        await ask(redis, *WALLETS)
        reader = await until_equal(kafka, node, role)
        other = Role(role.environment, tmp_path / "standby.log")
        other.start()
        try:
            await eventually_async(lambda: "standby: another process" in other.log)
            role.stop(signal.SIGKILL)
            reader = await reach(kafka, node.tip.slot + 10)
            assert '"event": "active"' in other.log
            check_after_a_kill(reader, node)
        finally:
            other.stop(signal.SIGKILL)
