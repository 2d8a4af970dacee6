"""Exchange prices of Jupiter Lend (Fluid) with interest until now, and its ticks' ratios.

Prices are scaled by 10**12. Source: `TokenReserve`, `Lending`, `VaultState` of the IDLs; rounding
as in `@jup-ag/lend-read` 0.0.10.
"""

from __future__ import annotations

from struct import error
from typing import Final, NamedTuple

from schemas.solana.borsh import i16, u16, u64

SCALE: Final = 10**12
MIN_TICK: Final = -16383
MAX_TICK: Final = 16383
_YEAR_S: Final = 31_536_000
_PERCENT: Final = 10**4  # rates, fees, utilization and ratios: 10**4 is all
_RATIO: Final = 10**18
_RETURN: Final = 10**14
_MOST_REWARDS: Final = 50 * SCALE  # half of all a year
_FACTORS: Final = (  # 1.0015**-(2**n), scaled by 2**64
    18419115400608638658,
    18391528108445969703,
    18336477419114433396,
    18226869890870665593,
    18009616477100071088,
    17582847377087825313,
    16759408633341240198,
    15226414841393184936,
    12568272644527235157,
    8563108841104354677,
    3975055583337633975,
    856577552520149366,
    39775317560084773,
    85764505686420,
)


class Prices(NamedTuple):
    """Exchange prices of what is supplied and of what is borrowed."""

    supply: int
    borrow: int


def reserve_prices(reserve: bytes, time_s: int) -> Prices | None:
    """Return the prices of a token's reserve; None where one is 0; raises `struct.error`."""
    supply, borrow = u64(reserve, 86), u64(reserve, 94)
    rate, fee, utilization = u16(reserve, 72), u16(reserve, 74), u16(reserve, 76)
    past_s = max(time_s - u64(reserve, 78), 0)
    lent, lent_free, owed, owed_free = (u64(reserve, at) for at in (104, 112, 120, 128))
    if not supply or not borrow or fee > _PERCENT:
        return None
    if not past_s or not rate:
        return Prices(supply, borrow)
    grown = borrow + borrow * rate * past_s // (_YEAR_S * _PERCENT)
    lent_ratio, owed_ratio = _ratio(lent, lent_free), _ratio(owed, owed_free)
    if owed_ratio == 1 or (lent < lent_free and not lent_ratio):
        return Prices(supply, grown)
    if lent < lent_free:
        earning = utilization * (_RATIO + _RATIO * _PERCENT // lent_ratio) // _PERCENT
    else:
        earning = utilization * _RATIO * (_PERCENT + lent_ratio) // _PERCENT**2
    paying = owed_ratio * _RATIO // (_PERCENT + owed_ratio)
    if owed >= owed_free:
        paying = _RATIO - paying
    earning = earning * paying * _PERCENT // _RATIO // _RATIO
    supply_rate = rate * earning * (_PERCENT - fee)
    interest = supply * supply_rate * past_s // (_YEAR_S * _PERCENT) // _PERCENT**2
    return Prices(supply + interest, grown)


def _ratio(with_interest: int, free: int) -> int:
    """Return the smaller by the larger."""
    high = max(with_interest, free)
    return min(with_interest, free) * _PERCENT // high if high else 0


class Rewards(NamedTuple):
    """What a share's price grows by beside its liquidity's: the model, and all shares."""

    model: bytes  # LendingRewardsRateModel
    shares_raw: int


def token_price(
    lending: bytes, liquidity_price: int, rewards: Rewards | None, time_s: int
) -> int | None:
    """Return the price of a share; None where the program refuses; raises `struct.error`."""
    old_liquidity, old = u64(lending, 107), u64(lending, 115)
    if not old:
        return SCALE
    gain: int | None = 0
    if rewards is not None:
        total_raw = old * rewards.shares_raw // SCALE
        gain = _rewards_gain(rewards.model, total_raw, u64(lending, 123), time_s)
    if gain is None or liquidity_price < old_liquidity:
        return None
    if old_liquidity:
        gain += (liquidity_price - old_liquidity) * _RETURN // old_liquidity
    return old + old * gain // _RETURN


def _rewards_gain(model: bytes, total_raw: int, updated_s: int, time_s: int) -> int | None:
    """Return by what part rewards raise the price since its update; None: of no tokens."""
    start_tvl, lasts_s, starts_s, yearly_raw, next_lasts_s, next_raw = (
        u64(model, at) for at in range(40, 88, 8)
    )
    if not starts_s or total_raw < start_tvl:
        return 0
    if not total_raw:
        return None
    ends_s = starts_s + lasts_s
    rate = min(yearly_raw * _RETURN // total_raw, _MOST_REWARDS)
    past_s = min(time_s, ends_s) - max(updated_s, starts_s)
    gain = rate * max(past_s, 0) // _YEAR_S
    if next_lasts_s:
        of_a_year = next_raw * _YEAR_S // next_lasts_s
        rate = min(of_a_year * _RETURN // total_raw, _MOST_REWARDS)
        past_s = min(time_s, ends_s + next_lasts_s) - max(updated_s, ends_s)
        gain += rate * max(past_s, 0) // _YEAR_S
    return gain


def vault_prices(
    config: bytes, state: bytes, supply_price: int, borrow_price: int, time_s: int
) -> Prices | None:
    """Return a vault's prices by those of its reserves; None where the program refuses them."""
    old_supply, old_borrow, supply, borrow = (u64(state, at) for at in (83, 91, 99, 107))
    if not old_supply or not old_borrow or supply_price < old_supply or borrow_price < old_borrow:
        return None
    past_s = max(time_s - u64(state, 119), 0)
    supplied = supply * (supply_price * _RATIO // old_supply) // _RATIO
    borrowed = -(-borrow * (borrow_price * _RATIO // old_borrow) // _RATIO)
    supplied += _magnified(supply, past_s, i16(config, 10))
    borrowed += _magnified(borrow, past_s, i16(config, 12))
    return Prices(supplied, borrowed) if min(supplied, borrowed) >= 0 else None


def _magnified(price: int, past_s: int, magnifier: int) -> int:
    change = price * past_s * abs(magnifier) // _PERCENT // _YEAR_S
    return change if magnifier > 0 else -change


def debt_of(tick: int, collateral_raw: int) -> int:
    """Return the debt, scaled as the collateral, of a position that is at a tick, rounded up."""
    if tick <= MIN_TICK:
        return 0
    return (ratio_at(tick) * (collateral_raw + 1) >> 48) + 1


def ratio_at(tick: int) -> int:
    """Return debt by collateral of a tick, scaled by 2**48: 1.0015**tick."""
    if not MIN_TICK <= tick <= MAX_TICK:
        raise error(f"tick {tick}")
    factor = 1 << 64
    for place, each in enumerate(_FACTORS):
        if abs(tick) >> place & 1:
            factor = factor * each >> 64
    if tick <= 0:
        return factor >> 16
    factor = (2**128 - 1) // factor
    return -(-factor >> 16)
