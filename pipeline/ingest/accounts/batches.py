"""From a settled slot to the batches of the lane of accounts, one a partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from pipeline.ingest.accounts.asked import Answer
from pipeline.ingest.accounts.ledger import SettledAccounts
from pipeline.ingest.accounts.selection import Selection
from schemas.proto.tape_pb2 import AccountVersion, Covered, SlotBatch
from schemas.solana.addresses import text
from schemas.topics import SETTLED_ACCOUNTS

VERSIONS_BEFORE_YIELD: Final = 200


@dataclass(slots=True)
class Composed:
    """A slot's batches, and what they could not say."""

    batches: list[SlotBatch]
    again: list[bytes] = field(default_factory=list)  # subjects whose answer came too late
    outdated: list[bytes] = field(default_factory=list)  # accounts whose hole is not mended yet
    versions: int = 0
    covered: list[Covered] = field(default_factory=list)


async def compose(
    settled: SettledAccounts,
    selection: Selection,
    answers: Iterable[Answer],
    withdrawn: Callable[[], list[Covered]],
    *,
    lost_to: Callable[[], int] = lambda: -1,
    complete: bool = True,
) -> Composed:
    """Return a batch a partition of a slot and the answers that go with it.

    No answer covers anything with a slot below `lost_to`, the last slot that is lost. `complete`
    is False while a hole before the slot is not mended. `withdrawn` is called last, and `lost_to`
    again: what is withdrawn meanwhile is let through no more.
    """
    found: dict[bytes, AccountVersion] = {}
    given: list[Covered] = []
    again: list[bytes] = []
    outdated: list[bytes] = []
    for answer in answers:
        if answer.subject is not None and (
            any(selection.is_outdated(update, slot) for slot, update in answer.updates)
            or any(each.slot < lost_to() for each in answer.covered)
        ):
            again.append(answer.subject)
            continue
        for count, (context_slot, update) in enumerate(answer.updates, start=1):
            if count % VERSIONS_BEFORE_YIELD == 0:
                await asyncio.sleep(0)
            version = selection.asked(update, context_slot)
            before = found.get(update.address)
            if version is None or (before is not None and before.asked_slot > context_slot):
                continue
            found[update.address] = version
            if answer.mends and selection.is_outdated(update, context_slot):
                outdated.append(update.address)
        given += answer.covered
        await asyncio.sleep(0)
    # After the answers: what a slot says of an account is later, and follows from them.
    for count, update in enumerate(settled.updates, start=1):
        version = selection.of_slot(update, settled.slot)
        if version is not None:
            found[update.address] = version
        if count % VERSIONS_BEFORE_YIELD == 0:
            await asyncio.sleep(0)
    batches = [
        SlotBatch(
            slot=settled.slot,
            parent=settled.parent,
            blockhash=settled.blockhash,
            block_time_ms=settled.block_time_ms,
            complete=complete,
        )
        for _ in range(SETTLED_ACCOUNTS.partitions)
    ]
    for count, address in enumerate(sorted(found), start=1):
        if count % VERSIONS_BEFORE_YIELD == 0:
            await asyncio.sleep(0)
        batches[SETTLED_ACCOUNTS.partition(text(address))].accounts.append(found[address])
    least = lost_to()
    kept = [each for each in given if each.slot >= least and selection.keeps(each)]
    left = [
        gone for each in kept if each.kind == Covered.HOLDERS for gone in selection.left_by(each)
    ]
    withdrawals = [each for each in (*withdrawn(), *left) if selection.lets_go(each)]
    covered = [*withdrawals, *kept]
    for batch in batches:  # each says from when it has all of it
        batch.covered.extend(covered)
    return Composed(batches, again, outdated, len(found), covered)
