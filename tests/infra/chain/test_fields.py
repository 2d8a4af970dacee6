"""Fields written by hand are those that protobuf writes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from infra.chain.fields import Keys, Leads, Numbers, varint
from schemas.proto.geyser_pb2 import SubscribeUpdateSlot
from schemas.proto.solana_storage_pb2 import InnerInstruction, Message, TransactionStatusMeta

numbers = st.integers(0, 2**64 - 1)


@given(numbers)
@example(127)
@example(128)
@example(2**14 - 1)
@example(2**14)
@example(2**21)
def test_varints_are_protobufs(number: int) -> None:
    message = SubscribeUpdateSlot(slot=number)
    assert message.SerializeToString() == (b"\x08" + varint(number) if number else b"")


@given(numbers)
def test_numbers_are_protobufs_and_zero_is_left_out(number: int) -> None:
    fields = Numbers(2)
    for _ in range(2):  # made, then remembered
        assert fields[number] == TransactionStatusMeta(fee=number).SerializeToString()


@given(st.integers(0, 70_000))
@example(127)
@example(128)
def test_leads_are_protobufs_and_nothing_is_left_out(size: int) -> None:
    fields, content = Leads(3), bytes(size)
    for _ in range(2):
        whole = InnerInstruction(data=content).SerializeToString()
        assert fields[size] + content == whole


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=5))
def test_keys_are_protobufs(keys: list[bytes]) -> None:
    assert Keys(2).joined(keys) == Message(account_keys=keys).SerializeToString()
    meta = TransactionStatusMeta(loaded_writable_addresses=keys)
    assert Keys(12).joined(keys) == meta.SerializeToString()
