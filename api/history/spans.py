"""A range of time that is read by the page, newest first.

A page ends at a place: block time, slot, transaction, event; the next one begins there. What is not
settled is not shown: else an event could come in above a place that a caller has passed already.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.http.cursors import Page, Place, invalid_cursor, place
from api.http.windows import MAX_MS, window
from api.stores.settled import Settled


@dataclass(frozen=True, slots=True)
class Asked:
    """Which page a caller wants."""

    limit: int
    cursor: str | None
    from_ms: int | None
    to_ms: int | None


@dataclass(frozen=True, slots=True)
class Span:
    """A range of time, and the place in it before which a page begins."""

    from_ms: int
    to_ms: int
    before: Place
    of: str  # what its list is called


def span(
    asked: Asked, now: Settled, default_ms: int, longest_ms: int, of: str, most_index: int
) -> Span:
    """Return the range of a page; raises Problem. No event has a greater `index` than the most."""
    if asked.cursor is not None:
        before = place(asked.cursor, of)
        from_ms, to_ms = before.since_ms, before.until_ms
        if (
            not from_ms <= before.time_ms < to_ms <= MAX_MS
            or to_ms - from_ms > longest_ms
            or before.index > most_index
        ):
            raise invalid_cursor()
        return Span(from_ms, to_ms, before, of)
    asked_for = window(asked.from_ms, asked.to_ms, now.time_ms, default_ms, longest_ms)
    from_ms, to_ms = asked_for.from_ms, asked_for.to_ms
    # Of the block's own second there may be younger slots that are not settled everywhere yet.
    end = (now.time_ms, now.slot + 1) if to_ms > now.time_ms else (to_ms, 0)
    return Span(from_ms, to_ms, Place(*end, 0, 0, from_ms, to_ms), of)


def page_after(within: Span, last: tuple[int, int, int, int], *, has_more: bool) -> Page:
    """Return what a page says of the next one, which begins after the place of its last row."""
    if not has_more:
        return {"next_cursor": None, "has_more": False}
    cursor = Place(*last, within.from_ms, within.to_ms).cursor(within.of)
    return {"next_cursor": cursor, "has_more": True}
