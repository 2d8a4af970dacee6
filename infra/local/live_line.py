"""The one line a second of `soltape up`: where the stream is and how fast it runs."""

from __future__ import annotations

import asyncio
import http.client
import time
from dataclasses import dataclass
from typing import Final
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

_TIMEOUT_S: Final = 0.8
_STILL_S: Final = 3.0  # several slots long


@dataclass(frozen=True, slots=True)
class Reading:
    """What ingest said of itself at one moment."""

    at_s: float
    slot: int
    transactions: float
    swaps: float
    lag_ms: float


async def read(url: str) -> Reading | None:
    """Read ingest's /metrics; None while it does not answer."""
    text = await _text(url)
    if text is None:
        return None
    transactions = swaps = lag_ms = 0.0
    slot = 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            match sample.name:
                case "soltape_ingest_transactions_total" if sample.labels["novelty"] == "new":
                    transactions = sample.value
                case "soltape_ingest_events_total" if sample.labels["kind"] == "swap":
                    swaps = sample.value
                case "soltape_ingest_tip_slot":
                    slot = int(sample.value)
                case "soltape_ingest_lag_ms":
                    lag_ms = sample.value
    return Reading(time.monotonic(), slot, transactions, swaps, lag_ms)


async def read_stores_lag(url: str) -> int | None:
    """Read from the agents' /metrics how many slots the stores are behind; None if not known."""
    text = await _text(url)
    if text is None:
        return None
    lags = [
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "soltape_agents_lag_slots"
    ]
    return int(max(lags)) if lags else None


async def has_chain_ended(url: str) -> bool:
    """Read from a local chain's /metrics whether its recording has played all it has."""
    text = await _text(url)
    return text is not None and "\nsoltape_chain_source_ended 1.0" in text


async def _text(url: str) -> str | None:
    try:
        return await asyncio.to_thread(_get, url)
    except (URLError, OSError, http.client.HTTPException):
        return None


def _get(url: str) -> str:
    with urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - our own, on loopback
        text: str = answer.read().decode()
        return text


def describe(
    before: Reading | None,
    now: Reading | None,
    still_s: float = 0.0,
    stores_lag_slots: int | None = None,
    *,
    has_ended: bool = False,
) -> str:
    """Return the line; rates are those between the two readings.

    `still_s` is how long the slot has been the same: then lag is that of long ago. `has_ended`
    means that no transaction will follow.
    """
    if now is None:
        return "waiting for ingest"
    if now.slot == 0:
        return "waiting for the first slot"
    if has_ended and before is not None and before.transactions == now.transactions:
        return f"slot {now.slot:,} | the recording has ended"
    if still_s >= _STILL_S:
        return f"slot {now.slot:,} | no new slot for {still_s:.0f} s"
    if before is None or now.transactions < before.transactions:  # ingest has just started
        before = now
    seconds = max(now.at_s - before.at_s, 0.001)
    return (
        f"slot {now.slot:,}"
        f" | {(now.transactions - before.transactions) / seconds:,.0f} tx/s"
        f" | {(now.swaps - before.swaps) / seconds:,.0f} swaps/s"
        f" | lag {now.lag_ms:,.0f} ms"
        + ("" if stores_lag_slots is None else f" | stores {_slots(stores_lag_slots)} behind")
    )


def _slots(count: int) -> str:
    return f"{count:,} slot" if count == 1 else f"{count:,} slots"
