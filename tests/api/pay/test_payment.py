"""Payments as they are sent, and what of them is refused before any store is asked."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.transaction import VersionedTransaction

from api.pay import buying, payment
from api.pay.book import Answer, bound
from api.pay.buying import NotPaid
from api.pay.payment import NoPayment, Payment, parse, sent
from api.pay.terms import PRICE_RAW, Terms

TERMS = Terms(
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp",
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    str(Keypair.from_seed(b"s" * 32).pubkey()),
)
FEE_PAYER = str(Keypair.from_seed(b"f" * 32).pubkey())
PAYER = Keypair.from_seed(b"p" * 32)
BLOCKHASH = str(Keypair.from_seed(b"b" * 32).pubkey())  # 32 bytes in base58, as well


def paid() -> dict[str, Any]:
    challenge = orjson.loads(TERMS.challenge(FEE_PAYER, "http://here/pay/x", "payment required"))
    accepted = buying.chosen(challenge, TERMS.asset, PRICE_RAW)
    signed = buying.signed(accepted, challenge["resource"], PAYER, BLOCKHASH)
    found: dict[str, Any] = orjson.loads(b64decode(signed))
    return found


def read(payload: Any) -> Payment:
    return parse(b64encode(orjson.dumps(payload)), TERMS)


def test_what_the_buyer_signs_the_seller_reads() -> None:
    found = read(paid())
    assert (found.version, found.fee_payer, found.blockhash) == (2, FEE_PAYER, BLOCKHASH)
    assert found.accounts[1] == str(PAYER.pubkey())


def test_two_payments_within_one_blockhash_differ() -> None:
    assert read(paid()).id != read(paid()).id


def test_the_fee_payers_signature_does_not_change_which_payment_it_is() -> None:
    payload = paid()
    before = read(payload).id
    wire = bytearray(b64decode(payload["payload"]["transaction"]))
    wire[1:65] = b"\7" * 64
    payload["payload"]["transaction"] = b64encode(wire).decode()
    assert read(payload).id == before


@given(at=st.integers(65, 400), bit=st.integers(0, 7))
def test_a_changed_transaction_is_not_signed_by_its_payer(at: int, bit: int) -> None:
    payload = paid()
    wire = bytearray(b64decode(payload["payload"]["transaction"]))
    wire[at % (len(wire) - 65) + 65] ^= 1 << bit
    payload["payload"]["transaction"] = b64encode(wire).decode()
    with pytest.raises(NoPayment):
        read(payload)


@given(st.binary(max_size=300) | st.binary(max_size=300).map(b64encode))
def test_bytes_that_are_no_payment_are_refused(value: bytes) -> None:
    with pytest.raises(NoPayment):
        parse(value, TERMS)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(
    name=st.sampled_from(["x402Version", "accepted", "payload"]),
    value=_JSON,
)
def test_a_payment_with_a_strange_part_is_refused(name: str, value: Any) -> None:
    payload = paid()
    payload[name] = value
    if name == "x402Version" and value == 2:
        return
    with pytest.raises(NoPayment):
        read(payload)


@pytest.mark.parametrize(
    ("levels", "is_read"), [(30, True), (31, False), (300, False), (600, False)]
)
@pytest.mark.parametrize("ends", [(b"[", b"]"), (b'{"x":', b"}")])
def test_a_payment_that_is_nested_deeply_is_refused(
    levels: int, is_read: bool, ends: tuple[bytes, bytes]
) -> None:
    begin, end = ends
    nested = begin * levels + b"1" + end * levels
    text = orjson.dumps(paid())[:-1] + b',"extensions":{"x":' + nested + b"}}"
    if is_read:
        orjson.dumps(parse(b64encode(text), TERMS).payload)
        return
    with pytest.raises(NoPayment, match="nested too deeply"):
        parse(b64encode(text), TERMS)


def test_more_signatures_than_a_packet_holds_are_not_looked_at() -> None:
    signers = [Keypair() for _ in range(40)]
    payer = signers[0].pubkey()
    keys = [AccountMeta(each.pubkey(), is_signer=True, is_writable=False) for each in signers]
    message = Message([Instruction(payer, b"", keys)], payer)
    signed = VersionedTransaction(message, signers)
    payload = paid()
    payload["payload"]["transaction"] = b64encode(bytes(signed)).decode()
    with pytest.raises(NoPayment, match="1,232 bytes"):
        read(payload)


def test_two_payments_at_once_are_refused() -> None:
    with pytest.raises(NoPayment):
        sent([(b"payment-signature", b"a"), (b"x-payment", b"b")])
    assert sent([(b"payment-signature", b"a"), (b"x-payment", b"a")]) == b"a"
    assert sent([(b"accept", b"*/*")]) is None
    assert set(payment.HEADERS) == {b"payment-signature", b"x-payment"}


def test_a_buyer_pays_no_more_than_allowed_and_on_solana_only() -> None:
    challenge = orjson.loads(TERMS.challenge(FEE_PAYER, "http://here/pay/x", "payment required"))
    with pytest.raises(NotPaid, match="more than --most allows"):
        buying.chosen(challenge, TERMS.asset, PRICE_RAW - 1)
    challenge["accepts"][0]["network"] = "eip155:8453"
    with pytest.raises(NotPaid, match="on Solana"):
        buying.chosen(challenge, TERMS.asset, PRICE_RAW)


def test_a_buyer_pays_in_usdc_only() -> None:
    challenge = orjson.loads(TERMS.challenge(FEE_PAYER, "http://here/pay/x", "payment required"))
    [ours] = challenge["accepts"]
    dear = {**ours, "asset": str(Keypair.from_seed(b"d" * 32).pubkey())}
    with pytest.raises(NotPaid, match=f"in USDC, by PAY_ASSET {TERMS.asset}"):
        buying.chosen({"accepts": [dear]}, TERMS.asset, PRICE_RAW)
    assert buying.chosen({"accepts": [dear, ours]}, TERMS.asset, PRICE_RAW) == ours


@given(st.lists(st.binary(max_size=9), min_size=2, max_size=5))
def test_no_part_of_a_request_can_be_moved_into_another(parts: list[bytes]) -> None:
    joined = [parts[0] + parts[1], b"", *parts[2:]]
    assert (bound(parts) == bound(joined)) == (parts == joined)


@given(st.binary(max_size=99), st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=9))))
def test_a_stored_answer_is_read_as_it_was_written(
    body: bytes, headers: list[tuple[bytes, bytes]]
) -> None:
    answer = Answer(200, tuple(headers), body)

    async def packed_and_back() -> Answer:
        return await Answer.unpack(await answer.pack())

    assert asyncio.run(packed_and_back()) == answer
