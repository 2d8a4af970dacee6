"""Nodes that exchange a block for another of its slot, also while nobody listens."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from pipeline.ingest.ledger import (
    Decision,
    Ledger,
    Missing,
    Novelty,
    Settled,
    Status,
    Transaction,
)
from tests.support.exploring import SLOW, examples

BASE = 100


class Message(NamedTuple):
    """What a node says of a version of a slot; `kind` is a status, or begun, carried, meta."""

    kind: str
    slot: int
    version: str
    parent: int
    transaction: Transaction | None = None


@dataclass
class Chain:
    """What a node sends, in its order, and the blocks that are canonical."""

    log: list[Message] = field(default_factory=list)
    blocks: dict[int, tuple[int, list[Transaction]]] = field(default_factory=dict)

    @classmethod
    def random(cls, random: Random) -> Chain:
        made, parent = cls(), BASE
        unconfirmed: deque[int] = deque()
        for slot in range(BASE + 1, BASE + 61):
            if random.random() < 0.1:
                continue  # skipped
            versions = ["first", "last"] if random.random() < 0.1 else ["last"]
            for version in versions:
                names = ["both", *(f"{version} {n}" for n in range(random.randrange(4)))]
                block = [
                    Transaction(n, f"{slot} {each}".encode(), []) for n, each in enumerate(names)
                ]
                carried = [Message("carried", slot, version, parent, each) for each in block]
                place = random.choice((0, 0, random.randrange(len(carried) + 1)))
                carried.insert(place, Message("begun", slot, version, parent))  # late
                made.log += [*carried, Message("meta", slot, version, parent)]
                if version == "first" and random.random() < 0.5:
                    made.log.append(Message("DEAD", slot, version, parent))
                if version == "first" and random.random() < 0.5:  # a copy comes late
                    made.log.append(Message("carried", slot, version, parent, block[-1]))
                made.blocks[slot] = parent, block
            parent = slot
            unconfirmed.append(slot)
            if len(unconfirmed) > 3:
                made.confirm(unconfirmed.popleft())
        for slot in unconfirmed:
            made.confirm(slot)
        return made

    def confirm(self, slot: int) -> None:
        self.log.append(Message("CONFIRMED", slot, "last", self.blocks[slot][0]))

    def replayed(self, end: int, from_slot: int) -> list[Message]:
        """What the node replays of what it sent so far: the block that each slot has, if frozen."""
        frozen: dict[int, str] = {}
        for each in self.log[:end]:
            if each.kind == "meta":
                frozen[each.slot] = each.version
            elif each.kind in ("begun", "DEAD"):
                frozen.pop(each.slot, None)
        return [
            each
            for each in self.log[:end]
            if each.slot >= from_slot
            and each.kind not in ("begun", "DEAD")
            and frozen.get(each.slot) == each.version
        ]


@dataclass
class Follower:
    """Gives a ledger what a node sends, and what RPC answers once a block is confirmed."""

    chain: Chain
    ledger: Ledger = field(
        default_factory=lambda: Ledger(settled=BASE, at_processed=True, patience=4)
    )
    settled: list[Settled] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    confirmed: set[int] = field(default_factory=set)

    def take(self, each: Message) -> None:
        ledger, slot = self.ledger, each.slot
        if each.transaction is not None:
            novelty = ledger.novelty(slot, each.transaction.signature)
            if novelty is Novelty.NEW:
                self.keep(ledger.transaction(slot, each.transaction))
            elif novelty is Novelty.DUPLICATE:
                ledger.duplicate(slot, each.transaction.signature)
        elif each.kind == "begun":
            self.keep(ledger.begun(slot, each.parent))
        elif each.kind == "meta":
            names = f"{slot} {each.version}", f"{each.parent} last"
            self.keep(ledger.block_meta(slot, each.parent, names[0], slot, names[1]))
        else:
            self.keep(ledger.status(slot, each.parent, Status[each.kind]))

    def keep(self, decisions: list[Decision]) -> None:
        for each in decisions:
            if isinstance(each, Settled):
                self.settled.append(each)
            elif isinstance(each, Missing):
                self.asked += range(each.first, each.last + 1)

    def answer(self, known: set[int]) -> None:
        """Have RPC answer what it can, in the order in which it was asked."""
        while self.asked and (self.asked[0] in known or self.asked[0] not in self.chain.blocks):
            slot = self.asked.pop(0)
            if slot not in self.chain.blocks:
                self.keep(self.ledger.unavailable(slot, slot, "skipped"))
                continue
            parent, block = self.chain.blocks[slot]
            self.keep(
                self.ledger.fetched(slot, parent, f"{slot} last", slot, block, f"{parent} last")
            )


@examples(200, SLOW)
@given(seed=st.integers(0, 10**9))
def test_a_complete_slot_has_the_transactions_of_the_block_that_was_confirmed(seed: int) -> None:
    random = Random(seed)
    chain = Chain.random(random)
    follower = Follower(chain)
    at = 0
    while at < len(chain.log):
        settled = follower.ledger.settled or BASE
        replays = random.random() < 0.8
        follower.ledger.connected(settled + 1 if replays else None)
        for each in chain.replayed(at, settled + 1) if replays else ():
            follower.take(each)
        end = min(len(chain.log), at + random.randrange(1, 60))
        for place in range(at, end):
            follower.take(chain.log[place])
            if random.random() < 0.2:
                known = {each.slot for each in chain.log[:place] if each.kind == "CONFIRMED"}
                follower.answer(known)
        at = min(len(chain.log), end + random.choice((0, 0, 1, 3, 10, 25)))
    follower.answer({*chain.blocks})
    slots = [each.slot for each in follower.settled]
    assert slots == [each for each in chain.blocks if each <= (follower.ledger.settled or 0)]
    for each in follower.settled:
        _, block = chain.blocks[each.slot]
        assert each.complete
        assert each.blockhash == f"{each.slot} last"
        assert {of.signature for of in each.transactions} == {of.signature for of in block}
