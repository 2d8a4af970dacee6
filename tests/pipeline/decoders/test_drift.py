"""Funding of Drift: payments from its log, and what a log that was cut off may lack."""

from __future__ import annotations

import base64
import struct
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.decoders.drift import FUNDING_PAYMENT_RECORD, PROGRAM
from pipeline.decoding.contract import named
from pipeline.decoding.reading import Decoded, Reason, decode_update
from schemas.events import FundingPayment, PerpGap
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import key, text
from schemas.solana.derived import derived
from tests.support import anchor
from tests.support.decoding.builder import Call, TransactionBuilder, address

I64 = st.integers(-(2**63), 2**63 - 1)
I128 = st.integers(-(2**127), 2**127 - 1)
EVENTS = 100
ARGUMENTS = struct.pack("<H", 2)  # of settle_pnl: the market


def tag(name: str) -> bytes:
    (found,) = named(name)
    return found


def record(
    wallet: str = "wallet",
    account: str = "user",
    market_index: int = 2,
    payment: int = -1_500_000,
    base: int = 40_000_000_000,
    last: int = 7,
    long: int = 2**64 + 5,
    short: int = -(2**64) - 5,
) -> bytes:
    return (
        FUNDING_PAYMENT_RECORD
        + struct.pack("<q", 1_763_700_000)
        + key(address(wallet))
        + key(address(account))
        + struct.pack("<Hqqq", market_index, payment, base, last)
        + long.to_bytes(16, "little", signed=True)
        + short.to_bytes(16, "little", signed=True)
    )


def settling(
    tx: TransactionBuilder,
    *records: bytes,
    name: str = "settle_funding_payment",
    user: str = "user",
) -> Call:
    call = tx.call(PROGRAM, ["state", user, *tx.keys[:1]], tag(name) + ARGUMENTS)
    for body in records:
        tx.log_event(call, body)
    return call


def decode(info: SubscribeUpdateTransactionInfo) -> Decoded:
    return decode_update(info, 5, 6)


def cut_before(info: SubscribeUpdateTransactionInfo, line: int) -> SubscribeUpdateTransactionInfo:
    """Cut the log as the runtime does: shorter lines may follow."""
    lines = list(info.meta.log_messages)
    del info.meta.log_messages[:]
    info.meta.log_messages.extend([*lines[:line], "Log truncated", *lines[line + 1 :]])
    return info


def user_of(wallet: str, number: int = 0) -> str:
    return text(derived(key(PROGRAM), b"user", key(address(wallet)), struct.pack("<H", number)))


def test_each_record_of_an_instruction_is_a_payment() -> None:
    tx = TransactionBuilder("keeper", slot_index=3)
    other = b"\x01" * 8 + bytes(40)
    settling(tx, record(), other, record(market_index=9, payment=2_000))
    settling(tx, record(wallet="another", base=-5))
    decoded = decode(tx.info())
    assert (decoded.events, decoded.undecoded) == ([], [])
    assert decoded.decoded_by_dex == {"drift": 2}
    first, second, third = decoded.perps
    assert first == FundingPayment(
        signature=decoded.signature,
        slot=5,
        tx_index=3,
        event_index=0,
        log_index=0,
        block_time_ms=6,
        dex="drift",
        program_id=PROGRAM,
        wallet=address("wallet"),
        account=address("user"),
        market_index=2,
        payment_raw=-1_500_000,
        base_raw=40_000_000_000,
        last_cumulative_funding=7,
        cumulative_funding_long=2**64 + 5,
        cumulative_funding_short=-(2**64) - 5,
    )
    assert isinstance(second, FundingPayment)
    assert (second.event_index, second.log_index, second.payment_raw) == (0, 2, 2_000)
    assert isinstance(third, FundingPayment)
    assert (third.event_index, third.wallet, third.base_raw) == (1, address("another"), -5)


def test_an_instruction_without_funding_is_nothing() -> None:
    tx = TransactionBuilder("keeper")
    settling(tx)
    decoded = decode(tx.info())
    assert (decoded.perps, decoded.undecoded, decoded.decoded_by_dex) == ([], [], {})


def test_what_others_log_is_no_payment() -> None:
    """A program that Drift is called beside, or calls, may log any bytes."""
    tx = TransactionBuilder("keeper")
    drift = settling(tx)
    tx.log_event(tx.call("liar", "keeper", b"\0" * 8), record())
    tx.log_event(tx.call("liar", "keeper", b"\0" * 8, under=drift), record())
    assert decode(tx.info()).perps == []


def test_of_a_failed_transaction_nothing_happened() -> None:
    tx = TransactionBuilder("keeper")
    settling(tx, record())
    assert decode(tx.info(failed=True)).perps == []


def test_a_cut_log_is_a_gap_of_the_instructions_that_it_cuts() -> None:
    tx = TransactionBuilder("keeper")
    settling(tx, record())
    settling(tx, record(wallet="another"), record(wallet="another", market_index=3))
    settling(tx, record(wallet="third"))
    info = cut_before(tx.info(), 6)  # the second record of the second
    decoded = decode(info)
    assert not decoded.undecoded
    assert decoded.decoded_by_dex == {"drift": 2}
    payments = [each for each in decoded.perps if isinstance(each, FundingPayment)]
    assert [each.wallet for each in payments] == [address("wallet"), address("another")]
    gaps = [each for each in decoded.perps if isinstance(each, PerpGap)]
    assert [(each.event_index, each.reason, each.wallet) for each in gaps] == [
        (1, "log truncated", ""),
        (2, "log truncated", ""),
    ]


@pytest.mark.parametrize(
    ("name", "number", "signer", "is_named"),
    [
        ("settle_funding_payment", 0, "wallet", True),
        ("place_perp_order", 7, "wallet", True),
        ("settle_pnl", 0, "keeper", False),
        ("place_orders", 8, "wallet", False),
        ("fill_perp_order", 0, "wallet", False),
        ("an_instruction_of_tomorrow", 0, "wallet", False),
    ],
)
def test_a_gap_names_the_wallet_that_signed_for_its_account(
    name: str, number: int, signer: str, is_named: bool
) -> None:
    tx = TransactionBuilder(signer)
    settling(tx, record(), name=name, user=user_of("wallet", number))
    (gap,) = decode(cut_before(tx.info(), 1)).perps
    assert isinstance(gap, PerpGap)
    assert gap.wallet == (address("wallet") if is_named else "")


def test_without_a_log_all_may_be_missing() -> None:
    tx = TransactionBuilder("keeper")
    settling(tx, record())
    (gap,) = decode(tx.info(logs=False)).perps
    assert isinstance(gap, PerpGap)
    assert (gap.reason, gap.wallet) == ("log absent", "")


@pytest.mark.parametrize("size", [8, 9, 100, len(record()) - 1])
def test_a_record_that_is_cut_short_is_malformed_and_a_gap(size: int) -> None:
    tx = TransactionBuilder("keeper")
    settling(tx, record()[:size], record(market_index=8))
    decoded = decode(tx.info())
    gap, payment = decoded.perps
    assert isinstance(gap, PerpGap)
    assert gap.reason == "malformed event"
    assert isinstance(payment, FundingPayment)
    assert payment.market_index == 8
    (miss,) = decoded.undecoded
    assert (miss.reason, miss.dex, miss.event_index) == (Reason.MALFORMED, "drift", 0)


def test_fields_that_a_later_version_appends_are_passed_over() -> None:
    tx = TransactionBuilder("keeper")
    settling(tx, record() + b"more")
    assert len(decode(tx.info()).perps) == 1


@given(st.integers(0, 2**16 - 1), I64, I64, I64, I128, I128)
def test_numbers_of_any_size_are_read(
    market: int, payment: int, base: int, last: int, long: int, short: int
) -> None:
    tx = TransactionBuilder("keeper")
    settling(tx, record("wallet", "user", market, payment, base, last, long, short))
    (paid,) = decode(tx.info()).perps
    assert isinstance(paid, FundingPayment)
    assert (paid.market_index, paid.payment_raw, paid.base_raw) == (market, payment, base)
    assert paid.last_cumulative_funding == last
    assert (paid.cumulative_funding_long, paid.cumulative_funding_short) == (long, short)


@pytest.fixture(scope="module")
def coder(request: pytest.FixtureRequest) -> Path:
    return anchor.coder(request)


@pytest.mark.node
def test_records_are_as_anchor_writes_them(coder: Path) -> None:
    path = anchor.idl("p08-drift.json")
    questions: list[dict[str, Any]] = [
        {"event": "FundingPaymentRecord", "idl": path, "seed": seed} for seed in range(EVENTS)
    ]
    for answer in anchor.asked(coder, questions):
        tx = TransactionBuilder("keeper")
        settling(tx, base64.b64decode(answer["data"]))
        (paid,) = decode(tx.info()).perps
        assert isinstance(paid, FundingPayment)
        found = asdict(paid)
        fields = answer["fields"]
        assert {name: str(found[ours]) for name, ours in NAMES.items()} == {
            name: fields[name] for name in NAMES
        }


NAMES = {
    "userAuthority": "wallet",
    "user": "account",
    "marketIndex": "market_index",
    "fundingPayment": "payment_raw",
    "baseAssetAmount": "base_raw",
    "userLastCumulativeFunding": "last_cumulative_funding",
    "ammCumulativeFundingLong": "cumulative_funding_long",
    "ammCumulativeFundingShort": "cumulative_funding_short",
}
