"""klend's reserve: what its collateral tokens are worth and what is owed, with interest until now.

Source: klend's `state/reserve.rs` (`accrue_interest`, `compound_interest`, `exchange_rate`,
`approximate_compounded_interest`), `utils/borrow_rate_curve.rs`; layout by IDL 1.24.0.
Numbers named `_sf` have 60 bits behind the point.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from struct import error
from typing import Final, NamedTuple

from schemas.protocols.contract import Account, Kind, Unreadable
from schemas.protocols.kamino_parts.fixed60 import BITS, ONE, from_bps, from_percent, times
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u16, u32, u64, u128

PROGRAM: Final = key("KLend2g3cP87fffoy8q1mQqGKjrxjC8boSyAYavgmjD")
SIZE: Final = 8624
MARKET_AT: Final = 32
COLLATERAL_MINT_AT: Final = 2560
RESERVE: Final = Kind(
    "kamino_reserve",
    PROGRAM,
    bytes.fromhex("2bf2ccca1af73b7f"),
    size=SIZE,
    mints=(COLLATERAL_MINT_AT,),
)

_SLOTS_A_YEAR: Final = 63_072_000  # two a second, whatever the chain's pace
_CURVE_AT: Final = 4920
_CURVE_POINTS: Final = 11
_FULL_BPS: Final = 10_000
_MAX_DECIMALS: Final = 19


class Reserve(NamedTuple):
    """A reserve with interest until a slot."""

    slot: int  # of its account
    market: bytes
    mint: bytes
    decimals: int | None  # None: more than the program can compute with
    collateral_supply_raw: int
    supply_sf: int  # liquidity of all depositors
    growth_rate_sf: int  # the cumulative borrow rate
    price_usd: Fraction | None  # of a whole token; None: it never had one
    liquidation_percent: int
    borrow_factor: Fraction
    is_paying_rewards: bool  # to depositors, since its last refresh: not in `supply_sf`

    def liquidity_sf(self, collateral_raw: int) -> int:
        """Return the liquidity that collateral tokens can be redeemed for."""
        if not self.collateral_supply_raw or not self.supply_sf:
            return collateral_raw << BITS
        return collateral_raw * self.supply_sf // self.collateral_supply_raw


def reserve_of(account: Account, slot: int) -> Reserve:
    """Return a reserve with interest until a slot; raises Unreadable."""
    try:
        return _reserve(account, slot)
    except (error, IndexError):
        raise Unreadable(f"reserve of {len(account.data)} bytes", account.address) from None


def _reserve(account: Account, slot: int) -> Reserve:
    data = account.data
    decimals = u64(data, 272)
    available_sf = u64(data, 224) << BITS
    debt_sf = u128(data, 232)
    protocol_fees_sf = u128(data, 344)
    referrers_sf = u128(data, 360) + u128(data, 376)
    supply_sf = available_sf + debt_sf - protocol_fees_sf - referrers_sf
    if supply_sf < 0:
        raise Unreadable("reserve: fees at 344 exceed its liquidity", account.address)
    rate_sf = sum(u64(data, 296 + 8 * limb) << (64 * limb) for limb in range(4))
    elapsed = max(slot - u64(data, 16), 0)
    if elapsed:
        host_sf = from_bps(u16(data, 4858))
        grown = compounded(_curve_rate(account, debt_sf, supply_sf) + host_sf, elapsed)
        new_debt_sf = times(debt_sf, grown)
        host_fee_sf = times(debt_sf, compounded(host_sf, elapsed)) - debt_sf
        variable_sf = new_debt_sf - debt_sf - host_fee_sf
        fee_sf = host_fee_sf + times(variable_sf, from_percent(data[4870]))
        supply_sf += new_debt_sf - debt_sf - fee_sf
        rate_sf = times(rate_sf, grown)
        if supply_sf < 0:
            raise Unreadable("reserve: take rate at 4870 exceeds its interest", account.address)
    return Reserve(
        slot=account.slot,
        market=raw_pubkey(data, MARKET_AT),
        mint=raw_pubkey(data, 128),
        # Anybody can open a market with a reserve of such a token: that is no error of a wallet's.
        decimals=decimals if decimals <= _MAX_DECIMALS else None,
        collateral_supply_raw=u64(data, 2592),
        supply_sf=supply_sf,
        growth_rate_sf=rate_sf,
        price_usd=Fraction(u128(data, 248), ONE) or None,
        liquidation_percent=data[4873],
        borrow_factor=max(Fraction(1), Fraction(u64(data, 5008), 100)),
        is_paying_rewards=bool(elapsed and u64(data, 440) and u64(data, 5792)),
    )


def _curve_rate(account: Account, debt_sf: int, supply_sf: int) -> int:
    """Return the borrow rate of a year by the reserve's curve over its utilization."""
    data = account.data
    used_sf = min((debt_sf << BITS) // supply_sf, ONE) if supply_sf else 0
    used_bps = (used_sf * _FULL_BPS + (ONE >> 1)) >> BITS
    points = [
        (u32(data, at), u32(data, at + 4))
        for at in range(_CURVE_AT, _CURVE_AT + 8 * _CURVE_POINTS, 8)
    ]
    for (start, low), (end, high) in pairwise(points):
        if start <= used_bps <= end:
            if used_bps == start:
                return from_bps(low)
            if used_bps == end:
                return from_bps(high)
            if high < low or used_sf < from_bps(start):
                break
            return (used_sf - from_bps(start)) * (high - low) // (end - start) + from_bps(low)
    raise Unreadable(f"reserve: no point of its curve at {_CURVE_AT}", account.address)


def compounded(rate_sf: int, slots: int) -> int:
    """Return by what a debt has grown after some slots: three terms of the binomial series."""
    base = rate_sf // _SLOTS_A_YEAR
    if slots <= 4:  # the program multiplies these out, and so rounds otherwise
        one = ONE + base
        two = times(one, one)
        return (ONE, one, two, times(two, one), times(two, two))[slots]
    second = times(base, base)
    third = times(second, base)
    return (
        ONE
        + base * slots
        + second * slots * (slots - 1) // 2
        + third * slots * (slots - 1) * (slots - 2) // 6
    )
