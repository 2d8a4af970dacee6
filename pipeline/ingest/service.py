"""Ingest put together: stream -> intake -> decode -> live lane and ledger -> settled lanes.

Four tasks share one thread: the client fills the intake; the decoder empties it in slices
short enough for the others to breathe; the settler carries out the ledger's decisions in
order; backfill answers what is missing.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final, assert_never

import structlog
from google.protobuf.message import DecodeError

from infra.kafka import topics
from infra.settings import Settings
from pipeline.decoding.reading import Decoded, Reason, decode_update
from pipeline.ingest import metrics
from pipeline.ingest.backfill import Backfill, Block
from pipeline.ingest.finality import ROLLED_BACK, Finalized, Gap, RolledBack
from pipeline.ingest.intake import Connected
from pipeline.ingest.lane_producer import LaneLost
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
from pipeline.ingest.log_tail import LogTail, read_log_tail
from pipeline.ingest.publisher import LANE, Publisher
from pipeline.ingest.standby import Standby
from pipeline.ingest.stream import Stream
from pipeline.ingest.valuation import Valuation
from schemas.events import Commitment, Creation, Event, Migration, Swap
from schemas.proto import geyser_pb2, tape_pb2
from schemas.topics import LIVE

log = structlog.get_logger(__name__)

SLICE_UPDATES: Final = 24  # some 5 ms of decoding
MAX_WAITING_DECISIONS: Final = 256
REPORT_S: Final = 0.5
CLOSE_TIMEOUT_S: Final = 4.0

_STATUSES: Final = {
    geyser_pb2.SLOT_PROCESSED: Status.PROCESSED,
    geyser_pb2.SLOT_CONFIRMED: Status.CONFIRMED,
    geyser_pb2.SLOT_FINALIZED: Status.FINALIZED,
    geyser_pb2.SLOT_DEAD: Status.DEAD,
}
_ONEOF: Final = geyser_pb2.SubscribeUpdate.DESCRIPTOR.oneofs_by_name["update_oneof"]
_REASONS: Final = {
    Reason.UNKNOWN: tape_pb2.Undecoded.UNKNOWN,
    Reason.MALFORMED: tape_pb2.Undecoded.MALFORMED,
}
_NOVELTY: Final = {
    novelty: metrics.TRANSACTIONS.labels(novelty.name.lower()) for novelty in Novelty
}
_UPDATES: Final = {
    kind: metrics.UPDATES.labels(kind or "none")
    for kind in (None, *(each.name for each in _ONEOF.fields))
}
_KINDS: Final = {
    Swap: metrics.EVENTS.labels("swap"),
    Creation: metrics.EVENTS.labels("creation"),
    Migration: metrics.EVENTS.labels("migration"),
}


async def run(settings: Settings, stop: asyncio.Event, lacking: dict[str, str]) -> None:
    """Ingest until `stop` is set, then send what is buffered; a standby while another one does.

    `lacking` names the lane and why this process does not publish it, for as long as that is so.

    Raises KafkaUnreachable, TopicsWrong, LogUnreadable or PublishFailed.
    """
    if created := await topics.create(settings):
        log.info("topics created", topics=created)
    stopped = asyncio.create_task(stop.wait())
    was_fenced = False
    while not stop.is_set():
        taking = asyncio.create_task(_take_over(settings, lacking, was_fenced=was_fenced))
        await asyncio.wait((taking, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not taking.done():
            taking.cancel()
            await asyncio.gather(taking, return_exceptions=True)
            break
        try:
            await taking.result().run(stop)
        except LaneLost as lost:
            was_fenced = True
            metrics.LANES_LOST.inc()
            log.warning("the lane is lost: standby", lane=LANE, reason=str(lost))
    stopped.cancel()


async def _take_over(settings: Settings, lacking: dict[str, str], *, was_fenced: bool) -> Ingest:
    """Wait while another process has the lane; return the ingest that continues it.

    One that was fenced waits in any case: the other may not have written yet, and two that
    start together would fence each other in turns.
    """
    stream = Stream(settings)
    publisher: Publisher | None = None
    try:
        standby = Standby(settings, LIVE, stream.intake)
        if was_fenced or not await standby.is_idle():
            lacking[LANE] = "standby: another ingest has the lane"
            log.info(
                lacking[LANE],
                lane=LANE,
                takeover_after_s=settings.ingest_takeover_s,
            )
            await standby.run(stream.start())
            log.warning("the other ingest is silent: taking over", lane=LANE)
        publisher = Publisher(settings)
        await publisher.take_over()
        tail = await read_log_tail(settings)  # final: the older producer is fenced
        publisher.continue_from(tail)
        is_warm = standby.hand_over(tail.settled)
        if not is_warm:
            await stream.close()
            stream = Stream(settings)
        metrics.TAKEOVERS.inc()
        lacking.pop(LANE, None)
        log.info("active", lane=LANE, settled_slot=tail.settled, stream_was_warm=is_warm)
        return Ingest(settings, publisher, tail, stream)
    except BaseException:
        await stream.close()
        if publisher is not None:
            await publisher.close(0.0)
        raise


class Ingest:
    """One stream being turned into the tape."""

    def __init__(
        self, settings: Settings, publisher: Publisher, tail: LogTail, stream: Stream
    ) -> None:
        self._publisher = publisher
        self._ledger = Ledger(
            settled=tail.settled,
            block_time_ms=tail.block_time_ms,
            max_slots=settings.ledger_max_slots,
            unfinal=tail.unfinal,
            gaps=tail.gaps,
            at_processed=True,
        )
        self._valuation = Valuation(tail.sol_usd, tail.quotes)
        self._stream = stream
        self._intake = stream.intake
        stream.attach(self._resume, publisher.identified)
        self._backfill = Backfill(settings, self)
        self._decisions: asyncio.Queue[Decision] = asyncio.Queue()
        self._lag_ms = 0.0  # of the last transaction decoded

    async def run(self, stop: asyncio.Event) -> None:
        """Run all parts until one fails or `stop` is set."""
        stopped = asyncio.create_task(stop.wait())
        parts: set[asyncio.Task[Any]] = {
            asyncio.create_task(part)
            for part in (
                self._decode(),
                self._settle(),
                self._backfill.run(),
                self._publisher.run(),
                self._report(),
            )
        } | {self._stream.start()}
        try:
            pending: set[asyncio.Task[Any]] = parts | {stopped}
            while not stopped.done():
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in parts:
                task.cancel()
            stopped.cancel()
            await asyncio.gather(*parts, return_exceptions=True)
            left = await self._publisher.close(CLOSE_TIMEOUT_S)
            log.info("stopped", published_slot=self._publisher.published, unacknowledged=left)

    def _resume(self) -> int | None:
        settled = self._ledger.settled
        return None if settled is None else settled + 1

    # Decoding.

    async def _decode(self) -> None:
        while True:
            for item in await self._intake.take(SLICE_UPDATES):
                if isinstance(item, Connected):
                    self._ledger.connected(item.from_slot)
                else:
                    self._take(item)
            await self._publisher.room()
            if self._decisions.qsize() > MAX_WAITING_DECISIONS:
                await self._decisions.join()
            await asyncio.sleep(0)

    def _take(self, raw: bytes) -> None:
        try:
            update = geyser_pb2.SubscribeUpdate.FromString(raw)
        except DecodeError as error:
            metrics.MALFORMED_UPDATES.inc()
            self._publisher.undecoded(
                tape_pb2.Undecoded(
                    reason=tape_pb2.Undecoded.MALFORMED, detail=f"update: {error}", data=raw
                )
            )
            return
        kind = update.WhichOneof("update_oneof")
        if kind == "transaction":
            now_ms = time.time_ns() // 1_000_000
            created_ms = update.created_at.ToMilliseconds() or now_ms
            self._lag_ms = now_ms - created_ms
            self._transaction(update.transaction, created_ms)
        elif kind == "slot":
            said = update.slot
            parent = said.parent if said.HasField("parent") else None
            if said.status == geyser_pb2.SLOT_CREATED_BANK:
                self._decide(self._ledger.begun(said.slot, parent))
            elif (status := _STATUSES.get(said.status)) is not None:
                self._decide(self._ledger.status(said.slot, parent, status))
        elif kind == "block_meta":
            meta = update.block_meta
            block_time_ms = meta.block_time.timestamp * 1000
            self._decide(
                self._ledger.block_meta(
                    meta.slot,
                    meta.parent_slot,
                    meta.blockhash,
                    block_time_ms,
                    meta.parent_blockhash,
                )
            )
        _UPDATES[kind].inc()

    def _transaction(self, update: geyser_pb2.SubscribeUpdateTransaction, created_ms: int) -> None:
        slot, info = update.slot, update.transaction
        novelty = self._ledger.novelty(slot, info.signature)
        _NOVELTY[novelty].inc()
        if novelty is not Novelty.NEW:
            if novelty is Novelty.DUPLICATE:
                self._ledger.duplicate(slot, info.signature)
            elif novelty is Novelty.LATE:
                log.warning("transaction after its slot was settled", slot=slot)
            return
        decoded = decode_update(info, slot, created_ms)
        self._valuation.value(decoded.events)
        for event in decoded.events:
            self._publisher.event(event, created_ms)
        self._decide(self._ledger.transaction(slot, self._account(info.signature, decoded, slot)))

    def _account(self, signature: bytes, decoded: Decoded, slot: int) -> Transaction:
        """Count what the decoders made of a transaction and publish what they could not read."""
        count = 0
        for dex, instructions in decoded.decoded_by_dex.items():
            metrics.OUTCOMES.labels(dex, "decoded").inc(instructions)
            count += instructions
        for event in decoded.events:
            _KINDS[type(event)].inc()
        unknown = 0
        undecoded_by_dex: dict[str, tuple[int, int]] = {}
        for each in decoded.undecoded:
            is_unknown = each.reason is Reason.UNKNOWN
            unknown += is_unknown
            before = undecoded_by_dex.get(each.dex, (0, 0))
            undecoded_by_dex[each.dex] = before[0] + is_unknown, before[1] + (not is_unknown)
            metrics.OUTCOMES.labels(each.dex, each.reason.name.lower()).inc()
            self._publisher.undecoded(
                tape_pb2.Undecoded(
                    slot=slot,
                    signature=decoded.signature,
                    program_id=each.program_id,
                    dex=each.dex,
                    event_index=each.event_index,
                    reason=_REASONS[each.reason],
                    detail=each.detail,
                    data=each.data,
                )
            )
        return Transaction(
            tx_index=decoded.tx_index,
            signature=signature,
            events=decoded.events,
            decoded=count,
            unknown=unknown,
            malformed=len(decoded.undecoded) - unknown,
            balances=decoded.balances,
            movements=decoded.movements,
            perps=decoded.perps,
            decoded_by_dex=decoded.decoded_by_dex,
            undecoded_by_dex=undecoded_by_dex,
        )

    # Answers of backfill.

    def is_wanted(self, slot: int) -> bool:
        """Say whether the ledger still waits for a slot."""
        return self._ledger.settled is None or slot > self._ledger.settled

    async def fetched(self, block: Block) -> None:
        """Take a block; what users have not seen of it goes live: late, but confirmed."""
        transactions = []
        for count, info in enumerate(block.transactions, start=1):
            decoded = decode_update(info, block.slot, block.block_time_ms)
            if self._ledger.novelty(block.slot, info.signature) is Novelty.NEW:
                self._publish_late(decoded.events)
            transactions.append(self._account(info.signature, decoded, block.slot))
            if count % SLICE_UPDATES == 0:
                await self._publisher.room()
                await asyncio.sleep(0)
        self._decide(
            self._ledger.fetched(
                block.slot,
                block.parent,
                block.blockhash,
                block.block_time_ms,
                transactions,
                block.parent_blockhash,
            )
        )

    def unavailable(self, first: int, last: int, reason: str) -> None:
        """Take the answer that slots can not be had."""
        self._decide(self._ledger.unavailable(first, last, reason))

    def _publish_late(self, events: list[Event]) -> None:
        self._valuation.value(events)
        for event in events:
            event.commitment = Commitment.CONFIRMED
            self._publisher.event(event)

    # Settling.

    def _decide(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            self._decisions.put_nowait(decision)

    async def _settle(self) -> None:
        while True:
            await self._carry_out(await self._decisions.get())
            self._decisions.task_done()

    async def _carry_out(self, decision: Decision) -> None:
        status = tape_pb2.SlotStatus
        publisher = self._publisher
        match decision:
            case Processed(slot, parent, block_time_ms, counts):
                publisher.slot_status(slot, parent, status.PROCESSED, block_time_ms, counts)
                metrics.SLOTS.labels("processed").inc()
            case Settled(slot, parent, _, block_time_ms, _, counts):
                await self._valuation.settle(decision)
                await publisher.room()
                await publisher.settle(decision, self._valuation.reference)
                publisher.slot_status(slot, parent, status.CONFIRMED, block_time_ms, counts)
                metrics.SLOTS.labels("confirmed").inc()
                metrics.SOL_USD.set(float(self._valuation.sol_usd or 0))
            case Finalized(slot, parent, block_time_ms, counts):
                publisher.slot_status(slot, parent, status.FINALIZED, block_time_ms, counts)
                metrics.SLOTS.labels("finalized").inc()
            case RolledBack(slot, parent, counts, wallets):
                log.error("a settled slot was rolled back", slot=slot, wallets=len(wallets))
                publisher.slot_status(slot, parent, status.ORPHANED, 0, counts)
                metrics.SLOTS.labels("rolled_back").inc()
                await publisher.gap(Gap(slot, slot, ROLLED_BACK), wallets)
            case Orphaned(slot, parent, counts):
                publisher.slot_status(slot, parent, status.ORPHANED, 0, counts)
                metrics.SLOTS.labels("orphaned").inc()
            case Missing():
                self._backfill.ask(decision)
            case Gap(first, last, reason):
                log.warning("gap", first_slot=first, last_slot=last, reason=reason)
                metrics.GAP_SLOTS.inc(last - first + 1)
                await publisher.gap(decision)
            case _:
                assert_never(decision)

    async def _report(self) -> None:
        ledger, intake = self._ledger, self._intake
        while True:
            metrics.QUEUE_DEPTH.set(len(intake))
            metrics.QUEUE_BYTES.set(intake.bytes)
            metrics.QUEUE_STALLS.set(intake.stalls)
            metrics.TIP_SLOT.set(ledger.tip)
            metrics.HELD_SLOTS.set(len(ledger))
            metrics.CONFLICTS.set(ledger.conflicts)
            metrics.LAG_MS.set(self._lag_ms)
            if ledger.settled is not None:
                metrics.SETTLED_SLOT.set(ledger.settled)
            if self._publisher.published is not None:
                metrics.LAG_SLOTS.set(ledger.tip - self._publisher.published)
            await asyncio.sleep(REPORT_S)
