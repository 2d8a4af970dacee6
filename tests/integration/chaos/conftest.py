"""A short chain, as the pipeline reads it and as the ground truth has it."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.chain.market import Knobs, Market, Truth
from infra.chain.source import SlotCompleted, SlotEvent, SlotTransactions
from pipeline.chaos.truth import Slot, read
from pipeline.decoding.reading import decode_update
from pipeline.decoding.registry import PROGRAM_IDS
from pipeline.ingest.finality import Counts
from pipeline.ingest.lanes import batches_of
from pipeline.ingest.ledger import Settled, Transaction
from pipeline.ingest.valuation import Valuation
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import SlotBatch
from schemas.solana.addresses import key

SLOTS = 150


@dataclass(slots=True)
class Chain:
    """Per slot the truth, and what ingest would publish of it: by mint and by wallet."""

    truth: list[Slot]
    by_mint: dict[int, list[SlotBatch]]
    by_wallet: dict[int, list[SlotBatch]]


def settled(events: list[SlotEvent], slot: Slot, venues: frozenset[bytes]) -> Settled:
    """Return a slot as the ledger would settle it."""
    transactions = []
    for event in events:
        for each in event.transactions if isinstance(event, SlotTransactions) else ():
            if each.failed or each.is_vote or not each.accounts & venues:
                continue
            info = SubscribeUpdateTransactionInfo.FromString(each.info)
            decoded = decode_update(info, slot.slot, 0)
            assert not decoded.undecoded
            transactions.append(
                Transaction(
                    tx_index=each.index,
                    signature=each.signature,
                    events=decoded.events,
                    balances=decoded.balances,
                    movements=decoded.movements,
                    perps=decoded.perps,
                )
            )
    return Settled(
        slot=slot.slot,
        parent=slot.parent,
        blockhash=slot.blockhash,
        block_time_ms=slot.block_time_ms,
        transactions=tuple(transactions),
        counts=Counts(transactions=len(transactions)),
        complete=True,
    )


@pytest.fixture(scope="session", params=[5, 6])
def chain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Chain:
    venues = frozenset(map(key, PROGRAM_IDS))
    path: Path = tmp_path_factory.mktemp("chaos") / "truth.jsonl"
    events: defaultdict[int, list[SlotEvent]] = defaultdict(list)
    with path.open("wb") as sink:
        market = Market(Knobs(seed=request.param, rate=150.0, forks=0.1), Truth(sink, flows=True))
        for event in market.generate(SLOTS):
            slot = event.header.slot if isinstance(event, SlotCompleted) else event.slot
            events[slot].append(event)
    chain = Chain(read(path), {}, {})
    asyncio.run(publish(chain, events, venues))
    return chain


async def publish(
    chain: Chain, events: dict[int, list[SlotEvent]], venues: frozenset[bytes]
) -> None:
    """Fill in the batches of all slots."""
    valuation = Valuation(None, ())
    for slot in chain.truth:
        whole = settled(events[slot.slot], slot, venues)
        await valuation.settle(whole)
        (_, by_mint), (_, by_wallet) = await batches_of(whole, valuation.reference)
        chain.by_mint[slot.slot], chain.by_wallet[slot.slot] = by_mint, by_wallet
