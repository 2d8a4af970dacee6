"""Kamino's managed liquidity (kliquidity): a share is a part of one position in a pool.

A strategy has tokens that are not invested, and one position of Orca's Whirlpools or Raydium's
CLMM. Source: kliquidity-sdk's IDL (`WhirlpoolStrategy`) and `getTokenAAndBPerShare`: amounts of the
position rounded down, plus what is not invested, by the shares issued. Shares in a strategy's farm
count as those in the wallet do.

Where a strategy's amounts cannot be computed its shares stay a line of the share token, which
counts where a market prices it: anybody can send one, and an amount that is not known would make
the wallet's worth unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from struct import error, unpack_from
from typing import Final, NamedTuple

from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    Kind,
    Position,
    Reading,
    Route,
    Shape,
    Unreadable,
    World,
)
from schemas.protocols.kamino_parts.staked import Staked, oldest, shares_of
from schemas.protocols.math.concentrated import price_range, token_amounts
from schemas.protocols.math.ticks import orca_sqrt_price_x64, raydium_sqrt_price_x64
from schemas.solana.addresses import key, text
from schemas.solana.borsh import raw_pubkey, u64, u128

SHARES_MINT_AT: Final = 720
SIZE: Final = 4064
STRATEGY: Final = Kind(
    "kamino_strategy",
    key("6LtLpnUFNByNXLyCoK9wA2MykKAmQNZKBdY8s47dehDc"),
    bytes.fromhex("beb2e7b831ba670d"),
    size=SIZE,
    mints=(SHARES_MINT_AT,),
)
KINDS: Final[tuple[Kind, ...]] = (STRATEGY,)
ROUTES: Final = (
    Route("liquidity", Shape.LIQUIDITY, "Shares of managed liquidity, as its two tokens"),
)
UNSUPPORTED: Final[tuple[str, ...]] = (
    "liquidity: amounts of strategies over Meteora",
    "liquidity: fees and rewards that a strategy has not collected or invested",
    "liquidity: a strategy's fee of a withdrawal",
)

_NO_FEES: Final = "rewards: fees and rewards that the strategy has not collected or invested"
_UNSET: Final = bytes(32)
_MAX_DECIMALS: Final = 32
_SHARES: Final = "assets: the line is of shares, not of the strategy's tokens: "


class _Dex(NamedTuple):
    """Where a program's accounts have what a strategy's amounts depend on."""

    program: bytes
    pool_tag: bytes
    sqrt_price_at: int
    current_tick_at: int
    position_tag: bytes
    pool_at: int  # in a position, as the next ones
    liquidity_at: int
    ticks_at: int
    sqrt_price: Callable[[int], int]


_DEXES: Final = {
    0: _Dex(
        program=key("whirLbMiicVdio4qvUfM5KAg6Ct8VwpYzGff3uctyCc"),
        pool_tag=bytes.fromhex("3f95d10ce1806309"),
        sqrt_price_at=65,
        current_tick_at=81,
        position_tag=bytes.fromhex("aabc8fe47a40f7d0"),
        pool_at=8,
        liquidity_at=72,
        ticks_at=88,
        sqrt_price=orca_sqrt_price_x64,
    ),
    1: _Dex(
        program=key("CAMMCzo5YL8w4VFF8KVHrK22GGUsp5VTaW7grrKgrWqK"),
        pool_tag=bytes.fromhex("f7ede3f5d7c3de46"),
        sqrt_price_at=253,
        current_tick_at=269,
        position_tag=bytes.fromhex("466f967ee60f1975"),
        pool_at=41,
        liquidity_at=81,
        ticks_at=73,
        sqrt_price=raydium_sqrt_price_x64,
    ),
}


@dataclass(frozen=True, slots=True)
class _Strategy:
    account: Account
    mints: tuple[bytes, bytes]
    decimals: tuple[int | None, int | None]
    idle_raw: tuple[int, int]
    shares_issued: int
    dex: _Dex | None
    pool: bytes
    position: bytes

    @property
    def wanted(self) -> tuple[bytes, ...]:
        """Return the accounts its amounts depend on."""
        if self.dex is None or not self.shares_issued or self.position == _UNSET:
            return ()
        return (self.pool, self.position)


class _Invested(NamedTuple):
    ticks: tuple[int, int]
    current_tick: int
    sqrt_prices_x64: tuple[int, int, int]  # at the lower tick, at the upper one, and now
    amounts_raw: tuple[int, int]


def read(held: Held, world: World, staked: Sequence[Staked] = ()) -> Reading:
    """Return strategies that a wallet has shares of, in a farm too, as tokens; raises Unreadable.

    What is staked and no strategy's share stays a stake.
    """
    shares, stays = yield from shares_of("liquidity", STRATEGY, held, staked)
    strategies = [_strategy(each.issuer) for each in shares]
    if strategies:
        found = yield tuple(dict.fromkeys(each for of in strategies for each in of.wanted))
        for each, strategy in zip(shares, strategies, strict=True):
            _count(each.position, strategy, found)
    return [*(each.position for each in shares), *stays]


def _strategy(account: Account) -> _Strategy:
    data = account.data
    if len(data) != SIZE:
        raise Unreadable(f"strategy of {len(data)} bytes", account.address)
    return _Strategy(
        account=account,
        mints=(raw_pubkey(data, 544), raw_pubkey(data, 576)),
        decimals=(_decimals(u64(data, 608)), _decimals(u64(data, 616))),
        idle_raw=(u64(data, 624), u64(data, 632)),
        shares_issued=u64(data, 800),
        dex=_DEXES.get(u64(data, 1544)),
        pool=raw_pubkey(data, 112),
        position=raw_pubkey(data, 272),
    )


def _decimals(stored: int) -> int | None:
    """Return a token's decimals; None for so many that no sum has use for them."""
    return stored if stored <= _MAX_DECIMALS else None


def _count(position: Position, strategy: _Strategy, found: Mapping[bytes, Account]) -> None:
    """Turn a position's shares into its strategy's tokens, and note what is not known of them."""
    used = [found[each] for each in strategy.wanted if each in found]
    position.market = strategy.pool
    position.missing += [each for each in strategy.wanted if each not in found]
    position.reference_slot = oldest(position, strategy.account, used)
    whole_raw: tuple[int | None, int | None] = (None, None)
    dex = strategy.dex
    if dex is None or not strategy.wanted:
        is_other = dex is None
        why = "it is not over Orca or Raydium" if is_other else "it has no position, or no shares"
        position.unsupported_fields.append(_SHARES + why)
        return
    if position.missing:
        position.unsupported_fields.append("amount_raw: the pool or the position is missing")
    else:
        invested = _invested(strategy, dex, found)
        idle_a, idle_b = strategy.idle_raw
        whole_raw = (idle_a + invested.amounts_raw[0], idle_b + invested.amounts_raw[1])
        position.range = price_range(
            strategy.mints,
            strategy.decimals,
            invested.ticks,
            invested.current_tick,
            invested.sqrt_prices_x64,
        )
    position.assets = [
        Asset(line.role, mint, _part(strategy, whole, line.amount_raw), decimals)
        for line in position.assets
        for mint, whole, decimals in zip(strategy.mints, whole_raw, strategy.decimals, strict=True)
    ]
    position.unsupported_fields.append(_NO_FEES)


def _part(strategy: _Strategy, whole_raw: int | None, shares: int | None) -> int | None:
    if whole_raw is None or shares is None:
        return None
    return whole_raw * shares // strategy.shares_issued


def _invested(strategy: _Strategy, dex: _Dex, found: Mapping[bytes, Account]) -> _Invested:
    strategy_address = strategy.account.address
    pool, position = found[strategy.pool], found[strategy.position]
    for account, tag in ((pool, dex.pool_tag), (position, dex.position_tag)):
        if account.kind.program != dex.program or not account.data.startswith(tag):
            raise Unreadable(f"{text(account.address)} is not of its dex", strategy_address)
    try:
        of_pool = raw_pubkey(position.data, dex.pool_at)
        liquidity = u128(position.data, dex.liquidity_at)
        lower, upper = unpack_from("<ii", position.data, dex.ticks_at)
        now = u128(pool.data, dex.sqrt_price_at)
        (current_tick,) = unpack_from("<i", pool.data, dex.current_tick_at)
        at_lower, at_upper = dex.sqrt_price(lower), dex.sqrt_price(upper)
    except (error, ValueError) as reason:
        raise Unreadable(f"pool or position: {reason}", strategy_address) from None
    if of_pool != strategy.pool or lower >= upper:
        raise Unreadable(f"position {text(position.address)}: pool or ticks", strategy_address)
    return _Invested(
        ticks=(lower, upper),
        current_tick=current_tick,
        sqrt_prices_x64=(at_lower, at_upper, now),
        amounts_raw=token_amounts(liquidity, now, at_lower, at_upper),
    )
