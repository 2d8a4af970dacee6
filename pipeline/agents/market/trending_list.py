"""The trending list of one partition: the best `LISTED` of its launchpad tokens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipeline.domain.trending import LISTED
from schemas.channels import LiveEvent
from schemas.redis_keys import TRENDING, TRENDING_RECORDS


class TrendingList:
    """Scores, records and frames; what changed since it was last taken."""

    def __init__(self, tag: str) -> None:
        self.scores: dict[str, int] = {}
        self.frames: dict[str, LiveEvent] = {}  # of records that changed, the latest of each
        self.left: set[str] = set()  # the list, and have no frame that says so yet
        self._key = TRENDING.make(tag=tag)
        self._records_key = TRENDING_RECORDS.make(tag=tag)
        self._changed: dict[str, int | None] = {}  # None: left the list
        self._records: dict[str, bytes] = {}
        self._changed_records: set[str] = set()
        self._least: tuple[int, str] | None = None  # None: to be found again

    def restore(self, scores: Iterable[tuple[str, int]]) -> None:
        """Take the list as the store has it."""
        self.scores = dict(scores)

    def rank(self, mint: str, score: int) -> bool:
        """Give a mint its score; return whether it is on the list with it."""
        if mint in self.scores:
            if score:
                self._set(mint, score)
            else:
                self._remove(mint)
            return bool(score)
        if not score:
            return False
        if len(self.scores) >= LISTED:
            least = self._least or min((score, listed) for listed, score in self.scores.items())
            self._least = least
            if least[0] >= score:
                return False
            self._remove(least[1])
        self._set(mint, score)
        return True

    def drop(self, mint: str) -> None:
        """Take a mint off the list where nothing can be said of it any more."""
        if mint in self.scores:
            self._remove(mint)
            self.left.discard(mint)

    def record(self, mint: str, record: bytes) -> bool:
        """Note the record of a mint of the list; return whether it changed."""
        if self._records.get(mint) == record:
            return False
        self._records[mint] = record
        self._changed_records.add(mint)
        return True

    def commands(self) -> list[tuple[Any, ...]]:
        """Return what writes the changes, and count them as taken."""
        scored: list[Any] = []
        gone: list[str] = []
        for mint, score in self._changed.items():
            if score is None:
                gone.append(mint)
            else:
                scored += (score, mint)
        written: list[tuple[Any, ...]] = []
        if scored:
            written.append(("ZADD", self._key, *scored))
        if gone:
            written += [("ZREM", self._key, *gone), ("HDEL", self._records_key, *gone)]
        records: list[Any] = []
        for mint in sorted(self._changed_records):
            records += (mint, self._records[mint])
        if records:
            written.append(("HSET", self._records_key, *records))
        self._changed.clear()
        self._changed_records.clear()
        return written

    def take_frames(self) -> dict[str, LiveEvent]:
        """Return the frames of the changes, and count them as taken."""
        frames, self.frames = self.frames, {}
        return frames

    def _set(self, mint: str, score: int) -> None:
        self.left.discard(mint)
        if self.scores.get(mint) != score:
            self.scores[mint] = score
            self._changed[mint] = score
            if self._least is not None and (mint == self._least[1] or (score, mint) < self._least):
                self._least = None

    def _remove(self, mint: str) -> None:
        del self.scores[mint]
        self._least = None
        self._changed[mint] = None
        self._records.pop(mint, None)
        self._changed_records.discard(mint)
        self.frames.pop(mint, None)
        self.left.add(mint)
