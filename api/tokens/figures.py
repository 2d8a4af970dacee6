"""Answers about what tokens are and cost, put together from what is known of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import orjson

from api.accounts.following import FollowState
from api.metadata.service import MetadataService
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.tokens.answers import LastDay, Pools, TokenFacts, TokenNow, TokenPrice, TokenThen
from api.tokens.answers import Pool as PoolAnswer
from api.tokens.answers import Token as TokenAnswer
from api.tokens.cold_markets import read_cold
from api.tokens.mint_accounts import SuppliedTokens, mint_account, mint_reason
from api.tokens.reader import SOL_MINT, Token, TokenReader, Tokens, unknown_token
from schemas.amounts import human, sol, text, usd
from schemas.markets import (
    POOL_FIELD,
    PRICE_SCALE,
    QUARTERS_KEPT,
    PoolFacts,
    sold_pct,
    unpack_pool,
    unpack_standing,
    whole,
    window,
)
from schemas.money import DOLLARS, MONEY
from schemas.redis_keys import MARKET, mint_tag

DAY_MIN: Final = QUARTERS_KEPT
MAX_POOLS: Final = 64


async def token(
    reader: SuppliedTokens,
    gaps: GapReader,
    metadata: MetadataService,
    mint: str,
    asked: FollowState | None,
) -> TokenAnswer:
    """Return a token and its last 24 hours; raises Problem.

    `asked` is why its mint was not asked for; None: it was.
    """
    (await gaps.read()).check_mint(mint)
    tokens, accounts = await reader.read((mint,), with_day=True)
    found = _known(tokens, mint)
    said = await metadata.known(mint, found.about["uri"])
    return {
        **token_facts(found, tokens),
        "mint_account": mint_account(accounts.get(mint)),
        "mint_account_reason": mint_reason(accounts.get(mint), asked),
        "metadata": said.answer,
        "metadata_reason": said.reason,
        "metadata_detail": said.detail,
        "day": _day(found.quarters, tokens.now_ms) if found.quarters else None,
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
        "gaps": (await gaps.read()).of_tokens([mint]),
    }


async def token_price(reader: SuppliedTokens, gaps: GapReader, mint: str) -> TokenPrice:
    """Return what a token costs; raises Problem."""
    tokens, _ = await reader.read((mint,))
    found = token_facts(_known(tokens, mint), tokens)
    return {
        "mint": mint,
        "name": found["name"],
        "symbol": found["symbol"],
        "decimals": found["decimals"],
        "supply_raw": found["supply_raw"],
        "supply": found["supply"],
        "supply_source": found["supply_source"],
        "supply_time_ms": found["supply_time_ms"],
        "supply_slot": found["supply_slot"],
        "price_sol": found["price_sol"],
        "price_usd": found["price_usd"],
        "price_time_ms": found["price_time_ms"],
        "price_slot": found["price_slot"],
        "price_source": found["price_source"],
        "is_price_stale": found["is_price_stale"],
        "change_24h_pct": found["change_24h_pct"],
        "market_cap_usd": found["market_cap_usd"],
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
        "gaps": (await gaps.read()).of_tokens([mint]),
    }


async def pools(stores: Stores, reader: TokenReader, gaps: GapReader, mint: str) -> Pools:
    """Return where a token trades; raises Problem."""
    (await gaps.read()).check_mint(mint)
    tokens = await reader.read((mint,))
    found = _known(tokens, mint)
    read = _read_pools_of_sol(stores, reader) if mint == SOL_MINT else _read_pools(stores, found)
    listed = sorted(await read, key=_deepest_first)
    return {
        "mint": mint,
        "name": found.about["name"],
        "symbol": found.about["symbol"],
        "decimals": found.decimals,
        "pools": [_pool_answer(pool, found, tokens) for pool in listed[:MAX_POOLS]],
        "as_of_slot": tokens.as_of_slot,
        "as_of_ms": tokens.as_of_ms,
        "gaps": (await gaps.read()).of_tokens([mint]),
    }


def token_then(found: Token) -> TokenThen:
    """Return a token as its last trade, event and balance left it."""
    facts, price = found.facts, found.price
    answer = facts.about.copy()
    if price is not None:
        price_sol, price_usd, time_ms, slot, _ = price
        answer["price_sol"] = price_sol or None
        answer["price_usd"] = price_usd
        answer["price_time_ms"] = time_ms
        answer["price_slot"] = slot
        answer["price_source"] = found.source
        answer["market_cap_usd"] = found.market_cap_usd
    if found.packed_head is not None:
        creator_raw, time_ms, left_raw, whole_raw, holders, lamports = unpack_standing(
            found.packed_head
        )
        answer["holder_count"] = None if found.mint in MONEY else holders  # money: not followed
        answer["last_activity_ms"] = time_ms
        answer["bonding_curve_pct"] = sold_pct(
            left_raw, whole_raw, is_migrated=answer["is_migrated"]
        )
        if answer["creator"] is not None:
            answer["creator_balance_raw"] = str(creator_raw)
            answer["creator_balance"] = None if facts.unit is None else creator_raw / facts.unit
            answer["creator_pct"] = percent(creator_raw, facts.supply_raw)
        if lamports is not None:
            answer["liquidity_lamports"] = str(lamports)
            answer["liquidity_sol"] = sol(lamports)
    return answer


def token_now(found: Token, liquidity_sol: float | None, tokens: Tokens) -> TokenNow:
    """Return what that says at the chain's last block."""
    price, sol_usd = found.price, tokens.sol_usd
    return {
        "is_price_stale": None if price is None else found.is_stale(tokens.now_ms),
        "change_24h_pct": found.change_24h_pct(tokens.now_ms),
        "liquidity_usd": None
        if liquidity_sol is None or sol_usd is None
        else liquidity_sol * sol_usd,
    }


def token_facts(found: Token, tokens: Tokens) -> TokenFacts:
    """Return both."""
    then = token_then(found)
    return {**then, **token_now(found, then["liquidity_sol"], tokens)}


def token_json(found: Token, tokens: Tokens) -> bytes:
    """Return the same as JSON, of which all but what is of now is kept with the token."""
    if not found.json:
        then = token_then(found)
        found.liquidity_sol = then["liquidity_sol"]
        found.json = orjson.dumps(then)[:-1]
    now = orjson.dumps(token_now(found, found.liquidity_sol, tokens))
    return b"%b,%b" % (found.json, now[1:])


def percent(part_raw: int, supply_raw: int | None) -> float | None:
    """Return a part of the supply in per cent; None while that is not known, or nothing."""
    return 100 * part_raw / supply_raw if supply_raw else None


def _known(tokens: Tokens, mint: str) -> Token:
    found = tokens.by_mint.get(mint)
    if found is None:
        raise unknown_token(mint)
    return found


def _in_dollars(in_sol: float | None, tokens: Tokens) -> float | None:
    return None if in_sol is None or tokens.sol_usd is None else in_sol * tokens.sol_usd


def _day(quarters: bytes, now_ms: int) -> LastDay:
    day = window(quarters, now_ms // 60_000, DAY_MIN)
    usd_micros = day.buy_usd_micros + day.sell_usd_micros
    lamports = day.buy_lamports + day.sell_lamports
    return {
        "buys": day.buys,
        "sells": day.sells,
        "traders": day.traders,
        "buy_volume_usd_micros": str(day.buy_usd_micros),
        "buy_volume_usd": usd(day.buy_usd_micros),
        "sell_volume_usd_micros": str(day.sell_usd_micros),
        "sell_volume_usd": usd(day.sell_usd_micros),
        "volume_usd_micros": str(usd_micros),
        "volume_usd": usd(usd_micros),
        "volume_lamports": str(lamports),
        "volume_sol": sol(lamports),
    }


class _Pool(NamedTuple):
    """A pool as its market has it."""

    address: str
    facts: PoolFacts
    quarters: bytes
    is_mirrored: bool = False  # seen from its quote: buys and sells change places


def _deepest_first(pool: _Pool) -> tuple[int, str]:
    return -(pool.facts.liquidity_lamports or 0), pool.address


async def _read_pools_of_sol(stores: Stores, reader: TokenReader) -> list[_Pool]:
    """Return the pools that trade SOL for dollar coins, seen from SOL.

    There SOL is the quote, and the dollar coin counts one dollar. Pools of all other tokens are
    theirs: SOL is the quote of most.
    """
    coins = await reader.read(DOLLARS)
    return [
        _Pool(address, _from_sol(facts, coin.mint), quarters, is_mirrored=True)
        for coin in coins.by_mint.values()
        for address, facts, quarters, _ in await _read_pools(stores, coin)
        if facts.quote_mint == SOL_MINT
    ]


def _from_sol(facts: PoolFacts, coin: str) -> PoolFacts:
    """Return a pool of a dollar coin that is quoted in SOL as a pool of SOL."""
    coins_a_sol = PRICE_SCALE * PRICE_SCALE // facts.price_sol if facts.price_sol else 0
    return replace(
        facts,
        price_sol=PRICE_SCALE,
        price_usd=coins_a_sol,
        reserve_raw=facts.quote_reserve_raw,
        quote_reserve_raw=facts.reserve_raw,
        quote_mint=coin,
    )


async def _read_pools(stores: Stores, found: Token) -> list[_Pool]:
    """Return a token's pools."""
    if found.packed_head is None:
        return []
    if found.cold_slot is not None:
        cold = (await read_cold(stores, {found.mint: found.cold_slot})).get(found.mint)
        packed = {
            name[len(POOL_FIELD) :].decode(): value
            for name, value in (cold.fields if cold else {}).items()
            if name.startswith(POOL_FIELD)
        }
    else:
        key = MARKET.make(tag=mint_tag(found.mint), mint=found.mint)
        (fields,) = await stores.ask([("HKEYS", key)])
        names = [name for name in fields if name.startswith(POOL_FIELD)]
        if not names:
            return []
        (values,) = await stores.ask([("HMGET", key, *names)])
        packed = {
            name[len(POOL_FIELD) :].decode(): value
            for name, value in zip(names, values, strict=True)
            if value  # it may have left in between
        }
    return [_Pool(name, *unpack_pool(value)) for name, value in packed.items()]


def _pool_answer(pool: _Pool, found: Token, tokens: Tokens) -> PoolAnswer:
    facts = pool.facts
    liquidity_sol = sol(facts.liquidity_lamports)
    reserve_raw = facts.reserve_raw
    day = _day(pool.quarters, tokens.now_ms)
    return {
        "pool": pool.address,
        "dex": facts.dex,
        "quote_mint": facts.quote_mint or None,
        "price_sol": whole(facts.price_sol),
        "price_usd": whole(facts.price_usd),
        "reserve_raw": text(reserve_raw),
        "reserve": None if reserve_raw is None else human(reserve_raw, found.decimals),
        "liquidity_lamports": text(facts.liquidity_lamports),
        "liquidity_sol": liquidity_sol,
        "liquidity_usd": _in_dollars(liquidity_sol, tokens),
        "last_trade_slot": facts.slot,
        "last_trade_ms": facts.time_ms,
        "day": _mirrored(day) if pool.is_mirrored else day,
    }


def _mirrored(day: LastDay) -> LastDay:
    """Return a day's trades as trades of the quote: who buys one side sells the other."""
    return {
        **day,
        "buys": day["sells"],
        "sells": day["buys"],
        "buy_volume_usd_micros": day["sell_volume_usd_micros"],
        "buy_volume_usd": day["sell_volume_usd"],
        "sell_volume_usd_micros": day["buy_volume_usd_micros"],
        "sell_volume_usd": day["buy_volume_usd"],
    }
