"""Events survive the way through Protobuf and through JSON, and JSON is what readers expect."""

import dataclasses

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import codec, topics
from schemas.events import (
    Commitment,
    Creation,
    Event,
    FundingPayment,
    Migration,
    PerpChange,
    PerpGap,
    Side,
    Swap,
)
from schemas.proto import tape_pb2
from schemas.solana import base58
from tests.support.exploring import SLOW, examples
from tests.support.messages import to_proto

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
U128 = st.integers(0, 2**128 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)


def events(event: type[Event]) -> st.SearchStrategy[Event]:
    """Any values of an event's fields that the chain could hold."""

    def strategy(field: dataclasses.Field) -> st.SearchStrategy:
        wanted = str(field.type)
        if wanted == "Side":
            return st.sampled_from(Side)
        if wanted == "Commitment":
            return st.sampled_from(Commitment)
        if wanted == "str":
            return TEXT
        if field.name in ("liquidity", "sqrt_price_x64"):
            return st.none() | U128
        if field.name.endswith("decimals"):
            values = st.integers(0, 255)
        elif field.name in ("tx_index", "event_index"):
            values = U32
        elif field.name == "block_time_ms":
            values = st.integers(-(2**63), 2**63 - 1)
        else:
            values = U64
        return st.none() | values if wanted == "int | None" else values

    return st.builds(event, **{f.name: strategy(f) for f in dataclasses.fields(event)})


KINDS = {"swap": Swap, "creation": Creation, "migration": Migration}
READ = {
    "swap": codec.swap_from_proto,
    "creation": codec.creation_from_proto,
    "migration": codec.migration_from_proto,
}


def event_of(envelope: tape_pb2.TapeEvent) -> Event:
    """The event that an envelope carries."""
    kind = envelope.WhichOneof("event")
    return READ[kind](getattr(envelope, kind))


def enveloped(event: Event) -> tape_pb2.TapeEvent:
    batch = tape_pb2.LiveBatch()
    codec.add_event(batch.events, event)
    return batch.events[0]


def event_from_json(values: dict) -> Event:
    """The event in JSON, by the types of its fields."""

    def read(field: dataclasses.Field) -> object:
        value, wanted = values[field.name], str(field.type)
        if value is None or wanted == "str":
            return value
        if wanted in ("Side", "Commitment"):
            return {"Side": Side, "Commitment": Commitment}[wanted][value.upper()]
        return int(value)

    event = KINDS[values["kind"]]
    return event(**{field.name: read(field) for field in dataclasses.fields(event)})


ANY_EVENT = events(Swap) | events(Creation) | events(Migration)


@given(events(Swap))
def test_swap_round_trip_through_bytes(swap: Swap) -> None:
    message = tape_pb2.Swap.FromString(to_proto(swap).SerializeToString())
    assert codec.swap_from_proto(message) == swap
    assert message.price == swap.price


@given(events(Creation))
def test_creation_round_trip_through_bytes(creation: Creation) -> None:
    message = tape_pb2.Creation.FromString(to_proto(creation).SerializeToString())
    assert codec.creation_from_proto(message) == creation


@given(events(Migration))
def test_migration_round_trip_through_bytes(migration: Migration) -> None:
    message = tape_pb2.Migration.FromString(to_proto(migration).SerializeToString())
    assert codec.migration_from_proto(message) == migration


@given(st.lists(ANY_EVENT, max_size=4))
@examples(fuzz_factor=SLOW)
def test_batches_keep_their_events_in_order(given_events: list[Event]) -> None:
    batch = tape_pb2.SlotBatch(slot=7)
    for event in given_events:
        codec.add_event(batch.events, event)
    read = tape_pb2.SlotBatch.FromString(batch.SerializeToString())
    assert [event_of(envelope) for envelope in read.events] == given_events


@given(ANY_EVENT)
def test_json_round_trip(event: Event) -> None:
    # orjson itself takes no integer beyond 64 bits: what passes it fits every reader.
    values = orjson.loads(orjson.dumps(codec.event_to_json(event)))
    assert event_from_json(values) == event


@given(ANY_EVENT)
def test_json_of_an_event_and_of_its_message_agree(event: Event) -> None:
    from_event = codec.event_to_json(event)
    from_message = codec.message_to_json(enveloped(event))
    valuation = {"price_sol", "price_usd", "sol_value", "usd_value"}
    assert {k: v for k, v in from_message.items() if k not in valuation} == from_event
    assert [k for k in from_message if k not in valuation] == list(from_event)


SWAP = Swap(
    signature="5sig",
    slot=300_000_000,
    tx_index=4,
    event_index=2,
    block_time_ms=1_700_000_000_123,
    dex="raydium-clmm",
    program_id="CAMMprogram",
    pool="Pool",
    wallet="Wallet",
    fee_payer="Payer",
    mint="Mint",
    quote_mint="So111",
    side=Side.SELL,
    amount_raw=2_000_000,
    decimals=6,
    quote_amount_raw=500_000_000,
    quote_decimals=9,
    wallet_amount_raw=2_000_000,
    wallet_quote_amount_raw=499_000_000,
    pool_fee_raw=2**63,
    pool_fee_mint="Mint",
    fee_lamports=5000,
    priority_fee_lamports=0,
    tip_lamports=10_000,
    router="jupiter",
    platform="",
    reserve_raw=None,
    quote_reserve_raw=None,
    liquidity=2**100,
    sqrt_price_x64=2**64,
    commitment=Commitment.CONFIRMED,
)


def test_swap_as_json() -> None:
    values = codec.event_to_json(SWAP)
    assert next(iter(values)) == "kind"
    assert values["kind"] == "swap"
    assert values["side"] == "sell"
    assert values["commitment"] == "confirmed"
    assert values["amount_raw"] == "2000000"
    assert values["pool_fee_raw"] == str(2**63)
    assert values["liquidity"] == str(2**100)
    assert values["fee_lamports"] == "5000"
    assert values["usd_value_micros"] is None
    assert values["slot"] == 300_000_000
    assert values["reserve_raw"] is None
    assert values["price"] == 0.25
    assert values["keeper"] == ""
    assert codec.event_to_json(dataclasses.replace(SWAP, keeper="Keeper"))["keeper"] == "Keeper"


def test_published_swap_shows_its_values() -> None:
    message = to_proto(SWAP)
    message.price_sol = 0.25
    message.usd_value = 75.5
    message.sol_value_lamports = message.usd_value_micros = 2**63
    values = codec.message_to_json(message)
    assert values["price_sol"] == 0.25
    assert values["usd_value"] == 75.5
    assert values["sol_value_lamports"] == values["usd_value_micros"] == str(2**63)
    assert values["price_usd"] is None


def test_internal_batch_as_json() -> None:
    batch = tape_pb2.SlotBatch(
        slot=9,
        parent=8,
        sol_usd="151.25",
        complete=True,
        outcomes=tape_pb2.Outcomes(decoded=1, unknown=2, malformed=3),
    )
    codec.add_event(batch.events, SWAP)
    batch.events.add(
        slot_gap=tape_pb2.SlotGap(first_slot=1, last_slot=2, reason="lost", wallets=["A", "B"])
    )
    batch.balances.add(account=bytes(32), amount_raw=2**60)
    batch.movements.add(sent_raw=7)
    batch.quotes.add(mint="Mint", lamports=2**60, amount_raw=1)
    values = codec.message_to_json(batch)
    assert values["balances"][0]["account"] == "1" * 32
    assert values["balances"][0]["amount_raw"] == str(2**60)
    assert values["movements"][0]["sent_raw"] == "7"
    assert values["quotes"][0]["lamports"] == str(2**60)
    assert values["kind"] == "slot_batch"
    assert values["sol_usd"] == 151.25
    assert values["outcomes"] == {"decoded": 1, "unknown": 2, "malformed": 3}
    assert [event["kind"] for event in values["events"]] == ["swap", "slot_gap"]
    assert values["events"][1]["wallets"] == ["A", "B"]
    assert values["events"][0]["amount_raw"] == "2000000"


FUNDING = FundingPayment(
    *("Signature", 9, 8, 7, 6, -5, "drift", "Program", "Wallet", "Account", 65_535),
    *(-(2**63), 2**63 - 1, -1, 2**127 - 1, -(2**127)),
)
CHANGE = PerpChange(
    *("Signature", 9, 8, 7, -5, "jupiter-perps", "Program", "Wallet", "Position", "Pool"),
    *("Custody", "Collateral", "Mint", True, "decrease", False, 2**64 - 1, 0, None, 1),
    *(-(2**63), 2, 3, None, 0, None, 2**64 - 1, None, 4),
)
GAP = PerpGap("Signature", 9, 8, 7, -5, "drift", "log truncated", "")


def test_accounts_as_json() -> None:
    address, program, wallet = (bytes([number] * 32) for number in (1, 2, 3))
    batch = tape_pb2.SlotBatch(slot=1)
    batch.accounts.add(address=address, program=program, data=b"frame", found_by=[wallet])
    batch.covered.add(kind=tape_pb2.Covered.HOLDERS, address=address, accounts=[wallet])
    values = orjson.loads(orjson.dumps(codec.message_to_json(batch)))
    [version], [covered] = values["accounts"], values["covered"]
    assert version["address"] == covered["address"] == base58.encode(address)
    assert version["program"] == base58.encode(program)
    assert version["found_by"] == covered["accounts"] == [base58.encode(wallet)]
    assert version["data"] == "ZnJhbWU="


def test_perp_events_keep_their_values_and_what_is_not_known() -> None:
    batch = tape_pb2.SlotBatch(slot=9)
    for event in (FUNDING, CHANGE, GAP):
        codec.add_perp_event(batch, event)
    batch.ParseFromString(batch.SerializeToString())
    (funding,), (change,), (gap,) = batch.funding_payments, batch.perp_changes, batch.perp_gaps
    for event, message in ((FUNDING, funding), (CHANGE, change), (GAP, gap)):
        for name, value in dataclasses.asdict(event).items():
            got = getattr(message, name)
            if value is None:
                assert not message.HasField(name), name
            elif name.startswith("cumulative"):
                assert got == str(value)
            else:
                assert got == value, name
    values = codec.message_to_json(batch)
    assert values["funding_payments"][0]["payment_raw"] == str(-(2**63))
    assert values["perp_changes"][0]["pnl_usd_micros"] == str(-(2**63))
    assert values["perp_changes"][0]["collateral_delta_usd_micros"] is None
    assert values["perp_gaps"][0]["reason"] == "log truncated"


@pytest.mark.parametrize("topic", topics.ALL, ids=lambda topic: topic.name)
def test_every_topic_has_a_message_that_prints(topic: topics.Topic) -> None:
    values = codec.message_to_json(codec.parse(topic, b""))
    assert orjson.loads(orjson.dumps(values))["kind"]


def test_bytes_that_are_no_message_name_the_topic() -> None:
    with pytest.raises(codec.CodecError, match="solana-dex-swaps: 3 bytes are no Swap"):
        codec.parse(topics.SWAPS, b"\xff\xff\xff")
    with pytest.raises(codec.CodecError, match="without a value"):
        codec.parse(topics.SWAPS, None)


def test_messages_that_cannot_be_name_the_field() -> None:
    sideless = to_proto(SWAP)
    sideless.side = 0
    with pytest.raises(codec.CodecError, match="side"):
        codec.swap_from_proto(sideless)
    illiquid = to_proto(SWAP)
    illiquid.liquidity = "much"
    with pytest.raises(codec.CodecError, match="liquidity"):
        codec.swap_from_proto(illiquid)
    unknown = tape_pb2.Creation(commitment=9)
    with pytest.raises(codec.CodecError, match="commitment 9"):
        codec.creation_from_proto(unknown)
