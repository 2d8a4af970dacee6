"""Prometheus metrics of the local chain."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from prometheus_client import Counter, Gauge

from infra.chain.source import (
    SlotCompleted,
    SlotConfirmed,
    SlotEvent,
    SlotFinalized,
    SlotTransactions,
)

_STREAMS: Final = Gauge("soltape_chain_streams", "Open subscriptions")
_STREAMS_ENDED: Final = Counter(
    "soltape_chain_streams_ended_total", "Subscriptions the server ended", ["status"]
)
_SENT: Final = Counter("soltape_chain_updates_sent_total", "Updates written to subscribers")
_TRANSACTIONS: Final = Counter("soltape_chain_transactions_total", "Transactions of the source")
_SLOT: Final = Gauge("soltape_chain_slot", "Newest slot", ["commitment"])
_FAULTS: Final = Counter("soltape_chain_faults_total", "Injected delivery faults", ["kind"])
_REPLAY_SLOTS: Final = Gauge("soltape_chain_replay_slots", "Slots behind from_slot")
_HISTORY_BYTES: Final = Gauge("soltape_chain_history_bytes", "Transactions kept for RPC")
_ENDED: Final = Gauge("soltape_chain_source_ended", "1 once a recording has no more transactions")
_RPC: Final = Counter("soltape_chain_rpc_requests_total", "RPC calls", ["method", "outcome"])


@contextmanager
def open_stream() -> Iterator[None]:
    """Count a subscription while it lasts."""
    _STREAMS.inc()
    try:
        yield
    finally:
        _STREAMS.dec()


def stream_ended(status: str) -> None:
    """Count a subscription that the server ended."""
    _STREAMS_ENDED.labels(status).inc()


def sent(updates: int) -> None:
    """Count updates written to a subscriber."""
    _SENT.inc(updates)


def published(event: SlotEvent) -> None:
    """Count what the source reported."""
    match event:
        case SlotTransactions():
            _TRANSACTIONS.inc(len(event.transactions))
        case SlotCompleted(header):
            _SLOT.labels("processed").set(header.slot)
        case SlotConfirmed(slot):
            _SLOT.labels("confirmed").set(slot)
        case SlotFinalized(slot):
            _SLOT.labels("finalized").set(slot)


def faults(counts: dict[str, int]) -> None:
    """Count injected faults."""
    for kind, count in counts.items():
        if count:
            _FAULTS.labels(kind).inc(count)


def kept(replay_slots: int, history_bytes: int) -> None:
    """Report how much is kept."""
    _REPLAY_SLOTS.set(replay_slots)
    _HISTORY_BYTES.set(history_bytes)


def source_ended() -> None:
    """Note that the source has no more transactions."""
    _ENDED.set(1)


def rpc_call(method: str, outcome: str) -> None:
    """Count an RPC call; the method is one that is served, or `unknown`."""
    _RPC.labels(method, outcome).inc()
