from __future__ import annotations

from pipeline.decoding.hops import ROUTER_PROGRAMS
from pipeline.decoding.registry import VENUES
from pipeline.ingest.subscription import LABEL, SUBSCRIBED, ping_request, subscribe_request
from schemas.proto.geyser_pb2 import PROCESSED, SubscribeRequest
from schemas.solana.addresses import text


def test_every_venue_and_router_is_subscribed_to() -> None:
    asked = set(subscribe_request().transactions[LABEL].account_include)
    for venue in VENUES:
        assert asked.issuperset(venue.programs), venue.dex
    assert asked.issuperset(map(text, ROUTER_PROGRAMS))
    assert len(asked) == len(SUBSCRIBED)


def test_on_the_wire() -> None:
    request = SubscribeRequest.FromString(subscribe_request(77).SerializeToString())
    assert request.from_slot == 77
    assert request.commitment == PROCESSED
    filters = request.transactions[LABEL]
    # Unset would mean "either": the fields must be there and false.
    assert filters.HasField("vote")
    assert filters.HasField("failed")
    assert not filters.vote
    assert not filters.failed
    assert request.slots[LABEL].interslot_updates
    assert not request.slots[LABEL].filter_by_commitment
    assert LABEL in request.blocks_meta


def test_live_and_ping() -> None:
    assert not subscribe_request().HasField("from_slot")
    ping = ping_request()
    assert ping.HasField("ping")
    assert not ping.transactions
