"""The simulated chain: slots full of transactions, forks, skips, and what became of them.

The same knobs give the same bytes, whatever the pace. Time comes from the slot number alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from random import Random
from typing import Final

from solders.signature import Signature

from infra.chain.market import accounts
from infra.chain.market.damage import damage
from infra.chain.market.execution import Changes, Execution, Intent
from infra.chain.market.genesis import World
from infra.chain.market.habits import Habits
from infra.chain.market.programs import base58, derived
from infra.chain.market.truth import Truth
from infra.chain.market.wire import LookupTable, encode
from infra.chain.source import (
    Account,
    BlockHeader,
    ChainTransaction,
    SlotCompleted,
    SlotConfirmed,
    SlotDead,
    SlotEvent,
    SlotFinalized,
    SlotStarted,
    SlotTransactions,
    TokenSupply,
)

BATCHES_PER_SLOT: Final = 8
RETIRE_EVERY_SLOTS: Final = 50


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the simulated chain is like; shares and probabilities are from 0 to 1."""

    seed: int = 1
    rate: float = 300.0  # transactions a second, votes not counted
    slot_ms: int = 400
    start_slot: int = 400_000_000
    start_time_ms: int = 1_785_500_000_000
    forks: float = 0.01  # probability that a slot starts a branch that is abandoned
    dead: float = 0.2  # share of such branches of one slot that die before they are complete
    relanded: float = 0.7  # share of an abandoned slot's transactions that land again
    skipped: float = 0.03  # probability that a slot has no block
    failed: float = 0.06  # share of swaps whose limit cannot be met
    malformed: float = 0.0  # share of swaps whose venue data is cut short
    votes: int = 1  # vote transactions a slot
    confirm_after: int = 2  # slots on top of one until it is confirmed
    finalize_after: int = 31
    wallets: int = 800
    curves_kept: int = 400  # launched coins on their curves; older ones are forgotten
    pools_kept: int = 120  # pools that launched coins moved to

    def __post_init__(self) -> None:
        for name in ("forks", "dead", "relanded", "skipped", "failed", "malformed"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}: a share is from 0 to 1")
        if self.skipped == 1 or self.forks == 1:
            raise ValueError("a chain needs some slots that are neither skipped nor abandoned")
        if self.rate < 0 or self.slot_ms < 1 or self.votes < 0:
            raise ValueError("rate and votes are not below 0, slot_ms not below 1")
        if not 1 <= self.confirm_after < self.finalize_after:
            raise ValueError("a slot is confirmed after at least 1 and finalized after more slots")
        if self.wallets < 10:
            raise ValueError(f"wallets is {self.wallets}: a market needs 10 or more")


@dataclass(slots=True)
class _Block:
    slot: int
    hash: bytes
    height: int


class Market:
    """A chain source made up from a seed; see `Knobs`."""

    def __init__(self, knobs: Knobs | None = None, truth: Truth | None = None) -> None:
        self.knobs = knobs or Knobs()
        self._truth = truth
        self._random = Random(self.knobs.seed)  # noqa: S311 - reproducible, not secret
        self.world = World(self.knobs.seed, self._random, self.knobs.wallets)
        self._habits = Habits(self.world, self._random, self.knobs.failed)
        self._relanding: list[Intent] = []
        self._table = self._lookup_table()
        self._signature_key = derived(self.knobs.seed, "signatures")

    def _lookup_table(self) -> LookupTable:
        entries: dict[bytes, None] = dict.fromkeys(self.world.ledger.mints)
        for pool in self.world.directory.pools.values():
            entries.update(dict.fromkeys((pool.address, *pool.vaults)))
        return LookupTable(self.world.address("lookup-table"), list(entries)[:256])

    # Source.

    async def events(self) -> AsyncIterator[SlotEvent]:
        """Yield the slots' events in real time; a market that cannot keep up does not skip."""
        started = time.monotonic()
        for due_ms, event in self.stream():
            pause = started + due_ms / 1_000 - time.monotonic()
            await asyncio.sleep(max(pause, 0))
            yield event

    def account(self, address: bytes) -> Account | None:
        """Return a mint, metadata, token or system account as it is now."""
        return accounts.account(self.world.ledger, address)

    def token_supply(self, mint: bytes) -> TokenSupply | None:
        """Return a mint's supply as it is now."""
        found = self.world.ledger.mints.get(mint)
        return TokenSupply(found.supply_raw, found.decimals) if found else None

    def generate(self, slots: int) -> Iterator[SlotEvent]:
        """Yield the events of the next `slots` slot numbers as fast as they can be made."""
        last = self.knobs.start_slot + slots
        for _, event in self.stream():
            if isinstance(event, SlotStarted) and event.slot >= last:
                return
            yield event

    # Slots.

    def stream(self) -> Iterator[tuple[float, SlotEvent]]:
        """Yield events with the time they are due, in ms after the start; never ends."""
        knobs, random = self.knobs, self._random
        genesis = _Block(knobs.start_slot - 1, derived(knobs.seed, "genesis"), 100_000_000)
        canonical = [genesis]  # unfinalized canonical blocks, oldest first
        confirmed = genesis.slot
        branch: list[tuple[_Block, list[Changes], list[Intent]]] = []
        branch_left = 0
        slot = knobs.start_slot - 1
        while True:
            slot += 1
            due = (slot - knobs.start_slot) * float(knobs.slot_ms)
            if random.random() < knobs.skipped:
                continue
            if not branch_left and not branch and random.random() < knobs.forks:
                branch_left = random.randint(1, min(2, knobs.confirm_after))
            on_branch = branch_left > 0
            parent = branch[-1][0] if branch else canonical[-1]
            dies = on_branch and branch_left == 1 and not branch and random.random() < knobs.dead
            block = _Block(slot, self._block_hash(slot), parent.height + 1)
            yield due, SlotStarted(slot, parent.slot)
            journal: list[Changes] = []
            intents: list[Intent] = []
            self._habits.signer.recent_blockhash = parent.hash
            self._habits.begin_slot(slot)
            count = 0
            for number, batch in enumerate(self._batches(slot, not on_branch, journal, intents)):
                count += len(batch)
                if batch:
                    moment = due + number * knobs.slot_ms / BATCHES_PER_SLOT
                    yield moment, SlotTransactions(slot, batch)
            end = due + float(knobs.slot_ms)
            if dies:
                yield end, SlotDead(slot, "block was abandoned by its leader")
            else:
                yield end, SlotCompleted(self._header(block, parent))
            if self._truth:
                self._truth.slot(self._header(block, parent), not on_branch, count)
            if on_branch:
                branch.append((block, journal, intents))
                branch_left -= 1
                if not branch_left:
                    self._abandon(branch)
                    branch.clear()
                continue
            canonical.append(block)
            if slot % RETIRE_EVERY_SLOTS == 0:
                self._habits.launches.retire(knobs.curves_kept, knobs.pools_kept)
            certain = canonical[max(len(canonical) - 1 - knobs.confirm_after, 0)].slot
            for settled in canonical:
                if confirmed < settled.slot <= certain:
                    yield end, SlotConfirmed(settled.slot)
            confirmed = max(confirmed, certain)
            while len(canonical) > knobs.finalize_after:
                final = canonical.pop(0)
                if final is not genesis:
                    yield end, SlotFinalized(final.slot)

    def _batches(
        self, slot: int, canonical: bool, journal: list[Changes], intents: list[Intent]
    ) -> Iterator[tuple[ChainTransaction, ...]]:
        """Execute a slot's transactions; on a branch, keep what is needed to take them back."""
        knobs, random = self.knobs, self._random
        mean = knobs.rate * knobs.slot_ms / 1_000
        count = max(round(random.gauss(mean, mean**0.5)), 0)
        index = 0
        for number in range(BATCHES_PER_SLOT):
            share = count * (number + 1) // BATCHES_PER_SLOT - count * number // BATCHES_PER_SLOT
            votes = knobs.votes if number == 0 else 0
            batch: list[ChainTransaction] = []
            for position in range(share + votes):
                intent = self._next_intent(canonical) if position < share else self._habits.vote()
                transaction, changes = self._execute(intent, slot, index, canonical)
                batch.append(transaction)
                index += 1
                if not canonical:
                    journal.append(changes)
                    if not intent.is_vote:
                        intents.append(intent)
            yield tuple(batch)

    def _next_intent(self, canonical: bool) -> Intent:
        if canonical and self._relanding and self._random.random() < 0.5:
            return self._relanding.pop(self._random.randrange(len(self._relanding)))
        intent = self._habits.next()
        if self.knobs.malformed and self._random.random() < self.knobs.malformed:
            intent.mangled = True
        return intent

    def _execute(
        self, intent: Intent, slot: int, index: int, canonical: bool
    ) -> tuple[ChainTransaction, Changes]:
        time_s = self._time_ms(slot) // 1_000
        tx = Execution(self.world.ledger, intent, slot, time_s)
        tx.run()
        if intent.mangled:
            damage(tx)
        signature = self._signature(intent.serial)
        transaction = encode(tx, signature, index, self._table)
        if self._truth:
            text, time_ms = str(Signature(signature)), time_s * 1_000
            self._truth.transaction(tx, text, index, canonical, time_ms, transaction.accounts)
        return transaction, tx.changes

    def _abandon(self, branch: list[tuple[_Block, list[Changes], list[Intent]]]) -> None:
        for _, journal, _ in reversed(branch):
            for changes in reversed(journal):
                changes.take_back(self.world.ledger)
        for _, _, intents in branch:
            self._relanding += [
                intent for intent in intents if self._random.random() < self.knobs.relanded
            ]

    # Names and times.

    def _signature(self, serial: int) -> bytes:
        return blake2b(
            serial.to_bytes(8, "little"), digest_size=64, key=self._signature_key
        ).digest()

    def _block_hash(self, slot: int) -> bytes:
        return sha256(self._signature_key + slot.to_bytes(8, "little")).digest()

    def _time_ms(self, slot: int) -> int:
        return self.knobs.start_time_ms + (slot - self.knobs.start_slot) * self.knobs.slot_ms

    def _header(self, block: _Block, parent: _Block) -> BlockHeader:
        return BlockHeader(
            slot=block.slot,
            parent_slot=parent.slot,
            blockhash=base58(block.hash),
            parent_blockhash=base58(parent.hash),
            block_time=self._time_ms(block.slot) // 1_000,
            block_height=block.height,
        )
