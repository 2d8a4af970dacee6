"""The last seconds in memory: what is after a place, and when that is not all."""

from __future__ import annotations

from schemas import channels
from schemas.channels import LiveEvent
from stream_gateway.batches import Batch, Gap, Place
from stream_gateway.recent import Recent

STREAM = channels.SWAPS.stream


class Clock:
    now_s = 100.0

    def __call__(self):
        return self.now_s


def batch(ms, count=2, first=0, size=10, channel=channels.SWAPS):
    events = [LiveEvent(("d",), b"{" + b"x" * size + b"}") for _ in range(count)]
    return Batch(channel, f"{ms}-0", "e", events, first)


def test_what_comes_after_a_place_is_in_order():
    recent = Recent(clock_s=Clock())
    batches = [batch(ms) for ms in (5, 6, 7)]
    gap = Gap(channels.SWAPS, "epoch", Place(6, 0, 1), Place(7, 0, 0))
    for item in (*batches[:2], gap, batches[2]):
        recent.add(item)
    assert recent.after(STREAM, Place(5, 0, 1)) == [batches[1], gap, batches[2]]
    assert recent.after(STREAM, Place(6, 0, 0)) == [batches[1], gap, batches[2]]
    assert recent.after(STREAM, Place(6, 0, 1)) == [gap, batches[2]]
    assert recent.after(STREAM, Place(7, 0, 0)) == [batches[2]]
    assert recent.after(STREAM, Place(7, 0, 1)) == []


def test_pieces_of_an_entry_have_places_of_their_own():
    recent = Recent(clock_s=Clock())
    pieces = [batch(5, 3), batch(5, 3, first=3)]
    for piece in pieces:
        recent.add(piece)
    assert recent.after(STREAM, Place(5, 0, 1)) == pieces
    assert recent.after(STREAM, Place(5, 0, 2)) == pieces[1:]
    assert recent.after(STREAM, Place(5, 0, 5)) == []


def test_it_covers_what_comes_after_the_first_it_has():
    recent = Recent(clock_s=Clock())
    assert not recent.covers(STREAM, Place(5, 0, 0))
    recent.add(batch(5))
    recent.add(batch(6))
    assert not recent.covers(STREAM, Place(4, 9, 9))
    assert recent.covers(STREAM, Place(5, 0, 0))
    assert recent.covers(STREAM, Place(6, 0, 1))
    assert not recent.covers(channels.PRICES.stream, Place(6, 0, 1))


def test_it_goes_back_so_many_seconds_and_keeps_the_last_of_each_stream():
    clock = Clock()
    recent = Recent(seconds=10, clock_s=clock)
    recent.add(batch(1, channel=channels.CREATIONS))
    for second in range(30):
        clock.now_s = 100.0 + second
        recent.add(batch(100 + second))
    assert not recent.covers(STREAM, Place(118, 0, 1))
    assert recent.covers(STREAM, Place(119, 0, 0))
    assert recent.covers(channels.CREATIONS.stream, Place(1, 0, 1))
    clock.now_s = 1000.0
    recent.add(batch(2, channel=channels.CREATIONS))
    assert recent.covers(STREAM, Place(129, 0, 1))
    assert not recent.covers(STREAM, Place(128, 0, 1))


def test_it_is_bounded_in_bytes():
    recent = Recent(max_bytes=100_000, clock_s=Clock())
    for ms in range(1000):
        recent.add(batch(ms, size=1000))
        assert recent.size_bytes <= 100_000
    kept = recent.after(STREAM, Place(0, 0, 0))
    assert recent.size_bytes == sum(item.size_bytes for item in kept)
    assert len(kept) > 10
    recent.add(batch(1000, size=1_000_000))  # alone beyond the bound: it is all there is
    assert len(recent.after(STREAM, Place(0, 0, 0))) == 1


def test_a_stream_is_forgotten_whole():
    recent = Recent(clock_s=Clock())
    recent.add(batch(5))
    recent.add(batch(6, channel=channels.PRICES))
    recent.clear(STREAM)
    assert not recent.covers(STREAM, Place(5, 0, 1))
    assert recent.after(STREAM, Place(0, 0, 0)) == []
    assert recent.covers(channels.PRICES.stream, Place(6, 0, 0))
    recent.clear(channels.PRICES.stream)
    assert recent.size_bytes == 0
