"""The amount that a wallet shows for a raw amount, as Token-2022's `AmountToUiAmount` gives it.

Source: Token-2022 `extension/interest_bearing_mint` and `extension/scaled_ui_amount`. A plain
mint is exact. The other two are 64-bit floats in the program, and the same floats here: the scaled
amount is cut to a whole raw unit, the interest-bearing one is not. `exp` is the machine's, which
may differ from the program's in the last bit.
"""

from __future__ import annotations

import math
from typing import Final

from schemas.solana.token_accounts import MintAccount
from schemas.solana.token_extensions import InterestBearing, ScaledUiAmount

_YEAR_S: Final = 60.0 * 60 * 24 * 365.24
_ONE_BPS: Final = 10_000.0


def ui_amount(mint: MintAccount, amount_raw: int, time_s: int) -> str | None:
    """Return the amount to show at a time of the chain; None where the program has no number."""
    extensions = mint.extensions
    if extensions and extensions.interest_bearing:
        return _shown(
            amount_raw * 1.0 * _interest(extensions.interest_bearing, mint.decimals, time_s),
            mint.decimals,
        )
    if extensions and extensions.scaled_ui_amount:
        return _scaled(extensions.scaled_ui_amount, amount_raw, mint.decimals, time_s)
    whole = f"{amount_raw:0{mint.decimals + 1}d}"
    at = len(whole) - mint.decimals
    return _trimmed(f"{whole[:at]}.{whole[at:]}")


def _interest(config: InterestBearing, decimals: int, time_s: int) -> float:
    before = _grown(config.average_rate_bps, config.updated_s - config.initialized_s)
    since = _grown(config.current_rate_bps, time_s - config.updated_s)
    return before * since / 10.0**decimals


def _grown(rate_bps: int, past_s: int) -> float:
    try:
        return math.exp(float(rate_bps * past_s) / _YEAR_S / _ONE_BPS)
    except OverflowError:
        return math.inf


def _scaled(config: ScaledUiAmount, amount_raw: int, decimals: int, time_s: int) -> str | None:
    scaled = float(amount_raw) * config.multiplier_at(time_s)
    if not math.isfinite(scaled):
        return None
    return _shown(float(math.trunc(scaled)) / 10.0**decimals, decimals)


def _shown(amount: float, decimals: int) -> str | None:
    return _trimmed(f"{amount:.{decimals}f}") if math.isfinite(amount) else None


def _trimmed(amount: str) -> str:
    return amount.rstrip("0").rstrip(".") if "." in amount else amount
