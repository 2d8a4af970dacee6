"""What a trader would look at: do curves complete, when, how high coins rise, how names repeat."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from infra.chain.market.traders.curves import Curves

NAMES_SHOWN: Final = 50  # rows of a list in which no name should come twice
_COMPLETION_QUANTILES: Final = (5, 25, 50, 75, 95)
_MULTIPLE_QUANTILES: Final = (10, 50, 90, 99, 100)


class Believable:
    """Watches launched coins from outside, each until it is dead or forgotten."""

    def __init__(self, curves: Curves) -> None:
        self._curves = curves
        self._highest: dict[bytes, float] = {}  # multiple of the first price, of living coins
        self._complete: dict[bytes, float] = {}  # minutes it took, of living coins
        self._dead: set[bytes] = set()  # known to be dead, not yet forgotten
        self._completion_min: list[float] = []
        self._multiples: list[float] = []
        self._completed = 0
        self._launched = 0
        self._repeated = 0
        self._shown: deque[tuple[str, bytes]] = deque(maxlen=NAMES_SHOWN)

    def look(self, time_ms: float) -> None:
        """Take in what changed since the last look."""
        lives = self._curves.lives
        for address in [known for known in self._highest if known not in lives]:
            self._forget(address)  # its creation was abandoned, or there were too many coins
        self._dead.intersection_update(lives)
        for address, life in lives.items():
            if address in self._dead:
                continue
            if address not in self._highest:
                self._highest[address] = 1.0
                self._launched += 1
                shown = (life.coin.name, address)
                self._repeated += any(
                    name == shown[0] and other != address for name, other in self._shown
                )
                self._shown.append(shown)
            if not life.curve.alive and address not in self._complete:
                self._complete[address] = (time_ms - life.born_ms) / 60_000
                self._completion_min.append(self._complete[address])
            market = self._curves.market_of(life)
            if market is not None:
                multiple = market.price_of(life.coin) / life.first_price
                self._highest[address] = max(self._highest[address], multiple)
            if life.over(time_ms):
                self._bury(address)
                self._dead.add(address)

    def _forget(self, address: bytes) -> None:
        self._launched -= 1
        del self._highest[address]
        self._complete.pop(address, None)

    def _bury(self, address: bytes) -> None:
        self._multiples.append(self._highest.pop(address))
        self._completed += self._complete.pop(address, None) is not None

    def figures(self) -> dict[str, Any]:
        """Return shares and quantiles; those of nothing are null."""
        died = len(self._multiples)
        return {
            "coins_launched": self._launched,
            "coins_died": died,
            "completed_pct": round(100 * self._completed / died, 2) if died else None,
            "completion_min": _quantiles(self._completion_min, _COMPLETION_QUANTILES),
            "greatest_multiple": _quantiles(self._multiples, _MULTIPLE_QUANTILES),
            "names_repeated": self._repeated,
        }


def _quantiles(values: list[float], percents: Sequence[int]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    last = len(ordered) - 1
    return {f"p{percent}": round(ordered[last * percent // 100], 2) for percent in percents}
