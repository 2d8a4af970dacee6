"""Farms: staked tokens with their locks, and rewards that were not claimed.

Shares of a vault or strategy that a farm names are theirs: `staked`.

A farm of a delegate (klend's reserves) counts stake that is in another program: only its rewards
are the farm's. Source: farms' `stake_operations.rs`, `withdrawal_penalty.rs`; layouts by IDL 1.6.5.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from struct import error
from typing import Final

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.kamino_parts.farm_rewards import (
    REWARDS,
    WAD,
    Stakes,
    Unpayable,
    earned_raw,
    reward_of,
)
from schemas.protocols.kamino_parts.staked import Farmed, Staked
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u64, u128

PROGRAM: Final = key("FarmsPZpWu9i7Kky8tPN37rs2TpmMrAZrC7S7vJa91Hr")
USER_STATE: Final = Kind(
    "kamino_farm_user", PROGRAM, bytes.fromhex("48b155f94ca7ba7e"), size=920, wallets=(48,)
)
FARM_STATE: Final = Kind("kamino_farm", PROGRAM, bytes.fromhex("c666d84a3f42a3be"), size=8336)
KINDS: Final = (USER_STATE, FARM_STATE)
ROUTES: Final = (
    Route("staking", Shape.STAKING, "Tokens staked in farms, with their locks"),
    Route("rewards", Shape.REWARDS, "Rewards of farms that were not claimed, of loans too"),
)
UNSUPPORTED: Final = (
    "rewards: amounts of farms whose rewards follow an oracle's price",
    "rewards: the treasury's fee, which is taken when they are claimed",
    "staking: shares of vaults and strategies whose farms do not name them are shown as shares",
)

_STRATEGY_AT: Final = 7616  # in a farm of its shares
_VAULT_AT: Final = 7680
_NO_ORACLE: Final = (1 << 64) - 1
_SECONDS: Final = 0
_CONTINUOUS: Final = 1
_WITH_EXPIRY: Final = 2
_MAX_DECIMALS: Final = 255  # a mint has a byte for them
_LATEST_MS: Final = (1 << 53) - 1  # JSON numbers are not any u64
_BY_ORACLE: Final = "assets.amount_raw: the farm's rewards follow an oracle's price"
_BY_CONTRADICTION: Final = "assets.amount_raw: "


def read(held: Held, world: World) -> Generator[Sequence[bytes], Mapping[bytes, Account], Farmed]:
    """Return what a wallet has staked in farms, and the rewards of each of its users."""
    farmed = Farmed([], [], [])
    users = [each for each in held.of(USER_STATE) if each.data[48:80] == held.wallet]
    if users:
        farms = {each.address: raw_pubkey(each.data, 16) for each in users}
        found = yield tuple(dict.fromkeys(farms.values()))
        for user in users:
            _read_user(user, farms[user.address], found, world, farmed)
    return farmed


def _read_user(
    user: Account, address: bytes, found: Mapping[bytes, Account], world: World, farmed: Farmed
) -> None:
    farm = found.get(address)
    if farm is None:
        farmed.positions.append(Position("rewards", user, missing=[address]))
        return
    if farm.kind is not FARM_STATE:
        raise Unreadable("farm user: farm_state at 16 is an account of another kind", user.address)
    try:
        rewards = _rewards(user, farm, world)
        staking = None if _is_delegated(farm) else _staking(user, farm, world)
        strategy, vault = (raw_pubkey(farm.data, at) for at in (_STRATEGY_AT, _VAULT_AT))
    except (error, IndexError):
        text = f"farm user of {len(user.data)} bytes, farm of {len(farm.data)}"
        raise Unreadable(text, user.address) from None
    if rewards.assets:
        farmed.positions.append(rewards)
    if staking is None or not staking.assets:
        return
    if any(vault):
        farmed.of_vaults.append(Staked(staking, vault))
    elif any(strategy):
        farmed.of_strategies.append(Staked(staking, strategy))
    else:
        farmed.positions.append(staking)


def _is_delegated(farm: Account) -> bool:
    return any(raw_pubkey(farm.data, 7328))


def _now(farm: Account, world: World) -> int:
    return world.time_s if farm.data[7360] == _SECONDS else world.slot


def _rewards(user: Account, farm: Account, world: World) -> Position:
    position = Position("rewards", user, market=farm.address, reference_slot=farm.slot)
    number = u64(farm.data, 7232)
    if number > REWARDS:
        raise Unreadable(f"farm: {number} reward tokens at 7232", user.address)
    stakes = Stakes(
        _is_delegated(farm), u128(user.data, 408), u128(farm.data, 7408), u64(farm.data, 7248)
    )
    follows_oracle = u64(farm.data, 7568) != _NO_ORACLE
    for each in range(number):
        reward = reward_of(farm.data, each)
        _check_decimals(reward.decimals, user)
        amount_raw: int | None = u64(user.data, 248 + 8 * each)
        if follows_oracle and stakes.user:
            amount_raw = None
            _note(position, _BY_ORACLE)
        elif amount_raw is not None:
            try:
                tally = u128(user.data, 88 + 16 * each)
                amount_raw += earned_raw(reward, stakes, tally, _now(farm, world))
            except Unpayable as reason:
                amount_raw = None
                _note(position, f"{_BY_CONTRADICTION}{reason}")
        if amount_raw != 0:
            position.assets.append(Asset(Role.REWARD, reward.mint, amount_raw, reward.decimals))
    return position


def _check_decimals(decimals: int, user: Account) -> None:
    if decimals > _MAX_DECIMALS:
        raise Unreadable(f"farm: a token of {decimals} decimals", user.address)


def _note(position: Position, text: str) -> None:
    if text not in position.unsupported_fields:
        position.unsupported_fields.append(text)


def _staking(user: Account, farm: Account, world: World) -> Position:
    mint, decimals = raw_pubkey(farm.data, 72), u64(farm.data, 104)
    now = _now(farm, world)
    _check_decimals(decimals, user)
    position = Position("staking", user, market=farm.address, reference_slot=farm.slot)
    pending_raw, pending_stake = u64(farm.data, 7440), u128(farm.data, 7424)
    active_raw = _tokens_of(u128(user.data, 408), u128(farm.data, 7408), u64(farm.data, 7248))
    warming_raw = _tokens_of(u128(user.data, 424), pending_stake, pending_raw)
    leaving_raw = _tokens_of(u128(user.data, 448), pending_stake, pending_raw)
    until = _locked_until(user, farm, now)
    is_locked = active_raw and until is not None
    if is_locked and until is not None:
        position.locks.append(_lock("term", active_raw, 0, until, farm))
    if leaving_raw:
        free_at = u64(user.data, 464)
        free_raw = leaving_raw if now >= free_at else 0
        position.locks.append(_lock("cooldown", leaving_raw, free_raw, free_at, farm))
    for role, amount_raw in (
        (Role.LOCKED if is_locked else Role.SUPPLY, active_raw),
        (Role.PENDING, warming_raw),
        (Role.PENDING, leaving_raw),
    ):
        if amount_raw:
            position.assets.append(Asset(role, mint, amount_raw, decimals))
    return position


def _tokens_of(stake: int, total_stake: int, total_raw: int) -> int:
    """Return the tokens of a share of the stake, rounded down."""
    if not stake:
        return 0
    if not total_stake:
        return total_raw
    return stake * WAD * total_raw // total_stake // WAD


def _locked_until(user: Account, farm: Account, now: int) -> int | None:
    """Return when the stake can be taken out without a penalty, None where it can be now."""
    mode, duration = u64(farm.data, 7496), u64(farm.data, 7512)
    if mode == _CONTINUOUS:
        begins = u64(user.data, 512)
    elif mode == _WITH_EXPIRY:
        begins = u64(farm.data, 7504)
    else:
        return None
    return begins + duration if begins <= now < begins + duration else None


def _lock(kind: str, locked_raw: int, claimable_raw: int, until: int, farm: Account) -> Lock:
    is_time = farm.data[7360] == _SECONDS
    return Lock(
        "term" if kind == "term" else "cooldown",
        locked_raw=locked_raw,
        claimable_raw=claimable_raw,
        ends_ms=min(until * 1000, _LATEST_MS) if is_time else None,
        ends_slot=None if is_time else until,
    )
