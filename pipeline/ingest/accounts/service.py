"""The lane of accounts put together: streams -> ledger -> selection -> batches.

Each stream fills an intake of its own. The settler carries out the ledger's decisions in order and
takes the RPC answers that are ready with each slot; requests, holes, bootstrap and audit put theirs
into one queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import aiohttp
import structlog
from google.protobuf.message import DecodeError

from infra.backoff import Backoff
from infra.kafka import topics
from infra.settings import Settings
from infra.solana_rpc import client as solana_rpc
from pipeline.ingest import metrics as ingest_metrics
from pipeline.ingest.accounts import metrics
from pipeline.ingest.accounts.asked import Answer, AnswerQueue
from pipeline.ingest.accounts.asking import Asking
from pipeline.ingest.accounts.audit import Audit
from pipeline.ingest.accounts.batches import compose
from pipeline.ingest.accounts.bootstrap import MAX_WAITING_BYTES, Bootstrap
from pipeline.ingest.accounts.holes import keys_to_ask
from pipeline.ingest.accounts.ledger import (
    AccountDecision,
    AccountLedger,
    Hole,
    Late,
    SettledAccounts,
    Undone,
    Wanted,
)
from pipeline.ingest.accounts.mending import Mending, mending
from pipeline.ingest.accounts.publisher import LANE
from pipeline.ingest.accounts.recorded import (
    BadRecording,
    check_slots,
    file_of,
    read_recording,
    updates_of,
)
from pipeline.ingest.accounts.requests import Requests
from pipeline.ingest.accounts.rewards import Rewards
from pipeline.ingest.accounts.rpc import AccountsRpc
from pipeline.ingest.accounts.selection import Selection
from pipeline.ingest.accounts.stored import StoredWatch
from pipeline.ingest.accounts.takeover import Taken, take_over
from pipeline.ingest.accounts.updates import closed_by, update_of
from pipeline.ingest.backfill import Backfill, Block, RpcClient, Unavailable
from pipeline.ingest.intake import Connected
from pipeline.ingest.lane_producer import LaneLost
from pipeline.ingest.ledger import Missing, Status
from schemas.accounts import followed_of, largest_of, mint_account_of
from schemas.proto import geyser_pb2
from schemas.proto.tape_pb2 import Covered
from schemas.solana.addresses import STAKE_PROGRAM, text

log = structlog.get_logger(__name__)

SLICE_UPDATES: Final = 100
MAX_WAITING_DECISIONS: Final = 256
MAX_ANSWER_BYTES: Final = 8 << 20  # of RPC answers that go with a slot, before compression
CLOSE_TIMEOUT_S: Final = 4.0
REPORT_S: Final = 0.5
FETCH_BACKOFF_S: Final = (0.2, 5.0)
LATE_S: Final = 0.04  # accounts that come late within it share a call
FETCHES: Final = 4  # blocks of holes at a time: a stream that stalls leaves hundreds at once

_STATUSES: Final = {
    geyser_pb2.SLOT_PROCESSED: Status.PROCESSED,
    geyser_pb2.SLOT_CONFIRMED: Status.CONFIRMED,
    geyser_pb2.SLOT_FINALIZED: Status.FINALIZED,
    geyser_pb2.SLOT_DEAD: Status.DEAD,
}


async def run(settings: Settings, stop: asyncio.Event, lacking: dict[str, str]) -> None:
    """Write the lane until `stop` is set; a standby while another process does.

    Raises KafkaUnreachable, TopicsWrong, LogUnreadable or PublishFailed.
    """
    if created := await topics.create(settings):
        log.info("topics created", topics=created)
    stopped = asyncio.create_task(stop.wait())
    was_fenced = False
    while not stop.is_set():
        taking = asyncio.create_task(take_over(settings, lacking, was_fenced=was_fenced))
        await asyncio.wait((taking, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            break
        try:
            await AccountIngest(settings, taking.result()).run(stop)
        except LaneLost as lost:
            was_fenced = True
            ingest_metrics.LANES_LOST.inc()
            log.warning("the lane is lost: standby", lane=LANE, reason=str(lost))
    stopped.cancel()


def _withdrawal(covered: Covered, reason: str) -> Covered:
    return Covered(kind=covered.kind, address=covered.address, reason=reason)


class AccountIngest:
    """The streams of one process being turned into the lane."""

    def __init__(self, settings: Settings, taken: Taken) -> None:
        publisher, tail, streams, subscription, tracked, coverage = taken
        self._settings = settings
        self._publisher = publisher
        self._streams = streams
        self._subscription = subscription
        self._tracked = tracked
        self._coverage = coverage
        self._tail = tail
        self._ledger = AccountLedger(
            len(streams),
            settled=tail.settled,
            block_time_ms=tail.block_time_ms,
            max_slots=settings.ledger_max_slots,
            unfinal=tail.unfinal,
            written=(
                (slot, [version.address for version in versions])
                for slot, versions in sorted(tail.versions.items())
                if slot not in tail.incomplete
            ),
        )
        for _, versions in sorted(tail.versions.items()):  # the agent may be behind
            for version in versions:
                tracked.follow(version.address, version.found_by)
        for covered in tail.covered:
            is_kept = tracked.mint_of(covered.address) is not None and covered.HasField("slot")
            if covered.kind == Covered.HOLDERS and is_kept:
                tracked.keep_largest(covered.address, covered.accounts)
        self._selection = Selection(tracked, settings.account_groups.split(","))
        self._answers = AnswerQueue()
        self._decisions: asyncio.Queue[AccountDecision] = asyncio.Queue()
        self._has_settled = asyncio.Event()
        self._began_slot = -1  # from which on this process has the lane
        self._settled_slot = -1
        self._lost_to = -1  # the last slot that is lost
        self._asked_to = -1  # the last slot whose changes were asked for, settled or not yet
        self._mending = Mending()
        self._late: set[bytes] = set()  # accounts that are asked for next
        self._asks_late = asyncio.Lock()
        self._fetches = asyncio.Semaphore(FETCHES)
        self._tasks: set[asyncio.Task[None]] = set()
        for number, stream in enumerate(streams):
            stream.attach(partial(self._ledger.resume, number), lambda _: None)

    async def run(self, stop: asyncio.Event) -> None:
        """Run all parts until one fails or `stop` is set."""
        async with solana_rpc.session() as session:
            parts = self._parts(session)
            stopped = asyncio.create_task(stop.wait())
            try:
                pending: set[asyncio.Task[Any]] = parts | {stopped}
                while not stopped.done():
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
            finally:
                for task in (*parts, *self._tasks):
                    task.cancel()
                stopped.cancel()
                await asyncio.gather(*parts, *self._tasks, return_exceptions=True)
                for stream in self._streams:
                    await stream.close()
                left = await self._publisher.close(CLOSE_TIMEOUT_S)
                log.info("stopped", published=self._publisher.published, unacknowledged=left)

    def _parts(self, session: aiohttp.ClientSession) -> set[asyncio.Task[Any]]:
        settings = self._settings
        parts: list[Coroutine[Any, Any, None]] = [
            self._publisher.run(),
            self._settle(),
            self._report(),
            *(self._take(number) for number in range(len(self._streams))),
        ]
        programs = frozenset(text(program) for program in self._coverage.programs)
        self._backfills = [
            Backfill(settings, _Receiver(self, number), programs, rewards=True)
            for number in range(len(self._streams))
        ]
        parts += [each.run() for each in self._backfills]
        self._requests: Requests | None = None
        self._asking: Asking | None = None
        self._blocks: RpcClient | None = None
        if settings.rpc_endpoint is None:
            log.warning("no RPC_ENDPOINT: nothing can be asked for, no coverage is given")
        else:
            pace = solana_rpc.Pace(settings.account_rpc_per_s)
            rpc = AccountsRpc(session, settings.rpc_endpoint, pace)
            self._blocks = RpcClient(session, settings.rpc_endpoint, pace, programs, rewards=True)
            self._asking = Asking(
                rpc,
                self._answers,
                self._settled,
                self._tracked,
                is_streamed="tokens" in settings.account_groups.split(","),
            )
            rewards = Rewards(settings, rpc)
            self._requests = Requests(
                settings,
                self._tracked,
                self._answers,
                self._asking,
                self._coverage.bootstrap_again,
                lambda name: self._spawn(self._load(name)),
                rewards.ask,
            )
            bootstrap = Bootstrap(
                settings,
                rpc,
                self._answers,
                self._coverage,
                self._settled,
                self._publisher.acknowledged,
            )
            audit = Audit(settings, rpc, self._asking, self._tracked)
            watch = StoredWatch(settings, self._coverage, self._lost_by_agent)
            parts += [self._requests.run(), bootstrap.run(), audit.run(), rewards.run()]
            parts.append(watch.run())
        self._begin()
        return {asyncio.create_task(part) for part in parts} | {
            stream.start() for stream in self._streams
        }

    def _begin(self) -> None:
        """Withdraw what the lane says and that is not so, as its process was killed amid a slot.

        Asks again for what changed in the holes that it left open.
        """
        if self._tail.settled is None:
            self._withdraw(-1, "a new lane of accounts begins")
            return
        if any(covered.kind == Covered.ALL for covered in self._tail.broken):
            self._withdraw(self._tail.settled, "slots were lost")
        if self._tail.is_all_unmended:
            self._withdraw(self._tail.settled, "its holes were not mended when the process ended")
        elif self._tail.unmended:
            log.warning("holes are mended again", slots=len(self._tail.unmended))
            self._mend(self._tail.settled, partial(self._fetch, self._tail.unmended))
        for covered in self._tail.broken:
            if covered.HasField("slot"):
                self._answers.withdraw(_withdrawal(covered, "its accounts were not all written"))
                if self._requests is not None:
                    is_mint = covered.kind == Covered.MINT
                    address = covered.address
                    self._requests.again([mint_account_of(address) if is_mint else address])

    async def _settled(self) -> int:
        await self._has_settled.wait()
        # Who is tracked from now on is asked for after what a hole before may have changed of it.
        return max(self._settled_slot, self._lost_to, self._asked_to)

    # Streams.

    async def _take(self, number: int) -> None:
        intake = self._streams[number].intake
        while True:
            for item in await intake.take(SLICE_UPDATES):
                if isinstance(item, Connected):
                    self._ledger.connected(number, item.from_slot)
                else:
                    self._update(number, item)
            if self._decisions.qsize() > MAX_WAITING_DECISIONS:
                await self._decisions.join()
            await asyncio.sleep(0)

    def _update(self, number: int, raw: bytes) -> None:
        try:
            update = geyser_pb2.SubscribeUpdate.FromString(raw)
        except DecodeError as error:
            ingest_metrics.MALFORMED_UPDATES.inc()
            log.error("an update is no protobuf of Yellowstone's", bytes=len(raw), why=str(error))
            return
        ledger = self._ledger
        kind = update.WhichOneof("update_oneof")
        if kind == "account":
            metrics.UPDATES.inc()
            account = update.account
            self._decide(ledger.account(number, account.slot, update_of(account.account)))
        elif kind == "transaction":
            transaction = update.transaction
            for closing in closed_by(transaction.transaction):
                metrics.CLOSINGS.inc()
                self._decide(ledger.account(number, transaction.slot, closing))
        elif kind == "slot":
            status = _STATUSES.get(update.slot.status)
            if status is not None:
                parent = update.slot.parent if update.slot.HasField("parent") else None
                self._decide(ledger.status(number, update.slot.slot, parent, status))
        elif kind == "block_meta":
            meta = update.block_meta
            time_ms = meta.block_time.timestamp * 1000
            self._decide(
                ledger.block_meta(
                    number,
                    meta.slot,
                    meta.parent_slot,
                    meta.blockhash,
                    time_ms,
                    meta.parent_blockhash,
                )
            )

    def _decide(self, decisions: Iterable[AccountDecision]) -> None:
        for decision in decisions:
            self._decisions.put_nowait(decision)

    # Settling.

    async def _settle(self) -> None:
        while True:
            await self._carry_out(await self._decisions.get())
            self._decisions.task_done()

    async def _carry_out(self, decision: AccountDecision) -> None:
        match decision:
            case SettledAccounts():
                await self._write(decision)
            case Wanted(stream, first, last):
                self._backfills[stream].ask(Missing(first, last))
            case Hole(first, last, reason, is_lost):
                log.warning("hole", first_slot=first, last_slot=last, reason=reason, lost=is_lost)
                if is_lost:
                    metrics.HOLES.labels("lost").inc(last - first + 1)
                    self._withdraw(last, f"slots {first} to {last} are lost: {reason}")
                else:
                    self._mend(last, partial(self._fetch, range(first, last + 1)))
            case Late(slot, address):
                metrics.LATE.inc()
                self._asked_to = max(self._asked_to, slot)
                if not self._late:
                    self._mend(slot, self._ask_late)
                self._late.add(address)
            case Undone(slot, addresses):
                log.error("a settled slot was rolled back", slot=slot, accounts=len(addresses))
                # A node on the lost fork must not answer as of it.
                least = max(slot, self._settled_slot) + 1
                self._mend(least, partial(self._ask, set(addresses), least))

    async def _write(self, settled: SettledAccounts) -> None:
        answers = self._answers.take(settled.slot, MAX_ANSWER_BYTES)
        composed = await compose(
            settled,
            self._selection,
            answers,
            self._answers.withdrawn,
            lost_to=lambda: self._lost_to,
            complete=settled.complete and self._mending.is_done_with(answers),
        )
        if composed.outdated:
            self._mend(settled.slot, partial(self._ask, {*composed.outdated}, settled.slot))
            for batch in composed.batches:
                batch.complete = False
        if self._requests is not None:  # before others may withdraw it
            self._coverage.note(composed.covered, settled.slot)
        await self._publisher.settle(settled.slot, composed.batches)
        self._mending.end(mending(answers))
        if self._began_slot < 0:
            self._began_slot = settled.slot
        self._settled_slot = settled.slot
        self._has_settled.set()
        metrics.VERSIONS.inc(composed.versions)
        for answer in answers:
            if answer.taken is not None and not answer.taken.done():
                answer.taken.set_result(settled.slot)
        if self._requests is not None:
            if composed.again:
                self._requests.again(composed.again)
            if any(not each.HasField("slot") for each in composed.covered):
                self._spawn(self._forget(settled.slot, composed.covered))

    async def _forget(self, slot: int, covered: list[Covered]) -> None:
        assert self._requests is not None
        await self._publisher.acknowledged(slot)
        await self._requests.withdrawn(covered)

    async def _load(self, name: str) -> None:
        """Put a recording of accounts into the lane, and remove it: nothing reads it again."""
        await self._has_settled.wait()
        least = max(self._began_slot, self._lost_to)
        ready = 0
        try:
            file = file_of(self._settings, name)
        except BadRecording as error:
            log.error("a recording is refused", why=str(error))
            return
        try:
            log.info("loading a recording", file=str(file))
            parts = read_recording(file)
            while (part := await asyncio.to_thread(next, parts, None)) is not None:
                check_slots(part, least, self._settled_slot)
                ready = max(ready, part.slot)
                self._answers.put(
                    Answer.of(updates_of(part), part.covered, ready_slot=ready), bulk=True
                )
                while self._answers.bytes > MAX_WAITING_BYTES:
                    self._answers.drained.clear()
                    await self._answers.drained.wait()
        except (BadRecording, OSError) as error:
            log.error("a recording is refused", why=str(error))
        finally:
            with suppress(OSError):
                file.unlink(missing_ok=True)

    # Holes.

    async def fetched(self, stream: int, block: Block) -> None:
        """Take a block of a slot that a stream lacks."""
        metrics.HOLES.labels("mended").inc()
        self._mend(block.slot, partial(self._ask_changed, block))
        self._decide(
            self._ledger.fetched(
                stream,
                block.slot,
                block.parent,
                block.blockhash,
                block.block_time_ms,
                block.parent_blockhash,
            )
        )

    def unavailable(self, stream: int, first: int, last: int, reason: str) -> None:
        """Take the answer that blocks can not be had."""
        self._decide(self._ledger.unavailable(stream, first, last, reason))

    def is_wanted(self, stream: int, slot: int) -> bool:
        """Return whether a stream's ledger waits for a slot."""
        return self._ledger.is_wanted(stream, slot)

    def _mend(self, last: int, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask for what changed up to slot `last`.

        No slot is complete until the lane has what `ask` asks for, or withdraws what is covered.
        """
        self._mending.begin()

        async def mend() -> None:
            try:
                await ask()
            except Exception as error:
                log.error("mending failed", error=repr(error))
                reason = f"what changed could not be asked for ({type(error).__name__})"
                self._withdraw(max(last, self._settled_slot, self._asked_to), reason)
            finally:
                self._mending.end()

        self._spawn(mend())

    async def _ask_changed(self, block: Block) -> None:
        """Ask for all that may have changed in a block: by transactions, and by the bank itself."""
        self._asked_to = max(self._asked_to, block.slot)
        programs = self._coverage.programs
        wanted = keys_to_ask(block.transactions, programs, self._tracked)
        wanted.update(address for kind in self._coverage.kinds for address in kind.addresses)
        if STAKE_PROGRAM in programs:
            wanted.update(block.rewarded)
        await self._ask(wanted, block.slot)

    async def _ask_late(self) -> None:
        """Ask for the accounts that came late: one call for many, and one after the other."""
        async with self._asks_late:
            await asyncio.sleep(LATE_S)
            late, self._late = self._late, set()
            least_slot = self._asked_to
            first = text(min(late))
            log.warning(
                "accounts after their slots were settled",
                accounts=len(late),
                last_slot=least_slot,
                one=first,
            )
            await self._ask(late, least_slot)

    async def _ask(self, addresses: set[bytes], least_slot: int) -> None:
        if self._asking is None or not await self._asking.accounts(
            addresses, least_slot, self._mending
        ):
            reason = f"what changed in slot {least_slot} could not be asked for"
            self._withdraw(least_slot, reason)

    async def _fetch(self, slots: Iterable[int]) -> None:
        """Mend a hole whose blocks RPC should have.

        What cannot be had is withdrawn once, at the end: no slot is complete before.
        """
        lost: list[int] = []
        why = ""
        for slot in slots:
            if self._blocks is None:
                self._withdraw(slot, "a stream lacks slots, and no RPC_ENDPOINT is set")
                return
            backoff = Backoff(*FETCH_BACKOFF_S)
            while True:
                try:
                    async with self._fetches:
                        block = await self._blocks.block(slot)
                except Unavailable as reason:
                    lost.append(slot)
                    why = str(reason)
                    break
                except solana_rpc.NotNow:
                    await backoff.wait()
                else:
                    metrics.HOLES.labels("mended").inc()
                    await self._ask_changed(block)
                    break
        if lost:
            others = f" and {len(lost) - 1} before" if len(lost) > 1 else ""
            self._withdraw(lost[-1], f"slot {lost[-1]}{others}: {why}")

    def _withdraw(self, lost_to: int, reason: str) -> None:
        """Withdraw all coverage: what is stored may be outdated. Everything is asked again."""
        metrics.WITHDRAWN.inc()
        self._lost_to = max(self._lost_to, lost_to)
        log.error("coverage is withdrawn", reason=reason)
        if self._coverage.withdraw(self._lost_to):
            self._answers.withdraw(Covered(kind=Covered.ALL, reason="slots were lost"))
        if self._requests is not None:
            tracked = self._tracked
            largest = map(largest_of, tracked.holders)
            followed = map(followed_of, tracked.accounts)
            mints = map(mint_account_of, tracked.mints)
            self._requests.again((*tracked.wallets, *mints, *largest, *followed))

    def _lost_by_agent(self, floor: int) -> None:
        """Ask for everything again: agent `accounts` lost slots of the lane before `floor`.

        Nothing that the lane has so far counts for that: bootstrap may be amid a program of which
        some accounts went with the slots that were lost.
        """
        written = -1 if self._tail.settled is None else self._tail.settled
        next_slot = max(written, self._settled_slot) + 1
        self._withdraw(max(floor, next_slot), f"agent `accounts` lost slots before {floor}")

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("mending failed", error=repr(error))
            reason = f"what changed could not be asked for ({type(error).__name__})"
            self._withdraw(self._settled_slot, reason)

    async def _report(self) -> None:
        ledger = self._ledger
        while True:
            ingest_metrics.TIP_SLOT.set(ledger.tip)
            ingest_metrics.HELD_SLOTS.set(len(ledger))
            ingest_metrics.QUEUE_DEPTH.set(sum(len(each.intake) for each in self._streams))
            ingest_metrics.QUEUE_BYTES.set(sum(each.intake.bytes for each in self._streams))
            ingest_metrics.QUEUE_STALLS.set(sum(each.intake.stalls for each in self._streams))
            metrics.WAITING.set(len(self._answers))
            metrics.DUPLICATES.set(ledger.duplicates)
            if ledger.settled is not None:
                ingest_metrics.SETTLED_SLOT.set(ledger.settled)
            if self._publisher.published is not None:
                ingest_metrics.LAG_SLOTS.set(ledger.tip - self._publisher.published)
            await asyncio.sleep(REPORT_S)


class _Receiver:
    """Takes the blocks that a stream's ledger wants."""

    def __init__(self, ingest: AccountIngest, stream: int) -> None:
        self._ingest = ingest
        self._stream = stream

    def is_wanted(self, slot: int) -> bool:
        return self._ingest.is_wanted(self._stream, slot)

    async def fetched(self, block: Block) -> None:
        await self._ingest.fetched(self._stream, block)

    def unavailable(self, first: int, last: int, reason: str) -> None:
        self._ingest.unavailable(self._stream, first, last, reason)
