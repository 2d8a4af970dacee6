"""Answers about what tokens are and cost, put together from what is known of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from api.amounts import human, sol
from api.answers.tokens import Day, Pools, TokenFacts, TokenPrice
from api.answers.tokens import Pool as PoolAnswer
from api.answers.tokens import Token as TokenAnswer
from api.answers.tokens import Tokens as TokensAnswer
from api.errors import UNKNOWN_TOKEN, Problem
from api.readers.cold_markets import read_cold_fields
from api.readers.tokens import Token, Tokens, read_tokens
from api.stores import Stores
from schemas.markets import QUARTERS_KEPT, PoolFacts, sold_pct, unpack_pool, whole, window
from schemas.redis_keys import MARKET, mint_tag

DAY_MIN: Final = QUARTERS_KEPT
_POOL: Final = b"pool:"


async def token(stores: Stores, mint: str) -> TokenAnswer:
    """Return a token and its last 24 hours; raises Problem."""
    tokens = await read_tokens(stores, (mint,), with_day=True)
    found = _known(tokens, mint)
    return {
        **token_facts(found, tokens),
        "day": _day(found.quarters, tokens.now_ms) if found.quarters else None,
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
    }


async def token_price(stores: Stores, mint: str) -> TokenPrice:
    """Return what a token costs; raises Problem."""
    tokens = await read_tokens(stores, (mint,))
    found = _known(tokens, mint)
    about, price, now_ms = found.about, found.price, tokens.now_ms
    return {
        "mint": mint,
        "name": about["name"],
        "symbol": about["symbol"],
        "decimals": about["decimals"],
        "supply_raw": about["supply_raw"],
        "supply": about["supply"],
        "supply_source": about["supply_source"],
        "supply_time_ms": about["supply_time_ms"],
        "price_sol": None if price is None else price.price_sol or None,
        "price_usd": None if price is None else price.price_usd,
        "price_time_ms": None if price is None else price.time_ms,
        "price_slot": None if price is None else price.slot,
        "price_source": found.source,
        "is_price_stale": None if price is None else found.is_stale(now_ms),
        "change_24h_pct": found.change_24h_pct(now_ms),
        "market_cap_usd": found.market_cap_usd,
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
    }


async def many_tokens(stores: Stores, mints: Sequence[str]) -> TokensAnswer:
    """Return tokens in the order asked for, each once; raises Problem."""
    tokens = await read_tokens(stores, mints)
    found, unknown = [], []
    for mint in dict.fromkeys(mints):
        each = tokens.by_mint.get(mint)
        if each is None:
            unknown.append(mint)
        else:
            found.append(token_facts(each, tokens))
    return {
        "tokens": found,
        "unknown": unknown,
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
    }


async def pools(stores: Stores, mint: str) -> Pools:
    """Return where a token trades; raises Problem."""
    tokens = await read_tokens(stores, (mint,))
    found = _known(tokens, mint)
    listed = []
    for address, facts, quarters in await _read_pools(stores, found):
        lamports = facts.liquidity_lamports if facts.quote_reserve_raw is not None else None
        listed.append((lamports or 0, address, facts, quarters, lamports))
    listed.sort(key=lambda each: (-each[0], each[1]))
    return {
        "mint": mint,
        "name": found.about["name"],
        "symbol": found.about["symbol"],
        "decimals": found.decimals,
        "pools": [
            _pool(address, facts, quarters, lamports, found, tokens)
            for _, address, facts, quarters, lamports in listed
        ],
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
    }


def token_facts(found: Token, tokens: Tokens) -> TokenFacts:
    """Return what is known of a token."""
    about, head, price, now_ms = found.about, found.head, found.price, tokens.now_ms
    creator_raw = lamports = curve_pct = None
    if head is not None:
        lamports = head.liquidity_lamports
        curve_pct = sold_pct(
            head.curve_left_raw, head.curve_whole_raw, is_migrated=about["is_migrated"]
        )
        if about["creator"] is not None:
            creator_raw = head.creator_raw
    liquidity_sol = None if lamports is None else sol(lamports)
    supply_raw = about["supply_raw"]
    return {
        **about,
        "price_sol": None if price is None else price.price_sol or None,
        "price_usd": None if price is None else price.price_usd,
        "price_time_ms": None if price is None else price.time_ms,
        "price_slot": None if price is None else price.slot,
        "price_source": found.source,
        "is_price_stale": None if price is None else found.is_stale(now_ms),
        "change_24h_pct": found.change_24h_pct(now_ms),
        "market_cap_usd": found.market_cap_usd,
        "creator_balance_raw": None if creator_raw is None else str(creator_raw),
        "creator_balance": None if creator_raw is None else human(creator_raw, about["decimals"]),
        "creator_pct": None if creator_raw is None else percent(creator_raw, supply_raw),
        "bonding_curve_pct": curve_pct,
        "liquidity_lamports": None if lamports is None else str(lamports),
        "liquidity_sol": liquidity_sol,
        "liquidity_usd": _in_dollars(liquidity_sol, tokens),
        "holder_count": None if head is None else head.holder_count,
        "last_activity_ms": None if head is None else head.time_ms,
    }


def percent(part_raw: int, whole_raw: str | None) -> float | None:
    """Return a part of the supply in per cent; None while that is not known, or nothing."""
    supply_raw = int(whole_raw or 0)
    return 100 * part_raw / supply_raw if supply_raw else None


def _known(tokens: Tokens, mint: str) -> Token:
    found = tokens.by_mint.get(mint)
    if found is None:
        raise unknown_token(mint)
    return found


def unknown_token(mint: str) -> Problem:
    """Return the problem of a mint of which nothing is known."""
    return Problem(
        UNKNOWN_TOKEN, f"{mint}: no trade, creation or balance of it was seen, nor what it is"
    )


def _in_dollars(in_sol: float | None, tokens: Tokens) -> float | None:
    return None if in_sol is None or tokens.sol_usd is None else in_sol * tokens.sol_usd


def _day(quarters: bytes, now_ms: int) -> Day:
    day = window(quarters, now_ms // 60_000, DAY_MIN)
    return {
        "buys": day.buys,
        "sells": day.sells,
        "traders": day.traders,
        "buy_volume_usd": day.buy_usd_micros / 1e6,
        "sell_volume_usd": day.sell_usd_micros / 1e6,
        "volume_usd": (day.buy_usd_micros + day.sell_usd_micros) / 1e6,
        "volume_sol": (day.buy_lamports + day.sell_lamports) / 1e9,
    }


async def _read_pools(stores: Stores, found: Token) -> list[tuple[str, PoolFacts, bytes]]:
    """Return address, facts and quarter hours of a token's pools."""
    if found.head is None:
        return []
    if found.is_cold:
        fields = (await read_cold_fields(stores, [found.mint])).get(found.mint, {})
        packed = {
            name[len(_POOL) :].decode(): value
            for name, value in fields.items()
            if name.startswith(_POOL)
        }
    else:
        key = MARKET.make(tag=mint_tag(found.mint), mint=found.mint)
        (fields,) = await stores.ask([("HKEYS", key)])
        names = [name for name in fields if name.startswith(_POOL)]
        if not names:
            return []
        (values,) = await stores.ask([("HMGET", key, *names)])
        packed = {
            name[len(_POOL) :].decode(): value
            for name, value in zip(names, values, strict=True)
            if value  # it may have left in between
        }
    return [(name, *unpack_pool(value)) for name, value in packed.items()]


def _pool(
    address: str,
    facts: PoolFacts,
    quarters: bytes,
    lamports: int | None,
    found: Token,
    tokens: Tokens,
) -> PoolAnswer:
    liquidity_sol = None if lamports is None else sol(lamports)
    reserve_raw = facts.reserve_raw
    return {
        "pool": address,
        "dex": facts.dex,
        "price_sol": whole(facts.price_sol),
        "price_usd": whole(facts.price_usd),
        "reserve_raw": None if reserve_raw is None else str(reserve_raw),
        "reserve": None if reserve_raw is None else human(reserve_raw, found.decimals),
        "liquidity_lamports": None if lamports is None else str(lamports),
        "liquidity_sol": liquidity_sol,
        "liquidity_usd": _in_dollars(liquidity_sol, tokens),
        "last_trade_slot": facts.slot,
        "last_trade_ms": facts.time_ms,
        "day": _day(quarters, tokens.now_ms),
    }
