"""The connections that the settings ask for, and the kinds of accounts over them."""

from __future__ import annotations

from functools import partial

from infra.settings import Settings
from pipeline.ingest.accounts.subscription import Subscription, wanted_kinds
from pipeline.ingest.stream import Stream
from schemas.protocols.contract import Kind
from schemas.protocols.registry import KINDS


def kinds_of(settings: Settings) -> tuple[Kind, ...]:
    """Return the kinds of accounts of ACCOUNT_GROUPS."""
    every = (kind for of_program in KINDS.values() for kind in of_program)
    return wanted_kinds(every, settings.account_groups.split(","))


def subscription_of(settings: Settings) -> Subscription:
    """Return what is asked for over how many connections."""
    return Subscription(kinds_of(settings), settings.account_filters, settings.account_streams)


def stream_of(settings: Settings, subscription: Subscription, number: int) -> Stream:
    """Return the stream of one connection, which has not started."""
    return Stream(settings, partial(subscription.request, number), subscription.explain)


def streams_of(settings: Settings, subscription: Subscription) -> list[Stream]:
    """Return the streams of all connections."""
    return [stream_of(settings, subscription, n) for n in range(subscription.streams)]
