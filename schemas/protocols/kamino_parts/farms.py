"""Farms: staked tokens with their locks, and rewards that were not claimed.

Shares of a vault or strategy that a farm names are theirs: `staked`.

A farm of a delegate (klend's reserves) counts stake that is in another program: only its rewards
are the farm's. Source: farms' `stake_operations.rs`, `withdrawal_penalty.rs`; layouts by IDL 1.6.5.

Anybody can open a farm, and grant any wallet any amount of its rewards (`reward_user_once`). The
program pays no more than a reward's vault holds: a wallet's lines are no more than that together.
Until a vault is known its reward counts 0, and one that cannot be computed is left out. Both are
named, and make no sum unknown: what is not known can only be more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from struct import error
from typing import Final, NamedTuple

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
    issuer_of,
)
from schemas.protocols.kamino_parts.farm_rewards import (
    REWARDS,
    WAD,
    Reward,
    Stakes,
    Unpayable,
    earned_raw,
    reward_of,
)
from schemas.protocols.kamino_parts.reserve import MARKET_AT, RESERVE
from schemas.protocols.kamino_parts.staked import Farmed, Staked
from schemas.protocols.vaults import Side, vault_amount
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
_LEFT_OUT: Final = "assets: a reward is left out, whose amount cannot be computed: "
_BY_ORACLE: Final = "the farm's rewards follow an oracle's price"
_CUT: Final = (
    "assets.amount_raw: the vault that the reward is paid from holds less than what was earned; "
    "the amount is what the vault can pay"
)
_NO_VAULT: Final = (
    "assets.amount_raw: a reward counts 0 until the vault that pays it is known; it is asked for"
)


class _Earned(NamedTuple):
    """A reward of a farm's user, before it is compared with what its vault holds."""

    reward: Reward
    amount_raw: int | None
    why: str | None  # it is not known


class _User(NamedTuple):
    """What a farm's user has."""

    account: Account
    farm: Account
    earned: list[_Earned]
    staking: Position | None
    issuers: tuple[bytes, bytes]  # strategy and vault that the farm names


def read(held: Held, world: World) -> Generator[Sequence[bytes], Mapping[bytes, Account], Farmed]:
    """Return what a wallet has staked in farms, and the rewards of each of its users."""
    farmed = Farmed([], [], [])
    owned = [each for each in held.of(USER_STATE) if each.data[48:80] == held.wallet]
    if not owned:
        return farmed
    farms = {each.address: raw_pubkey(each.data, 16) for each in owned}
    found = yield tuple(dict.fromkeys(farms.values()))
    users = []
    for account in owned:
        address = farms[account.address]
        farm = found.get(address)
        if farm is None:
            farmed.positions.append(Position("rewards", account, missing=[address]))
        else:
            users.append(_user(account, farm, world))
    vaults = [each.reward.vault for user in users for each in user.earned]
    wanted = [each for each in vaults if any(each)]
    wanted += [_reserve_of(user.staking) for user in users if user.staking is not None]
    known: Mapping[bytes, Account] = {}
    if wanted:
        known = yield tuple(dict.fromkeys(wanted))
    paid = Counter[bytes]()
    for user in users:
        _add(user, known, paid, farmed)
    return farmed


def _user(account: Account, farm: Account, world: World) -> _User:
    if farm.kind is not FARM_STATE:
        text = "farm user: farm_state at 16 is an account of another kind"
        raise Unreadable(text, account.address)
    try:
        earned = [*_earned(account, farm, world)]
        staking = None if _is_delegated(farm) else _staking(account, farm, world)
        issuers = raw_pubkey(farm.data, _STRATEGY_AT), raw_pubkey(farm.data, _VAULT_AT)
    except (error, IndexError):
        text = f"farm user of {len(account.data)} bytes, farm of {len(farm.data)}"
        raise Unreadable(text, account.address) from None
    if staking is not None and not staking.assets:
        staking = None
    return _User(account, farm, earned, staking, issuers)


def _reserve_of(staking: Position) -> bytes:
    """Return what asks for the reserve that the staked token is the collateral token of."""
    return issuer_of(staking.assets[0].mint, RESERVE)


def _add(user: _User, known: Mapping[bytes, Account], paid: Counter[bytes], farmed: Farmed) -> None:
    if user.earned:
        farmed.positions.append(_rewards(user, known, paid))
    staking = user.staking
    if staking is None:
        return
    if (reserve := known.get(_reserve_of(staking))) is not None:
        staking.open_markets = [reserve.data[MARKET_AT : MARKET_AT + 32]]
    strategy, vault = user.issuers
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


def _earned(user: Account, farm: Account, world: World) -> Iterator[_Earned]:
    """Yield what a user has earned of each reward, where it is not 0."""
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
        counted_raw = u64(user.data, 248 + 8 * each)
        if follows_oracle and stakes.user:
            yield _Earned(reward, None, _BY_ORACLE)
            continue
        try:
            tally = u128(user.data, 88 + 16 * each)
            amount_raw = counted_raw + earned_raw(reward, stakes, tally, _now(farm, world))
        except Unpayable as reason:
            yield _Earned(reward, None, str(reason))
        else:
            if amount_raw:
                yield _Earned(reward, amount_raw, None)


def _rewards(user: _User, known: Mapping[bytes, Account], paid: Counter[bytes]) -> Position:
    """Return the rewards of a user, no more than their vaults hold; raises Unreadable.

    `paid`: what lines of the wallet have of each vault; theirs are added.
    """
    farm = user.farm
    position = Position("rewards", user.account, market=farm.address)
    slots = [farm.slot]
    for reward, earned, why in user.earned:
        left_raw = _held_raw(reward, known)
        if left_raw is not None:
            slots += [known[reward.vault].slot] if any(reward.vault) else []
            left_raw -= paid[reward.vault]
        if earned is None and left_raw != 0:
            _note(position, f"{_LEFT_OUT}{why}")
            continue
        amount_raw = 0
        if left_raw is None:
            position.lacking.append(reward.vault)
            _note(position, _NO_VAULT)
        else:
            amount_raw = min(earned or 0, left_raw)
            paid[reward.vault] += amount_raw
            if amount_raw != earned:
                _note(position, _CUT)
        position.assets.append(Asset(Role.REWARD, reward.mint, amount_raw, reward.decimals))
    position.reference_slot = min(slots)
    return position


def _held_raw(reward: Reward, known: Mapping[bytes, Account]) -> int | None:
    """Return what a reward's vault holds, None where that is not known; raises Unreadable."""
    if not any(reward.vault):
        return 0  # there is none
    return vault_amount(known, Side(reward.vault, reward.mint, reward.decimals, 0))


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
