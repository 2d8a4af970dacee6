"""The price of a token that is a share of a pool of SOL; pure, exact until it is a float."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from schemas.amounts import LAMPORTS, MICROS
from schemas.prices import LastPrice
from schemas.protocols.contract import PoolShare


@dataclass(frozen=True, slots=True)
class PoolPrice:
    """What one token is a share of, by its pool."""

    share: PoolShare
    pool: str
    slot: int  # of the pool's last change
    as_of_slot: int
    as_of_ms: int

    def per_token(self, decimals: int, sol_usd: float | None) -> LastPrice | None:
        """Return the price of a whole token, None for a pool without tokens."""
        lamports = self.share.worth(10**decimals)
        if lamports is None:
            return None
        sols = lamports / LAMPORTS
        dollars = None if sol_usd is None else float(sols * Fraction(sol_usd))
        return LastPrice(float(sols), dollars, self.as_of_ms, self.slot, self.pool)

    def worth(self, amount_raw: int, sol_usd: float | None) -> tuple[int | None, int | None]:
        """Return the lamports and the millionths of a dollar of an amount, rounded down."""
        lamports = self.share.worth(amount_raw)
        if lamports is None:
            return None, None
        micros = None if sol_usd is None else lamports * MICROS * Fraction(sol_usd) / LAMPORTS
        return int(lamports), None if micros is None else int(micros)
