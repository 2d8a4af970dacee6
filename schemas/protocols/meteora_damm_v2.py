"""Meteora DAMM v2: a share of a pool's liquidity, which the holder of an NFT has.

Liquidity is unlocked, vested or locked for good; all of it counts and earns. Nothing leaves a pool
before its activation, by `PermissionlessActionAccess::can_remove_liquidity`. A vesting is inside
the position or in an account of its own, which the position does not name: where none was found,
what the position says is vested stays locked, without a schedule.
Source: IDL `cp_amm` 0.2.5 (zero-copy layouts), `@meteora-ag/cp-amm-sdk` 1.5.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Lock,
    Position,
    Protocol,
    Range,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.decimals import decimals_of
from schemas.protocols.math import damm
from schemas.protocols.math.concentrated import price
from schemas.solana.addresses import key
from schemas.solana.borsh import raw_pubkey, u16, u64, u128

PROGRAM: Final = key("cpamdpZCGKUy5JxQXB4dcpGPiikHawvSWAd6mEn1sGG")
_NFT_AT: Final = 40
POSITION: Final = Kind(
    "damm_v2_position", PROGRAM, bytes.fromhex("aabc8fe47a40f7d0"), size=408, mints=(_NFT_AT,)
)
POOL: Final = Kind("damm_v2_pool", PROGRAM, bytes.fromhex("f19a6d0411b16dbc"), size=1112)
VESTING: Final = Kind(
    "damm_v2_vesting", PROGRAM, bytes.fromhex("6495428a5fc880f1"), size=184, mints=(8,)
)
"""A vesting apart from its position; the position's address leads to it."""

ROUTE: Final = "liquidity"
_NOBODY: Final = bytes(32)
_JSON_MAX: Final = (1 << 53) - 1
_COMPOUNDING: Final = 2  # CollectFeeMode; 0 is in both tokens, 1 in B only
_NO_SCHEDULE: Final = "locks: the schedule of a vesting apart from its position"


class _Vesting(NamedTuple):
    """Liquidity that is set free at a cliff, then by equal periods; points are slots or seconds."""

    cliff_point: int
    period: int
    at_cliff: int
    per_period: int
    released: int
    periods: int

    @property
    def locked(self) -> int:
        """What was not yet released into the position's unlocked liquidity."""
        return max(self.at_cliff + self.per_period * self.periods - self.released, 0)

    @property
    def end_point(self) -> int:
        """When the last of it is free."""
        return self.cliff_point + self.period * self.periods

    def free(self, point: int) -> int:
        """Return what can be released at a point."""
        if point < self.cliff_point:
            return 0
        passed = 0
        if self.period and self.per_period:
            passed = min((point - self.cliff_point) // self.period, self.periods)
        return max(self.at_cliff + passed * self.per_period - self.released, 0)


class _Earning(NamedTuple):
    """What a position last saw of a counter, and what it had earned until then."""

    seen: int
    pending_raw: int


class _Share(NamedTuple):
    """What a position's account contains."""

    account: Account
    pool: bytes
    nft: bytes
    fees: tuple[_Earning, _Earning]
    rewards: tuple[_Earning, _Earning]
    unlocked: int
    vested: int
    permanent: int
    inner: _Vesting

    @property
    def liquidity(self) -> int:
        """All of it, which earns."""
        return self.unlocked + self.vested + self.permanent


class _Reward(NamedTuple):
    mint: bytes
    stored: int
    rate_q64: int
    ends_s: int
    updated_s: int


class _Pool(NamedTuple):
    a: bytes
    b: bytes
    liquidity: int
    sqrt_min: int
    sqrt_max: int
    sqrt_price: int
    opens_point: int  # its activation
    is_by_slot: bool
    is_compounding: bool
    reserve_a: int  # of a compounding pool only
    reserve_b: int
    fees: tuple[int, int]  # ever earned by liquidity, with 128 bits of fraction
    rewards: tuple[_Reward | None, _Reward | None]

    def is_open(self, point: int) -> bool:
        """Return whether liquidity can be removed at a point."""
        return point >= self.opens_point

    def ends(self, point: int) -> tuple[int | None, int | None]:
        """Return the milliseconds and the slot at which a lock until a point ends: one of both."""
        point = max(point, self.opens_point)
        if self.is_by_slot:
            return None, min(point, _JSON_MAX)
        return min(point * 1000, _JSON_MAX), None

    def amounts(self, liquidity: int) -> tuple[int, int]:
        """Return the raw amounts of A and B in some of its liquidity, rounded down."""
        if self.is_compounding:
            if not self.liquidity:
                return 0, 0
            return (
                liquidity * self.reserve_a // self.liquidity,
                liquidity * self.reserve_b // self.liquidity,
            )
        return (
            damm.amount_a(liquidity, self.sqrt_price, self.sqrt_max),
            damm.amount_b(liquidity, self.sqrt_min, self.sqrt_price),
        )


def read(held: Held, world: World) -> Reading:
    """Return the positions whose NFT a wallet holds, with fees and rewards until now."""
    shares = [
        share
        for account in held.of(POSITION)
        if held.tokens.get((share := _share(account)).nft, 0) > 0
    ]
    if not shares:
        return []
    known = yield tuple(dict.fromkeys(share.pool for share in shares))
    pools = {share.pool: _pool(known[share.pool], share) for share in shares if share.pool in known}
    mints = dict.fromkeys(mint for pool in pools.values() for mint in _mints(pool))
    decimals = decimals_of(mints, (yield tuple(mints)) if mints else {})
    return [
        _position(share, known.get(share.pool), pools.get(share.pool), held, decimals, world)
        for share in shares
    ]


def _mints(pool: _Pool) -> Iterator[bytes]:
    yield from (pool.a, pool.b)
    yield from (reward.mint for reward in pool.rewards if reward)


def _u256(data: bytes, at: int) -> int:
    return u128(data, at) | u128(data, at + 16) << 128


def _share(account: Account) -> _Share:
    data = account.data
    if len(data) != POSITION.size:
        raise Unreadable(f"position of {len(data)} bytes", account.address)
    return _Share(
        account=account,
        pool=raw_pubkey(data, 8),
        nft=raw_pubkey(data, _NFT_AT),
        fees=(
            _Earning(_u256(data, 72), u64(data, 136)),
            _Earning(_u256(data, 104), u64(data, 144)),
        ),
        rewards=(
            _Earning(_u256(data, 216), u64(data, 248)),
            _Earning(_u256(data, 264), u64(data, 296)),
        ),
        unlocked=u128(data, 152),
        vested=u128(data, 168),
        permanent=u128(data, 184),
        inner=_vesting(data, 312),
    )


def _vesting(data: bytes, at: int) -> _Vesting:
    return _Vesting(
        cliff_point=u64(data, at),
        period=u64(data, at + 8),
        at_cliff=u128(data, at + 16),
        per_period=u128(data, at + 32),
        released=u128(data, at + 48),
        periods=u16(data, at + 64),
    )


def _pool(account: Account, of: _Share) -> _Pool:
    data = account.data
    if account.kind is not POOL or len(data) != POOL.size:
        raise Unreadable("pool is something else", of.account.address)
    activation, mode = data[480], data[484]
    if activation > 1 or mode > _COMPOUNDING:
        raise Unreadable(
            f"the pool's activation_type is {activation}, collect_fee_mode {mode}",
            of.account.address,
        )
    sqrt_min, sqrt_max, sqrt_price = (u128(data, at) for at in (424, 440, 456))
    if mode != _COMPOUNDING and not 0 < sqrt_min <= sqrt_price <= sqrt_max:
        raise Unreadable(f"the pool's sqrt_price is {sqrt_price}, out of range", of.account.address)
    return _Pool(
        a=raw_pubkey(data, 168),
        b=raw_pubkey(data, 200),
        liquidity=u128(data, 360),
        sqrt_min=sqrt_min,
        sqrt_max=sqrt_max,
        sqrt_price=sqrt_price,
        opens_point=u64(data, 472),
        is_by_slot=activation == 0,
        is_compounding=mode == _COMPOUNDING,
        reserve_a=u64(data, 680),
        reserve_b=u64(data, 688),
        fees=(_u256(data, 488), _u256(data, 520)),
        rewards=(_reward(data, 728), _reward(data, 920)),
    )


def _reward(data: bytes, at: int) -> _Reward | None:
    if not data[at] or (mint := raw_pubkey(data, at + 16)) == _NOBODY:
        return None
    return _Reward(
        mint=mint,
        stored=_u256(data, at + 144),
        rate_q64=u128(data, at + 128),
        ends_s=u64(data, at + 120),
        updated_s=u64(data, at + 176),
    )


def _position(
    share: _Share,
    account: Account | None,
    pool: _Pool | None,
    held: Held,
    decimals: Mapping[bytes, int],
    world: World,
) -> Position:
    position = Position(
        ROUTE, share.account, id=share.nft, market=share.pool, stands_for={share.nft: 1}
    )
    if pool is None or account is None:
        position.missing = [share.pool]
        position.unsupported_fields = ["assets: the pool is not known"]
        return position
    point = world.slot if pool.is_by_slot else world.time_s
    vestings = [_vesting(each.data, 40) for each in _apart(share, held)]
    position.reference_slot = min((account.slot, *(each.slot for each in _apart(share, held))))
    if share.inner.locked:
        vestings.append(share.inner)
    position.locks = [*_locks(share, vestings, point, pool)]
    if any(lock.kind == "vesting" and lock.claimable_raw is None for lock in position.locks):
        position.unsupported_fields = [_NO_SCHEDULE]
    free = sum(lock.claimable_raw or 0 for lock in position.locks)
    if pool.is_open(point):
        free += share.unlocked
    position.range = _range(pool, decimals)
    position.assets = [
        Asset(role, mint, raw, decimals.get(mint))
        for role, mint, raw in _lines(share, pool, free, world)
        if raw
    ]
    return position


def _apart(share: _Share, held: Held) -> Iterator[Account]:
    """Yield the vestings of a position that are accounts of their own."""
    for account in held.of(VESTING):
        if account.data[8:40] == share.account.address:
            if len(account.data) != VESTING.size:
                raise Unreadable(f"vesting of {len(account.data)} bytes", share.account.address)
            yield account


def _locks(share: _Share, vestings: list[_Vesting], point: int, pool: _Pool) -> Iterator[Lock]:
    """Yield each vesting's lock, one for what no vesting explains, and the permanent one.

    Last is that of what is unlocked, before the pool's activation: no lock ends before that.
    """
    is_open = pool.is_open(point)
    unexplained = share.vested
    for each in vestings:
        unexplained -= (locked := each.locked)
        if locked:
            free = min(each.free(point), locked) if is_open else 0
            yield Lock("vesting", locked, free, *pool.ends(each.end_point))
    if unexplained > 0:
        yield Lock("vesting", locked_raw=unexplained)
    if share.permanent:
        yield Lock("permanent", locked_raw=share.permanent, claimable_raw=0)
    if share.unlocked and not is_open:
        yield Lock("term", share.unlocked, 0, *pool.ends(pool.opens_point))


def _lines(
    share: _Share, pool: _Pool, free: int, world: World
) -> Iterator[tuple[Role, bytes, int]]:
    """Yield role, mint and raw amount of what can be withdrawn, what is locked, what was earned.

    Both parts of a token together are what all the liquidity holds, rounded down once.
    """
    liquidity = share.liquidity
    all_amounts = pool.amounts(liquidity)
    free_amounts = pool.amounts(min(free, liquidity))
    for mint, of_all, of_free in zip((pool.a, pool.b), all_amounts, free_amounts, strict=True):
        yield Role.SUPPLY, mint, of_free
        yield Role.LOCKED, mint, of_all - of_free
    for mint, stored, earning in zip((pool.a, pool.b), pool.fees, share.fees, strict=True):
        growth = damm.grown(stored, earning.seen)
        yield (
            Role.REWARD,
            mint,
            damm.earned(earning.pending_raw, liquidity, growth, damm.FEE_BITS),
        )
    for reward, earning in zip(pool.rewards, share.rewards, strict=True):
        if reward is None:
            continue
        seconds = max(min(world.time_s, reward.ends_s) - reward.updated_s, 0)
        stored = damm.reward_stored(reward.stored, reward.rate_q64, seconds, pool.liquidity)
        growth = damm.grown(stored, earning.seen)
        yield (
            Role.REWARD,
            reward.mint,
            damm.earned(earning.pending_raw, liquidity, growth, damm.REWARD_BITS),
        )


def _range(pool: _Pool, decimals: Mapping[bytes, int]) -> Range:
    """Return the pool's range; a compounding pool's liquidity is at any price."""
    places = decimals.get(pool.a), decimals.get(pool.b)
    is_bounded = not pool.is_compounding
    return Range(
        base=pool.a,
        quote=pool.b,
        lower_index=None,
        upper_index=None,
        current_index=None,
        lower=price(pool.sqrt_min, *places) if is_bounded else None,
        upper=price(pool.sqrt_max, *places) if is_bounded else None,
        current=price(pool.sqrt_price, *places),
        is_in_range=pool.sqrt_min <= pool.sqrt_price <= pool.sqrt_max if is_bounded else True,
    )


PROTOCOL: Final = Protocol(
    "meteora_damm_v2",
    (POSITION, POOL, VESTING),
    (Route(ROUTE, Shape.LIQUIDITY, "Liquidity of pools, with fees and rewards not yet claimed"),),
    read,
    unsupported_fields=(
        "Token-2022 transfer fees: amounts are before them",
        "schedules of vestings apart from their positions",
    ),
    reads_tokens=True,
)
