"""Events as the messages that the pipeline writes."""

from typing import Any

from schemas import codec
from schemas.events import Event
from schemas.proto.tape_pb2 import SlotBatch


def to_proto(event: Event) -> Any:
    """Return the message of an event, as a batch holds it."""
    batch = SlotBatch()
    codec.add_event(batch.events, event)
    made = batch.events[0]
    return getattr(made, made.WhichOneof("event"))
