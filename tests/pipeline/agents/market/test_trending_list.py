"""The trending list keeps the best, whatever order they come in."""

from __future__ import annotations

import random

import pytest

from pipeline.agents.market import trending_list
from pipeline.agents.market.trending_list import TrendingList


def test_it_holds_the_best_and_reports_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trending_list, "LISTED", 5)
    rng = random.Random(2)
    ranked = TrendingList("{m1}")
    stored: dict[str, int] = {}
    records: dict[str, bytes] = {}
    listed: set[str] = set()
    for step in range(3000):
        mint, score = f"m{rng.randrange(12)}", rng.choice((0, rng.randrange(1, 50)))
        before = dict(ranked.scores)
        on_it = ranked.rank(mint, score)
        assert on_it == (mint in ranked.scores)
        if on_it:
            assert ranked.scores[mint] == score
            ranked.record(mint, b"%d" % score)
        elif score:  # full, and the least of it has no less
            assert len(before) == 5
            assert min(before.values()) >= score
        assert len(ranked.scores) <= 5
        if step % 7 == 0:
            for command, key, *parts in ranked.commands():
                assert "{m1}" in key
                if command == "ZADD":
                    stored |= dict(zip(parts[1::2], parts[0::2], strict=True))
                elif command == "HSET":
                    records |= dict(zip(parts[0::2], parts[1::2], strict=True))
                else:
                    for gone in parts:
                        (stored if command == "ZREM" else records).pop(gone, None)
            assert stored == ranked.scores
            assert records == {mint: b"%d" % score for mint, score in stored.items()}
            assert ranked.left >= listed - stored.keys()
            assert not ranked.left & stored.keys()
            ranked.left.clear()
            listed = set(stored)
