"""What traders believe a coin is worth: the paths that prices follow, with noise around them.

Nobody trades exactly at these values; they decide only whether the next trader rather buys or
sells. So prices stay in reach of them whatever single traders do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, log, sqrt
from random import Random
from typing import Final

from infra.chain.market.runtime.ledger import Mint
from infra.chain.market.venues.venue import Pool
from infra.chain.market.world.wallets import Wallet
from schemas.times import HOUR_MS

# A coin's greatest price is `p` times its first one with probability p ** -1.45: a curve, which
# is full at 14.7 times its first price, completes for 2 % of the coins.
PEAK_EXPONENT: Final = 1.45
GREATEST_PEAK: Final = 3_000.0
COMPLETION_MULTIPLE: Final = 14.7
RISE_MS: Final = 1_080_000  # median time in which a coin that just completes its curve rises
OVER_BELOW: Final = 0.03  # attention at which a coin is dead


class Drift:
    """The logarithm of a price that walks at random and is pulled back to where it began."""

    __slots__ = ("_pull", "_step", "value")

    def __init__(self, per_root_hour: float, back_h: float, tick_ms: float) -> None:
        tick_h = tick_ms / HOUR_MS
        self.value = 0.0
        self._step = per_root_hour * sqrt(tick_h)
        self._pull = min(tick_h / back_h, 1.0)

    def tick(self, random: Random) -> None:
        """Go on by one tick."""
        self.value += random.gauss(0, self._step) - self.value * self._pull


@dataclass(slots=True, eq=False)
class Life:
    """A launched coin from its first trade to its death: it rises, peaks and falls.

    Times are ms of the market. `log_*` are logarithms of multiples of the first price.
    """

    coin: Mint
    curve: Pool
    first_price: float  # quote a coin, raw
    born_ms: float
    rise_ms: float
    fall_ms: float
    log_peak: float
    log_end: float
    popularity: float
    bought_by: list[Wallet] = field(default_factory=list)  # some of them may have sold again

    @classmethod
    def drawn(
        cls, curve: Pool, born_ms: float, random: Random, *, tempo: float, popular: bool
    ) -> Life:
        """Draw a coin's fate; `popular` coins complete their curve, and soon."""
        chance = 1 - random.random()
        if popular:
            chance *= COMPLETION_MULTIPLE**-PEAK_EXPONENT / 2
            tempo *= 20
        log_peak = min(-log(chance) / PEAK_EXPONENT, log(GREATEST_PEAK))
        rise_ms = RISE_MS * random.lognormvariate(0, 1.0) / tempo
        rise_ms *= max(log_peak / log(COMPLETION_MULTIPLE), 0.05)
        return cls(
            coin=curve.sides[0],
            curve=curve,
            first_price=curve.mid(),
            born_ms=born_ms,
            rise_ms=rise_ms,
            fall_ms=rise_ms * random.uniform(0.3, 1.5),
            log_peak=log_peak,
            log_end=-random.uniform(0.2, 3.0),
            popularity=min(exp(0.9 * log_peak), 60.0) * random.lognormvariate(0, 0.4),
        )

    def log_worth(self, time_ms: float) -> float:
        """Return what the coin is believed to be worth."""
        age = time_ms - self.born_ms
        if age < self.rise_ms:
            share: float = (max(age, 0.0) / self.rise_ms) ** 0.8
            return self.log_peak * share
        fallen = 1 - exp((self.rise_ms - age) / self.fall_ms)
        return self.log_peak + (self.log_end - self.log_peak) * fallen

    def attention(self, time_ms: float) -> float:
        """Return the coin's share of all attention, from 1 while it rises to 0."""
        late = time_ms - self.born_ms - self.rise_ms
        return exp(-late / self.fall_ms) if late > 0 else 1.0

    def over(self, time_ms: float) -> bool:
        """Whether nobody looks at the coin any more."""
        return self.attention(time_ms) < OVER_BELOW
