"""The simulated chain: slots full of transactions, forks, skips, and what became of them.

The same knobs give the same bytes, whatever the pace. Time comes from the slot number alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from itertools import chain
from math import pi, sin
from random import Random
from typing import Final

from solders.signature import Signature

from infra.chain.market.knobs import Knobs
from infra.chain.market.runtime import accounts
from infra.chain.market.runtime.bank import Bank
from infra.chain.market.runtime.damage import damage
from infra.chain.market.runtime.execution import Changes, Execution, Intent
from infra.chain.market.runtime.programs import derived
from infra.chain.market.runtime.stake import EPOCH_SLOTS
from infra.chain.market.runtime.submitted import intent_of
from infra.chain.market.runtime.truth import Truth
from infra.chain.market.runtime.wire import LookupTable, encode
from infra.chain.market.runtime.writes import Writer
from infra.chain.market.traders.habits import Habits
from infra.chain.market.traders.jupiter_perps import PERPS
from infra.chain.market.traders.lending import LENDING
from infra.chain.market.traders.provider_habit import PROVIDING
from infra.chain.market.traders.staking import STAKING
from infra.chain.market.world import still
from infra.chain.market.world.figures import PositionTruth
from infra.chain.market.world.genesis import World
from infra.chain.source import (
    Account,
    AccountWrite,
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
    VoteAccount,
)
from infra.chain.submission import Refused, Simulated, Submission
from schemas.solana import base58
from schemas.solana.networks import SIMULATED
from schemas.times import DAY_MS

BATCHES_PER_SLOT: Final = 8
_LEAST_LAMPORTS: Final = 890_880
"""Rent of an account without data: with less nobody pays a fee."""
RETIRE_EVERY_SLOTS: Final = 50
MAX_BLOCKHASH_AGE: Final = 150
"""Blocks after which a transaction that names a blockhash cannot land any more."""
MAX_SUBMITTED: Final = 1_000
"""Transactions from outside that wait for a block."""
_NOT_RELANDED: Final = (STAKING, LENDING, PROVIDING, PERPS)


@dataclass(slots=True)
class _Block:
    slot: int
    hash: bytes
    height: int


class Market:
    """A chain source made up from a seed; see `Knobs`.

    With `bytes_every` above 1 a transaction has its bytes and accounts in one slot of so many,
    and none in the others: enough to watch the market, not to serve it. Without `accounts` nothing
    yields what transactions wrote, which takes less of a CPU.

    A market that rests goes on with blocks that have votes alone, leaves none of them, and pays
    nothing for epochs: of its accounts the clock alone changes, and lamports that pay fees. What
    demo wallets have is noted then (`positions`), slot by slot.
    """

    genesis_hash: Final = SIMULATED
    slots_per_epoch: Final = EPOCH_SLOTS

    def __init__(
        self,
        knobs: Knobs | None = None,
        truth: Truth | None = None,
        *,
        bytes_every: int = 1,
        accounts: bool = True,
        positions: PositionTruth | None = None,
    ) -> None:
        self.knobs = knobs or Knobs()
        self._truth = truth
        self._positions = positions
        self._rests = False
        self._bytes_every = bytes_every
        self._random = Random(self.knobs.seed)  # noqa: S311 - reproducible, not secret
        self.world = World(
            self.knobs.seed,
            self._random,
            self.knobs.wallets,
            self.knobs.metadata_origin,
            self.knobs.start_time_ms // 1_000,
            self.knobs.start_slot,
        )
        self.habits = Habits(self.world, self._random, self.knobs)
        self._ahead = 0  # transactions of the desk that the rate did not ask for
        self._relanding: list[Intent] = []
        self._submitted: deque[Intent] = deque()
        self._landed: dict[bytes, int] = {}  # signatures from outside -> height they expire at
        self._heights: dict[bytes, int] = {}  # recent blockhashes, oldest first
        self._table = self._lookup_table()
        self._signature_key = derived(self.knobs.seed, "signatures")
        self._signatures = blake2b(digest_size=64, key=self._signature_key)
        start = self.knobs.start_slot
        # After the lookup table: no transaction names them.
        others = self.world.exchange.address
        still.place(self.world.ledger, others, self.knobs.start_time_ms // 1_000, start)
        self._bank = Bank(self.world.ledger, start - 1, lambda slot: self._time_ms(slot) // 1_000)
        self._writer = Writer(self.world.ledger) if accounts else None
        self.world.ledger.endowed.clear()  # they are among `genesis_accounts`

    def _lookup_table(self) -> LookupTable:
        entries: dict[bytes, None] = dict.fromkeys(self.world.ledger.mints)
        entries.update((each.user, None) for each in self.world.drift.accounts.values())
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

    def genesis_accounts(self) -> Iterator[AccountWrite]:
        """Yield all accounts as they are before the first event; none without `accounts`."""
        return self._writer.genesis() if self._writer else iter(())

    def vote_accounts(self, slot: int) -> list[VoteAccount]:
        """Return the validators, with their stake in the epoch of a slot."""
        return self._bank.vote_accounts(slot)

    def account(self, address: bytes) -> Account | None:
        """Return a mint, metadata, token or system account as it is now."""
        return accounts.account(self.world.ledger, address)

    def token_supply(self, mint: bytes) -> TokenSupply | None:
        """Return a mint's supply as it is now."""
        found = self.world.ledger.mints.get(mint)
        return TokenSupply(found.supply_raw, found.decimals) if found else None

    def described(self, mint: bytes) -> tuple[str, str] | None:
        """Return a coin's name and symbol, None where there is none of that address."""
        found = self.world.ledger.mints.get(mint)
        return (found.name, found.symbol) if found and found.name else None

    def rest(self) -> None:
        """Let nobody trade any more; transactions from outside still land."""
        self._rests = True

    # Transactions from outside. They land in blocks that no fork takes back.

    def submit(self, submission: Submission) -> None:
        """Land a transaction in one of the next blocks; raises Refused, Unreadable."""
        intent = intent_of(submission, self.habits.signer.next_serial())
        if not submission.is_signed:
            raise Refused("SignatureFailure")
        if (refusal := self._refusal(submission, intent)) is not None:
            raise Refused(refusal)
        if len(self._submitted) >= MAX_SUBMITTED:
            raise Refused("ClusterMaintenance")
        self._landed[submission.signatures[0]] = self._heights[submission.recent_blockhash]
        self._submitted.append(intent)

    def simulate(self, submission: Submission) -> Simulated:
        """Return what a transaction would do now; raises Unreadable."""
        intent = intent_of(submission, 0)
        if (refusal := self._refusal(submission, intent)) is not None:
            return Simulated(refusal, (), 0)
        tx = Execution(self.world.ledger, intent, 0, 0)
        tx.run()
        tx.changes.take_back(self.world.ledger)
        error = None
        if tx.err_code is not None:
            error = {"InstructionError": [tx.err_index, {"Custom": tx.err_code}]}
        return Simulated(error, tuple(tx.logs), tx.units_limit - tx.units_left)

    def _refusal(self, submission: Submission, intent: Intent) -> str | None:
        if len({*submission.keys}) < len(submission.keys):
            return "AccountLoadedTwice"
        if submission.signatures[0] in self._landed:
            return "AlreadyProcessed"
        if submission.recent_blockhash not in self._heights:
            return "BlockhashNotFound"
        return None if self._pays(intent) else "InsufficientFundsForFee"

    def _pays(self, intent: Intent) -> bool:
        """Return whether the payer has the fee; a chain takes nothing from a payer with less."""
        held = self.world.ledger.lamports.get(intent.payer, 0)
        return held >= max(_LEAST_LAMPORTS, intent.fee_lamports)

    def _landing(self) -> Iterator[Intent]:
        while self._submitted:
            intent = self._submitted.popleft()
            if intent.recent_blockhash in self._heights and self._pays(intent):
                yield intent

    def _grow(self, block: _Block) -> None:
        """Note a block's hash, which the next transactions may name, and forget expired ones."""
        self._heights[block.hash] = block.height
        oldest = block.height - MAX_BLOCKHASH_AGE
        while self._heights and next(iter(self._heights.values())) < oldest:
            del self._heights[next(iter(self._heights))]
        for signature in [each for each, height in self._landed.items() if height < oldest]:
            del self._landed[signature]

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
        is_confirmed = False  # of the branch: it is rolled back then
        slot = knobs.start_slot - 1
        while True:
            slot += 1
            due = (slot - knobs.start_slot) * float(knobs.slot_ms)
            if random.random() < knobs.skipped:
                continue
            forks = 0 if self._rests else knobs.forks
            if not branch_left and not branch and random.random() < forks:
                branch_left = random.randint(1, min(2, knobs.confirm_after))
                is_confirmed = random.random() < knobs.rolled_back if knobs.rolled_back else False
            on_branch = branch_left > 0
            parent = branch[-1][0] if branch else canonical[-1]
            dies = on_branch and branch_left == 1 and not branch and random.random() < knobs.dead
            block = _Block(slot, self._block_hash(slot), parent.height + 1)
            yield due, SlotStarted(slot, parent.slot)
            changes, rewards = self._bank.begin(slot, slot if self._rests else parent.slot)
            journal: list[Changes] = [changes]
            intents: list[Intent] = []
            self.habits.signer.recent_blockhash = parent.hash
            self.habits.begin_slot(slot, due)
            count = 0
            for number, batch in enumerate(self._batches(slot, not on_branch, journal, intents)):
                count += len(batch)
                if batch:
                    moment = due + number * knobs.slot_ms / BATCHES_PER_SLOT
                    yield moment, SlotTransactions(slot, batch)
            end = due + float(knobs.slot_ms)
            ledger = self.world.ledger
            by_bank = changes.contents | ledger.endowed | ledger.rewritten
            ledger.rewritten.clear()
            if not on_branch:
                self._grow(block)
                ledger.endowed.clear()  # a branch leaves them, so they are written again
                if slot % RETIRE_EVERY_SLOTS == 0 and not self._rests:
                    by_bank |= self.habits.retire()
                    ledger.forget_encoded()
            if dies:
                yield end, SlotDead(slot, "block was abandoned by its leader")
            else:
                writes = self._writer.now(sorted(by_bank)) if self._writer else ()
                yield (
                    end,
                    SlotCompleted(
                        self._header(block, parent), writes, tuple(rewards), has_entries=True
                    ),
                )
            if self._truth:
                is_rolled_back = on_branch and is_confirmed and not dies
                header = self._header(block, parent)
                self._truth.slot(header, not on_branch, count, is_rolled_back=is_rolled_back)
            if self._positions and self._rests and not on_branch:
                self._positions.slot(ledger, slot, self._time_ms(slot) // 1_000)
            if on_branch:
                branch.append((block, journal, intents))
                branch_left -= 1
                if not branch_left:
                    if is_confirmed and not dies:
                        for voted in (*canonical, *(each for each, _, _ in branch)):
                            if voted.slot > confirmed:
                                confirmed = voted.slot
                                yield end, SlotConfirmed(voted.slot)
                    self._abandon(branch)
                    branch.clear()
                continue
            canonical.append(block)
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
        """Execute a slot's transactions; on a branch, keep what is needed to take them back.

        Those of the desk come last; the next slots have so many fewer of others.
        """
        knobs, random = self.knobs, self._random
        rests = self._rests
        mean = self._rate(slot) * knobs.slot_ms / 1_000
        drawn = max(round(random.gauss(mean, mean**0.5)), 0)
        count = max(drawn - self._ahead, 0)
        self._ahead -= drawn - count
        count = 0 if rests else count
        index = 0
        for number in range(BATCHES_PER_SLOT):
            share = count * (number + 1) // BATCHES_PER_SLOT - count * number // BATCHES_PER_SLOT
            votes = knobs.votes if number == 0 else 0
            alone = self.habits.beside_trade(slot) if number == 1 and not rests else iter(())
            chosen: Iterator[Intent] = (
                self._next_intent(canonical) if position < share else self.habits.vote()
                for position in range(share + votes)
            )
            chosen = chain(alone, chosen)
            if canonical and self._submitted:
                chosen = chain(chosen, self._landing())
            batch: list[ChainTransaction] = []
            if number == BATCHES_PER_SLOT - 1 and knobs.rate and not rests:
                chosen = chain(chosen, self._desk_turn())
            for intent in chosen:
                transaction, changes = self._execute(intent, slot, index, canonical)
                batch.append(transaction)
                index += 1
                if not canonical:
                    journal.append(changes)
                    if not intent.is_vote and intent.tag not in _NOT_RELANDED:
                        intents.append(intent)
            yield tuple(batch)

    def _desk_turn(self) -> Iterator[Intent]:
        for intent in self.habits.end_slot():
            self._ahead += 1
            yield intent

    def _rate(self, slot: int) -> float:
        """Return the rate at a slot: with a rhythm, more by day than by night."""
        knobs = self.knobs
        if not knobs.rhythm:
            return knobs.rate
        return knobs.rate * (1 + knobs.rhythm * sin(2 * pi * self._time_ms(slot) / DAY_MS))

    def _next_intent(self, canonical: bool) -> Intent:
        if canonical and self._relanding and self._random.random() < 0.5:
            return self._relanding.pop(self._random.randrange(len(self._relanding)))
        intent = self.habits.next()
        if self.knobs.malformed and self._random.random() < self.knobs.malformed:
            intent.mangled = True
        return intent

    def _execute(
        self, intent: Intent, slot: int, index: int, canonical: bool
    ) -> tuple[ChainTransaction, Changes]:
        time_s = self._time_ms(slot) // 1_000
        tx = Execution(self.world.ledger, intent, slot, time_s)
        tx.run()
        for leg in tx.legs:
            self.habits.desk.saw(leg.pool)
        if intent.mangled:
            damage(tx)
        sent = intent.submission
        signature = self._signature(intent.serial) if sent is None else sent.signatures[0]
        if slot % self._bytes_every:
            failed = tx.err_code is not None
            nothing = frozenset[bytes]()
            transaction = ChainTransaction(signature, index, b"", nothing, intent.is_vote, failed)
            return transaction, tx.changes
        writes = self._writer.of(tx.changes) if self._writer else ()
        transaction = encode(tx, signature, index, self._table, writes)
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
        signature = self._signatures.copy()
        signature.update(serial.to_bytes(8, "little"))
        return signature.digest()

    def _block_hash(self, slot: int) -> bytes:
        return sha256(self._signature_key + slot.to_bytes(8, "little")).digest()

    def _time_ms(self, slot: int) -> int:
        return self.knobs.start_time_ms + (slot - self.knobs.start_slot) * self.knobs.slot_ms

    def _header(self, block: _Block, parent: _Block) -> BlockHeader:
        return BlockHeader(
            slot=block.slot,
            parent_slot=parent.slot,
            blockhash=base58.encode(block.hash),
            parent_blockhash=base58.encode(parent.hash),
            block_time=self._time_ms(block.slot) // 1_000,
            block_height=block.height,
        )
