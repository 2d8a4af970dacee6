"""A simulated market, decoded and settled as ingest does it, in the books of all partitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from redis.asyncio import Redis

from infra.chain.market import Knobs, Market
from infra.chain.market.venues import meteora_dbc, pump_fun, raydium_launchlab
from infra.chain.market.venues.meteora_dbc import DbcCurve
from infra.chain.market.venues.raydium_launchlab import LaunchLabCurve
from infra.chain.source import SlotCompleted, SlotTransactions
from pipeline.decoding.reading import decode_update
from pipeline.ingest.finality import Counts
from pipeline.ingest.lanes import batches_of
from pipeline.ingest.ledger import Settled, Transaction
from pipeline.ingest.valuation import Valuation
from schemas.markets import sold_pct, unpack_account, unpack_head
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import SlotBatch
from schemas.redis_keys import ACCOUNTS, HOLDERS, MARKET, TRENDING_RECORDS, tag_of_mints
from schemas.solana import base58
from schemas.topics import SETTLED_BY_MINT


@dataclass
class Simulated:
    market: Market
    lanes: list[list[SlotBatch]] = field(
        default_factory=lambda: [[] for _ in range(SETTLED_BY_MINT.partitions)]
    )


async def simulate(slots: int, **knobs: Any) -> Simulated:
    simulated = Simulated(Market(Knobs(forks=0, **knobs)))
    valuation = Valuation(None, ())
    found: list[Any] = []
    for event in simulated.market.generate(slots):
        if isinstance(event, SlotTransactions):
            found += [tx for tx in event.transactions if not tx.is_vote]
        elif isinstance(event, SlotCompleted):
            time_ms = (event.header.block_time or 0) * 1000
            slot = event.header.slot
            decoded = [
                decode_update(SubscribeUpdateTransactionInfo.FromString(tx.info), slot, time_ms)
                for tx in found
            ]
            found = []
            transactions = tuple(
                Transaction(
                    each.tx_index,
                    bytes(64),
                    each.events,
                    balances=each.balances,
                    movements=each.movements,
                )
                for each in decoded
                if not each.failed
            )
            settled = Settled(slot, None, "", time_ms, transactions, Counts(), True)
            await valuation.settle(settled)
            (_, by_mint), _ = await batches_of(settled, valuation.reference)
            for lane, batch in zip(simulated.lanes, by_mint, strict=True):
                lane.append(SlotBatch.FromString(batch.SerializeToString()))
    return simulated


def done_pct(curve: Any) -> float:
    """Return how far a curve of the market is, by what it knows of itself."""
    if isinstance(curve, DbcCurve):
        return 100 * curve.quote_raw / meteora_dbc.THRESHOLD_LAMPORTS
    if isinstance(curve, LaunchLabCurve):
        return 100 * curve.base_raw / raydium_launchlab.FOR_SALE_RAW
    return 100 * (pump_fun.FOR_SALE_RAW - curve.tokens_raw) / pump_fun.FOR_SALE_RAW


@pytest.mark.slow
async def test_balances_are_the_ledgers_and_launches_trend(lab: Any, redis: Redis) -> None:
    simulated = await simulate(220, seed=31, rate=250, wallets=150)
    rows: dict[str, list[Any]] = {}
    for partition, lane in enumerate(simulated.lanes):
        books = await lab.opened(redis, rows, partition)
        for at in range(0, len(lane), 5):
            part = lane[at : at + 5]
            await books.load(part)
            for batch in part:
                books.apply(batch)
            await lab.write(redis, books, rows)

    ledger, launched = simulated.market.world.ledger, simulated.market.world.launched
    curves: Counter[str] = Counter()
    compared = holders = 0
    for partition, lane in enumerate(simulated.lanes):
        tag = tag_of_mints(partition)
        accounts_of: dict[str, dict[bytes, bool]] = defaultdict(dict)
        for batch in lane:
            for balance in batch.balances:
                known = accounts_of[balance.mint]
                known[balance.account] = known.get(balance.account, False) or balance.is_vault
        for mint, accounts in accounts_of.items():
            stored = await redis.hgetall(ACCOUNTS.make(tag=tag, mint=mint))
            fields = await redis.hgetall(MARKET.make(tag=tag, mint=mint))
            head, pools = unpack_head(fields[b"head"])
            sums: dict[bytes, int] = defaultdict(int)
            for account, is_vault in accounts.items():
                token = ledger.tokens.get(account)
                amount = token.amount_raw if token else 0
                if account in stored:
                    record = unpack_account(stored[account])
                    assert record.amount_raw == amount
                    assert record.is_vault == is_vault
                    assert token is None or record.owner == token.owner
                else:
                    assert amount == 0
                compared += 1
                if token and not is_vault and token.owner not in pools:
                    sums[token.owner] += amount
            expected = {owner: amount for owner, amount in sums.items() if amount}
            ranked = await redis.zrange(HOLDERS.make(tag=tag, mint=mint), 0, -1, withscores=True)
            assert {owner: int(score) for owner, score in ranked} == {
                owner: int(float(amount)) for owner, amount in expected.items()
            }
            assert head.holder_count == len(expected)
            curve = launched.get(base58.decode(mint))
            if curve is not None and curve.alive and head.price_sol:
                pct = sold_pct(head.curve_left_raw, head.curve_whole_raw, is_migrated=False)
                assert pct == pytest.approx(done_pct(curve)), curve.DEX
                curves[curve.DEX] += 1
            holders += len(expected)
    assert compared > 1000
    assert holders > 300
    assert curves.keys() == {"pump-fun", "raydium-launchlab", "meteora-dbc"}

    records = []
    for partition in range(len(simulated.lanes)):
        key = TRENDING_RECORDS.make(tag=tag_of_mints(partition))
        records += [orjson.loads(text) for text in (await redis.hgetall(key)).values()]
    assert len(records) > 5
    mints = {mint.text: mint for mint in ledger.mints.values()}
    for record in records:
        mint = mints[record["mint"]]
        assert record["decimals"] == mint.decimals
        if record["name"]:
            assert (record["name"], record["symbol"]) == (mint.name, mint.symbol)
        if record["creator"]:
            assert base58.decode(record["creator"])
        if mint.address in launched:
            assert record["bonding_curve_pct"] is not None
        assert record["holder_count"] > 0
    assert any(record["is_migrated"] for record in records) or len(records) > 20
    assert {row[0] for row in rows["tokens"]} >= {record["mint"] for record in records}
