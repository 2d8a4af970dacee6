"""The price of a token that is a share of a pool; pure, exact until it is a float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from schemas.amounts import LAMPORTS, MICROS
from schemas.prices import LastPrice
from schemas.protocols.contract import Asset, PoolShare
from schemas.solana.addresses import text

if TYPE_CHECKING:  # whose price may be one of these
    from api.tokens.reader import Token


@dataclass(frozen=True, slots=True)
class PoolPrice:
    """What one token is a share of, by its pool."""

    supply_raw: int  # of the token, as the pool counts it
    lamports: Fraction | None  # what all of the pool is worth; None: not known
    usd_micros: Fraction | None
    pool: str
    slot: int  # of the last change of what the price comes from
    time_ms: int  # of the oldest price that it comes from
    as_of_slot: int
    as_of_ms: int
    sides: tuple[Token, ...] = ()  # whose prices it comes from, of an LP token

    def per_token(self, decimals: int) -> LastPrice:
        """Return the price of a whole token."""
        tokens = Fraction(self.supply_raw, 10**decimals)
        sols = 0.0 if self.lamports is None else float(self.lamports / LAMPORTS / tokens)
        dollars = None if self.usd_micros is None else float(self.usd_micros / MICROS / tokens)
        return LastPrice(sols, dollars, self.time_ms, self.slot, self.pool)

    def worth(self, amount_raw: int) -> tuple[int | None, int | None]:
        """Return the lamports and the millionths of a dollar of an amount, rounded down."""
        return self._part(self.lamports, amount_raw), self._part(self.usd_micros, amount_raw)

    def _part(self, of: Fraction | None, amount_raw: int) -> int | None:
        return None if of is None else int(of * amount_raw / self.supply_raw)


def worth_of_share(
    share: PoolShare, sol_usd: float | None
) -> tuple[Fraction, Fraction | None] | None:
    """Return what a pool of SOL is worth in lamports and millionths of a dollar; None: nothing."""
    if not share.supply_raw or not share.lamports:
        return None
    lamports = Fraction(share.lamports)
    return lamports, None if sol_usd is None else lamports * MICROS * Fraction(sol_usd) / LAMPORTS


def worth_of_reserves(
    reserves: Sequence[Asset], prices: Mapping[bytes, LastPrice]
) -> tuple[Fraction | None, Fraction | None] | str:
    """Return what reserves are worth in lamports and millionths of a dollar, or why not.

    Where one has no price in SOL, or none in dollars, that sum is None.
    """
    amounts: list[Fraction] = []
    found: list[LastPrice] = []
    for asset in reserves:
        price = prices.get(asset.mint)
        if asset.amount_raw is None or asset.decimals is None:
            return f"the pool's reserve of {text(asset.mint)} is not known"
        if price is None:
            return f"{text(asset.mint)} of the pool has no price"
        amounts.append(Fraction(asset.amount_raw, 10**asset.decimals))
        found.append(price)
    return (
        _sum(amounts, [price.price_sol for price in found], LAMPORTS),
        _sum(amounts, [price.price_usd for price in found], MICROS),
    )


def _sum(amounts: Sequence[Fraction], prices: Sequence[float | None], unit: int) -> Fraction | None:
    total = Fraction(0)
    for amount, price in zip(amounts, prices, strict=True):
        if not price:  # 0 SOL: SOL itself has no price yet
            return None
        total += amount * unit * Fraction(price)
    return total
