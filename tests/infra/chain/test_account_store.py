"""The store against an oracle that keeps every write and computes each answer from all of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.chain.account_store import AccountStore, AccountView, StaleView
from infra.chain.source import (
    AccountWrite,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
)
from schemas.proto.geyser_pb2 import CONFIRMED, FINALIZED, PROCESSED, CommitmentLevel
from schemas.solana.addresses import TOKEN_2022_PROGRAM, TOKEN_PROGRAM
from tests.support.account_writes import (
    PROGRAMS,
    address,
    closing,
    header,
    token_account,
    write,
    writing,
)
from tests.support.exploring import examples

COMMITMENTS = (PROCESSED, CONFIRMED, FINALIZED)
ADDRESSES = [address(number) for number in range(1, 7)]
WALLETS = [address(number) for number in (100, 101)]
MINTS = [address(number) for number in (200, 201)]
GENESIS_SLOT = 9
STEPS = ["start", *["block"] * 3, *["write"] * 2, "complete", "confirm", "finalize", "dead"]


@dataclass
class Oracle:
    """All slots there ever were, with all their writes; nothing is dropped or summed up."""

    genesis: tuple[AccountWrite, ...]
    parents: dict[int, int] = field(default_factory=dict)
    writes: dict[int, list[AccountWrite]] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    confirmed: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    root: int = GENESIS_SLOT

    def apply(self, event: SlotEvent) -> None:
        match event:
            case SlotStarted(slot, parent_slot):
                self.parents[slot] = parent_slot
                self.writes[slot] = []
            case SlotTransactions(slot, transactions):
                self.writes[slot] += [each for item in transactions for each in item.writes]
            case SlotCompleted(said, writes):
                self.writes[said.slot] += writes
                self.completed.add(said.slot)
            case SlotConfirmed(slot):
                self.confirmed.add(slot)
            case SlotFinalized(slot):
                self.root = slot
            case SlotDead(slot):
                self.dead.add(slot)

    def lineage(self, slot: int) -> list[int]:
        out = [slot]
        while out[-1] in self.parents:
            out.append(self.parents[out[-1]])
        return out

    def is_live(self, slot: int) -> bool:
        lineage = self.lineage(slot)
        return self.root in lineage and not self.dead & set(lineage)

    def tip(self, commitment: CommitmentLevel) -> int:
        if commitment == FINALIZED:
            return self.root
        reached = self.confirmed if commitment == CONFIRMED else self.completed
        return max([self.root, *(slot for slot in reached if self.is_live(slot))])

    def state(self, slot: int) -> dict[bytes, AccountWrite]:
        state = {each.address: each for each in self.genesis}
        for each in reversed(self.lineage(slot)):
            for one in self.writes.get(each, ()):
                state[one.address] = one
        return {at: one for at, one in state.items() if one.lamports}

    def unfinalized(self) -> set[int]:
        return {slot for slot in self.parents if slot > self.root and self.is_live(slot)}


contents = st.one_of(
    st.builds(
        lambda program, mint, wallet, state, extended: (
            program,
            token_account(mint, wallet, 5, state=state, extended=extended),
        ),
        st.sampled_from(PROGRAMS),
        st.sampled_from(MINTS),
        st.sampled_from(WALLETS),
        st.sampled_from([0, 1, 1, 1, 2]),
        st.booleans(),
    ),
    st.tuples(st.sampled_from(PROGRAMS), st.sampled_from([b"", b"abc", bytes(355)])),
)
writes = st.one_of(
    st.builds(
        lambda at, content, lamports: write(at, content[0], lamports, content[1]),
        st.sampled_from(ADDRESSES),
        contents,
        st.integers(1, 9),
    ),
    st.sampled_from(ADDRESSES).map(closing),
)
some_writes = st.lists(writes, max_size=4).map(tuple)


@st.composite
def histories(draw: st.DrawFn) -> tuple[tuple[AccountWrite, ...], list[SlotEvent]]:
    """Genesis accounts, and events as `Source` promises them, with more forks than a chain has."""
    genesis = draw(st.lists(writes, max_size=6, unique_by=lambda each: each.address).map(tuple))
    events: list[SlotEvent] = []
    oracle = Oracle(genesis)

    def say(event: SlotEvent) -> None:
        oracle.apply(event)
        events.append(event)

    next_slot = GENESIS_SLOT + 1
    for number in range(draw(st.integers(1, 30))):
        running = [s for s in oracle.parents if s not in oracle.completed | oracle.dead]
        done = sorted(oracle.completed)
        undecided = [s for s in done if s > oracle.root and oracle.is_live(s)]
        match draw(st.sampled_from(STEPS)):
            case "start" | "block" as step:
                # Now and then on a slot that was given up.
                parent = draw(st.sampled_from([GENESIS_SLOT, *done][-4:]))
                say(SlotStarted(next_slot, parent))
                if step == "block":
                    said = header(next_slot, parent)
                    say(SlotCompleted(said, draw(some_writes)))
                next_slot += draw(st.integers(1, 2))
            case "write" if running:
                batch = (writing(number, *draw(some_writes)),)
                say(SlotTransactions(draw(st.sampled_from(running)), batch))
            case "complete" if running:
                slot = draw(st.sampled_from(running))
                said = header(slot, oracle.parents[slot])
                say(SlotCompleted(said, draw(some_writes)))
            case "confirm" if done:
                say(SlotConfirmed(draw(st.sampled_from(done))))
            case "finalize" if undecided:
                final = draw(st.sampled_from(undecided))
                for slot in reversed(oracle.lineage(final)):
                    if slot > oracle.root:
                        say(SlotConfirmed(slot))
                        say(SlotFinalized(slot))
            case "dead" if running:
                say(SlotDead(draw(st.sampled_from(running)), "gone"))
    return genesis, events


def by_address(accounts: list[AccountWrite]) -> dict[bytes, AccountWrite]:
    found = {each.address: each for each in accounts}
    assert len(found) == len(accounts)
    return found


def is_token_account(account: AccountWrite) -> bool:
    data = account.data
    if account.owner == TOKEN_PROGRAM:
        return len(data) == 165 and data[108] != 0
    if account.owner != TOKEN_2022_PROGRAM or len(data) < 165 or data[108] == 0:
        return False
    return len(data) == 165 or (len(data) != 355 and data[165] == 2)


def check(view: AccountView, state: dict[bytes, AccountWrite]) -> None:
    for at in ADDRESSES:
        assert view.account(at) == state.get(at)
    for program in PROGRAMS:
        owned = {at: each for at, each in state.items() if each.owner == program}
        assert by_address(view.of_program(program)) == owned
        tokens = {at: each for at, each in owned.items() if is_token_account(each)}
        for wallet in WALLETS:
            expected = {at: each for at, each in tokens.items() if each.data[32:64] == wallet}
            assert by_address(view.of_token_owner(program, wallet)) == expected
        for mint in MINTS:
            expected = {at: each for at, each in tokens.items() if each.data[:32] == mint}
            assert by_address(view.of_mint(program, mint)) == expected


@given(histories())
@examples(300)
def test_each_commitment_has_the_state_at_the_end_of_its_slot(
    history: tuple[tuple[AccountWrite, ...], list[SlotEvent]],
) -> None:
    genesis, events = history
    store, oracle = AccountStore(genesis), Oracle(genesis)
    for event in events:
        store.apply(event)
        oracle.apply(event)
        for commitment in COMMITMENTS:
            view = store.view(commitment)
            assert view.slot == oracle.tip(commitment)
            check(view, oracle.state(view.slot))
        assert store.unfinalized_slots == len(oracle.unfinalized())
        assert store.finalized_accounts == len(oracle.state(oracle.root))


def completed(slot: int, parent: int, *writes: AccountWrite) -> Iterator[SlotEvent]:
    yield SlotStarted(slot, parent)
    yield SlotTransactions(slot, (writing(slot, *writes),))
    yield SlotCompleted(header(slot, parent))


def stored(*events: SlotEvent, genesis: tuple[AccountWrite, ...] = ()) -> AccountStore:
    store = AccountStore(genesis)
    for event in events:
        store.apply(event)
    return store


def test_a_confirmed_slot_that_is_rolled_back_takes_its_writes_with_it() -> None:
    at = ADDRESSES[0]
    store = stored(
        *completed(10, 9, write(at, lamports=1)),
        *completed(11, 10, write(at, lamports=2)),
        SlotConfirmed(10),
        SlotConfirmed(11),
    )
    assert store.view(CONFIRMED).account(at) == write(at, lamports=2)
    for event in (*completed(12, 10), SlotConfirmed(12), SlotFinalized(10), SlotFinalized(12)):
        store.apply(event)
    assert store.view(CONFIRMED).slot == 12
    assert store.view(CONFIRMED).account(at) == write(at, lamports=1)
    assert store.unfinalized_slots == 0


def test_before_the_first_slot_the_genesis_is_all_there_is() -> None:
    genesis = (write(ADDRESSES[0]),)
    store = stored(genesis=genesis)
    assert store.is_seeded
    assert store.view(FINALIZED).slot == 0
    assert store.view(PROCESSED).account(ADDRESSES[0]) == genesis[0]
    store.apply(SlotStarted(10, 9))
    assert [store.view(each).slot for each in COMMITMENTS] == [9, 9, 9]


def test_a_slot_that_is_not_complete_is_not_seen() -> None:
    at = ADDRESSES[0]
    store = stored(SlotStarted(10, 9), SlotTransactions(10, (writing(1, write(at)),)))
    assert not store.is_seeded
    assert store.view(PROCESSED).account(at) is None
    store.apply(SlotCompleted(header(10, 9)))
    assert store.view(PROCESSED).account(at) == write(at)


def test_a_hole_in_a_recording_is_built_over() -> None:
    at = ADDRESSES[0]
    store = stored(*completed(10, 9, write(at)), *completed(15, 14, write(ADDRESSES[1])))
    assert store.view(PROCESSED).slot == 15
    store.apply(SlotConfirmed(15))
    store.apply(SlotFinalized(15))
    assert store.view(FINALIZED).slot == 15
    assert store.view(FINALIZED).account(ADDRESSES[1]) == write(ADDRESSES[1])


def test_a_view_is_refused_after_the_next_event() -> None:
    store = stored(*completed(10, 9, write(ADDRESSES[0])))
    view = store.view(PROCESSED)
    store.apply(SlotConfirmed(10))
    with pytest.raises(StaleView, match="slot 10"):
        view.of_program(PROGRAMS[0])
