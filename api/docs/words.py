"""What the document says of the numbers that stand beside raw integers."""

from __future__ import annotations

from typing import Final

IN_SOL: Final = "the same in SOL"
IN_USD: Final = "the same in dollars"
IN_MICROS: Final = "the same in millionths of a dollar"
IN_MICROS_THEN: Final = f"{IN_MICROS}, each trade valued at its own time"
OF_KNOWN_VALUE: Final = "trades of unknown value are left out"
IN_WHOLE: Final = "the same in whole tokens; null while the decimals are not known"
