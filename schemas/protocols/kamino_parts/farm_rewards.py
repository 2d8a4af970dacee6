"""Farms: what a user's stake has earned, to the unit as the program would pay it now.

Source: farms' `refresh_global_reward`, `user_refresh_reward` and
`get_cumulative_amount_issued_since_last_ts`. Its decimals have 18 places and are cut off; the SDK's
`calculatePendingRewards` keeps fractions of what is issued and rounds the user's to the nearest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.solana.borsh import raw_pubkey, u64, u128

WAD: Final = 10**18
REWARDS: Final = 10
REWARDS_AT: Final = 192
REWARD_SIZE: Final = 704
_POINTS: Final = 20
_MAX_EXPONENT: Final = 19
_PROPORTIONAL: Final = 0
_CONSTANT: Final = 1


class Unpayable(ValueError):
    """The program itself would fail at these bytes; the text names the field."""


class Stakes(NamedTuple):
    """Stake that rewards are shared by, in units with 18 places, or plain ones of a delegate."""

    is_delegated: bool
    user: int
    farm: int
    farm_raw: int  # of tokens


class Reward(NamedTuple):
    """One reward of a farm."""

    vault: bytes  # the token account that it is paid from
    mint: bytes
    decimals: int
    available_raw: int
    points: tuple[tuple[int, int], ...]  # start, and reward of a unit of time from it
    last_issued: int
    per_share: int
    kind: int
    exponent: int


def reward_of(data: bytes, number: int) -> Reward:
    """Return a reward of a farm's data; raises `struct.error` past its end."""
    at = REWARDS_AT + REWARD_SIZE * number
    curve = range(at + 160, at + 160 + 16 * _POINTS, 16)
    return Reward(
        vault=raw_pubkey(data, at + 120),
        mint=raw_pubkey(data, at),
        decimals=u64(data, at + 32),
        available_raw=u64(data, at + 152),
        points=tuple((u64(data, point), u64(data, point + 8)) for point in curve),
        last_issued=u64(data, at + 488),
        per_share=u128(data, at + 512),
        kind=data[at + 536],
        exponent=data[at + 537],
    )


def earned_raw(reward: Reward, stakes: Stakes, tally: int, now: int) -> int:
    """Return what the stake has earned beyond what was counted; raises Unpayable."""
    if not stakes.user:
        return 0
    per_share = reward.per_share
    if stakes.farm and now > reward.last_issued:
        issued = min(_issued_raw(reward, stakes, now), reward.available_raw)
        per_share += issued * (WAD if stakes.is_delegated else WAD * WAD) // stakes.farm
    gained = per_share * stakes.user // (1 if stakes.is_delegated else WAD)
    if gained < tally:
        raise Unpayable("rewards_tally_scaled exceeds what the stake has earned")
    return (gained - tally) // WAD


def _issued_raw(reward: Reward, stakes: Stakes, now: int) -> int:
    if reward.exponent > _MAX_EXPONENT:
        raise Unpayable(f"rewards_per_second_decimals is {reward.exponent}")
    if reward.kind not in (_PROPORTIONAL, _CONSTANT):
        raise Unpayable(f"reward_type is {reward.kind}")
    by_curve = _by_curve(reward, now)
    shared = by_curve * stakes.farm_raw if reward.kind == _CONSTANT else by_curve
    return int(shared // 10**reward.exponent)


def _by_curve(reward: Reward, now: int) -> int:
    """Return the area below the curve between the last issuance and now."""
    points = reward.points
    later = (number for number, (start, _) in enumerate(points) if start > reward.last_issued)
    first = next(later, len(points)) - 1
    if first < 0:
        raise Unpayable("reward_schedule_curve begins after last_issuance_ts")
    total = 0
    for number in range(first, len(points)):
        start, rate = points[number]
        if start >= now:
            break
        end = now
        if number + 1 < len(points):
            end = min(points[number + 1][0], now)
        total += rate * max(end - max(start, reward.last_issued), 0)
    return total
