"""The slot ledger: which slots are the chain, whole, and next to be settled.

Pure: no clock, no I/O. Whatever arrives is passed to the ledger; it answers with decisions, in
the order in which they must be carried out.

- A slot is canonical when it is confirmed, or an ancestor of a confirmed slot. Parent links
  come with slot statuses and block metas, so a skipped slot differs from a missing one: no
  canonical slot names a skipped one as its parent.
- A slot is whole when its block meta was seen (the node sends it after the slot's
  transactions) on a connection that carried the slot from its start: one that replays from
  that slot or an earlier one, or one that also carried the metas of the slot's parent and
  grandparent. The parent alone would do by the node's own order (a bank is opened once its
  parent is frozen); one generation more allows for updates that overtake each other.
- At commitment `processed` a node sends transactions as it executes them, and replays frozen
  slots alone (Yellowstone since June 2026). So of the slots that it executed when a connection
  began, that connection carries the end only, and their metas all the same. There a slot from
  which on the connection replays is whole if an ancestor was begun on that connection, two to four
  generations before it, which the node says and never replays, or if three generations after it
  were begun before: then it was frozen by then. That the slot itself was begun, or the child, would
  do; more generations allow for beginnings that transactions or metas overtook, or that were not
  heard of: a meta may be late as well, and the child's beginning before the connection. The
  meta of a fourth must have come: before anything of it, what was late of the second has.
  Where nothing has begun yet, what is final had been executed before, with its ancestors.
- A leader may make two blocks of one slot, and a node may exchange the one for the other, also
  while nobody listens. A whole slot has the transactions of the connection that carried it whole,
  no others. Where a slot is begun anew, or another block's meta comes, that block counts; if one
  connection brings both metas, or a beginning after a meta, or at `processed` the word that the
  slot is dead, it says of none whose its transactions are. A block is the chain's where the meta of
  a child names it, or where a connection that brought its meta confirms the slot: any other is
  fetched.
- Without a log to continue, the tape starts with the first confirmed slot known whole.
- Canonical slots leave in ascending order, each once. One that is not whole is waited for
  during `patience` further confirmed slots, then `Missing` asks for it; an answer is `fetched`
  or `unavailable`, given in ascending order. What is unavailable becomes a `Gap`, and what was
  seen of such a slot is settled as incomplete.
- Which settled slots are final, or were rolled back, is `finality`'s.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from pipeline.ingest.finality import Counts, Finality, Finalized, Gap, RolledBack, Unfinal
from schemas.events import Event, Movement, PerpEvent, Swap, TokenBalance

_HEIRS: Final = 3  # generations
_ANCESTORS: Final = 3  # generations before the parent
REMEMBERED: Final = 64  # settled slots whose signatures are kept: is it a duplicate or a loss?


class Status(Enum):
    """What a node says of a slot."""

    PROCESSED = auto()
    CONFIRMED = auto()
    FINALIZED = auto()
    DEAD = auto()


class Novelty(Enum):
    """What a transaction is to the ledger."""

    NEW = auto()
    DUPLICATE = auto()
    LATE = auto()  # its slot was settled without it
    STALE = auto()  # its slot was orphaned, or settled too long ago to know


@dataclass(slots=True, frozen=True)
class Transaction:
    """What the decoders made of one transaction; events ascend by event_index."""

    tx_index: int
    signature: bytes
    events: Sequence[Event]
    decoded: int = 0
    unknown: int = 0
    malformed: int = 0
    balances: Sequence[TokenBalance] = ()
    movements: Sequence[Movement] = ()
    perps: Sequence[PerpEvent] = ()
    decoded_by_dex: Mapping[str, int] = field(default_factory=dict)
    # unknown, malformed
    undecoded_by_dex: Mapping[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Processed:
    """A slot's block meta came: the node has executed all of it."""

    slot: int
    parent: int | None
    block_time_ms: int
    counts: Counts


@dataclass(slots=True, frozen=True)
class Settled:
    """The next slot of the canonical chain; transactions ascend by tx_index.

    Where the meta was never had, `parent` may be None, `blockhash` is empty and
    `block_time_ms` is that of the slot settled before.
    """

    slot: int
    parent: int | None
    blockhash: str
    block_time_ms: int
    transactions: tuple[Transaction, ...]
    counts: Counts
    complete: bool

    def events(self) -> Iterator[Event]:
        """Yield the events, ascending by (tx_index, event_index)."""
        for transaction in self.transactions:
            yield from transaction.events


@dataclass(slots=True, frozen=True)
class Orphaned:
    """A slot that was seen is not of the chain."""

    slot: int
    parent: int | None
    counts: Counts


@dataclass(slots=True, frozen=True)
class Missing:
    """Slots first..last are wanted by other means; those of them that were skipped are harmless."""

    first: int
    last: int


Decision = Processed | Settled | Finalized | RolledBack | Orphaned | Missing | Gap


@dataclass(slots=True)
class _Slot:
    """An unsettled slot."""

    parent: int | None = None
    blockhash: str = ""
    block_time_ms: int = 0
    meta_connection: int | None = None  # on which the meta was first seen
    is_meta_of_replay: bool = False  # that connection replayed
    replay_connection: int | None = None  # the last one that replays from here, and had the meta
    begun_connection: int | None = None  # on which the node said that it begins to execute it
    whole_connection: int | None = None  # which is known to have carried all of it
    mixed_connections: set[int] = field(default_factory=set)  # each may have brought two blocks
    parent_blockhash: str = ""
    has_meta: bool = False  # of this block, or of one before
    meta_connections: set[int] = field(default_factory=set)  # that brought this block's
    confirming_connections: set[int] = field(default_factory=set)
    fetched: bool = False
    touched: bool = False  # something of it was seen that may have been published
    transactions: dict[bytes, Transaction] = field(default_factory=dict)
    carried: dict[int, set[bytes]] = field(default_factory=dict)  # connection -> signatures

    def exchanged(self) -> None:
        """Forget by what another block of this slot was whole; its transactions stay."""
        self.meta_connection = self.replay_connection = self.whole_connection = None
        self.meta_connections.clear()

    def drop_others(self) -> None:
        """Leave the transactions of the connection that carried all of it."""
        if self.whole_connection is not None and not self.fetched:
            for signature in self.transactions.keys() - self.carried.get(self.whole_connection, ()):
                del self.transactions[signature]

    def counts(self) -> Counts:
        held = self.transactions.values()
        return Counts(
            transactions=len(held),
            events=sum(len(each.events) for each in held),
            decoded=sum(each.decoded for each in held),
            unknown=sum(each.unknown for each in held),
            malformed=sum(each.malformed for each in held),
        )

    def wallets(self) -> frozenset[str]:
        """Return whom something was seen of: traders and owners of token accounts."""
        held = self.transactions.values()
        traders = (e.wallet for each in held for e in each.events if isinstance(e, Swap))
        owners = (balance.owner for each in held for balance in each.balances)
        of_perps = (event.wallet for each in held for event in each.perps)
        return frozenset(traders).union(owners, of_perps) - {""}

    def in_order(self) -> tuple[Transaction, ...]:
        held = self.transactions.values()
        return tuple(sorted(held, key=lambda each: (each.tx_index, each.signature)))


@dataclass(slots=True, frozen=True)
class _Past:
    """What is remembered of a settled slot."""

    parent: int | None
    meta_connection: int | None
    begun_connection: int | None
    whole_connection: int | None
    signatures: frozenset[bytes]


@dataclass(slots=True, frozen=True)
class _Begun:
    """What is remembered of a slot that was begun after it had been settled by another process."""

    parent: int | None
    begun_connection: int


class Ledger:
    """Holds unsettled slots and lets the canonical ones go in order.

    `settled` is the last slot that the log has, with its block time; None starts a new tape.
    `unfinal` and `gaps` are what the log says of the last slots (`finality`). `at_processed`: what
    it is given is of that commitment.
    """

    def __init__(
        self,
        *,
        settled: int | None = None,
        block_time_ms: int = 0,
        max_slots: int = 600,
        patience: int = 8,
        unfinal: Iterable[Unfinal] = (),
        gaps: Iterable[Gap] = (),
        at_processed: bool = False,
    ) -> None:
        self.settled = settled
        self.tip = settled or 0  # highest slot heard of
        self.conflicts = 0  # confirmed slots that do not descend from what was settled
        self._max_slots = max_slots
        self._patience = patience
        self._at_processed = at_processed
        self._slots: dict[int, _Slot] = {}
        self._confirmed: set[int] = set()  # confirmed and unsettled
        self._past: OrderedDict[int, _Past] = OrderedDict()
        self._begun: OrderedDict[int, _Begun] = OrderedDict()
        self._finality = Finality(max_slots, settled, unfinal, gaps)
        self._block_time_ms = block_time_ms  # of the last settled slot
        self._settled_is_block = settled is not None  # a gap may end on a slot that was skipped
        self._connection = 0
        self._from_slot: int | None = None
        self._has_begun = False  # a slot was begun on this connection
        self._requested = _Ranges()
        self._unavailable = _Ranges()

    def __len__(self) -> int:
        return len(self._slots)

    def connected(self, from_slot: int | None) -> None:
        """Begin a new connection, which carries all slots from `from_slot` on (None: from now)."""
        for slot in self._slots:
            self._is_whole(slot)  # what only this connection has replayed, or begun, goes with it
        self._connection += 1
        self._from_slot = from_slot
        self._has_begun = False

    def whole_on(self, slot: int) -> int | None:
        """Return which connection, counted from 1, carried a slot whole; None: none did.

        Decided now, by what was seen of the slot and its ancestors so far.
        """
        if slot in self._slots:
            self._is_whole(slot)
        held = self._known(slot)
        return None if held is None else held.whole_connection

    def novelty(self, slot: int, signature: bytes) -> Novelty:
        """Say whether a transaction is worth decoding."""
        held = self._slots.get(slot)
        if held is not None:
            if signature in held.transactions:
                return Novelty.DUPLICATE
            # What RPC has of a block is all of it: others are of another block.
            return Novelty.STALE if held.fetched else Novelty.NEW
        if self.settled is None or slot > self.settled:
            return Novelty.NEW
        past = self._past.get(slot)
        if past is None:
            return Novelty.STALE
        return Novelty.DUPLICATE if signature in past.signatures else Novelty.LATE

    def transaction(self, slot: int, transaction: Transaction) -> list[Decision]:
        """Take a transaction that `novelty` called new."""
        held = self._open(slot)
        if held is None:
            return []
        held.touched = True
        held.transactions.setdefault(transaction.signature, transaction)
        held.carried.setdefault(self._connection, set()).add(transaction.signature)
        return self._bounded([]) if len(self._slots) > self._max_slots else []

    def duplicate(self, slot: int, signature: bytes) -> None:
        """Take a transaction that `novelty` called a duplicate: this connection carries it too."""
        held = self._slots.get(slot)
        if held is not None:
            held.carried.setdefault(self._connection, set()).add(signature)

    def begun(self, slot: int, parent: int | None) -> list[Decision]:
        """Take the status that the node begins to execute a slot, which is never replayed."""
        self._has_begun = True
        held = self._open(slot)
        if held is None:
            self._begun[slot] = _Begun(parent, self._connection)
            while len(self._begun) > REMEMBERED:
                self._begun.popitem(last=False)
            return []
        if held.has_meta and not held.fetched:  # of another block; some of this may be here already
            held.exchanged()
            held.mixed_connections.add(self._connection)
            self._requested.discard(slot)
        held.begun_connection = self._connection
        if held.parent is None and parent is not None and parent < slot:
            held.parent = parent
        return self._bounded(self._advance([]))

    def status(self, slot: int, parent: int | None, status: Status) -> list[Decision]:
        """Take a slot status."""
        decisions: list[Decision] = []
        held = self._open(slot)
        if held is not None:
            if held.parent is None and parent is not None and parent < slot:
                held.parent = parent
            if status is Status.DEAD:
                if held.touched:
                    decisions.append(Orphaned(slot, held.parent, held.counts()))
                # Another block may yet be executed for this slot: nothing of the dead one stays.
                dead = self._slots[slot] = _Slot()
                if self._at_processed:  # some of it may be late, or some of the next was early
                    dead.mixed_connections.add(self._connection)
                self._requested.discard(slot)
            else:
                held.touched = True
        if status in (Status.CONFIRMED, Status.FINALIZED) and held is not None:
            self._confirmed.add(slot)
            held.confirming_connections.add(self._connection)
        if status is Status.FINALIZED and not self._has_begun:
            self._take_replayed(slot)
        decisions = self._bounded(self._advance(decisions))
        if status is Status.FINALIZED:
            decisions += self._finality.final(slot, parent, self.settled)
        return decisions

    def block_meta(
        self,
        slot: int,
        parent: int,
        blockhash: str,
        block_time_ms: int,
        parent_blockhash: str = "",
    ) -> list[Decision]:
        """Take a block meta: the slot's transactions have all been sent."""
        held = self._open(slot)
        if held is None:
            return []
        decisions: list[Decision] = []
        if held.fetched and held.blockhash != blockhash:
            return decisions
        if held.has_meta and held.blockhash != blockhash:
            if self._connection in (held.meta_connection, held.replay_connection):
                held.mixed_connections.add(self._connection)
            held.exchanged()
            self._requested.discard(slot)
        held.parent_blockhash = parent_blockhash
        held.parent = parent if parent < slot else None  # no slot descends from itself
        held.blockhash, held.block_time_ms = blockhash, block_time_ms
        held.touched = True
        held.meta_connections.add(self._connection)
        if held.meta_connection is None:
            held.meta_connection = self._connection
            held.is_meta_of_replay = self._from_slot is not None
        if not held.has_meta:
            held.has_meta = True
            decisions.append(Processed(slot, parent, block_time_ms, held.counts()))
        if self._from_slot is not None and slot >= self._from_slot:
            held.replay_connection = self._connection
            if not self._at_processed:
                held.whole_connection = self._connection
        return self._bounded(self._advance(decisions))

    def fetched(
        self,
        slot: int,
        parent: int,
        blockhash: str,
        block_time_ms: int,
        transactions: Sequence[Transaction],
        parent_blockhash: str = "",
    ) -> list[Decision]:
        """Take a confirmed block that was had by other means; it replaces what was seen of it."""
        held = self._open(slot)
        if held is None:
            return []
        held.parent_blockhash = parent_blockhash
        held.parent = parent if parent < slot else None
        held.blockhash, held.block_time_ms = blockhash, block_time_ms
        held.fetched = held.touched = True
        held.transactions = {each.signature: each for each in transactions}
        self._confirmed.add(slot)
        return self._bounded(self._advance([]))

    def unavailable(self, first: int, last: int, reason: str) -> list[Decision]:
        """Take the answer that slots first..last can not be had: skipped, or lost."""
        self._unavailable.add(first, last, reason)
        return self._bounded(self._advance([]))

    def _open(self, slot: int) -> _Slot | None:
        if self.settled is not None and slot <= self.settled:
            return None
        held = self._slots.get(slot)
        if held is None:
            held = self._slots[slot] = _Slot()
            self.tip = max(self.tip, slot)
        return held

    def _advance(self, decisions: list[Decision]) -> list[Decision]:
        if self.settled is None and not self._start():
            return decisions
        # The lowest confirmed slot is an ancestor of all higher ones: if its path down to the
        # settled slot is broken, so are theirs.
        while self._confirmed:
            lowest = min(self._confirmed)
            path = self._path(lowest)
            holes = [slot for slot in path if not self._is_whole(slot)]
            if any(slot not in self._unavailable for slot in holes):
                if len(self._confirmed) > self._patience:
                    decisions.extend(self._ask(holes, linked=self._is_linked(path[0])))
                else:
                    cut = [slot for slot in holes if self._is_cut(slot)]
                    decisions.extend(self._ask(cut, linked=True))
                break
            self._settle(path, decisions)
        return decisions

    def _start(self) -> bool:
        """Find the slot that a new tape starts with."""
        for slot in sorted(self._confirmed):
            parent = self._slots[slot].parent
            if parent is not None and self._is_whole(slot):
                self.settled = slot - 1
                self._settled_is_block = parent == slot - 1
                self._forget_to(slot - 1)
                return True
        return False

    def _path(self, confirmed: int) -> list[int]:
        """Return the known canonical slots above the settled one, up to `confirmed`, ascending."""
        assert self.settled is not None
        path = [confirmed]
        while True:
            held = self._slots.get(path[-1])
            parent = held.parent if held else None
            if parent is None or parent <= self.settled or parent >= path[-1]:
                break
            path.append(parent)
        path.reverse()
        return path

    def _is_linked(self, slot: int) -> bool:
        held = self._slots.get(slot)
        return held is not None and held.parent is not None

    def _is_whole(self, slot: int) -> bool:
        held = self._slots.get(slot)
        if held is None:
            return False
        if held.whole_connection is None:
            if self._is_replayed(slot, held):
                held.whole_connection = held.replay_connection
            elif self._seen_from_start(held):
                held.whole_connection = held.meta_connection
        if held.whole_connection in held.mixed_connections:
            held.whole_connection = None
        if held.fetched or held.whole_connection is None:
            return held.fetched
        return self._is_of_chain(slot, held)

    def _is_of_chain(self, slot: int, held: _Slot) -> bool:
        """Return whether a block is the one that was confirmed, where the slot was."""
        named = {
            child.parent_blockhash
            for child in self._slots.values()
            if child.parent == slot and child.parent_blockhash
        }
        if named:
            return held.blockhash in named
        return slot not in self._confirmed or not held.confirming_connections.isdisjoint(
            held.meta_connections
        )

    def _is_replayed(self, slot: int, held: _Slot) -> bool:
        connection = held.replay_connection
        if connection is None:
            return False
        begun_on = [held.begun_connection]  # it and its ancestors
        number = held.parent
        while number is not None and len(begun_on) < 2 + _ANCESTORS:
            ancestor = self._known(number) or self._begun.get(number)
            if ancestor is None:
                break
            begun_on.append(ancestor.begun_connection)
            number = ancestor.parent
        if connection in begun_on:
            return connection in begun_on[2:]
        heirs = {slot}
        for _ in range(_HEIRS):
            heirs = {
                number
                for number in self._children(heirs)
                if self._slots[number].replay_connection == connection
                and self._slots[number].begun_connection != connection
            }
        # Once a child's meta has come, the beginning of its grandparent is not still to come.
        return any(
            self._slots[number].replay_connection == connection for number in self._children(heirs)
        )

    def _is_cut(self, slot: int) -> bool:
        """Return whether this connection has brought all that it ever brings, maybe not all."""
        held, connection = self._slots.get(slot), self._connection
        if not self._has_begun or held is None or held.replay_connection != connection:
            return False
        heirs = {slot}
        for _ in range(_HEIRS):
            heirs = self._children(heirs)
            if any(self._slots[each].begun_connection == connection for each in heirs):
                return True
        return False

    def _children(self, parents: Set[int]) -> set[int]:
        return {number for number, each in self._slots.items() if each.parent in parents}

    def _take_replayed(self, slot: int) -> None:
        """Take a slot that is final, and its ancestors, for whole where they were replayed."""
        number: int | None = slot
        while number is not None and (held := self._slots.get(number)) is not None:
            if held.replay_connection == self._connection:
                held.whole_connection = held.whole_connection or self._connection
            number = held.parent

    def _seen_from_start(self, held: _Slot) -> bool:
        if self._at_processed and held.is_meta_of_replay:
            return False  # the metas of its parents may have been replayed
        connection = held.meta_connection
        parent = self._known(held.parent)
        if connection is None or parent is None or parent.meta_connection != connection:
            return False
        if parent.whole_connection == connection:
            return True
        grandparent = self._known(parent.parent)
        return grandparent is not None and grandparent.meta_connection == connection

    def _known(self, slot: int | None) -> _Slot | _Past | None:
        return None if slot is None else self._slots.get(slot) or self._past.get(slot)

    def _ask(self, holes: list[int], *, linked: bool) -> Iterator[Missing]:
        """Want the holes of a path and, where nothing links it to the settled slot, all below."""
        assert self.settled is not None
        ranges = [(hole, hole) for hole in holes if hole not in self._requested]
        if not linked and ranges and ranges[0][0] == holes[0]:
            ranges[0] = (self.settled + 1, holes[0])
        for first, last in ranges:
            start = first
            for whole in sorted(s for s in self._slots if first <= s <= last and self._is_whole(s)):
                if start < whole:
                    self._requested.add(start, whole - 1)
                    yield Missing(start, whole - 1)
                start = whole + 1
            if start <= last:
                self._requested.add(start, last)
                yield Missing(start, last)

    def _settle(self, path: list[int], decisions: list[Decision]) -> None:
        """Let a path go, and with it every other slot up to its end."""
        assert self.settled is not None
        gap_from = path[0]
        if not self._is_linked(path[0]):
            # Nothing says which of the slots between are of the chain: none of them is settled.
            gap_from = self.settled + 1
            self._forget_to(path[0] - 1)
        elif self._settled_is_block and self._slots[path[0]].parent != self.settled:
            self.conflicts += 1
        canonical = set(path)
        for slot in sorted(canonical | {each for each in self._slots if each <= path[-1]}):
            held = self._slots.get(slot)
            if slot in canonical:
                complete = self._is_whole(slot)
                if not complete:
                    first = gap_from if slot == path[0] else slot
                    decisions.append(self._gap(first, slot, self._unavailable.reason(slot)))
                if held is not None:
                    self._settle_one(slot, held, decisions, complete=complete)
            elif held is not None and held.touched:
                decisions.append(Orphaned(slot, held.parent, held.counts()))
        self._forget_to(path[-1])
        self._settled_is_block = True

    def _gap(self, first: int, last: int, reason: str) -> Gap:
        gap = Gap(first, last, reason)
        self._finality.gap(gap)
        return gap

    def _settle_one(
        self, slot: int, held: _Slot, decisions: list[Decision], *, complete: bool
    ) -> None:
        self._block_time_ms = held.block_time_ms or self._block_time_ms
        held.drop_others()
        counts = held.counts()
        decisions.append(
            Settled(
                slot=slot,
                parent=held.parent,
                blockhash=held.blockhash,
                block_time_ms=self._block_time_ms,
                transactions=held.in_order(),
                counts=counts,
                complete=complete,
            )
        )
        decisions += self._finality.settled(
            Unfinal(slot, held.parent, self._block_time_ms, counts, held.wallets())
        )
        self._past[slot] = _Past(
            held.parent,
            held.meta_connection,
            held.begun_connection,
            held.whole_connection,
            frozenset(held.transactions),
        )
        while len(self._past) > REMEMBERED:
            self._past.popitem(last=False)

    def _forget_to(self, last: int) -> None:
        self.settled = last
        for slot in [slot for slot in self._slots if slot <= last]:
            del self._slots[slot]
        self._confirmed = {slot for slot in self._confirmed if slot > last}
        self._requested.drop_to(last)
        self._unavailable.drop_to(last)

    def _bounded(self, decisions: list[Decision]) -> list[Decision]:
        """Give up the oldest hole while more slots are held than allowed."""
        while len(self._slots) > self._max_slots:
            reason = f"more than {self._max_slots} slots were waiting"
            if self.settled is None:
                self._discard(min(self._slots))
            elif self._confirmed:
                path = self._path(min(self._confirmed))
                self._unavailable.add(self.settled + 1, path[-1], reason)
                self._advance(decisions)
            else:
                oldest = min(self._slots)
                decisions.append(self._gap(self.settled + 1, oldest, f"{reason}, none confirmed"))
                self._forget_to(oldest)
                self._settled_is_block = False
        return decisions

    def _discard(self, slot: int) -> None:
        del self._slots[slot]
        self._confirmed.discard(slot)


class _Ranges:
    """A few disjoint ranges of slots, each with a reason."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, str]] = []

    def __contains__(self, slot: int) -> bool:
        return any(first <= slot <= last for first, last, _ in self._ranges)

    def add(self, first: int, last: int, reason: str = "") -> None:
        if self._ranges and self._ranges[-1][1] == first - 1 and self._ranges[-1][2] == reason:
            first = self._ranges.pop()[0]  # answers come slot by slot
        self._ranges.append((first, last, reason))

    def discard(self, slot: int) -> None:
        parts = (
            part
            for first, last, reason in self._ranges
            for part in (
                [(first, slot - 1, reason), (slot + 1, last, reason)]
                if first <= slot <= last
                else [(first, last, reason)]
            )
        )
        self._ranges = [part for part in parts if part[0] <= part[1]]

    def drop_to(self, slot: int) -> None:
        self._ranges = [each for each in self._ranges if each[1] > slot]

    def reason(self, slot: int) -> str:
        for first, last, reason in self._ranges:
            if first <= slot <= last:
                return reason
        return ""
