"""One transaction in, its events and outcomes out. Nothing raises: bad bytes are an outcome."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from pipeline.decoding.assemble import assemble
from pipeline.decoding.contract import UNREADABLE, Instruction, Venue
from pipeline.decoding.registry import BY_PROGRAM, PROGRAMS
from pipeline.solana.address import text
from pipeline.solana.transaction import CPI_EVENT_TAG, Transaction
from schemas.events import Event
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo


class Reason(IntEnum):
    """Why something was not decoded."""

    UNKNOWN = 0  # a venue's program, an instruction we have no name for
    MALFORMED = 1  # an instruction we know, with bytes that do not fit it


@dataclass(slots=True)
class Undecoded:
    """An instruction that gave no event though it should have."""

    reason: Reason
    program_id: str
    dex: str
    event_index: int
    detail: str
    data: bytes


@dataclass(slots=True)
class Decoded:
    """What one transaction holds."""

    signature: str
    tx_index: int
    failed: bool = False
    events: list[Event] = field(default_factory=list)
    undecoded: list[Undecoded] = field(default_factory=list)
    decoded: int = 0  # instructions that gave an event or are known to hold none

    @property
    def unknown(self) -> int:
        """How many instructions have no name."""
        return sum(item.reason is Reason.UNKNOWN for item in self.undecoded)

    @property
    def malformed(self) -> int:
        """How many instructions do not fit their layout."""
        return sum(item.reason is Reason.MALFORMED for item in self.undecoded)


def decode_update(info: SubscribeUpdateTransactionInfo, slot: int, block_time_ms: int) -> Decoded:
    """Decode one transaction. A failed one has no events: nothing in it happened."""
    try:
        tx = Transaction(info, slot, block_time_ms, PROGRAMS)
        result = Decoded(tx.signature, tx.index, tx.failed)
    except ValueError as error:
        detail = f"transaction: {error}"
        result = Decoded("", info.index)
        result.undecoded.append(Undecoded(Reason.MALFORMED, "", "", 0, detail, info.signature))
        return result
    if result.failed:
        return result
    owners = {
        index: venue
        for index, address in enumerate(tx.keys)
        if (venue := BY_PROGRAM.get(address)) is not None
    }
    if owners:
        for position, program in enumerate(tx.programs):
            venue = owners.get(program)
            if venue is not None:
                _decode_instruction(tx, position, venue, result)
            elif program >= len(tx.keys):
                detail = f"program index {program} of {len(tx.keys)} keys"
                _give_up(tx, position, "", Reason.MALFORMED, detail, result)
    return result


def _decode_instruction(tx: Transaction, position: int, venue: Venue, result: Decoded) -> None:
    data = tx.data[position]
    tag = data[: venue.tag_size]
    handler = venue.handlers.get(tag, venue.any_tag)
    if handler is None:
        if tag not in venue.ignored and data[:8] != CPI_EVENT_TAG:
            _give_up(tx, position, venue.dex, Reason.UNKNOWN, f"instruction {tag.hex()}", result)
        return
    try:
        facts = handler(Instruction(tx, position))
        events = [] if facts is None else assemble(tx, position, venue, facts)
    except UNREADABLE as error:
        detail = f"instruction {tag.hex()}: {error}"
        _give_up(tx, position, venue.dex, Reason.MALFORMED, detail, result)
        return
    result.events += events
    result.decoded += 1


def _give_up(
    tx: Transaction, position: int, dex: str, reason: Reason, detail: str, result: Decoded
) -> None:
    program = tx.programs[position]
    program_id = text(tx.keys[program]) if program < len(tx.keys) else ""
    data = tx.data[position]
    result.undecoded.append(Undecoded(reason, program_id, dex, position, detail, data))
