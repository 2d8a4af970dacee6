"""Notices when no slots come though Redis answers: the pipeline, or the chain, has stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final, NoReturn

QUIET_AFTER_S: Final = 10.0
"""A slot takes 0.4 s."""
LOOK_EVERY_S: Final = 1.0
QUIET: Final = "pipeline_quiet"
BACK: Final = "pipeline_back"
QUIET_TEXT: Final = (
    f"no slot has come for {QUIET_AFTER_S:g} s: the pipeline or the chain has stopped; "
    "this connection stays open and continues when slots do"
)
BACK_TEXT: Final = "slots come again"

Notice = Callable[[str, str], None]  # code, text


class PipelineWatch:
    """Hears of every slot, and gives notice when none comes, and when they do again.

    The time without Redis does not count, as nothing can come then.
    """

    def __init__(self, notice: Notice, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.is_quiet = False
        self._notice = notice
        self._clock_s = clock_s
        self._since_s = clock_s()

    def heard(self) -> None:
        """Take note that something came of a slot."""
        self._since_s = self._clock_s()
        if self.is_quiet:
            self.is_quiet = False
            self._notice(BACK, BACK_TEXT)

    def look(self, *, is_away: bool) -> None:
        """See how long nothing came; `is_away`: Redis does not answer."""
        if is_away:
            self._since_s = self._clock_s()
        elif not self.is_quiet and self._clock_s() - self._since_s >= QUIET_AFTER_S:
            self.is_quiet = True
            self._notice(QUIET, QUIET_TEXT)

    async def run(self, is_away: Callable[[], bool]) -> NoReturn:
        """Look once a second, until cancelled."""
        while True:
            self.look(is_away=is_away())
            await asyncio.sleep(LOOK_EVERY_S)
