"""The ledger of accounts: each account's last version of a slot, once the slot is settled.

Pure. A `pipeline.ingest.ledger.Ledger` a stream decides which slots are the chain and whole; this
one holds what each connection sent of a slot.

- A slot's version of an account is the one with the highest write version of the connection that
  carried the slot whole. Two nodes count writes apart: versions of two connections are never mixed.
- A slot is settled when every stream that is not behind has let it go. One that a stream lacks,
  wholly or in part, is a `Hole`: what changed in it must be had by other means.
- A stream is behind once more than `max_slots` of another wait for it, until its own ledger has
  settled what is settled here. What is settled without it is neither wanted nor lost again.
- A version that comes after its slot was settled is `Late`, unless it repeats one. Where the slot
  was settled before the connection began, all do: an earlier connection carried the slot whole, or
  it is a hole that is mended apart.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pipeline.ingest import finality
from pipeline.ingest.finality import NOT_SETTLED, ROLLED_BACK, Gap, RolledBack, Unfinal
from pipeline.ingest.ledger import Decision, Ledger, Missing, Settled, Status

REMEMBERED: Final = 64  # settled slots whose write versions are kept
NOT_ON_ALL: Final = "a stream did not have the slot"
BEHIND: Final = "a stream was too far behind to wait for"
DROPPED: Final = "it was known whole only after the connection's versions were dropped"
UNSEEN: Final = -1  # write version of a closing that only balances show: any other is newer


class Update(NamedTuple):
    """An account as a node sent it."""

    address: bytes
    owner: bytes  # program, 32 bytes
    lamports: int
    data: bytes
    write_version: int


@dataclass(slots=True, frozen=True)
class SettledAccounts:
    """The next slot of the canonical chain, with what its streams brought of it."""

    slot: int
    parent: int | None
    blockhash: str  # empty where the block meta was never had
    block_time_ms: int
    updates: tuple[Update, ...]  # ascending by address, each once
    complete: bool  # every stream carried the slot whole


@dataclass(slots=True, frozen=True)
class Hole:
    """Of slots first..last a stream lacks updates."""

    first: int
    last: int
    reason: str
    is_lost: bool  # the blocks cannot be had either


@dataclass(slots=True, frozen=True)
class Late:
    """A settled slot lacks the version of an account that came now."""

    slot: int
    address: bytes


@dataclass(slots=True, frozen=True)
class Undone:
    """A settled slot is not of the chain any more; what it wrote must be asked again."""

    slot: int
    addresses: frozenset[bytes]


@dataclass(slots=True, frozen=True)
class Wanted:
    """A stream's ledger wants the blocks of slots first..last: which there are, and their links."""

    stream: int
    first: int
    last: int


AccountDecision = SettledAccounts | Hole | Late | Undone | Wanted


@dataclass(slots=True)
class _Ready:
    """A slot that a stream has let go."""

    settled: Settled
    updates: dict[bytes, Update]
    is_whole: bool


@dataclass(slots=True)
class _Stream:
    """What one stream brought."""

    ledger: Ledger
    connection: int = 0
    settled_before: int = -1  # the last slot that was settled when that connection began
    # slot -> connection -> address
    held: dict[int, dict[int, dict[bytes, Update]]] = field(default_factory=dict)
    # slot -> connections whose versions are not held any more
    dropped: dict[int, set[int]] = field(default_factory=dict)
    ready: deque[_Ready] = field(default_factory=deque)
    # slot -> address -> write version; the last settled slots
    sent: OrderedDict[int, dict[bytes, int]] = field(default_factory=OrderedDict)
    is_behind: bool = False
    # the slots that were settled without it when it was last behind
    passed_from: int = 0
    passed_to: int = -1


class AccountLedger:
    """Holds the versions of unsettled slots and lets the canonical slots go in order.

    `settled` is the last slot that the log has, with its block time; None starts a new tape.
    `unfinal` are the last slots of the log and `written` the accounts that each complete one has.
    """

    def __init__(
        self,
        streams: int = 1,
        *,
        settled: int | None = None,
        block_time_ms: int = 0,
        max_slots: int = 600,
        patience: int = 8,
        unfinal: Iterable[Unfinal] = (),
        written: Iterable[tuple[int, Iterable[bytes]]] = (),
    ) -> None:
        unfinal = tuple(unfinal)
        self.settled = settled
        self.late = 0
        self.duplicates = 0
        self._max_slots = max_slots
        self._streams = [
            _Stream(
                Ledger(
                    settled=settled,
                    block_time_ms=block_time_ms,
                    max_slots=max_slots,
                    patience=patience,
                    unfinal=unfinal,
                )
            )
            for _ in range(streams)
        ]
        for slot, known in written:
            addresses = tuple(known)
            for stream in self._streams:
                stream.sent[slot] = dict.fromkeys(addresses, UNSEEN)

    def __len__(self) -> int:
        """Return how many unsettled slots are held, by the stream that has most."""
        return max(len(stream.ledger) + len(stream.ready) for stream in self._streams)

    @property
    def tip(self) -> int:
        """The highest slot heard of."""
        return max(stream.ledger.tip for stream in self._streams)

    def resume(self, stream: int) -> int | None:
        """Return the first slot that a stream still needs, None while there is none yet."""
        settled = self._streams[stream].ledger.settled
        return None if settled is None else max(settled, self._last) + 1

    def is_wanted(self, stream: int, slot: int) -> bool:
        """Return whether a slot is still waited for, by a stream's ledger and by this one."""
        return slot > self._last and _is_open(self._streams[stream], slot)

    def connected(self, stream: int, from_slot: int | None) -> None:
        """Begin a new connection of a stream, which carries all from `from_slot` on.

        Of an unsettled slot, the versions of the connection that carried it whole stay.
        """
        of = self._streams[stream]
        of.ledger.connected(from_slot)
        of.connection += 1
        of.settled_before = -1 if of.ledger.settled is None else of.ledger.settled
        for slot, held in of.held.items():
            whole = of.ledger.whole_on(slot)
            if gone := held.keys() - {whole}:
                of.dropped.setdefault(slot, set()).update(gone)
            of.held[slot] = {whole: held[whole]} if whole in held else {}

    def account(self, stream: int, slot: int, update: Update) -> list[AccountDecision]:
        """Take a version of an account."""
        of = self._streams[stream]
        if not _is_open(of, slot):
            return self._after(of, slot, update)
        held = of.held.setdefault(slot, {}).setdefault(of.connection, {})
        before = held.get(update.address)
        if before is None or update.write_version > before.write_version:
            held[update.address] = update
        else:
            self.duplicates += 1
        return []

    def status(
        self, stream: int, slot: int, parent: int | None, status: Status
    ) -> list[AccountDecision]:
        """Take a slot status."""
        of = self._streams[stream]
        if status is Status.DEAD and _is_open(of, slot):
            # Another block may yet be executed for this slot.
            of.held.pop(slot, None)
            of.dropped.pop(slot, None)
        return self._take(stream, of.ledger.status(slot, parent, status))

    def block_meta(
        self,
        stream: int,
        slot: int,
        parent: int,
        blockhash: str,
        block_time_ms: int,
        parent_blockhash: str = "",
    ) -> list[AccountDecision]:
        """Take a block meta: the slot's versions have all been sent."""
        ledger = self._streams[stream].ledger
        return self._take(
            stream, ledger.block_meta(slot, parent, blockhash, block_time_ms, parent_blockhash)
        )

    def fetched(
        self,
        stream: int,
        slot: int,
        parent: int,
        blockhash: str,
        block_time_ms: int,
        parent_blockhash: str = "",
    ) -> list[AccountDecision]:
        """Take a block that RPC had: the slot is of the chain, its accounts are asked apart."""
        ledger = self._streams[stream].ledger
        return self._take(
            stream, ledger.fetched(slot, parent, blockhash, block_time_ms, (), parent_blockhash)
        )

    def unavailable(self, stream: int, first: int, last: int, reason: str) -> list[AccountDecision]:
        """Take the answer that slots first..last can not be had: skipped, or lost."""
        return self._take(stream, self._streams[stream].ledger.unavailable(first, last, reason))

    @property
    def _last(self) -> int:
        return -1 if self.settled is None else self.settled

    def _take(self, stream: int, decisions: list[Decision]) -> list[AccountDecision]:
        found = self._heard(stream, decisions)
        found += self._join()
        while self._pass_by(found):
            found += self._join()
        return found

    def _heard(self, stream: int, decisions: list[Decision]) -> list[AccountDecision]:
        """Take what a stream's ledger decided; of slots that were settled without it, nothing."""
        found: list[AccountDecision] = []
        of = self._streams[stream]
        for decision in decisions:
            match decision:
                case Settled(slot):
                    whole = of.ledger.whole_on(slot)
                    is_dropped = whole in of.dropped.get(slot, ())
                    ready = self._ready(of, decision, None if is_dropped else whole)
                    if slot > self._last:
                        if is_dropped:
                            found.append(Hole(slot, slot, DROPPED, is_lost=False))
                        of.ready.append(ready)
                case Missing(first, last):
                    if last > self._last:
                        found.append(Wanted(stream, max(first, self._last + 1), last))
                case Gap(reason=finality.NOT_KNOWN):
                    pass  # all was asked again after the slots above it were lost
                case Gap(first, last, reason) if reason in (NOT_SETTLED, ROLLED_BACK):  # settled
                    found.append(Hole(first, last, reason, is_lost=reason != NOT_SETTLED))
                case Gap(first, last, reason):
                    if last > self._last:
                        found.append(Hole(max(first, self._last + 1), last, reason, is_lost=True))
                case RolledBack(slot) if slot in of.sent:
                    found.append(Undone(slot, frozenset(of.sent[slot])))
                case RolledBack(slot):  # nobody knows what it wrote
                    found.append(Hole(slot, slot, ROLLED_BACK, is_lost=True))
        if of.ledger.settled is not None:
            for slot in [slot for slot in of.held if slot <= of.ledger.settled]:
                del of.held[slot]
            for slot in [slot for slot in of.dropped if slot <= of.ledger.settled]:
                del of.dropped[slot]
        return found

    @staticmethod
    def _ready(of: _Stream, settled: Settled, whole: int | None) -> _Ready:
        """Take the versions of connection `whole`; None: no connection had them all."""
        slot = settled.slot
        held = of.held.pop(slot, {})
        updates = held.get(whole, {}) if whole is not None else {}
        if whole is not None:
            of.sent[slot] = {each.address: each.write_version for each in updates.values()}
        while len(of.sent) > REMEMBERED:
            of.sent.popitem(last=False)
        return _Ready(settled, updates, whole is not None)

    def _join(self) -> list[AccountDecision]:
        """Let go the slots that every stream which is not behind has let go, or has passed."""
        found: list[AccountDecision] = []
        while have_some := [stream for stream in self._streams if stream.ready]:
            lacks_one = len(have_some) < len(self._streams)
            if awaited := [s for s in self._streams if not s.ready and not s.is_behind]:
                if max(len(s.ready) for s in have_some) <= self._max_slots:
                    break
                if self.settled is not None:
                    for stream in awaited:
                        stream.is_behind = True
                        stream.passed_from = self.settled + 1
            heads = [stream.ready[0].settled.slot for stream in have_some]
            slot = min(heads)
            have = [s.ready.popleft() for s in have_some if s.ready[0].settled.slot == slot]
            if self.settled is None and (lacks_one or slot < max(heads)):
                continue  # a new tape begins when and where every stream has begun
            if len(have) < len(self._streams):
                reason = BEHIND if lacks_one else NOT_ON_ALL
                found.append(Hole(slot, slot, reason, is_lost=False))
            first = have[0].settled
            updates: dict[bytes, Update] = {}
            for ready in have:
                for address, each in ready.updates.items():
                    if each.write_version != UNSEEN or address not in updates:
                        updates[address] = each
            complete = len(have) == len(self._streams) and all(r.is_whole for r in have)
            self.settled = slot
            found.append(
                SettledAccounts(
                    slot,
                    first.parent,
                    first.blockhash,
                    first.block_time_ms,
                    tuple(updates[address] for address in sorted(updates)),
                    complete,
                )
            )
        return found

    def _pass_by(self, found: list[AccountDecision]) -> bool:
        """Have streams that are behind give up what is settled; return whether one is no more.

        Else their ledgers would wait for it, and let go nothing of what comes after.
        """
        one_is_back = False
        for number, of in enumerate(self._streams):
            if not of.is_behind:
                continue
            assert of.ledger.settled is not None
            first = max(of.ledger.settled, of.passed_to) + 1
            of.passed_to = self._last
            if first <= self._last:
                found += self._heard(number, of.ledger.unavailable(first, self._last, BEHIND))
            if of.ledger.settled >= self._last:
                of.is_behind = False
                one_is_back = True
        return one_is_back

    def _after(self, of: _Stream, slot: int, update: Update) -> list[AccountDecision]:
        """Take a version whose slot was settled."""
        if slot <= of.settled_before:
            self.duplicates += 1  # whatever its write version: another node counts on its own
            return []
        sent = of.sent.get(slot)
        if sent is not None and sent.get(update.address, UNSEEN - 1) >= update.write_version:
            self.duplicates += 1
            return []
        if sent is None and of.passed_from <= slot <= of.passed_to:
            return []  # its hole is mended
        self.late += 1
        return [Late(slot, update.address)]


def _is_open(of: _Stream, slot: int) -> bool:
    """Return whether a stream's own ledger has not settled a slot."""
    return of.ledger.settled is None or slot > of.ledger.settled
