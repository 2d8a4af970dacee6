"""Several readings as one: in each round they ask for their accounts together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schemas.protocols.contract import Account, Position, Reading


def in_step(*readings: Reading) -> Reading:
    """Return the positions of all readings, in their order; raises what one of them raises."""
    found: dict[int, list[Position]] = {}
    wanted: dict[int, Sequence[bytes]] = {}
    for number, reading in enumerate(readings):
        _advance(number, reading, None, wanted, found)
    while wanted:
        waiting = dict(wanted)
        sent = yield tuple(dict.fromkeys(each for of in waiting.values() for each in of))
        for number, asked in waiting.items():
            own = {address: sent[address] for address in asked if address in sent}
            _advance(number, readings[number], own, wanted, found)
    return [position for number in range(len(readings)) for position in found[number]]


def _advance(
    number: int,
    reading: Reading,
    sent: Mapping[bytes, Account] | None,
    wanted: dict[int, Sequence[bytes]],
    found: dict[int, list[Position]],
) -> None:
    """Note what a reading wants next, or what it found."""
    try:
        wanted[number] = next(reading) if sent is None else reading.send(sent)
    except StopIteration as end:
        wanted.pop(number, None)
        found[number] = end.value
