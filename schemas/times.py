"""Lengths of time; a day is one of UTC, counted from the Unix epoch."""

from __future__ import annotations

from typing import Final

HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
MINUTE_MS: Final = 60 * 1000
HOUR_MS: Final = HOUR_S * 1000
DAY_MS: Final = DAY_S * 1000
