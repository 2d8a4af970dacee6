"""The events of the tape in their three forms: dataclass, Protobuf and, to be read, JSON.

JSON has the field names of tape.proto and `kind` first. Raw amounts, money in lamports or
millionths of a dollar, and u128 values are strings there (they do not fit a double), other numbers
are numbers, what is not known is null. Addresses are base58, `data` is base64.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, Protocol

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message

from schemas.events import (
    Commitment,
    Creation,
    Event,
    FundingPayment,
    Migration,
    PerpChange,
    PerpEvent,
    Side,
    Swap,
)
from schemas.proto import tape_pb2
from schemas.solana import base58
from schemas.topics import Topic


class CodecError(ValueError):
    """Bytes that are no event; the text says which field is wrong and why."""


_COMMITMENTS: Final[dict[int, Commitment]] = {int(c): c for c in Commitment}
_SIDES: Final[dict[int, Side]] = {int(side): side for side in Side}


# Dataclass <-> Protobuf. Field by field rather than by reflection: this runs for every event.


def _swap_fields(swap: Swap) -> dict[str, Any]:
    liquidity = swap.liquidity
    sqrt_price_x64 = swap.sqrt_price_x64
    return {
        "signature": swap.signature,
        "slot": swap.slot,
        "tx_index": swap.tx_index,
        "event_index": swap.event_index,
        "block_time_ms": swap.block_time_ms,
        "dex": swap.dex,
        "program_id": swap.program_id,
        "pool": swap.pool,
        "wallet": swap.wallet,
        "fee_payer": swap.fee_payer,
        "mint": swap.mint,
        "quote_mint": swap.quote_mint,
        "side": swap.side,
        "amount_raw": swap.amount_raw,
        "decimals": swap.decimals,
        "quote_amount_raw": swap.quote_amount_raw,
        "quote_decimals": swap.quote_decimals,
        "wallet_amount_raw": swap.wallet_amount_raw,
        "wallet_quote_amount_raw": swap.wallet_quote_amount_raw,
        "price": swap.price,
        "pool_fee_raw": swap.pool_fee_raw,
        "pool_fee_mint": swap.pool_fee_mint,
        "fee_lamports": swap.fee_lamports,
        "priority_fee_lamports": swap.priority_fee_lamports,
        "tip_lamports": swap.tip_lamports,
        "router": swap.router,
        "platform": swap.platform,
        "commitment": swap.commitment,
        "reserve_raw": swap.reserve_raw,
        "quote_reserve_raw": swap.quote_reserve_raw,
        "liquidity": "" if liquidity is None else str(liquidity),
        "sqrt_price_x64": "" if sqrt_price_x64 is None else str(sqrt_price_x64),
        "sol_value_lamports": swap.sol_value_lamports,
        "usd_value_micros": swap.usd_value_micros,
        "virtual_reserve_raw": swap.virtual_reserve_raw,
        "virtual_quote_reserve_raw": swap.virtual_quote_reserve_raw,
        "for_sale_raw": swap.for_sale_raw,
        "migration_quote_raw": swap.migration_quote_raw,
        "keeper": swap.keeper,
    }


def _creation_fields(creation: Creation) -> dict[str, Any]:
    return {
        "signature": creation.signature,
        "slot": creation.slot,
        "tx_index": creation.tx_index,
        "event_index": creation.event_index,
        "block_time_ms": creation.block_time_ms,
        "mint": creation.mint,
        "name": creation.name,
        "symbol": creation.symbol,
        "uri": creation.uri,
        "creator": creation.creator,
        "platform": creation.platform,
        "dex": creation.dex,
        "pool": creation.pool,
        "quote_mint": creation.quote_mint,
        "decimals": creation.decimals,
        "supply_raw": creation.supply_raw,
        "token_program": creation.token_program,
        "commitment": creation.commitment,
    }


def _migration_fields(migration: Migration) -> dict[str, Any]:
    return {
        "signature": migration.signature,
        "slot": migration.slot,
        "tx_index": migration.tx_index,
        "event_index": migration.event_index,
        "block_time_ms": migration.block_time_ms,
        "mint": migration.mint,
        "platform": migration.platform,
        "from_dex": migration.from_dex,
        "from_pool": migration.from_pool,
        "dex": migration.dex,
        "pool": migration.pool,
        "quote_mint": migration.quote_mint,
        "amount_raw": migration.amount_raw,
        "quote_amount_raw": migration.quote_amount_raw,
        "commitment": migration.commitment,
    }


class TapeEvents(Protocol):
    """The `events` field of a LiveBatch or a SlotBatch."""

    def add(self, **kwargs: Any) -> tape_pb2.TapeEvent:
        """Append a TapeEvent made of the given fields."""


def add_event(events: TapeEvents, event: Event) -> None:
    """Append an event to a batch, without the copy that appending a message makes."""
    if isinstance(event, Swap):
        events.add(swap=_swap_fields(event))
    elif isinstance(event, Creation):
        events.add(creation=_creation_fields(event))
    else:
        events.add(migration=_migration_fields(event))


_FUNDING_TEXTS: Final = ("cumulative_funding_long", "cumulative_funding_short")


def add_perp_event(batch: tape_pb2.SlotBatch, event: PerpEvent) -> Message:
    """Append a perp event to those of its kind in a batch, and return it there."""
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    if isinstance(event, FundingPayment):
        return batch.funding_payments.add(
            **values | {name: str(values[name]) for name in _FUNDING_TEXTS}
        )
    if isinstance(event, PerpChange):
        return batch.perp_changes.add(**values)
    return batch.perp_gaps.add(**values)


def swap_from_proto(message: tape_pb2.Swap) -> Swap:
    """Return the swap of a message; raises CodecError where it says nothing that can be."""
    try:
        return Swap(
            message.signature,
            message.slot,
            message.tx_index,
            message.event_index,
            message.block_time_ms,
            message.dex,
            message.program_id,
            message.pool,
            message.wallet,
            message.fee_payer,
            message.mint,
            message.quote_mint,
            _SIDES[message.side],
            message.amount_raw,
            message.decimals,
            message.quote_amount_raw,
            message.quote_decimals,
            message.wallet_amount_raw,
            message.wallet_quote_amount_raw,
            message.pool_fee_raw if message.HasField("pool_fee_raw") else None,
            message.pool_fee_mint,
            message.fee_lamports,
            message.priority_fee_lamports,
            message.tip_lamports,
            message.router,
            message.platform,
            message.reserve_raw if message.HasField("reserve_raw") else None,
            message.quote_reserve_raw if message.HasField("quote_reserve_raw") else None,
            int(message.liquidity) if message.liquidity else None,
            int(message.sqrt_price_x64) if message.sqrt_price_x64 else None,
            _COMMITMENTS[message.commitment],
            message.sol_value_lamports if message.HasField("sol_value_lamports") else None,
            message.usd_value_micros if message.HasField("usd_value_micros") else None,
            message.virtual_reserve_raw if message.HasField("virtual_reserve_raw") else None,
            message.virtual_quote_reserve_raw
            if message.HasField("virtual_quote_reserve_raw")
            else None,
            message.for_sale_raw if message.HasField("for_sale_raw") else None,
            message.migration_quote_raw if message.HasField("migration_quote_raw") else None,
            message.keeper,
        )
    except KeyError as error:
        raise CodecError(
            f"Swap: side {message.side}, commitment {message.commitment}: {error} is not known"
        ) from None
    except ValueError as error:
        raise CodecError(f"Swap: liquidity or sqrt_price_x64: {error}") from None


def creation_from_proto(message: tape_pb2.Creation) -> Creation:
    """Return the creation of a message; raises CodecError."""
    return Creation(
        message.signature,
        message.slot,
        message.tx_index,
        message.event_index,
        message.block_time_ms,
        message.mint,
        message.name,
        message.symbol,
        message.uri,
        message.creator,
        message.platform,
        message.dex,
        message.pool,
        message.quote_mint,
        message.decimals if message.HasField("decimals") else None,
        message.supply_raw if message.HasField("supply_raw") else None,
        message.token_program,
        _commitment(message),
    )


def migration_from_proto(message: tape_pb2.Migration) -> Migration:
    """Return the migration of a message; raises CodecError."""
    return Migration(
        message.signature,
        message.slot,
        message.tx_index,
        message.event_index,
        message.block_time_ms,
        message.mint,
        message.platform,
        message.from_dex,
        message.from_pool,
        message.dex,
        message.pool,
        message.quote_mint,
        message.amount_raw if message.HasField("amount_raw") else None,
        message.quote_amount_raw if message.HasField("quote_amount_raw") else None,
        _commitment(message),
    )


def _commitment(message: tape_pb2.Creation | tape_pb2.Migration) -> Commitment:
    commitment = _COMMITMENTS.get(message.commitment)
    if commitment is None:
        raise CodecError(f"{message.DESCRIPTOR.name}: commitment {message.commitment} is not known")
    return commitment


# Bytes -> Protobuf.


def parse(topic: Topic, value: bytes | None) -> Message:
    """Return the message a record of a topic carries; raises CodecError naming both."""
    if value is None:
        raise CodecError(f"{topic.name}: a record without a value")
    message: Message = getattr(tape_pb2, topic.message)()
    try:
        message.ParseFromString(value)
    except DecodeError as error:
        raise CodecError(
            f"{topic.name}: {len(value)} bytes are no {topic.message}: {error}"
        ) from None
    return message


# Protobuf or dataclass -> JSON.

_Convert = Callable[[Any], Any]
_Fields = tuple[tuple[str, bool, _Convert | None], ...]  # name, may be unset, to JSON

_U128: Final = frozenset({"liquidity", "sqrt_price_x64"})
_EXACT: Final = ("_raw", "lamports", "_micros")  # how the names of amounts and money end
_KINDS: Final[dict[type[Event], str]] = {
    Swap: "swap",
    Creation: "creation",
    Migration: "migration",
}
_MESSAGE_KINDS: Final = {
    name: re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    for name in tape_pb2.DESCRIPTOR.message_types_by_name
}


def event_to_json(event: Event) -> dict[str, Any]:
    """Return an event as values for `orjson.dumps`, in the order of tape.proto."""
    values: dict[str, Any] = {"kind": _KINDS[type(event)]}
    for name, convert in _EVENT_FIELDS[type(event)]:
        value = getattr(event, name)
        values[name] = convert(value) if convert and value is not None else value
    return values


def perp_event_to_json(event: PerpEvent) -> dict[str, Any]:
    """Return a perp event as values for `orjson.dumps`, in the order of tape.proto."""
    return message_to_json(add_perp_event(tape_pb2.SlotBatch(), event))


def message_to_json(message: Message) -> dict[str, Any]:
    """Return a message of any of our topics as values for `orjson.dumps`; batches nest."""
    if isinstance(message, tape_pb2.TapeEvent):
        chosen = message.WhichOneof("event")
        return message_to_json(getattr(message, chosen)) if chosen else {"kind": None}
    return {"kind": _MESSAGE_KINDS[message.DESCRIPTOR.name], **_fields_to_json(message)}


def _fields_to_json(message: Message) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, optional, convert in _MESSAGE_FIELDS[message.DESCRIPTOR.name]:
        if optional and not message.HasField(name):
            values[name] = None
        else:
            value = getattr(message, name)
            values[name] = convert(value) if convert else value
    return values


def _enum_name(enum: EnumDescriptor) -> _Convert:
    names = {value.number: value.name.lower() for value in enum.values}
    return lambda number: names.get(number, number)


def _to_json(field: FieldDescriptor) -> _Convert | None:
    """Return how a field's value becomes JSON; None: as it is."""
    if field.is_repeated and field.type == FieldDescriptor.TYPE_BYTES:
        return lambda addresses: [base58.encode(address) for address in addresses]
    if field.is_repeated and field.message_type is None:
        return list
    if field.is_repeated:
        return lambda messages: [message_to_json(message) for message in messages]
    if field.message_type is not None:
        return _fields_to_json
    if field.enum_type is not None:
        return _enum_name(field.enum_type)
    if field.name in _U128:
        return lambda text: text or None
    if field.name == "sol_usd":
        return lambda text: float(text) if text else None
    if field.name.endswith(_EXACT):
        return str
    if field.type == FieldDescriptor.TYPE_BYTES:
        if field.name == "data":
            return lambda data: b64encode(data).decode()
        return base58.encode
    return None


def _event_to_json(name: str) -> _Convert | None:
    if name in ("side", "commitment"):
        return lambda value: value.name.lower()
    return str if name.endswith(_EXACT) or name in _U128 else None


_MESSAGE_FIELDS: Final[dict[str, _Fields]] = {
    name: tuple((field.name, field.has_presence, _to_json(field)) for field in message.fields)
    for name, message in tape_pb2.DESCRIPTOR.message_types_by_name.items()
}
_EVENT_FIELDS: Final = {
    event: tuple(
        (field.name, _event_to_json(field.name))
        for field in tape_pb2.DESCRIPTOR.message_types_by_name[event.__name__].fields
        if hasattr(event, field.name)
    )
    for event in _KINDS
}
