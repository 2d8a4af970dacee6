"""What each partition gets of a settled slot, and what the next slot is valued with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from infra.chain.market import Knobs, Market
from infra.chain.source import SlotTransactions
from pipeline.decoding.reading import decode_update
from pipeline.ingest.finality import Counts
from pipeline.ingest.lanes import batches_of, last_balances, venues_of
from pipeline.ingest.ledger import Settled, Transaction
from pipeline.ingest.valuation import Valuation
from schemas.codec import swap_from_proto
from schemas.events import (
    Commitment,
    FundingPayment,
    PerpChange,
    PerpGap,
    Swap,
    TokenBalance,
)
from schemas.money import MONEY, WSOL
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.proto.tape_pb2 import SlotBatch
from schemas.solana.addresses import key
from schemas.solana.rpc_json import transaction_info_from_json, transaction_to_json
from schemas.topics import SETTLED_BY_MINT, SETTLED_BY_WALLET, Topic

COIN = "9n4nbM75f5Ui33ZbPYXn59EwSgE8CGsHtAeTH5YFeJ9E"
Lanes = dict[Topic, list[SlotBatch]]


def settled(slot: int, transactions: Iterable[Transaction]) -> Settled:
    return Settled(slot, slot - 1, "hash", slot * 400, tuple(transactions), Counts(), True)


@pytest.fixture(scope="module")
def chain() -> list[list[tuple[int, bytes]]]:
    """Slots of a market without forks: index and info of each transaction."""
    slots: dict[int, list[tuple[int, bytes]]] = {}
    for event in Market(Knobs(seed=6, forks=0, rate=400)).generate(24):
        if isinstance(event, SlotTransactions):
            held = slots.setdefault(event.slot, [])
            held += [(each.index, each.info) for each in event.transactions if not each.is_vote]
    return list(slots.values())


def decoded(slot: int, infos: Iterable[tuple[int, bytes]]) -> list[Transaction]:
    found = []
    for index, raw in infos:
        info = SubscribeUpdateTransactionInfo.FromString(raw)
        it = decode_update(info, slot, 0)
        found.append(
            Transaction(
                index,
                info.signature,
                it.events,
                balances=it.balances,
                movements=it.movements,
                decoded_by_dex=it.decoded_by_dex,
            )
        )
    return found


async def publish(valuation: Valuation, slot: Settled) -> Lanes:
    await valuation.settle(slot)
    return dict(await batches_of(slot, valuation.reference))


@pytest.mark.slow
async def test_each_partition_gets_its_own(chain: Any) -> None:
    valuation = Valuation(Decimal(150), ())
    counts = {"balances": 0, "movements": 0, "native": 0, "vaults": 0}
    for number, infos in enumerate(chain, start=1):
        slot = settled(number, decoded(number, infos))
        lanes = await publish(valuation, slot)
        balances = last_balances(slot.transactions)
        movements = [move for each in slot.transactions for move in each.movements]
        by_mint, by_wallet = lanes[SETTLED_BY_MINT], lanes[SETTLED_BY_WALLET]
        for partition, batch in enumerate(by_mint):
            assert [payload_of(each) for each in batch.balances] == [
                wanted(each)
                for each in balances
                if each.mint not in MONEY and SETTLED_BY_MINT.partition(each.mint) == partition
            ]
            assert not batch.movements
        for partition, batch in enumerate(by_wallet):
            assert [payload_of(each) for each in batch.balances] == [
                wanted(each)
                for each in balances
                if not each.is_vault and SETTLED_BY_WALLET.partition(each.owner) == partition
            ]
            assert [payload_of(each) for each in batch.movements] == [
                wanted(each)
                for each in movements
                if SETTLED_BY_WALLET.partition(each.wallet) == partition
            ]
        swaps = [event for event in slot.events() if isinstance(event, Swap)]
        for topic, of in ((SETTLED_BY_MINT, "mint"), (SETTLED_BY_WALLET, "wallet")):
            for partition, batch in enumerate(lanes[topic]):
                carried = [swap_from_proto(e.swap) for e in batch.events if e.HasField("swap")]
                assert carried == [
                    swap for swap in swaps if topic.partition(getattr(swap, of)) == partition
                ]
        assert {swap.commitment for swap in swaps} == {Commitment.CONFIRMED}
        counts["balances"] += len(balances)
        counts["movements"] += len(movements)
        counts["native"] += sum(each.mint == WSOL for each in balances)
        counts["vaults"] += sum(each.is_vault for each in balances)
    assert min(counts.values()) > 50


async def test_perp_events_go_to_their_wallets_and_gaps_of_anybody_to_one_partition() -> None:
    place = ("sig", 5, 1, 2, 0)
    change = PerpChange(
        *place, *("jupiter-perps", "P", "wallet", "pos", "pool", "c", "cc", "m"), True, "increase",
        *(False, 1, 2, 3, 4, None, 5, *[None] * 6, None),
    )  # fmt: skip
    payment = FundingPayment(
        *("sig", 5, 1, 3, 0, 0, "drift", "P", "another", "account", 1, -5, 6, 7, 8, 9)
    )
    gaps = [PerpGap(*place, "drift", "log truncated", wallet) for wallet in ("", "another")]
    slot = settled(5, [Transaction(1, b"1", (), perps=[change, payment, *gaps])])
    lanes = await publish(Valuation(None, ()), slot)
    by_wallet = lanes[SETTLED_BY_WALLET]
    for name, wallets in (
        ("perp_changes", ["wallet"]),
        ("funding_payments", ["another"]),
        ("perp_gaps", ["", "another"]),
    ):
        found = {
            each.wallet: (partition, each.block_time_ms)
            for partition, batch in enumerate(by_wallet)
            for each in getattr(batch, name)
        }
        assert found == {
            wallet: (SETTLED_BY_WALLET.partition(wallet), slot.block_time_ms) for wallet in wallets
        }
    for batch in by_wallet:
        assert list(batch.perp_dexes) == ["drift", "jupiter-perps"]
    for batch in lanes[SETTLED_BY_MINT]:
        of_perps = batch.perp_changes, batch.funding_payments, batch.perp_gaps, batch.perp_dexes
        assert not any(of_perps)


async def test_each_batch_has_the_slots_outcomes_of_each_venue(chain: Any) -> None:
    for number, infos in enumerate(chain, start=1):
        slot = settled(number, decoded(number, infos))
        lanes = await publish(Valuation(None, ()), slot)
        swaps = Counter(event.dex for event in slot.events() if isinstance(event, Swap))
        assert len(swaps) >= 3
        for batches in lanes.values():
            for batch in batches:
                assert list(batch.venues) == venues_of(slot.transactions)
                found = {each.dex: each for each in batch.venues}
                assert list(found) == sorted(found)
                assert {dex: each.swaps for dex, each in found.items() if each.swaps} == swaps
                # An instruction may be two swaps, as a hop over two pools is; none is less.
                assert all(each.outcomes.decoded for each in found.values())


def test_what_could_not_be_read_is_counted_by_its_venue() -> None:
    transactions = [
        Transaction(0, b"0", (), decoded_by_dex={"b": 2}, undecoded_by_dex={"a": (1, 0)}),
        Transaction(1, b"1", (), decoded_by_dex={"b": 1}, undecoded_by_dex={"b": (0, 3)}),
        Transaction(2, b"2", (), undecoded_by_dex={"a": (1, 1), "": (0, 1)}),
    ]
    found = [
        (each.dex, each.outcomes.decoded, each.outcomes.unknown, each.outcomes.malformed)
        for each in venues_of(transactions)
    ]
    assert found == [("", 0, 0, 1), ("a", 0, 2, 1), ("b", 3, 0, 3)]


def payload_of(message: Any) -> dict[str, Any]:
    return {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}


def wanted(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__slots__}


def test_a_transaction_from_rpc_is_the_same(chain: Any) -> None:
    for index, raw in chain[0] + chain[1]:
        info = SubscribeUpdateTransactionInfo.FromString(raw)
        fetched = transaction_info_from_json(transaction_to_json(info), index)
        assert decode_update(fetched, 1, 0) == decode_update(info, 1, 0)


@pytest.mark.slow
async def test_another_order_of_arrival_and_a_restart_give_the_same_bytes(chain: Any) -> None:
    """The log's last batch is all that a restarted process needs to go on as before."""
    random = Random(2)
    first = Valuation(None, ())
    second = Valuation(None, ())
    quotes = set()
    for number, infos in enumerate(chain, start=1):
        lanes = await publish(first, settled(number, decoded(number, infos)))
        shuffled = decoded(number, random.sample(infos, len(infos)))
        for transaction in shuffled:  # live values, which settling must not keep
            second.value(transaction.events)
        shuffled.sort(key=lambda each: each.tx_index)
        again = await publish(second, settled(number, shuffled))
        for topic, batches in lanes.items():
            assert [batch.SerializeToString() for batch in batches] == [
                batch.SerializeToString() for batch in again[topic]
            ]
        last = random.choice(again[random.choice([SETTLED_BY_MINT, SETTLED_BY_WALLET])])
        last = SlotBatch.FromString(last.SerializeToString())
        second = Valuation(
            Decimal(last.sol_usd) if last.sol_usd else None,
            tuple((each.mint, each.lamports, each.amount_raw) for each in last.quotes),
        )
        quotes |= {each.mint for each in last.quotes if each.lamports}
    assert quotes, "some token served as a quote and was priced"


def balance(account: bytes, amount_raw: int, tx_index: int, **fields: Any) -> TokenBalance:
    values = {"owner": "owner", "mint": COIN, "is_vault": False} | fields
    return TokenBalance(
        account=account, decimals=6, amount_raw=amount_raw, is_token_2022=False, tx_index=tx_index,
        **values,
    )  # fmt: skip


def test_only_the_last_balance_of_a_slot_is_sent() -> None:
    one, two = key(WSOL), key(COIN)
    steps = [
        [balance(one, 5, 0), balance(two, 1, 0)],
        [balance(one, 6, 1, is_vault=True)],
        [balance(one, 7, 2)],
        [balance(two, 0, 3), balance(two, 1, 3, owner="another")],
        [balance(two, 0, 4, owner="another"), balance(two, 1, 4)],
    ]
    transactions = [Transaction(at, bytes([at]), (), balances=of) for at, of in enumerate(steps)]
    assert last_balances(transactions) == [
        balance(one, 7, 2, is_vault=True),
        balance(two, 0, 4, owner="another"),
        balance(two, 1, 4),
    ]
