"""Funding and PnL of perps against the events written: each once, in order, with their sums."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any
from uuid import uuid4

import pytest

from api.app import create_app
from schemas.proto.tape_pb2 import FundingPayment, PerpChange, PerpGap
from schemas.redis_keys import tag_of_wallets, wallet_tag
from schemas.rows import FUNDING_PAYMENTS, GAPS, PERP_CHANGES, PERP_GAPS, PERP_HISTORIES, SLOTS
from schemas.solana.base58 import encode
from schemas.tape_rows import funding_row, perp_change_row, perp_gap_row
from schemas.topics import SETTLED_BY_WALLET
from tests.support.api import in_process
from tests.support.api.asking import validator

DAY_MS = 86_400_000
NOW_MS = 1_785_499_140_000
NOW_SLOT = 400_000_000
KNOWN_SLOT = NOW_SLOT - 60 * 216_000
KNOWN_MS = NOW_MS - 60 * DAY_MS
CHANGES = ("increase", "decrease", "liquidate")


@pytest.fixture(autouse=True)
def settled(store):
    """All partitions by wallet are at the same slot; what a test inserts twice stays twice."""
    for table in (FUNDING_PAYMENTS, PERP_CHANGES, PERP_GAPS):
        store.clickhouse.command(f"SYSTEM STOP MERGES {table.name}")
    settle(store)
    places = range(SETTLED_BY_WALLET.partitions)
    for slot in (KNOWN_SLOT, KNOWN_SLOT + 9):  # as after a start: the least is kept
        store.insert(PERP_HISTORIES.name, [("drift", place, slot) for place in places])
    store.insert(
        PERP_HISTORIES.name, [("jupiter-perps", place, KNOWN_SLOT + 1) for place in places]
    )
    store.insert(
        SLOTS.name,
        [(KNOWN_SLOT + n, None, "", KNOWN_MS + n, 0, 0, 0, 0, True, None) for n in (0, 1)],
    )


@pytest.fixture(scope="module")
def document(store):
    """The OpenAPI document; made before anything is asked, as that takes a second."""
    return in_process.document(create_app(store.settings))


def settle(store: Any, slot: int = NOW_SLOT, time_ms: int = NOW_MS) -> None:
    for partition in range(SETTLED_BY_WALLET.partitions):
        store.settle_one(tag_of_wallets(partition), slot, time_ms, "pnl")


class Written:
    """Events of one wallet, and the same ones as answers show them."""

    def __init__(self) -> None:
        self.random = Random(str(uuid4()))
        self.wallet = self.address()

    def address(self) -> str:
        return encode(self.random.randbytes(32))

    def place(self, days: float = 20) -> dict[str, Any]:
        ago = self.random.randrange(int(days * 1_000))
        return {
            "signature": encode(self.random.randbytes(64)),
            "slot": NOW_SLOT - ago,
            "tx_index": self.random.randrange(3),
            "event_index": self.random.randrange(3),
            "block_time_ms": NOW_MS - ago // 10 * 10_000,  # some slots share a time
            "program_id": "program",
        }

    def payment(self, **fixed: Any) -> FundingPayment:
        random = self.random
        return FundingPayment(
            **{
                **self.place(),
                "log_index": random.randrange(4),
                "dex": "drift",
                "wallet": self.wallet,
                "account": self.address(),
                "market_index": random.choice([0, 7, 65_535]),
                "payment_raw": random.choice([0, 1, -1]) * random.randrange(2**63),
                "base_raw": random.randrange(-(2**63), 2**63),
                "last_cumulative_funding": random.randrange(-(2**63), 2**63),
                "cumulative_funding_long": str(random.randrange(-(2**127), 2**127)),
                "cumulative_funding_short": str(random.randrange(-(2**127), 2**127)),
                **fixed,
            }
        )

    def change(self, **fixed: Any) -> PerpChange:
        random = self.random
        change = fixed.pop("change", random.choice(CHANGES))
        closes = change != "increase"
        values: dict[str, Any] = {
            **self.place(),
            "dex": "jupiter-perps",
            "wallet": self.wallet,
            "position": self.address(),
            "pool": "pool",
            "custody": "custody",
            "collateral_custody": "collateral",
            "mint": random.choice(["sol", "eth"]),
            "is_long": random.random() < 0.5,
            "change": change,
            "is_instant": random.random() < 0.5,
            "size_usd_micros": random.randrange(2**64),
            "size_delta_usd_micros": None if change == "liquidate" else random.randrange(2**64),
            "collateral_delta_usd_micros": None if closes else random.randrange(2**64),
            "price_usd_micros": random.randrange(2**64),
            "pnl_usd_micros": random.randrange(-(2**63), 2**63) if closes else None,
            "fee_usd_micros": random.randrange(2**64),
            "position_fee_usd_micros": random.choice([None, random.randrange(2**64)]),
            "funding_fee_usd_micros": random.choice([None, 0]),
            "price_impact_fee_usd_micros": random.choice([None, 5]),
            "liquidation_fee_usd_micros": 2**64 - 1 if change == "liquidate" else None,
            "paid_out_usd_micros": random.randrange(2**64) if closes else None,
            "collateral_usd_micros": random.choice([None, 3]),
            "entry_price_usd_micros": random.choice([None, 4]),
            **fixed,
        }
        return PerpChange(**{name: value for name, value in values.items() if value is not None})


def funding_place(payment: Any) -> tuple[int, ...]:
    return (
        payment.block_time_ms,
        payment.slot,
        payment.tx_index,
        payment.event_index,
        payment.log_index,
    )


def change_place(change: Any) -> tuple[int, ...]:
    return change.block_time_ms, change.slot, change.tx_index, change.event_index


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_each_payment_is_answered_once_newest_first(store, ask, limit):
    written = Written()
    by_place = {funding_place(each): each for each in (written.payment() for _ in range(40))}
    payments = [by_place[at] for at in sorted(by_place, reverse=True)]
    rows = [funding_row(each) for each in payments]
    store.insert(FUNDING_PAYMENTS.name, rows)
    store.insert(FUNDING_PAYMENTS.name, rows[::2])  # as after a crash: until parts are merged
    store.insert(FUNDING_PAYMENTS.name, [funding_row(written.payment(wallet="another"))])
    pages = await ask.pages(f"/api/wallets/{written.wallet}/p08/funding", limit=limit)
    found = [each for page in pages for each in page["payments"]]
    assert len(pages) == -(-len(payments) // limit)
    for answered, payment in zip(found, payments, strict=True):
        assert answered["signature"] == payment.signature
        for name in ("slot", "tx_index", "event_index", "log_index", "block_time_ms", "account"):
            assert answered[name] == getattr(payment, name), name
        assert answered["market_index"] == payment.market_index
        assert answered["payment_raw"] == str(payment.payment_raw)
        assert answered["payment"] == payment.payment_raw / 10**6
        assert answered["base_raw"] == str(payment.base_raw)
        assert answered["cumulative_funding_long_raw"] == payment.cumulative_funding_long
        assert answered["cumulative_funding_short_raw"] == payment.cumulative_funding_short
    for page in pages:
        check_sums(page, payments)


def check_sums(page: dict[str, Any], payments: list[FundingPayment]) -> None:
    paid: Counter[int] = Counter()
    received: Counter[int] = Counter()
    counts = Counter(each.market_index for each in payments)
    for each in payments:
        paid[each.market_index] += max(0, -each.payment_raw)
        received[each.market_index] += max(0, each.payment_raw)
    assert [row["market_index"] for row in page["markets"]] == sorted(counts)
    for row in page["markets"]:
        market = row["market_index"]
        assert row["payments"] == counts[market]
        assert row["paid_raw"] == str(paid[market])
        assert row["received_raw"] == str(received[market])
        assert row["net_raw"] == str(received[market] - paid[market])
    assert page["total"]["payments"] == len(payments)
    assert page["total"]["net_raw"] == str(received.total() - paid.total())


@pytest.mark.parametrize("limit", [1, 7, 1000])
async def test_each_change_is_answered_once_and_sums_are_of_all(store, ask, limit):
    written = Written()
    by_place = {change_place(each): each for each in (written.change() for _ in range(40))}
    changes = [by_place[at] for at in sorted(by_place, reverse=True)]
    rows = [perp_change_row(each) for each in changes]
    store.insert(PERP_CHANGES.name, rows)
    store.insert(PERP_CHANGES.name, rows[1::2])
    pages = await ask.pages(f"/api/wallets/{written.wallet}/p09/pnl", limit=limit)
    found = [each for page in pages for each in page["changes"]]
    for answered, change in zip(found, changes, strict=True):
        assert answered["signature"] == change.signature
        assert answered["side"] == ("long" if change.is_long else "short")
        for name in ("slot", "event_index", "position", "mint", "change", "is_instant"):
            assert answered[name] == getattr(change, name), name
        for name in (name for name in answered if name.endswith("_micros")):
            micros = getattr(change, name)
            known = not change.DESCRIPTOR.fields_by_name[name].has_presence or change.HasField(name)
            assert answered[name] == (str(micros) if known else None), name
            human = answered[name.removesuffix("_micros")]
            assert human == (micros / 10**6 if known else None), name
    for page in pages:
        total = page["total"]
        assert total["realized_usd_micros"] == str(sum(each.pnl_usd_micros for each in changes))
        assert total["fee_usd_micros"] == str(sum(each.fee_usd_micros for each in changes))
        assert [
            total[f"{kind}s" if kind != "liquidate" else "liquidations"] for kind in CHANGES
        ] == [sum(each.change == kind for each in changes) for kind in CHANGES]
        assert total["wins"] == sum(each.pnl_usd_micros > 0 for each in changes)
        assert total["losses"] == sum(each.pnl_usd_micros < 0 for each in changes)
        for market in page["markets"]:
            ours = [each for each in changes if each.mint == market["mint"]]
            assert market["realized_usd_micros"] == str(sum(each.pnl_usd_micros for each in ours))
            liquidations = sum(each.liquidation_fee_usd_micros for each in ours)
            assert market["liquidation_fee_usd_micros"] == str(liquidations)


@pytest.mark.parametrize("path", ["p08/funding", "p09/pnl"])
async def test_answers_are_as_the_document_says(store, document, ask, path):
    written = Written()
    store.insert(FUNDING_PAYMENTS.name, [funding_row(written.payment()) for _ in range(9)])
    store.insert(PERP_CHANGES.name, [perp_change_row(written.change()) for _ in range(9)])
    template = f"/api/wallets/{{wallet}}/{path}"
    allowed = validator(document, "get", template, 200)
    for answer in await ask.pages(template.format(wallet=written.wallet), limit=4):
        assert not [error.message for error in allowed.iter_errors(answer)]


async def test_sums_and_pages_are_of_the_range(store, ask):
    written = Written()
    old = written.payment(block_time_ms=NOW_MS - 40 * DAY_MS, slot=NOW_SLOT - 9, payment_raw=5)
    new = written.payment(block_time_ms=NOW_MS - DAY_MS, slot=NOW_SLOT - 8, payment_raw=-7)
    store.insert(FUNDING_PAYMENTS.name, [funding_row(old), funding_row(new)])
    path = f"/api/wallets/{written.wallet}/p08/funding"
    page = await ask.get(path)
    assert [each["signature"] for each in page["payments"]] == [new.signature]
    assert page["total"]["net_raw"] == "-7"
    span = {"from": NOW_MS - 50 * DAY_MS, "to": NOW_MS - DAY_MS}
    page = await ask.get(path, **span)
    assert [each["signature"] for each in page["payments"]] == [old.signature]
    assert page["total"]["net_raw"] == "5"
    assert (await ask.get(path, 422, **{**span, "to": NOW_MS + 50 * DAY_MS}))["code"] == (
        "invalid_parameter"
    )


async def test_what_is_not_settled_is_not_shown(store, ask):
    """Events that may be anybody's are of the partition of no name: it counts as well."""
    written = Written()
    payments = [
        written.payment(slot=NOW_SLOT - n, block_time_ms=NOW_MS - 400 * n, payment_raw=1)
        for n in (2, 1)
    ]
    store.insert(FUNDING_PAYMENTS.name, [funding_row(each) for each in payments])
    path = f"/api/wallets/{written.wallet}/p08/funding"
    for tag in {wallet_tag(written.wallet), wallet_tag("")}:
        store.settle_one(tag, NOW_SLOT - 2, NOW_MS - 800, "pnl")
        page = await ask.get(path)
        assert page["as_of_slot"] == NOW_SLOT - 2
        assert [each["signature"] for each in page["payments"]] == [payments[0].signature]
        assert page["total"]["payments"] == 1
        settle(store)
    assert len((await ask.get(path, limit=999))["payments"]) == 2


async def test_an_answer_says_from_where_on_it_is_known(store, ask):
    written = Written()
    path = f"/api/wallets/{written.wallet}/p08/funding"
    page = await ask.get(path)
    assert (page["known_from_slot"], page["known_from_ms"]) == (KNOWN_SLOT, KNOWN_MS)
    assert (page["unread"], page["is_complete"], page["gaps"]) == (0, True, None)
    assert (page["dex"], page["identified"]) == ("drift", "certain")
    assert page["total"]["payments"] == 0
    # Earlier slots may be of the same second, and later ones are yet to come.
    for range_, is_complete in (
        ({"from": KNOWN_MS}, False),
        ({"from": KNOWN_MS + 1}, True),
        ({"from": KNOWN_MS + 1, "to": page["as_of_ms"] + 1}, True),
        ({"from": KNOWN_MS + 1, "to": page["as_of_ms"] + 2}, False),
    ):
        assert (await ask.get(path, **range_))["is_complete"] is is_complete, range_
    pnl = await ask.get(f"/api/wallets/{written.wallet}/p09/pnl")
    assert (pnl["known_from_slot"], pnl["is_complete"]) == (KNOWN_SLOT + 1, False)
    assert (pnl["dex"], pnl["identified"]) == ("jupiter-perps", "likely")


@pytest.mark.parametrize("partition", [0, 3])
async def test_it_is_known_from_where_both_partitions_that_it_rests_on_are(store, ask, partition):
    """The wallet's own, and that of what may be anybody's, which is the first."""
    written = Written()
    while SETTLED_BY_WALLET.partition(written.wallet) != 3:
        written = Written()
    forget = (
        "ALTER TABLE perp_histories DELETE WHERE dex = 'drift' AND partition = {partition:UInt16}"
    )
    store.clickhouse.command(
        forget, parameters={"partition": partition}, settings={"mutations_sync": 2}
    )
    page = await ask.get(f"/api/wallets/{written.wallet}/p08/funding")
    assert (page["known_from_slot"], page["is_complete"]) == (None, False)
    store.insert(PERP_HISTORIES.name, [("drift", partition, NOW_SLOT - 5)])
    page = await ask.get(f"/api/wallets/{written.wallet}/p08/funding", limit=999)
    assert page["known_from_slot"] == NOW_SLOT - 5
    assert page["is_complete"] is False


async def test_before_its_first_slot_nothing_is_known(store, ask):
    written = Written()
    settle(store, KNOWN_SLOT - 1, KNOWN_MS - 400)
    page = await ask.get(f"/api/wallets/{written.wallet}/p08/funding")
    assert (page["known_from_slot"], page["known_from_ms"]) == (None, None)
    assert page["is_complete"] is False


async def test_what_could_not_be_read_is_counted_for_whom_it_may_be(store, ask):
    written, other = Written(), Written()
    at_ms = NOW_MS - 59 * DAY_MS  # no other test asks for that day

    def gap(wallet: str, **fixed: Any) -> tuple[Any, ...]:
        values = {**written.place(), "reason": "log truncated", "dex": "drift", **fixed}
        del values["program_id"]
        return perp_gap_row(PerpGap(**{**values, "wallet": wallet, "block_time_ms": at_ms}))

    store.insert(PERP_GAPS.name, rows := [gap(""), gap(written.wallet), gap(other.wallet)])
    store.insert(PERP_GAPS.name, rows)
    store.insert(PERP_GAPS.name, [gap("", dex="another"), gap("", slot=NOW_SLOT + 1)])
    span = {"from": at_ms, "to": at_ms + 1}
    for wallet, unread in ((written.wallet, 2), (other.wallet, 2), (written.address(), 1)):
        page = await ask.get(f"/api/wallets/{wallet}/p08/funding", **span)
        assert (page["unread"], page["is_complete"]) == (unread, False)
    outside = {"from": at_ms + 1, "to": at_ms + 2}
    assert (await ask.get(f"/api/wallets/{written.wallet}/p08/funding", **outside))["unread"] == 0
    assert (await ask.get(f"/api/wallets/{written.wallet}/p09/pnl", **span))["unread"] == 0


async def test_a_cursor_is_of_its_list_alone(store, ask):
    written, other = Written(), Written()
    payments = [funding_row(written.payment(slot=NOW_SLOT - n)) for n in range(3)]
    store.insert(FUNDING_PAYMENTS.name, payments)
    path = f"/api/wallets/{written.wallet}/p08/funding"
    cursor = (await ask.get(path, limit=1))["page"]["next_cursor"]
    for astray in (
        f"/api/wallets/{other.wallet}/p08/funding",
        f"/api/wallets/{written.wallet}/p09/pnl",
    ):
        assert (await ask.get(astray, 422, cursor=cursor))["code"] == "invalid_cursor"


async def test_gaps_of_the_tape_are_behind_it_too(store, ask):
    written = Written()
    place = SETTLED_BY_WALLET.place_of(written.wallet)
    store.insert(GAPS.name, [(5, 6, "lost", NOW_MS, [], f"pnl {place}")])
    try:
        page = await ask.get(f"/api/wallets/{written.wallet}/p08/funding")
        assert page["gaps"] is not None
        assert page["gaps"]["lost_slots"] == 2
        assert page["is_complete"] is False
    finally:
        store.clickhouse.command(
            "ALTER TABLE gaps DELETE WHERE first_slot = 5", settings={"mutations_sync": 2}
        )
