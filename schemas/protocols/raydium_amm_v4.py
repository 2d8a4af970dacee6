"""Raydium AMM v4: what LP tokens of its pools withdraw.

Source: raydium-amm's `AmmInfo` and `TargetOrders`, neither with a tag, and its `process_withdraw`:
the vaults less what waits to be taken as Raydium's profit, less what the withdrawal itself adds to
that (`calc_take_pnl`), by the pool's own count of LP tokens, rounded down; by `AmmStatus` nothing
of a pool that is disabled. A pool's order book is not read: the program has used none since
`calc_total_without_take_pnl_no_orderbook`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt
from struct import error
from typing import Final, NamedTuple

from schemas.protocols import raydium_farms, vaults
from schemas.protocols.contract import (
    Account,
    Held,
    Kind,
    LpTokens,
    Position,
    Protocol,
    Reading,
    Role,
    Route,
    Shape,
    Unreadable,
    World,
    issuer_of,
)
from schemas.protocols.in_step import in_step
from schemas.protocols.vaults import Side
from schemas.solana.addresses import key
from schemas.solana.borsh import u64, u128

ROUTE: Final = "liquidity"
LP_MINT_AT: Final = 464
_PROGRAM: Final = key("675kPX9MHTjS2zt1qfr1NYHuzeLXfQM9H24wFSUt1Mp8")
_WITHDRAW_ONLY: Final = 3  # a withdrawal takes no profit then
_PAYING: Final = (1, 3, 4, 5, 6, 7)  # status of pools that liquidity can be withdrawn from
_MOST_DECIMALS: Final = 255
_NO_POOL: Final = "assets: both tokens of the pool of the LP tokens, which is not known"

POOL: Final = Kind("raydium_amm_pool", _PROGRAM, size=752, mints=(LP_MINT_AT,))
TARGETS: Final = Kind("raydium_amm_targets", _PROGRAM, size=2208)


class _Pool(NamedTuple):
    account: Account
    coin: Side
    pc: Side
    lp_mint: bytes
    lp_raw: int
    targets: bytes
    status: int
    decimal_value: int  # to which the program scales amounts of both tokens
    profit: tuple[int, int]  # Raydium's part of what trades earned: numerator, denominator


def read(held: Held, world: World) -> Reading:
    """Return the pools of the wallet's LP tokens, held and staked in farms."""
    return in_step(_pools(held), _staked(held, world))


def lp(account: Account) -> LpTokens | None:
    """Return the LP tokens of a pool, None of another account; raises Unreadable."""
    if account.kind is not POOL:
        return None
    pool = _pool(account)
    return LpTokens(pool.lp_mint, pool.lp_raw)


def _pools(held: Held) -> Reading:
    pools = [
        pool
        for account in held.of(POOL)
        if held.tokens.get((pool := _pool(account)).lp_mint, 0) > 0
    ]
    known = yield sorted(
        {each for pool in pools for each in (pool.coin.vault, pool.pc.vault, pool.targets)}
    )
    found = []
    for pool in pools:
        lp_raw = held.tokens[pool.lp_mint]
        position = Position(ROUTE, pool.account, stands_for={pool.lp_mint: lp_raw})
        _count(position, pool, lp_raw, known)
        found.append(position)
    return found


def _staked(held: Held, world: World) -> Reading:
    """Return stakes in farms, whose LP tokens lead to their pools; others stay LP tokens."""
    stakes = yield from raydium_farms.read(ROUTE, held, world)
    mints = {each.assets[0].mint: each for each in stakes if each.assets}
    if not mints:
        return stakes
    accounts = {each.data[LP_MINT_AT : LP_MINT_AT + 32]: each for each in held.of(POOL)}
    if wanted := {mint: issuer_of(mint, POOL) for mint in mints if mint not in accounts}:
        sent = yield sorted(wanted.values())
        accounts |= {mint: sent[each] for mint, each in wanted.items() if each in sent}
    pools = {mint: _pool_of(accounts[mint], mints[mint]) for mint in mints if mint in accounts}
    known: Mapping[bytes, Account] = {}
    if pools:
        known = yield sorted(
            {at for of in pools.values() for at in (of.coin.vault, of.pc.vault, of.targets)}
        )
    for stake in stakes:
        if not stake.assets:
            continue
        [lp, *rewards] = stake.assets
        if pool := pools.get(lp.mint):
            slots = pool.account.slot, stake.reference_slot
            stake.reference_slot = min(each for each in slots if each is not None)
            _count(stake, pool, lp.amount_raw or 0, known)
            stake.assets += rewards
        else:
            stake.unsupported_fields.append(_NO_POOL)
    return stakes


def _pool_of(account: Account, stake: Position) -> _Pool:
    """Return the pool of a stake; raises Unreadable of the stake's account."""
    try:
        return _pool(account)
    except Unreadable as reason:
        raise Unreadable(f"its pool: {reason}", stake.account.address) from None


def _count(position: Position, pool: _Pool, lp_raw: int, known: Mapping[bytes, Account]) -> None:
    """Set what LP tokens of a pool are worth in both tokens, and what is not known of it."""
    address = position.account.address
    if lp_raw > pool.lp_raw:
        raise Unreadable(f"{lp_raw} of {pool.lp_raw} LP tokens", address)
    position.market = pool.account.address
    coin = vaults.reserve(known, pool.coin, address)
    pc = vaults.reserve(known, pool.pc, address)
    targets = known.get(pool.targets)
    if targets is None or targets.kind is not TARGETS:
        position.missing.append(pool.targets)
    else:
        slots = targets.slot, position.reference_slot
        position.reference_slot = min(each for each in slots if each is not None)
    vaults.note_vaults(position, known, pool.coin, pool.pc)
    position.range = vaults.full_range(pool.coin, pool.pc, coin, pc)
    amounts: tuple[int | None, int | None] = None, None
    if coin is None or pc is None or position.missing:
        position.unsupported_fields.append("amounts: an account of the pool is not known yet")
    elif targets is not None and (profit := _profit(pool, targets, coin, pc)) is not None:
        coin, pc = coin - profit[0], pc - profit[1]
        amounts = (
            vaults.share_of(lp_raw, coin, pool.lp_raw),
            vaults.share_of(lp_raw, pc, pool.lp_raw),
        )
    else:
        position.unsupported_fields.append("amounts: the program refuses to count its profit")
    role = Role.SUPPLY
    if pool.status not in _PAYING:
        role = Role.LOCKED
        position.unsupported_fields.append(vaults.PAUSED)
    position.assets = vaults.assets(role, amounts, pool.coin, pool.pc)


def _profit(pool: _Pool, targets: Account, coin: int, pc: int) -> tuple[int, int] | None:
    """Return what a withdrawal takes of coin and pc for Raydium; None where it would fail.

    That is a part of the growth of the root of coin x pc since it was last counted, at the price of
    now. Each division rounds down, in the program's order.
    """
    if pool.status == _WITHDRAW_ONLY:
        return 0, 0
    numerator, denominator = pool.profit
    scale, coin_one, pc_one = pool.decimal_value, 10**pool.coin.decimals, 10**pool.pc.decimals
    if not (scale and denominator and coin and pc):
        return None
    last_x, last_y = _u128(targets, 1024), _u128(targets, 1040)
    if pc * coin < (last_x * pc_one // scale) * (last_y * coin_one // scale):
        return None
    x, y = pc * scale // pc_one, coin * scale // coin_one
    if not (x and y):
        return None
    x_then = isqrt(last_x * last_y * x // y)
    y_then = x_then * y // x
    if x_then > x or y_then > y:
        return None
    grown_pc, grown_coin = (x - x_then) * pc_one // scale, (y - y_then) * coin_one // scale
    of_pc, of_coin = (each * numerator // denominator for each in (grown_pc, grown_coin))
    if not (of_pc and of_coin):
        return 0, 0
    return (of_coin, of_pc) if of_coin <= coin and of_pc <= pc else None


def _pool(account: Account) -> _Pool:
    data = account.data
    if len(data) != POOL.size:
        raise Unreadable(f"a pool of {len(data)} bytes", account.address)
    coin_decimals, pc_decimals = u64(data, 32), u64(data, 40)
    if max(coin_decimals, pc_decimals) > _MOST_DECIMALS:
        raise Unreadable("coin_decimals or pc_decimals is above 255", account.address)
    return _Pool(
        account,
        Side(data[336:368], data[400:432], coin_decimals, u64(data, 192)),
        Side(data[368:400], data[432:464], pc_decimals, u64(data, 200)),
        data[LP_MINT_AT : LP_MINT_AT + 32],
        u64(data, 720),
        data[592:624],
        u64(data, 0),
        u64(data, 120),
        (u64(data, 160), u64(data, 168)),
    )


def _u128(account: Account, at: int) -> int:
    try:
        return u128(account.data, at)
    except error:
        size = len(account.data)
        raise Unreadable(f"no integer at {at} of {size} bytes", account.address) from None


PROTOCOL: Final = Protocol(
    name="raydium_amm_v4",
    kinds=(POOL, TARGETS, *raydium_farms.KINDS),
    routes=(Route(ROUTE, Shape.LIQUIDITY, "Shares of pools, free and staked in farms"),),
    read=read,
    unsupported_fields=("LP tokens of other programs in farms, as both tokens of their pools",),
    reads_tokens=True,
    lp=lp,
)
