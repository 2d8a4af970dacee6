"""The ledger of accounts against an oracle that replays the whole chain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.accounts.ledger import (
    BEHIND,
    DROPPED,
    UNSEEN,
    AccountDecision,
    AccountLedger,
    Hole,
    Late,
    SettledAccounts,
    Undone,
    Update,
    Wanted,
)
from pipeline.ingest.finality import AWAITED, ROLLED_BACK
from pipeline.ingest.ledger import Status
from tests.support.exploring import examples

BASE = 100
DONE = object()
ADDRESSES = [bytes([n]) * 32 for n in range(1, 9)]
OWNER = bytes([200]) * 32


@dataclass
class Block:
    slot: int
    parent: int
    versions: list[tuple[bytes, int]]  # address, lamports: in the order written


@dataclass
class World:
    blocks: dict[int, Block]
    canonical: list[int]

    @classmethod
    def random(cls, random: Random, slots: int) -> World:
        blocks: dict[int, Block] = {}
        canonical: list[int] = []
        head, value = BASE, 0
        for slot in range(BASE + 1, BASE + 1 + slots):
            dice = random.random()
            if dice < 0.15:
                continue
            versions = []
            for _ in range(random.randrange(6)):
                value += 1
                versions.append((random.choice(ADDRESSES), value))
            blocks[slot] = Block(slot, head, versions)
            if dice > 0.3:
                head = slot
                canonical.append(slot)
        return cls(blocks, canonical)

    def truth(self, slot: int, of: set[bytes] | None = None) -> dict[bytes, int]:
        """What a slot changed: the last write of each account."""
        versions = dict(self.blocks[slot].versions)
        return {a: v for a, v in versions.items() if of is None or a in of}


@dataclass
class Tape:
    ledger: AccountLedger
    settled: list[SettledAccounts] = field(default_factory=list)
    others: list[AccountDecision] = field(default_factory=list)

    def keep(self, decisions: list[AccountDecision]) -> None:
        last = self.settled[-1].slot if self.settled else -1
        for decision in decisions:
            if isinstance(decision, SettledAccounts):
                assert decision.slot > last
                last = decision.slot
            elif isinstance(decision, Hole) and decision.is_lost and decision.reason != ROLLED_BACK:
                assert decision.first > last  # else all coverage is withdrawn for nothing
            elif isinstance(decision, Wanted):
                assert decision.first > last
        for decision in decisions:
            (self.settled if isinstance(decision, SettledAccounts) else self.others).append(
                decision  # type: ignore[arg-type]
            )


@dataclass
class Node:
    """Sends one stream of the chain; its write versions have nothing to do with another node's."""

    tape: Tape
    world: World
    stream: int
    random: Random
    filter: set[bytes]

    def __post_init__(self) -> None:
        self.offset = 0

    def connect(self, from_slot: int | None) -> None:
        self.offset = self.random.randrange(10**6)  # of another node
        self.tape.ledger.connected(self.stream, from_slot)

    def send(self, block: Block, stop_after: int | None = None, skip: int = 0) -> bool:
        """Send a block's updates, doubled and shuffled; False where the connection ended amid.

        `skip` updates had been sent before the connection began.
        """
        ledger = self.tape.ledger
        updates = [
            Update(address, OWNER, lamports, b"", self.offset + at)
            for at, (address, lamports) in enumerate(block.versions)
            if address in self.filter
        ][skip:]
        updates += [each for each in updates if self.random.random() < 0.3]
        self.random.shuffle(updates)
        for count, update in enumerate(updates):
            if count == stop_after:
                return False
            self.tape.keep(ledger.account(self.stream, block.slot, update))
        if stop_after is not None:
            return False
        self.tape.keep(
            ledger.block_meta(
                self.stream,
                block.slot,
                block.parent,
                f"h{block.slot}",
                block.slot * 400,
                f"h{block.parent}",
            )
        )
        return True

    def status(self, block: Block, status: Status) -> None:
        self.tape.keep(self.tape.ledger.status(self.stream, block.slot, block.parent, status))


@examples(30)
@given(st.randoms(use_true_random=False), st.integers(1, 3), st.integers(1, 40))
def test_a_slot_settles_with_the_last_version_of_each_account(random, streams, slots):
    world = World.random(random, slots)
    tape = Tape(AccountLedger(streams, settled=BASE))
    shares = [set(ADDRESSES[n::streams]) for n in range(streams)]
    nodes = [Node(tape, world, n, random, shares[n]) for n in range(streams)]
    for node in nodes:
        node.connect(BASE + 1)
    late_by = random.randrange(4)
    for node in random.sample(nodes, streams):
        waiting: list[Block] = []
        blocks = [world.blocks[slot] for slot in sorted(world.blocks)]
        at = 0
        while at < len(blocks):
            block = blocks[at]
            if random.random() < 0.15:  # ends amid a slot, and begins with another node
                node.send(block, stop_after=random.randrange(4))
                resume = tape.ledger.resume(node.stream)
                node.connect(resume)
                at = next(n for n, each in enumerate(blocks) if each.slot >= resume)
                continue
            assert node.send(block)
            if block.slot in world.canonical:
                waiting.append(block)
            while len(waiting) > late_by:
                node.status(waiting.pop(0), Status.CONFIRMED)
            at += 1
        for block in waiting:
            node.status(block, Status.CONFIRMED)
    assert [each.slot for each in tape.settled] == world.canonical
    for each in tape.settled:
        assert {u.address: u.lamports for u in each.updates} == world.truth(each.slot)
        assert each.complete
        assert [u.address for u in each.updates] == sorted(u.address for u in each.updates)
    assert not tape.others


@dataclass
class Breaking:
    """A node whose connections break: the next one replays, or goes on with what comes."""

    node: Node
    late_by: int
    fetched: set[int] = field(default_factory=set)
    answered: int = 0  # decisions of which the wanted blocks were answered
    confirmed: int = 0  # blocks, by place, of which the status came once

    def run(self) -> Iterator[None]:
        """Send the chain; yields after each block, where the node may stall."""
        node, random = self.node, self.node.random
        blocks = [node.world.blocks[slot] for slot in sorted(node.world.blocks)]
        last_breaks = max(0, len(blocks) - 12)  # then what it lacks is asked for
        at = skip = 0
        node.connect(random.choice((None, BASE + 1)))
        while at < len(blocks):
            if at < last_breaks and random.random() < 0.25:
                if random.random() < 0.5:
                    node.send(blocks[at], stop_after=random.randrange(4), skip=skip)
                at, skip = self._again(blocks, at)
                continue
            node.send(blocks[at], skip=skip)
            at, skip = at + 1, 0
            self._confirm(blocks[self.confirmed : max(self.confirmed, at - self.late_by)])
            self.confirmed = max(self.confirmed, at - self.late_by)
            if random.random() < 0.3:
                self._answer()
            yield
        self._confirm(blocks[self.confirmed :])
        self._answer()

    def _again(self, blocks: list[Block], at: int) -> tuple[int, int]:
        """Connect again; return the block that comes next, and how many updates of it do not."""
        node, random = self.node, self.node.random
        resume = node.tape.ledger.resume(node.stream)
        if resume is None or random.random() < 0.5:
            node.connect(None)
            missed = random.randrange(random.choice((3, 30)))
            again = max(at, min(at + missed, len(blocks) - 12))
            skip = random.randrange(4)
        else:
            node.connect(resume)
            again = next((n for n, each in enumerate(blocks) if each.slot >= resume), len(blocks))
            skip = 0
        if again < at and random.random() < 0.5:  # the statuses overtake what is replayed
            self._confirm(blocks[again : at + 1])
        elif again > at and random.random() < 0.5:  # those of what it missed do not come either
            self.confirmed = max(self.confirmed, again)
        return again, skip

    def _confirm(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            if block.slot in self.node.world.canonical:
                self.node.status(block, Status.CONFIRMED)

    def _answer(self) -> None:
        """Answer for the blocks that its ledger wants: RPC has them, or lost them."""
        tape, world, stream = self.node.tape, self.node.world, self.node.stream
        while self.answered < len(tape.others):
            wanted = tape.others[self.answered]
            self.answered += 1
            if not isinstance(wanted, Wanted) or wanted.stream != stream:
                continue
            for slot in range(wanted.first, wanted.last + 1):
                if slot not in world.canonical:
                    tape.keep(tape.ledger.unavailable(stream, slot, slot, "skipped"))
                elif self.node.random.random() < 0.2:
                    tape.keep(tape.ledger.unavailable(stream, slot, slot, "cleaned up"))
                else:
                    self.fetched.add(slot)
                    parent = world.blocks[slot].parent
                    tape.keep(tape.ledger.fetched(stream, slot, parent, f"h{slot}", slot * 400))


@examples(100)
@given(st.randoms(use_true_random=False), st.integers(1, 2), st.integers(16, 100), st.booleans())
def test_over_breaks_a_complete_slot_has_every_update_and_no_other_goes_unnamed(
    random, streams, slots, is_new
):
    world = World.random(random, slots)
    tape = Tape(
        AccountLedger(
            streams,
            settled=None if is_new else BASE,
            max_slots=random.choice((8, 16, 600)),
            patience=2,
        )
    )
    fetched: set[int] = set()
    nodes = [
        Breaking(
            Node(tape, world, stream, random, set(ADDRESSES[stream::streams])),
            late_by=random.randrange(4),
        )
        for stream in range(streams)
    ]
    running = [node.run() for node in nodes]
    while running:
        one = random.choice(running)  # the others stall meanwhile
        for _ in range(random.randrange(1, random.choice((3, 40)))):
            if next(one, DONE) is DONE:
                running.remove(one)
                break
    for node in nodes:
        fetched |= node.fetched
    holes = [each for each in tape.others if isinstance(each, Hole)]
    named = {slot for hole in holes for slot in range(hole.first, hole.last + 1)} | fetched
    assert DROPPED not in {hole.reason for hole in holes}
    settled = [each.slot for each in tape.settled]
    assert settled == sorted({*settled} & {*world.canonical})
    for each in tape.settled:
        if each.complete:
            assert {u.address: u.lamports for u in each.updates} == world.truth(each.slot)
        else:
            assert each.slot in named
    if settled:
        passed = {slot for slot in world.canonical if settled[0] < slot < settled[-1]}
        assert passed <= {*settled} | named


def one_stream(settled: int | None = BASE, **options: int) -> Tape:
    tape = Tape(AccountLedger(1, settled=settled, **options))
    tape.ledger.connected(0, BASE + 1)
    return tape


def update(lamports: int, version: int, address: bytes = ADDRESSES[0]) -> Update:
    return Update(address, OWNER, lamports, b"", version)


def finish(tape: Tape, slot: int, parent: int) -> None:
    tape.keep(tape.ledger.block_meta(0, slot, parent, "h", 0))
    tape.keep(tape.ledger.status(0, slot, parent, Status.CONFIRMED))


def test_versions_of_a_connection_that_broke_amid_a_slot_are_dropped():
    tape = one_stream()
    tape.ledger.account(0, 101, update(1, 999))
    tape.ledger.account(0, 101, update(7, 999, ADDRESSES[1]))
    tape.ledger.connected(0, 101)  # another node: its versions are lower
    tape.ledger.account(0, 101, update(2, 5))
    finish(tape, 101, 100)
    assert [(each.address, each.lamports) for each in tape.settled[0].updates] == [
        (ADDRESSES[0], 2)
    ]


def test_a_whole_slot_stays_while_the_next_connection_sends_it_again():
    tape = one_stream()
    tape.ledger.account(0, 101, update(1, 9))
    tape.keep(tape.ledger.block_meta(0, 101, 100, "h", 0))
    tape.ledger.connected(0, 101)
    tape.ledger.account(0, 101, update(1, 50))
    tape.ledger.account(0, 101, update(8, 51, ADDRESSES[1]))
    tape.keep(tape.ledger.status(0, 101, 100, Status.CONFIRMED))
    assert not tape.settled, "it may be another block that is confirmed"
    tape.keep(tape.ledger.block_meta(0, 102, 101, "child", 0, "h"))
    assert [each.write_version for each in tape.settled[0].updates] == [9]


def test_whole_slots_that_wait_for_their_status_keep_their_versions_over_a_break():
    tape = Tape(AccountLedger(1))
    tape.ledger.connected(0, None)  # live: whole is what follows two slots that it carried
    for slot in (101, 102, 103):
        tape.ledger.account(0, slot, update(slot, slot))
        finish(tape, slot, slot - 1)
    tape.ledger.account(0, 104, update(104, 7))
    tape.keep(tape.ledger.block_meta(0, 104, 103, "h", 0))
    tape.ledger.connected(0, 104)
    tape.ledger.account(0, 104, update(104, 3))
    tape.keep(tape.ledger.status(0, 104, 103, Status.CONFIRMED))  # before the meta comes again
    tape.keep(tape.ledger.block_meta(0, 105, 104, "of 105", 0, "h"))  # so 104 is the chain's
    assert [(each.slot, each.complete) for each in tape.settled] == [(103, True), (104, True)]
    assert [each.write_version for each in tape.settled[-1].updates] == [7]
    assert not tape.others


def test_a_slot_found_whole_after_its_versions_were_dropped_is_a_hole_to_mend():
    tape = Tape(AccountLedger(1))
    tape.ledger.connected(0, None)
    for slot, parent in ((101, 100), (102, 101), (103, 103)):  # a meta that names no parent
        tape.ledger.account(0, slot, update(slot, slot))
        tape.keep(tape.ledger.block_meta(0, slot, parent, "h", 0))
    tape.ledger.connected(0, None)
    tape.keep(tape.ledger.status(0, 103, 102, Status.CONFIRMED))
    tape.keep(tape.ledger.block_meta(0, 104, 103, "of 104", 0, "h"))
    assert tape.others == [Hole(103, 103, DROPPED, is_lost=False)]
    assert [(each.slot, each.updates, each.complete) for each in tape.settled] == [(103, (), False)]
    assert tape.ledger.account(0, 103, update(1, 1)) == [Late(103, ADDRESSES[0])]


def test_a_closing_seen_by_balances_yields_to_any_version():
    for order in ((9, UNSEEN), (UNSEEN, 9)):
        tape = one_stream()
        for version in order:
            tape.ledger.account(0, 101, update(version + 1, version))
        finish(tape, 101, 100)
        assert [each.lamports for each in tape.settled[0].updates] == [10]


def test_a_version_after_its_slot_is_late_but_a_repeated_one_is_not():
    tape = one_stream()
    tape.ledger.account(0, 101, update(1, 5))
    finish(tape, 101, 100)
    assert tape.ledger.account(0, 101, update(1, 5)) == []
    assert tape.ledger.account(0, 101, update(2, 6)) == [Late(101, ADDRESSES[0])]
    assert tape.ledger.account(0, 101, update(2, 1, ADDRESSES[1])) == [Late(101, ADDRESSES[1])]


@pytest.mark.parametrize("is_replayed", [True, False])
def test_slots_that_a_node_sends_again_on_a_new_connection_are_repeated_not_late(is_replayed):
    tape = one_stream()
    accounts = [bytes([7, n]) * 16 for n in range(40)]
    for slot in range(101, 201):
        for address in accounts:
            tape.ledger.account(0, slot, update(slot, slot, address))
        finish(tape, slot, slot - 1)
    assert tape.ledger.resume(0) == 201
    tape.ledger.connected(0, 201 if is_replayed else None)  # another node: it is behind
    found = [
        decision
        for slot in range(101, 201)
        for address in accounts
        for decision in tape.ledger.account(0, slot, update(slot, 1_000 + slot, address))
    ]
    assert found == []
    assert tape.ledger.duplicates == 100 * len(accounts)
    tape.ledger.account(0, 201, update(1, 5_000))
    finish(tape, 201, 200)
    if is_replayed:  # what this connection settles itself may be late
        assert tape.ledger.account(0, 201, update(2, 5_001)) == [Late(201, ADDRESSES[0])]


def test_what_a_process_before_this_one_settled_is_repeated_not_late():
    """It wrote what was let through alone: a node that is behind sends other accounts, too."""
    tape = Tape(AccountLedger(1, settled=BASE, written=[(BASE, ADDRESSES[:1])]))
    tape.ledger.connected(0, None)
    for address in ADDRESSES:
        for slot in (BASE - 1, BASE):
            assert tape.ledger.account(0, slot, update(1, 900, address)) == []


def test_a_slot_that_only_rpc_has_settles_without_accounts_and_is_not_complete():
    tape = one_stream(patience=1)
    tape.ledger.connected(0, None)
    tape.ledger.account(0, 101, update(1, 5))
    for slot in (101, 102, 103):
        tape.keep(tape.ledger.status(0, slot, slot - 1, Status.CONFIRMED))
    assert Wanted(0, 101, 101) in tape.others
    tape.keep(tape.ledger.fetched(0, 101, 100, "h", 0))
    assert [(each.slot, each.updates, each.complete) for each in tape.settled] == [(101, (), False)]
    assert not any(isinstance(each, Hole) for each in tape.others)


def test_a_block_that_nobody_has_is_a_lost_hole():
    tape = one_stream(patience=1)
    tape.ledger.connected(0, None)
    for slot in (101, 102, 103):
        tape.keep(tape.ledger.status(0, slot, slot - 1, Status.CONFIRMED))
    tape.keep(tape.ledger.unavailable(0, 101, 101, "cleaned up"))
    assert Hole(101, 101, "cleaned up", is_lost=True) in tape.others


def test_a_slot_that_one_stream_passed_is_a_hole_to_mend():
    tape = Tape(AccountLedger(2, settled=BASE))
    for stream in (0, 1):
        tape.ledger.connected(stream, BASE + 1)
    for stream, chain in ((0, (101, 102)), (1, (102,))):
        parent = 100
        for slot in chain:
            tape.keep(tape.ledger.block_meta(stream, slot, parent, "h", 0))
            tape.keep(tape.ledger.status(stream, slot, parent, Status.CONFIRMED))
            parent = slot
    holes = [each for each in tape.others if isinstance(each, Hole)]
    assert [(each.first, each.is_lost) for each in holes] == [(101, False)]
    assert [(each.slot, each.complete) for each in tape.settled] == [(101, False), (102, True)]


def carry(tape: Tape, stream: int, slots: Iterable[int]) -> None:
    """Have a stream bring slots that each follow the one before, with an account of its own."""
    for slot in slots:
        tape.ledger.account(stream, slot, update(slot, slot, ADDRESSES[stream]))
        tape.keep(tape.ledger.block_meta(stream, slot, slot - 1, "h", 0))
        tape.keep(tape.ledger.status(stream, slot, slot - 1, Status.CONFIRMED))


def two_streams(max_slots: int) -> Tape:
    tape = Tape(AccountLedger(2, settled=BASE, max_slots=max_slots, patience=2))
    for stream in (0, 1):
        tape.ledger.connected(stream, BASE + 1)
    return tape


def behind(slots: Iterable[int]) -> list[Hole]:
    return [Hole(slot, slot, BEHIND, is_lost=False) for slot in slots]


def test_the_others_go_on_at_once_without_a_stream_that_stalls():
    tape = two_streams(max_slots=10)
    carry(tape, 0, range(101, 111))
    assert not tape.settled
    carry(tape, 0, range(111, 151))
    assert len(tape.ledger) == 0
    assert [each.slot for each in tape.settled] == [*range(101, 151)]
    assert tape.others == behind(range(101, 151))
    assert all([u.address for u in each.updates] == [ADDRESSES[0]] for each in tape.settled)
    tape.others.clear()
    carry(tape, 1, range(101, 150))  # it goes on where it was
    carry(tape, 0, [151])  # not waited for yet
    assert tape.others == behind([151])
    carry(tape, 1, range(150, 152))
    carry(tape, 0, range(152, 162))  # waited for again
    assert tape.ledger.settled == 151
    carry(tape, 1, range(152, 162))
    assert [each.slot for each in tape.settled] == [*range(101, 162)]
    assert [each.complete for each in tape.settled] == [False] * 51 + [True] * 10
    assert tape.others == behind([151])
    assert len(tape.ledger) == 0
    assert tape.ledger.account(1, 101, update(101, 101, ADDRESSES[1])) == []  # RPC was asked


@pytest.mark.parametrize("is_replayed", [True, False])
def test_what_was_settled_without_a_stream_is_neither_wanted_nor_lost_when_it_is_back(is_replayed):
    tape = two_streams(max_slots=32)
    for stream in (0, 1):
        carry(tape, stream, range(101, 106))
    carry(tape, 0, range(106, 301))
    assert tape.ledger.settled == 300
    assert tape.ledger.resume(1) == 301
    assert not tape.ledger.is_wanted(1, 300)
    tape.ledger.connected(1, 301 if is_replayed else None)
    for slot in range(301, 331):
        for stream in (0, 1):
            carry(tape, stream, [slot])
    if is_replayed:
        assert tape.others == behind(range(106, 302))
    else:  # of a slot that it may have begun amid, the block is fetched
        assert tape.others == [*behind(range(106, 302)), Wanted(1, 302, 302)]
        tape.keep(tape.ledger.fetched(1, 302, 301, "h", 0))
    assert [each.slot for each in tape.settled] == [*range(101, 331)]
    incomplete = [each.slot for each in tape.settled if not each.complete]
    assert incomplete == [*range(106, 302 if is_replayed else 303)]


def test_what_a_stream_that_is_behind_lacks_of_later_slots_is_wanted_and_may_be_lost():
    tape = two_streams(max_slots=32)
    carry(tape, 0, range(101, 201))
    tape.others.clear()
    tape.ledger.connected(1, 206)
    carry(tape, 1, range(206, 210))  # the other one is late now
    assert tape.others == [Wanted(1, 201, 205)]
    tape.keep(tape.ledger.unavailable(1, 201, 205, "cleaned up"))
    assert tape.others[1:] == [Hole(201, 205, "cleaned up", is_lost=True)]


def test_what_comes_late_of_a_slot_settled_without_its_stream_was_asked_for_with_its_hole():
    tape = two_streams(max_slots=10)
    for stream in (0, 1):
        carry(tape, stream, [101])
    carry(tape, 0, range(102, 121))
    tape.keep(tape.ledger.status(1, 102, 101, Status.CONFIRMED))  # before what it wrote
    assert tape.ledger.account(1, 102, update(1, 1, ADDRESSES[1])) == []
    assert tape.ledger.account(1, 101, update(1, 900, ADDRESSES[1])) == [Late(101, ADDRESSES[1])]


def test_what_a_stream_wrote_in_a_slot_settled_without_it_is_undone_too():
    tape = Tape(AccountLedger(2, settled=BASE, max_slots=10))
    for stream in (0, 1):
        tape.ledger.connected(stream, BASE + 1)
    carry(tape, 0, range(101, 121))
    carry(tape, 1, range(101, 103))
    tape.others.clear()
    tape.keep(tape.ledger.block_meta(1, 103, 101, "h", 0))  # another fork
    for status in (Status.CONFIRMED, Status.FINALIZED):
        tape.keep(tape.ledger.status(1, 103, 101, status))
    assert tape.others == [Undone(102, frozenset({ADDRESSES[1]}))]


def test_a_new_tape_waits_for_every_stream_and_holds_no_more_than_the_bound():
    tape = Tape(AccountLedger(2, max_slots=10))
    for stream in (0, 1):
        tape.ledger.connected(stream, BASE + 1)
    carry(tape, 0, range(101, 151))
    assert len(tape.ledger) == 10
    assert not tape.settled
    assert not tape.others
    carry(tape, 1, range(141, 151))
    assert [(each.slot, each.complete) for each in tape.settled] == [
        (slot, True) for slot in range(141, 151)
    ]


def test_a_new_tape_begins_where_every_stream_has_begun():
    tape = Tape(AccountLedger(2, max_slots=10))
    tape.ledger.connected(0, 106)
    tape.ledger.connected(1, BASE + 1)
    carry(tape, 0, range(106, 109))
    carry(tape, 1, range(101, 103))  # and stalls: nobody would name 103 to 105
    assert not tape.settled
    carry(tape, 1, range(103, 109))
    assert [(each.slot, each.complete) for each in tape.settled] == [
        (slot, True) for slot in range(106, 109)
    ]
    assert not tape.others


def test_what_a_rolled_back_slot_wrote_is_undone():
    tape = one_stream()
    tape.ledger.account(0, 101, update(1, 5))
    finish(tape, 101, 100)
    finish(tape, 102, 100)  # another fork
    tape.keep(tape.ledger.status(0, 102, 100, Status.FINALIZED))
    assert Undone(101, frozenset({ADDRESSES[0]})) in tape.others


def test_a_rolled_back_slot_of_which_nobody_knows_the_writes_is_lost():
    tape = one_stream(patience=1)
    tape.ledger.connected(0, None)
    for slot in (101, 102, 103):
        tape.keep(tape.ledger.status(0, slot, slot - 1, Status.CONFIRMED))
    tape.keep(tape.ledger.fetched(0, 101, 100, "h", 0))
    finish(tape, 102, 100)
    tape.keep(tape.ledger.fetched(0, 102, 100, "h", 0))  # another fork
    tape.keep(tape.ledger.status(0, 102, 100, Status.FINALIZED))
    assert Hole(101, 101, ROLLED_BACK, is_lost=True) in tape.others


def test_slots_before_a_hole_whose_finality_stays_unknown_are_no_second_hole():
    tape = one_stream(patience=1)
    for slot in (101, 102):
        finish(tape, slot, slot - 1)
    tape.ledger.connected(0, 110)
    last = 110 + 2 * AWAITED
    for slot in range(110, last):
        finish(tape, slot, slot - 1)
    tape.keep(tape.ledger.unavailable(0, 103, 109, "no RPC"))
    for slot in range(110, last):
        tape.keep(tape.ledger.status(0, slot, slot - 1, Status.FINALIZED))
    assert [each.slot for each in tape.settled] == [101, 102, *range(110, last)]
    holes = [each for each in tape.others if isinstance(each, Hole)]
    assert holes == [Hole(103, 109, "no RPC", is_lost=True)]


def test_a_dead_slot_leaves_nothing_for_the_block_that_replaces_it():
    tape = one_stream()
    tape.ledger.account(0, 101, update(1, 50))
    tape.keep(tape.ledger.status(0, 101, 100, Status.DEAD))
    tape.ledger.account(0, 101, update(2, 3))
    finish(tape, 101, 100)
    assert [each.lamports for each in tape.settled[0].updates] == [2]


@pytest.mark.parametrize("streams", [1, 2])
def test_no_stream_resumes_before_a_new_tape_has_begun(streams):
    ledger = AccountLedger(streams)
    assert [ledger.resume(n) for n in range(streams)] == [None] * streams
