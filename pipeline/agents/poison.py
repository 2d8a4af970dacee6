"""What becomes of a message that an agent cannot read."""

from __future__ import annotations

from typing import Final

from pipeline.sinks.kafka import Message
from schemas import topics
from schemas.proto.tape_pb2 import Undecoded

MAX_UNDECODED_BYTES: Final = 256 << 10


def undecoded(value: bytes | None, place: str, reason: str) -> Message:
    """Return the record that tape-undecoded keeps of a poison message."""
    record = Undecoded(
        reason=Undecoded.MALFORMED,
        detail=f"{place}: {reason}",
        data=(value or b"")[:MAX_UNDECODED_BYTES],
    )
    partition = topics.UNDECODED.partition(record.signature)
    return Message(topics.UNDECODED.name, partition, None, record.SerializeToString())
