"""Pauses between attempts at something that may be away for a while."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Pauses that double from `first_s` up to `most_s`, until `reset`.

    Jitter shortens a pause by up to a half, so that clients that lost a server together do not
    come back together.
    """

    first_s: float
    most_s: float
    jitter: bool = True
    _pause_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin with the first pause again."""
        self._pause_s = self.first_s

    def next_s(self) -> float:
        """Return how long to wait before the next attempt."""
        pause_s = self._pause_s
        self._pause_s = min(pause_s * 2, self.most_s)
        return pause_s * random.uniform(0.5, 1.0) if self.jitter else pause_s  # noqa: S311

    async def wait(self) -> None:
        """Wait before the next attempt."""
        await asyncio.sleep(self.next_s())
