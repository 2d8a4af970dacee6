"""How far a token's bonding curve is sold, from the reserves that its swaps tell.

Per venue, what is for sale when the curve is new:
- pump-fun: 793,100,000 tokens of 6 decimals; swaps tell the real token reserves. (Program source
  and mainnet transactions: the vault holds 206,900,000 tokens more than the real reserves.)
- raydium-launchlab: each pool says for itself. Its swaps tell what is left, so the most that was
  ever left, before a purchase, is the whole if the curve was seen from its creation on. Else
  LaunchLab's default stands in, the same 793,100,000 of 6 decimals.
Meteora DBC, Moonit, Boop, Heaven, Sugar, Virtuals, Vertigo and Wavebreak: their swaps do not tell
what a curve is sold at, and the percentage is not known.
"""

from __future__ import annotations

from typing import Final

FOR_SALE_RAW: Final = 793_100_000_000_000
FIXED: Final = frozenset({"pump-fun"})
OF_THE_POOL: Final = frozenset({"raydium-launchlab"})


def for_sale(dex: str, left_before_raw: int, known_raw: int, *, seen_created: bool) -> int:
    """Return what the curve had for sale, 0 where its venue does not tell."""
    if dex in FIXED:
        return FOR_SALE_RAW
    if dex in OF_THE_POOL:
        least = known_raw if seen_created else max(known_raw, FOR_SALE_RAW)
        return max(least, left_before_raw)
    return 0


def sold_pct(left_raw: int, for_sale_raw: int, *, is_migrated: bool) -> float | None:
    """Return the sold part of the curve, 0 to 100; None where it is not known."""
    if is_migrated:
        return 100.0
    if not for_sale_raw:
        return None
    return min(100.0, max(0.0, 100 * (for_sale_raw - left_raw) / for_sale_raw))
