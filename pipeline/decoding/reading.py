"""One transaction in, its events and outcomes out. Nothing raises: bad bytes are an outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter

from pipeline.decoding.assemble import assemble
from pipeline.decoding.balances import changes
from pipeline.decoding.contract import UNREADABLE, Fact, Filled, Instruction, Leg, Unread, Venue
from pipeline.decoding.hops import ROUTER_PROGRAMS, hop, unlisted
from pipeline.decoding.ownership import fill, net_of, pass_on
from pipeline.decoding.perps import perp_events
from pipeline.decoding.registry import BY_PROGRAM, PROGRAMS, UNLISTED
from pipeline.solana.transaction import CPI_EVENT_TAG, Transaction
from schemas.events import Event, Movement, PerpEvent, Swap, TokenBalance
from schemas.proto.geyser_pb2 import SubscribeUpdateTransactionInfo
from schemas.solana.addresses import text


class Reason(IntEnum):
    """Why an instruction was not decoded."""

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
class Reading:
    """What one instruction of a venue says, and the events that follow from it."""

    position: int
    venue: Venue
    facts: tuple[Fact, ...]
    events: list[Event]


@dataclass(slots=True)
class Decoded:
    """What one transaction holds."""

    signature: str
    tx_index: int
    failed: bool = False
    events: list[Event] = field(default_factory=list)  # in execution order
    undecoded: list[Undecoded] = field(default_factory=list)
    decoded_by_dex: dict[str, int] = field(default_factory=dict)  # instructions that gave events
    balances: list[TokenBalance] = field(default_factory=list)  # that it changed
    movements: list[Movement] = field(default_factory=list)  # beside its swaps
    perps: list[PerpEvent] = field(default_factory=list)  # in execution order


def decode_update(info: SubscribeUpdateTransactionInfo, slot: int, block_time_ms: int) -> Decoded:
    """Decode one transaction. A failed one has no events: nothing in it happened."""
    try:
        tx = Transaction(info, slot, block_time_ms, PROGRAMS)
        result = Decoded(tx.signature, tx.index, tx.failed)
    except ValueError as error:
        result = Decoded("", info.index)
        detail = f"transaction: {error}"
        result.undecoded.append(
            Undecoded(Reason.MALFORMED, "", "", 0, detail, info.SerializeToString())
        )
        return result
    if not result.failed:
        legs, fills = [], []
        for reading in read(tx, result.undecoded):
            result.events += reading.events
            for fact in reading.facts:
                if isinstance(fact, Leg):
                    legs.append((reading.position, fact))
                elif isinstance(fact, Filled):
                    fills.append((reading.position, fact))
            venue = reading.venue
            if venue.has_perps:
                result.perps += perp_events(tx, reading.position, venue, reading.facts)
                if all(isinstance(fact, Unread) for fact in reading.facts):
                    continue
            result.decoded_by_dex[venue.dex] = result.decoded_by_dex.get(venue.dex, 0) + 1
        if len(result.events) > 1:  # a second hop may come after what it called
            result.events.sort(key=attrgetter("event_index"))
        try:
            if legs:
                for position, filled in fills:
                    fill(tx, position, filled, result.events)
                pass_on(tx, legs, result.events)
            result.balances, result.movements, too_large = changes(tx, legs, result.events)
        except UNREADABLE as error:
            detail = f"balances: {error}"
            result.undecoded.append(
                Undecoded(Reason.MALFORMED, "", "", 0, detail, info.SerializeToString())
            )
        else:
            for owner, mint in too_large:
                detail = f"movement of {mint} by {owner}: more than 64 bits"
                result.undecoded.append(Undecoded(Reason.MALFORMED, "", "", 0, detail, b""))
    return result


def read(tx: Transaction, undecoded: list[Undecoded]) -> Iterable[Reading]:
    """Read the instructions of all venues; `undecoded` collects the rest."""
    keys = {*tx.keys}
    if not ROUTER_PROGRAMS.isdisjoint(keys):
        yield from _read_hops(tx, undecoded)
    owners = {tx.keys.index(program): BY_PROGRAM[program] for program in PROGRAMS & keys}
    if not owners:
        return
    size = len(tx.keys)
    for position, program in enumerate(tx.programs):
        if (venue := owners.get(program)) is not None:
            reading = _read_instruction(tx, position, venue, undecoded)
            if reading is not None:
                yield reading
        elif program >= size:
            detail = f"program index {program} of {size} keys"
            undecoded.append(_undecoded(tx, position, "", Reason.MALFORMED, detail))


def _read_hops(tx: Transaction, undecoded: list[Undecoded]) -> Iterable[Reading]:
    try:
        hops = list(unlisted(tx))
    except UNREADABLE:
        return  # an instruction that cannot be: reported where its program is read
    readings: list[Reading] = []
    for position, end, router in reversed(hops):  # what a router within a hop called comes first
        within = [each for each in readings if position < each.position < end]
        try:
            leg = hop(tx, position, end, router)
            if leg is None:
                continue
            reading = Reading(position, UNLISTED, (leg,), assemble(tx, position, UNLISTED, (leg,)))
        except UNREADABLE as error:
            detail = f"a route's hop: {error}"
            undecoded.append(_undecoded(tx, position, UNLISTED.dex, Reason.MALFORMED, detail))
            continue
        if not within or _exchanged(within) != _exchanged([reading]):
            readings = [each for each in readings if not position < each.position < end]
            readings.append(reading)
    yield from reversed(readings)


def _exchanged(readings: Iterable[Reading]) -> dict[str, int]:
    """Return what hops gave and took together, by mint."""
    swaps = [event for each in readings for event in each.events if isinstance(event, Swap)]
    return {mint: raw for mint, raw in net_of(swaps).items() if raw}


def _read_instruction(
    tx: Transaction, position: int, venue: Venue, undecoded: list[Undecoded]
) -> Reading | None:
    data = tx.data[position]
    tag = data[: venue.tag_size]
    handler = venue.handlers.get(tag, venue.any_tag)
    if handler is None:
        if tag not in venue.ignored and data[:8] != CPI_EVENT_TAG:
            detail = f"instruction {tag.hex()}"
            undecoded.append(_undecoded(tx, position, venue.dex, Reason.UNKNOWN, detail))
        return None
    try:
        said = handler(Instruction(tx, position))
        if said is None:
            return None
        facts = tuple(said) if isinstance(said, Iterable) else (said,)
        events = assemble(tx, position, venue, facts)
    except UNREADABLE as error:
        detail = f"instruction {tag.hex()}: {error}"
        undecoded.append(_undecoded(tx, position, venue.dex, Reason.MALFORMED, detail))
        return None
    for fact in facts if venue.has_perps else ():
        if isinstance(fact, Unread) and fact.malformed:
            detail = f"instruction {tag.hex()}: {fact.malformed}"
            undecoded.append(_undecoded(tx, position, venue.dex, Reason.MALFORMED, detail))
    return Reading(position, venue, facts, events)


def _undecoded(tx: Transaction, position: int, dex: str, reason: Reason, detail: str) -> Undecoded:
    program = tx.programs[position]
    key = tx.keys[program] if program < len(tx.keys) else b""
    program_id = text(key) if len(key) == 32 else ""  # a mangled key has no text
    return Undecoded(reason, program_id, dex, position, detail, tx.data[position])
