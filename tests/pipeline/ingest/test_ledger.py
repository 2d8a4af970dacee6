"""The slot ledger against a slow oracle that knows the whole chain beforehand."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.finality import NOT_KNOWN, Counts, Finalized, Gap, RolledBack
from pipeline.ingest.ledger import (
    Decision,
    Ledger,
    Missing,
    Novelty,
    Orphaned,
    Processed,
    Settled,
    Status,
    Transaction,
)
from schemas.events import Migration, PerpGap
from tests.support.exploring import SLOW, examples

BASE = 100


def event(slot: int, tx_index: int, event_index: int) -> Migration:
    return Migration(
        signature=f"{slot}-{tx_index}",
        slot=slot,
        tx_index=tx_index,
        event_index=event_index,
        block_time_ms=0,
        mint="",
        platform="",
        from_dex="",
        from_pool="",
        dex="",
        pool="",
        quote_mint="",
        amount_raw=None,
        quote_amount_raw=None,
    )


@dataclass
class Block:
    slot: int
    parent: int
    transactions: list[Transaction]

    @property
    def blockhash(self) -> str:
        return f"hash-{self.slot}"

    @property
    def block_time_ms(self) -> int:
        return self.slot * 400

    def events(self) -> list[tuple[int, int, int]]:
        return sorted(
            (e.slot, e.tx_index, e.event_index) for t in self.transactions for e in t.events
        )


@dataclass
class World:
    """A tree of blocks whose canonical branch is known."""

    blocks: dict[int, Block]
    canonical: list[int]

    @classmethod
    def random(cls, random: Random, slots: int) -> World:
        blocks: dict[int, Block] = {}
        canonical: list[int] = []
        head, fork = BASE, None
        for slot in range(BASE + 1, BASE + 1 + slots):
            dice = random.random()
            if dice < 0.15:
                continue  # skipped
            if dice < 0.35:  # a block off the canonical branch, on the branch or on another fork
                parent = fork if fork is not None and random.random() < 0.5 else head
                fork = slot
            else:
                parent, head = head, slot
                canonical.append(slot)
            blocks[slot] = Block(slot, parent, cls.transactions(random, slot))
        return cls(blocks, canonical)

    @staticmethod
    def transactions(random: Random, slot: int) -> list[Transaction]:
        return [
            Transaction(
                tx_index=index,
                signature=f"{slot}-{index}".encode(),
                events=[event(slot, index, at) for at in range(random.randrange(3))],
                decoded=random.randrange(3),
            )
            for index in range(random.randrange(5))
        ]


@dataclass(frozen=True)
class Update:
    """One message of a node."""

    slot: int
    kind: str
    index: int = 0


@dataclass
class Tape:
    """Feeds a ledger and keeps what it decided."""

    ledger: Ledger
    world: World
    rpc: set[int] | None = None  # canonical slots that an RPC node can serve; None: no node
    settled: list[Settled] = field(default_factory=list)
    orphaned: set[int] = field(default_factory=set)
    finalized: list[int] = field(default_factory=list)
    processed: list[int] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    accepted: set[tuple[int, bytes]] = field(default_factory=set)

    def feed(self, update: Update) -> None:
        block = self.world.blocks[update.slot]
        if update.kind == "transaction":
            transaction = block.transactions[update.index]
            novelty = self.ledger.novelty(update.slot, transaction.signature)
            if novelty is Novelty.NEW:
                self.accepted.add((update.slot, transaction.signature))
                self.keep(self.ledger.transaction(update.slot, transaction))
            elif novelty is Novelty.DUPLICATE:
                self.ledger.duplicate(update.slot, transaction.signature)
        elif update.kind == "meta":
            self.keep(
                self.ledger.block_meta(
                    block.slot,
                    block.parent,
                    block.blockhash,
                    block.block_time_ms,
                    f"hash-{block.parent}",
                )
            )
        elif update.kind == "begun":
            self.keep(self.ledger.begun(block.slot, block.parent))
        else:
            self.keep(self.ledger.status(block.slot, block.parent, Status[update.kind]))

    def keep(self, decisions: list[Decision]) -> None:
        asked = len(self.missing)
        for decision in decisions:
            match decision:
                case Settled():
                    self.settled.append(decision)
                case Orphaned():
                    self.orphaned.add(decision.slot)
                case Finalized():
                    self.finalized.append(decision.slot)
                case Processed():
                    self.processed.append(decision.slot)
                case Gap():
                    self.gaps.append(decision)
                case Missing():
                    self.missing.append(decision)
        for missing in self.missing[asked:]:
            self.answer(missing)

    def answer(self, missing: Missing) -> None:
        """Do what backfill does, slot by slot, ascending."""
        if self.rpc is None:
            self.keep(self.ledger.unavailable(missing.first, missing.last, "no RPC"))
            return
        for slot in range(missing.first, missing.last + 1):
            if slot in self.rpc:
                b = self.world.blocks[slot]
                self.keep(
                    self.ledger.fetched(
                        slot,
                        b.parent,
                        b.blockhash,
                        b.block_time_ms,
                        b.transactions,
                        f"hash-{b.parent}",
                    )
                )
            else:
                self.keep(self.ledger.unavailable(slot, slot, "skipped"))

    # What must always hold of what was decided.

    def check(self) -> None:
        slots = [each.slot for each in self.settled]
        assert slots == sorted(set(slots)), "ascending, each once"
        assert set(slots) <= set(self.world.canonical)
        assert not set(slots) & self.orphaned
        assert len(self.finalized) == len(set(self.finalized))
        assert set(self.finalized) <= set(slots)
        for each in self.settled:
            block = self.world.blocks[each.slot]
            accepted = [(e.slot, e.tx_index, e.event_index) for e in each.events()]
            if each.complete:
                assert accepted == block.events(), "a complete slot has each event once, in order"
                assert each.parent == block.parent
                assert each.blockhash == block.blockhash
                assert each.block_time_ms == block.block_time_ms
                assert each.counts.transactions == len(block.transactions)
                assert each.counts.decoded == sum(t.decoded for t in block.transactions)
            else:
                assert set(accepted) <= set(block.events())
                assert any(gap.first <= each.slot <= gap.last for gap in self.gaps)
        gap_slots = [slot for gap in self.gaps for slot in range(gap.first, gap.last + 1)]
        assert len(gap_slots) == len(set(gap_slots)), "no slot is twice in a gap"
        # Whatever users got is later confirmed, taken back, or in a gap.
        if self.ledger.settled is not None and self.settled:
            for slot, _ in self.accepted:
                if self.settled[0].slot <= slot <= self.ledger.settled:
                    assert slot in slots or slot in self.orphaned or slot in gap_slots


def updates_of(block: Block, *, canonical: bool) -> list[Update]:
    updates = [Update(block.slot, "transaction", i) for i in range(len(block.transactions))]
    updates += [Update(block.slot, "meta"), Update(block.slot, "PROCESSED")]
    return updates + [Update(block.slot, "CONFIRMED")] * canonical


def shuffled(random: Random, world: World, *, duplicates: bool = True) -> list[Update]:
    """Any order at all, but a slot's meta after its transactions; a few statuses are lost."""
    canonical = set(world.canonical)
    keyed: list[tuple[float, Update]] = []
    for block in world.blocks.values():
        latest = 0.0
        for update in updates_of(block, canonical=block.slot in canonical):
            lost = update.slot != world.canonical[-1] and random.random() < 0.2
            if update.kind in ("PROCESSED", "CONFIRMED") and lost:
                continue
            at = random.random() if update.kind != "meta" else latest + random.random()
            latest = max(latest, at)
            keyed.append((at, update))
            if duplicates and random.random() < 0.2:
                keyed.append((2.5 if update.kind == "meta" else random.random() * 2.5, update))
    # A duplicate transaction may come before its meta or after, even after its slot was settled.
    keyed.sort(key=lambda each: each[0])
    return [update for _, update in keyed]


seeds = st.integers(min_value=0, max_value=2**32)


@examples(300)
@given(seed=seeds, slots=st.integers(1, 40))
def test_any_order_settles_the_canonical_chain(seed: int, slots: int) -> None:
    random = Random(seed)
    world = World.random(random, slots)
    if not world.canonical:
        return
    tape = Tape(Ledger(settled=BASE, patience=10**6), world)
    tape.ledger.connected(from_slot=BASE + 1)
    for update in shuffled(random, world):
        tape.feed(update)
    tape.check()
    assert [each.slot for each in tape.settled] == world.canonical
    assert all(each.complete for each in tape.settled)
    assert tape.gaps == []
    assert tape.missing == []
    assert tape.ledger.conflicts == 0
    accepted = {slot for slot, _ in tape.accepted if slot <= world.canonical[-1]}
    assert (
        accepted - set(world.canonical) <= tape.orphaned <= set(world.blocks) - set(world.canonical)
    )
    assert len(tape.ledger) == sum(slot > world.canonical[-1] for slot in world.blocks)


def node_log(random: Random, world: World) -> list[Update]:
    """What a node sends, in an order it may send it.

    A slot begins after its grandparent's meta (updates overtake each other by less than a slot),
    and is confirmed a few slots later.
    """
    canonical = set(world.canonical)
    times: dict[int, float] = {BASE: 0.0}
    keyed: list[tuple[float, Update]] = []
    for block in world.blocks.values():
        parent = world.blocks.get(block.parent)
        start = times[parent.parent if parent is not None else BASE]
        length = max(times[block.parent] - start, 0.0) + random.random()
        done = start + length
        times[block.slot] = done
        for update in updates_of(block, canonical=block.slot in canonical):
            at = done if update.kind == "meta" else start + random.random() * length
            if update.kind == "PROCESSED":
                at = done + random.random()
            if update.kind == "CONFIRMED":
                at = done + 2 + random.random()
            keyed.append((at, update))
            if update.kind == "CONFIRMED" and random.random() < 0.8:
                keyed.append((at + 3, Update(block.slot, "FINALIZED")))
    keyed.sort(key=lambda each: each[0])
    return [update for _, update in keyed]


def cut(random: Random, log: list[Update], ledger: Ledger, tape: Tape, *, replays: bool) -> None:
    """Send a log over connections that break; each resumes by replay or goes live."""
    at = 0
    ledger.connected(from_slot=BASE + 1)
    while at < len(log):
        end = min(len(log), at + random.randrange(1, 60))
        for update in log[at:end]:
            tape.feed(update)
        at = end
        if at == len(log):
            break
        at = min(len(log), at + random.randrange(40))
        if replays and ledger.settled is not None and random.random() < 0.5:
            from_slot = ledger.settled + 1
            ledger.connected(from_slot)
            for update in [each for each in log[:at] if each.slot >= from_slot]:
                tape.feed(update)
        else:
            ledger.connected(from_slot=None)


@examples(300, SLOW)
@given(seed=seeds, slots=st.integers(20, 80))
def test_what_a_broken_stream_lost_is_fetched(seed: int, slots: int) -> None:
    random = Random(seed)
    world = World.random(random, slots)
    tape = Tape(Ledger(settled=BASE, patience=3), world, rpc=set(world.canonical))
    cut(random, node_log(random, world), tape.ledger, tape, replays=True)
    tape.check()
    assert all(each.complete for each in tape.settled)
    assert tape.gaps == []
    settled = [each.slot for each in tape.settled]
    assert settled == world.canonical[: len(settled)], "a prefix: nothing in between is lost"


@examples(300, SLOW)
@given(seed=seeds, slots=st.integers(20, 80), share=st.sampled_from([None, 0.5]))
def test_what_can_not_be_fetched_is_a_gap(seed: int, slots: int, share: float | None) -> None:
    random = Random(seed)
    world = World.random(random, slots)
    rpc = {s for s in world.canonical if random.random() < share} if share else None
    tape = Tape(Ledger(settled=BASE, patience=3), world, rpc=rpc)
    cut(random, node_log(random, world), tape.ledger, tape, replays=True)
    tape.check()
    complete = {each.slot for each in tape.settled if each.complete}
    in_gaps = {slot for gap in tape.gaps for slot in range(gap.first, gap.last + 1)}
    assert tape.ledger.settled is not None
    for slot in world.canonical:
        if slot <= tape.ledger.settled:
            assert slot in complete or slot in in_gaps
    not_known = {
        slot
        for gap in tape.gaps
        if gap.reason == NOT_KNOWN
        for slot in range(gap.first, gap.last + 1)
    }
    assert not complete & (in_gaps - not_known)  # these may be complete, and are not known as final
    assert not set(tape.finalized) & not_known


@examples(300, SLOW)
@given(seed=seeds, slots=st.integers(20, 60), start=st.floats(0, 0.8))
def test_a_new_tape_starts_with_a_whole_slot(seed: int, slots: int, start: float) -> None:
    random = Random(seed)
    world = World.random(random, slots)
    log = node_log(random, world)
    tape = Tape(Ledger(patience=10**6), world)
    tape.ledger.connected(from_slot=None)
    for update in log[int(len(log) * start) :]:
        tape.feed(update)
    tape.check()
    settled = [each.slot for each in tape.settled]
    assert all(each.complete for each in tape.settled)
    if settled:
        first = world.canonical.index(settled[0])
        assert settled == world.canonical[first : first + len(settled)]
    assert tape.gaps == []


@examples(200, SLOW)
@given(seed=seeds, slots=st.integers(60, 120), confirmed=st.booleans())
def test_memory_is_bounded(seed: int, slots: int, confirmed: bool) -> None:
    random = Random(seed)
    world = World.random(random, slots)
    tape = Tape(Ledger(settled=BASE, max_slots=32, patience=10**6), world)
    tape.ledger.connected(from_slot=BASE + 1)
    hole = random.choice(world.canonical[:5])
    for update in node_log(random, world):
        if update.slot == hole and update.kind == "meta":
            continue
        if not confirmed and update.kind in ("CONFIRMED", "FINALIZED"):
            continue
        tape.feed(update)
        assert len(tape.ledger) <= 32
    tape.check()
    if len(world.blocks) > 40:
        assert tape.gaps, "what was given up is said"
        assert tape.gaps[0].first <= hole <= tape.gaps[0].last or not confirmed


def test_a_dead_slot_is_taken_back_and_may_live_again() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    first, second = (Transaction(0, name, [event(10, 0, 0)]) for name in (b"first", b"second"))
    ledger.transaction(10, first)
    assert ledger.status(10, 9, Status.DEAD) == [Orphaned(10, 9, Counts(1, 1, 0, 0, 0))]
    assert ledger.novelty(10, b"first") is Novelty.NEW
    ledger.transaction(10, second)
    ledger.block_meta(10, 9, "hash", 1)
    (settled,) = ledger.status(10, 9, Status.CONFIRMED)
    assert isinstance(settled, Settled)
    assert settled.counts.transactions == 1
    assert settled.complete


def test_a_confirmed_slot_settles_its_ancestors() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    for slot, parent in ((10, 9), (11, 10), (13, 11)):
        ledger.block_meta(slot, parent, "", slot)
    decisions = ledger.status(13, 11, Status.FINALIZED)
    assert [
        (type(each), each.slot) for each in decisions if not isinstance(each, Missing | Gap)
    ] == [
        (Settled, 10),
        (Settled, 11),
        (Settled, 13),
        (Finalized, 10),
        (Finalized, 11),
        (Finalized, 13),
    ]


def test_a_slot_that_is_rolled_back_names_the_wallets_of_its_perps() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    perps = [PerpGap("signature", 10, 0, 1, 0, "drift", "log truncated", of) for of in ("", "w")]
    ledger.transaction(10, Transaction(0, b"paid", [], perps=perps))
    for slot, parent in ((10, 9), (11, 9)):
        ledger.block_meta(slot, parent, "", slot)
    ledger.status(10, 9, Status.CONFIRMED)
    decisions = ledger.status(11, 9, Status.FINALIZED)
    assert [each.wallets for each in decisions if isinstance(each, RolledBack)] == [{"w"}]


def test_a_late_transaction_is_no_duplicate() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    ledger.transaction(10, Transaction(0, b"known", []))
    assert ledger.novelty(10, b"known") is Novelty.DUPLICATE
    ledger.block_meta(10, 9, "", 1)
    ledger.status(10, 9, Status.CONFIRMED)
    assert ledger.novelty(10, b"known") is Novelty.DUPLICATE
    assert ledger.novelty(10, b"late") is Novelty.LATE
    assert ledger.novelty(9, b"late") is Novelty.STALE


def test_a_slot_in_flight_when_the_stream_went_live_is_not_whole() -> None:
    """The meta of a slot whose start was missed must not make it complete."""
    ledger = Ledger(settled=9, patience=0)
    ledger.connected(from_slot=None)
    ledger.transaction(10, Transaction(7, b"seen", []))
    ledger.block_meta(10, 9, "", 1)
    assert ledger.status(10, 9, Status.CONFIRMED) == [Missing(10, 10)]


@pytest.mark.parametrize("parent", [10, 11])
def test_a_parent_that_is_not_below_is_not_believed(parent: int) -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    assert ledger.status(10, parent, Status.CONFIRMED) == []
    ledger.block_meta(10, 9, "", 1)
    assert ledger.settled == 10


def test_a_confirmed_slot_off_the_settled_chain_is_a_conflict() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    ledger.block_meta(10, 8, "", 1)
    ledger.status(10, 8, Status.CONFIRMED)
    assert ledger.conflicts == 1


def yellowstone_log(random: Random, world: World) -> list[Update]:
    """What a node sends at `processed`, the beginnings of slots included.

    A bank is opened once its parent is frozen, and may be executed for long: forks run beside it.
    An update may be late, transactions of its slot overtake the word that it begins: but none comes
    after what is sent of a grandchild. Beginnings and statuses are lost; of those of a slot, its
    parent and its grandparent, one at most.
    """
    canonical = set(world.canonical)
    begun: dict[int, float] = {}
    frozen: dict[int, float] = {BASE: 0.0}
    latest: dict[int, float] = {}  # when the first child is frozen, no grandchild has begun
    for block in world.blocks.values():
        begun[block.slot] = frozen[block.parent] + random.random() / 4
        done = begun[block.slot] + random.random() * random.choice((1, 1, 4))
        frozen[block.slot] = done
        latest[block.parent] = min(latest.get(block.parent, done), done)
    keyed: list[tuple[float, Update]] = []
    lost: set[int] = set()
    for block in world.blocks.values():
        slot, start, done = block.slot, begun[block.slot], frozen[block.slot]
        late = (latest.get(slot, done + 1) - done) * random.choice((0, 0, random.random()))
        for update in updates_of(block, canonical=slot in canonical):
            at = {"meta": done + late, "PROCESSED": done, "CONFIRMED": done + 2}.get(update.kind)
            within = start + (done + late - start) * random.random()
            if update.kind != "PROCESSED" or random.random() < 0.9:
                keyed.append((within if at is None else at, update))
        parent = world.blocks.get(block.parent)
        before = {block.parent} | ({parent.parent} if parent is not None else set())
        if random.random() < 0.15 and not before & lost:
            lost.add(slot)
            continue
        late = (done - start) * random.choice((0, 0, random.random()))
        keyed.append((start + late, Update(slot, "begun")))
    order = {"begun": 0, "transaction": 1, "meta": 2}
    keyed.sort(key=lambda each: (each[0], order.get(each[1].kind, 3)))
    return [update for _, update in keyed]


def replayed(log: list[Update], from_slot: int) -> list[Update]:
    """What a node replays of what it sent: frozen slots whole, without their beginnings."""
    frozen = [each.slot for each in log if each.kind == "meta"]
    found = []
    for slot in sorted({slot for slot in frozen if slot >= from_slot}):
        of = [each for each in log if each.slot == slot and each.kind != "begun"]
        found += [each for each in of if each.kind == "transaction"]
        found += [each for each in of if each.kind != "transaction"]
    return found


@examples(300, SLOW)
@given(seed=seeds, slots=st.integers(20, 80))
def test_what_was_executed_as_a_connection_began_is_fetched(seed: int, slots: int) -> None:
    """A node replays frozen slots alone: of others a new connection carries the end only."""
    random = Random(seed)
    world = World.random(random, slots)
    if not world.canonical:
        return
    ledger = Ledger(settled=BASE, patience=3, at_processed=True)
    tape = Tape(ledger, world, rpc=set(world.canonical))
    log = yellowstone_log(random, world)
    at = 0
    while at < len(log):
        settled = tape.ledger.settled or BASE
        if random.random() < 0.1:
            tape.ledger = Ledger(settled=settled, patience=3, at_processed=True)
            tape.accepted = {each for each in tape.accepted if each[0] <= settled}
        if at and random.random() < 0.1:
            tape.ledger.connected(from_slot=None)
        else:
            tape.ledger.connected(settled + 1)
            for update in replayed(log[:at], settled + 1):
                tape.feed(update)
        end = min(len(log), at + random.randrange(1, 60))
        for update in log[at:end]:
            tape.feed(update)
        at = min(len(log), end + random.randrange(40))
    from_slot = (tape.ledger.settled or BASE) + 1
    tape.ledger.connected(from_slot)
    last = Update(world.canonical[-1], "FINALIZED")
    for update in [*replayed(log, from_slot), last]:
        tape.feed(update)
    tape.check()
    assert [each.slot for each in tape.settled] == world.canonical
    assert all(each.complete for each in tape.settled)
    assert tape.gaps == []


def test_a_slot_is_replayed_whole_where_its_heirs_had_begun_before() -> None:
    ledger = Ledger(settled=9, patience=4, at_processed=True)
    ledger.connected(from_slot=10)
    decisions: list[Decision] = []

    def meta(slot: int) -> None:
        decisions.extend(ledger.block_meta(slot, slot - 1, f"hash-{slot}", 0))
        decisions.extend(ledger.status(slot, slot - 1, Status.CONFIRMED))

    for slot in (10, 11, 12):  # replayed
        meta(slot)
    meta(13)  # it was executed when the connection began: its transactions are not all here
    for slot in (14, 15, 16, 17):
        decisions += ledger.begun(slot, slot - 1)
        meta(slot)
    # Two before it: the beginnings of their heirs may be lost. And the first two that begin on it:
    # transactions may have overtaken that they begin.
    for slot in (11, 12, 13, 14, 15):
        decisions += ledger.fetched(slot, slot - 1, f"hash-{slot}", 0, ())
    missing = [each for each in decisions if isinstance(each, Missing)]
    assert missing == [Missing(slot, slot) for slot in (11, 12, 13, 14, 15)]
    assert [each.slot for each in decisions if isinstance(each, Settled)] == [*range(10, 18)]


@pytest.mark.parametrize("heard_of", [(10, 11, 12, 13), (10, 12, 13), (9, 11), (9,)])
def test_a_slot_whose_beginning_was_overtaken_as_a_connection_began_is_not_whole(
    heard_of: tuple[int, ...],
) -> None:
    """The next connection, which replays it, brings what the first had missed."""
    ledger = Ledger(settled=8, at_processed=True)
    ledger.connected(from_slot=9)
    for slot in (9, 10, 11, 12, 13):
        if slot in heard_of:
            ledger.begun(slot, slot - 1)
        carry(ledger, slot, f"{slot}", b"last")
    first = heard_of[0]
    assert [ledger.whole_on(slot) for slot in (9, first, first + 1)] == [None, None, None]
    assert [ledger.whole_on(slot) for slot in range(first + 2, 14)] == [1] * (12 - first)
    ledger.connected(from_slot=9)
    decisions: list[Decision] = []
    for slot in range(9, 16):  # replayed: they were frozen when the connection began
        names = [b"last"] if slot > first + 1 else [b"first", b"last"]
        decisions += carry(ledger, slot, f"{slot}", *names)
        decisions += ledger.status(slot, slot - 1, Status.CONFIRMED)
    assert signatures(decisions) == [{b"first", b"last"}] * (first - 7) + [{b"last"}] * (12 - first)


def test_a_slot_is_whole_where_what_another_process_settled_was_begun_before_it() -> None:
    """A standby takes over: what it saw begins some slots before the settled one."""
    ledger = Ledger(settled=9, at_processed=True)
    ledger.connected(from_slot=10)
    for slot in (7, 8, 9, 10):
        ledger.begun(slot, slot - 1)
        assert carry(ledger, slot, f"{slot}", b"one") == [] or slot == 10
    assert ledger.novelty(8, b"two") is Novelty.STALE
    assert signatures(ledger.status(10, 9, Status.CONFIRMED)) == [{b"one"}]


def carry(ledger: Ledger, slot: int, blockhash: str, *names: bytes) -> list[Decision]:
    """Bring a block of a slot: its transactions, then its meta."""
    for name in names:
        if ledger.novelty(slot, name) is Novelty.NEW:
            ledger.transaction(slot, Transaction(0, name, [event(slot, 0, 0)]))
        elif ledger.novelty(slot, name) is Novelty.DUPLICATE:
            ledger.duplicate(slot, name)
    return ledger.block_meta(slot, slot - 1, blockhash, 1)


def signatures(decisions: list[Decision]) -> list[set[bytes]]:
    settled = [each for each in decisions if isinstance(each, Settled)]
    assert all(each.complete for each in settled)
    return [{of.signature for of in each.transactions} for each in settled]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_block_that_was_exchanged_between_connections_leaves_nothing(is_whole: bool) -> None:
    """Whether the meta of the first block came before the connection broke, or did not."""
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    if is_whole:
        carry(ledger, 10, "first", b"of both", b"of the first")
    else:
        ledger.transaction(10, Transaction(0, b"of both", []))
        ledger.transaction(10, Transaction(1, b"of the first", []))
    ledger.connected(from_slot=10)
    processed = carry(ledger, 10, "second", b"of both", b"of the second")
    assert len(processed) == (not is_whole)
    (settled,) = ledger.status(10, 9, Status.CONFIRMED)
    assert isinstance(settled, Settled)
    assert settled.blockhash == "second"
    assert signatures([settled]) == [{b"of both", b"of the second"}]
    assert settled.counts.transactions == 2


def test_what_is_whole_stays_when_a_later_connection_breaks_within() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=10)
    carry(ledger, 10, "hash", b"one", b"two")
    ledger.connected(from_slot=10)
    ledger.duplicate(10, b"one")
    assert not ledger.status(10, 9, Status.CONFIRMED), "it may be another block that is confirmed"
    decisions = ledger.block_meta(11, 10, "child", 1, "hash")
    assert signatures(decisions) == [{b"one", b"two"}]


def test_a_block_that_its_child_does_not_name_is_fetched() -> None:
    ledger = Ledger(settled=9, patience=0)
    ledger.connected(from_slot=10)
    carry(ledger, 10, "first", b"of the first")
    ledger.connected(from_slot=None)
    ledger.block_meta(11, 10, "child", 1, "second")
    assert ledger.status(10, 9, Status.CONFIRMED) == [Missing(10, 10)]
    (settled,) = ledger.fetched(10, 9, "second", 1, [Transaction(0, b"of the second", [])])
    assert signatures([settled]) == [{b"of the second"}]


def test_a_block_that_the_chain_left_for_another_of_its_slot_is_asked_for_again() -> None:
    ledger = Ledger(settled=9, patience=0)
    ledger.connected(from_slot=10)
    carry(ledger, 10, "first", b"of the first")
    carry(ledger, 10, "second", b"of the second")
    assert ledger.status(10, 9, Status.CONFIRMED) == [Missing(10, 10)]
    assert Missing(10, 10) in ledger.status(10, 9, Status.DEAD)


def executed_at_processed() -> Ledger:
    """Return a ledger whose connection carried slots 8, 9 and 10 from their beginnings."""
    ledger = Ledger(settled=7, at_processed=True, patience=0)
    ledger.connected(from_slot=8)
    for slot in (8, 9, 10):
        ledger.begun(slot, slot - 1)
        carry(ledger, slot, f"first {slot}", b"of both", b"of the first")
    for slot in (8, 9):
        ledger.fetched(slot, slot - 1, f"first {slot}", 1, ())
    assert ledger.whole_on(10) == 1
    return ledger


def test_a_slot_that_is_begun_anew_is_fetched() -> None:
    """Transactions of the new block may have overtaken that it begins: nothing says which did."""
    ledger = executed_at_processed()
    ledger.transaction(10, Transaction(1, b"of the second, early", []))
    ledger.begun(10, 9)
    carry(ledger, 10, "second", b"of both", b"of the second")
    assert ledger.status(10, 9, Status.CONFIRMED) == [Missing(10, 10)]


@pytest.mark.parametrize("is_dead_first", [True, False])
def test_a_slot_that_was_dead_on_a_connection_is_fetched(is_dead_first: bool) -> None:
    """A transaction of the dead block comes late, or one of the next block early."""
    ledger = executed_at_processed()
    if is_dead_first:
        ledger.status(10, 9, Status.DEAD)
        ledger.transaction(10, Transaction(1, b"of the first, late", []))
    else:
        ledger.transaction(10, Transaction(1, b"of the second, early", []))
        ledger.status(10, 9, Status.DEAD)
    ledger.begun(10, 9)
    carry(ledger, 10, "second", b"of both", b"of the second")
    assert ledger.status(10, 9, Status.CONFIRMED) == [Missing(10, 10)]
    ledger.connected(from_slot=10)  # which replays the block that is
    decisions = carry(ledger, 10, "second", b"of the second, early", b"of both", b"of the second")
    for slot in (11, 12, 13, 14):
        decisions += ledger.block_meta(slot, slot - 1, f"{slot}", 0)
    decisions += ledger.status(10, 9, Status.CONFIRMED)
    assert signatures(decisions) == [{b"of both", b"of the second, early", b"of the second"}]


@pytest.mark.parametrize("heard_of", [(13, 14, 15), (12, 14, 15), (11, 14, 15), (14, 15)])
def test_a_slot_in_execution_is_not_whole_where_beginnings_of_its_heirs_are_lost(
    heard_of: tuple[int, ...],
) -> None:
    ledger = Ledger(settled=9, at_processed=True)
    ledger.connected(from_slot=10)
    for slot in range(10, 16):
        if slot in heard_of:
            ledger.begun(slot, slot - 1)
        carry(ledger, slot, f"{slot}", b"last")
    # Slot 11 is executed as the connection begins: 12 and 13 are its child and grandchild.
    assert ledger.whole_on(11) is None


def test_a_slot_in_execution_is_not_whole_while_beginnings_of_its_heirs_are_late() -> None:
    """Nothing is lost: that 11 begins was sent before, of 12 and 13 the metas come first."""
    ledger = Ledger(settled=9, at_processed=True)
    ledger.connected(from_slot=10)
    for slot in (10, 11, 12):
        carry(ledger, slot, f"{slot}", b"last")
    assert ledger.whole_on(10) is None
    carry(ledger, 13, "13", b"last")
    assert ledger.whole_on(10) is None
    for slot in (12, 13, 14):  # updates of a slot come before anything of its second heir
        ledger.begun(slot, slot - 1)
    assert ledger.whole_on(10) is None


def test_a_slot_that_was_whole_stays_so_on_the_next_connection() -> None:
    """Its heirs were begun before, and so were not replayed whole where nobody asked in time."""
    ledger = Ledger(settled=9, at_processed=True, patience=2)
    ledger.connected(from_slot=10)
    for slot in range(10, 21):
        ledger.begun(slot, slot - 1)
        ledger.block_meta(slot, slot - 1, f"{slot}", 0, f"{slot - 1}")
    for slot in (10, 11):
        ledger.fetched(slot, slot - 1, f"{slot}", 0, ())
    ledger.status(12, 11, Status.CONFIRMED)
    ledger.connected(from_slot=13)
    decisions: list[Decision] = []
    for slot in range(13, 21):
        decisions += ledger.block_meta(slot, slot - 1, f"{slot}", 0, f"{slot - 1}")
        decisions += ledger.status(slot, slot - 1, Status.CONFIRMED)
    ledger.begun(21, 20)
    assert [each.slot for each in decisions if isinstance(each, Settled)] == [*range(13, 21)]
    assert not [each for each in decisions if isinstance(each, Missing)]


def test_what_one_connection_mixed_another_may_bring_whole() -> None:
    ledger = Ledger(settled=9, patience=0)
    ledger.connected(from_slot=10)
    carry(ledger, 10, "first", b"of the first")
    carry(ledger, 10, "second", b"of the second")
    ledger.connected(from_slot=10)
    carry(ledger, 10, "second", b"of the second")
    assert signatures(ledger.status(10, 9, Status.CONFIRMED)) == [{b"of the second"}]


def test_two_blocks_of_a_slot_on_one_connection_are_fetched() -> None:
    ledger = Ledger(settled=9, patience=0)
    ledger.connected(from_slot=10)
    carry(ledger, 10, "first", b"of the first")
    carry(ledger, 10, "second", b"of the second")
    assert ledger.status(10, 9, Status.CONFIRMED) == [Missing(10, 10)]
    right = [Transaction(0, b"of the second", [])]
    (settled,) = ledger.fetched(10, 9, "second", 1, right)
    assert signatures([settled]) == [{b"of the second"}]


def test_nothing_is_added_to_a_block_that_was_fetched() -> None:
    ledger = Ledger(settled=9)
    ledger.connected(from_slot=None)
    ledger.fetched(11, 10, "right", 1, [Transaction(0, b"right", [])])
    assert ledger.novelty(11, b"wrong") is Novelty.STALE
    assert ledger.block_meta(11, 9, "wrong", 2) == []
    ledger.fetched(10, 9, "below", 1, [])
    assert ledger.settled == 11
