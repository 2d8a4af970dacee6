"""From a settled slot to the batches of the settled lanes: which partition gets what.

By mint go all events and the balances of their mints, money apart; by wallet swaps, movements,
perp events and the balances of their owners, vaults apart: that is what a wallet's books are made
of. A gap of perp events that may be anybody's is in the partition of no name.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from pipeline.decoding.registry import PERP_DEXES
from pipeline.ingest.finality import Counts
from pipeline.ingest.ledger import Settled, Transaction
from pipeline.ingest.valuation import Reference
from schemas.codec import add_event, add_perp_event
from schemas.events import Commitment, Movement, Swap, TokenBalance
from schemas.money import MONEY
from schemas.proto import tape_pb2
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

ITEMS_BEFORE_YIELD: Final = 200  # a large slot must not hold up the live lane


async def batches_of(
    settled: Settled, reference: Reference
) -> tuple[tuple[Topic, list[tape_pb2.SlotBatch]], ...]:
    """Return the batches of both lanes, one a partition; the swaps must have been valued.

    The events are marked confirmed, and given the block's time.
    """
    by_mint = _empty(SETTLED_BY_MINT, settled, reference)
    by_wallet = _empty(SETTLED_BY_WALLET, settled, reference)
    for batch in by_wallet:
        batch.perp_dexes.extend(PERP_DEXES)
    items = 0
    for transaction in settled.transactions:
        for event in transaction.events:
            event.block_time_ms = settled.block_time_ms
            event.commitment = Commitment.CONFIRMED
            events = by_mint[SETTLED_BY_MINT.partition(event.mint)].events
            add_event(events, event)
            if isinstance(event, Swap):
                wallet = SETTLED_BY_WALLET.partition(event.wallet)
                by_wallet[wallet].events.append(events[-1])
        for movement in transaction.movements:
            _add_movement(by_wallet[SETTLED_BY_WALLET.partition(movement.wallet)], movement)
        for perp in transaction.perps:
            perp.block_time_ms = settled.block_time_ms
            add_perp_event(by_wallet[SETTLED_BY_WALLET.partition(perp.wallet)], perp)
        items += len(transaction.events) + len(transaction.movements) + len(transaction.perps)
        if items >= ITEMS_BEFORE_YIELD:
            items = 0
            await asyncio.sleep(0)
    for count, balance in enumerate(last_balances(settled.transactions), start=1):
        added = None
        if balance.mint not in MONEY:
            added = _add_balance(by_mint[SETTLED_BY_MINT.partition(balance.mint)], balance)
        if not balance.is_vault:
            batch = by_wallet[SETTLED_BY_WALLET.partition(balance.owner)]
            if added is None:
                _add_balance(batch, balance)
            else:
                batch.balances.append(added)
        if count % ITEMS_BEFORE_YIELD == 0:
            await asyncio.sleep(0)
    return (SETTLED_BY_MINT, by_mint), (SETTLED_BY_WALLET, by_wallet)


def last_balances(transactions: Iterable[Transaction]) -> list[TokenBalance]:
    """Return what each account held last, in the order of these changes.

    Each mint and owner that an account had gets it; what was a vault in one of the
    transactions is one.
    """
    last: dict[tuple[bytes, str, str], TokenBalance] = {}
    for transaction in transactions:
        for balance in transaction.balances:
            holding = balance.account, balance.mint, balance.owner
            before = last.pop(holding, None)
            if before is not None and before.is_vault and not balance.is_vault:
                balance = replace(balance, is_vault=True)
            last[holding] = balance
    return list(last.values())


def outcomes_of(counts: Counts) -> tape_pb2.Outcomes:
    """Return the message of what became of a slot's instructions."""
    return tape_pb2.Outcomes(
        decoded=counts.decoded, unknown=counts.unknown, malformed=counts.malformed
    )


def venues_of(transactions: Iterable[Transaction]) -> list[tape_pb2.VenueOutcomes]:
    """Return what a slot has of each venue, ascending by its slug."""
    found: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for transaction in transactions:
        for dex, decoded in transaction.decoded_by_dex.items():
            found[dex][0] += decoded
        for dex, (unknown, malformed) in transaction.undecoded_by_dex.items():
            found[dex][1] += unknown
            found[dex][2] += malformed
        for event in transaction.events:
            if isinstance(event, Swap):
                found[event.dex][3] += 1
    return [
        tape_pb2.VenueOutcomes(
            dex=dex,
            outcomes=tape_pb2.Outcomes(decoded=decoded, unknown=unknown, malformed=malformed),
            swaps=swaps,
        )
        for dex, (decoded, unknown, malformed, swaps) in sorted(found.items())
    ]


def _empty(topic: Topic, settled: Settled, reference: Reference) -> list[tape_pb2.SlotBatch]:
    """Return a batch a partition, with what all of them say."""
    venues = venues_of(settled.transactions)
    quotes = [
        tape_pb2.QuotePrice(mint=mint, lamports=lamports, amount_raw=amount_raw)
        for mint, lamports, amount_raw in reference.quotes
    ]
    return [
        tape_pb2.SlotBatch(
            slot=settled.slot,
            parent=settled.parent,
            blockhash=settled.blockhash,
            block_time_ms=settled.block_time_ms,
            outcomes=outcomes_of(settled.counts),
            sol_usd=reference.sol_usd,
            complete=settled.complete,
            transactions=settled.counts.transactions,
            quotes=quotes,
            venues=venues,
        )
        for _ in range(topic.partitions)
    ]


def _add_balance(batch: tape_pb2.SlotBatch, balance: TokenBalance) -> tape_pb2.TokenBalance:
    return batch.balances.add(
        account=balance.account,
        owner=balance.owner,
        mint=balance.mint,
        decimals=balance.decimals,
        amount_raw=balance.amount_raw,
        is_vault=balance.is_vault,
        is_token_2022=balance.is_token_2022,
        tx_index=balance.tx_index,
    )


def _add_movement(batch: tape_pb2.SlotBatch, movement: Movement) -> None:
    batch.movements.add(
        signature=movement.signature,
        tx_index=movement.tx_index,
        wallet=movement.wallet,
        mint=movement.mint,
        decimals=movement.decimals,
        received_raw=movement.received_raw,
        sent_raw=movement.sent_raw,
        burned_raw=movement.burned_raw,
    )
