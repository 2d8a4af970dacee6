"""The market of a mint as Redis keeps it: read into memory, and back as commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from pipeline.domain.market import MintMarket, Pool, Token
from pipeline.domain.price import MintPrice
from pipeline.domain.rolling import oldest_score
from schemas.markets import (
    EXACT_BELOW,
    POOL_FIELD,
    check_series,
    exact_field,
    pack_account,
    pack_candle,
    pack_exact,
    pack_head,
    pack_pool,
    unpack_candles,
    unpack_head,
    unpack_pool,
)
from schemas.redis_keys import ACCOUNTS, HOLDERS, MARKET, METADATA, TRADERS
from schemas.solana.addresses import key as raw

Command = tuple[Any, ...]


def restore(mint: str, fields: Mapping[bytes, bytes]) -> MintMarket:
    """Return the market of a mint from the fields of its hash; without any, a new one.

    Raises what `UNREADABLE` names where a field is missing or cannot be read.
    """
    market = MintMarket(mint)
    if not fields:
        return market
    market.head, pools = unpack_head(fields[b"head"])
    market.token = Token(**orjson.loads(fields[b"token"]))
    market.is_stored = True
    holders = market.holders
    holders.count = market.head.holder_count
    holders.creator = raw(market.token.creator) if market.token.creator else b""
    holders.creator_raw = market.head.creator_raw
    holders.pools = dict.fromkeys(pools)
    if b"price" in fields:
        market.price = MintPrice.unpack(fields[b"price"])
        market.candles = unpack_candles(fields[b"candles"])
        market.minutes.data = bytearray(check_series(fields[b"minutes"]))
        market.quarters.data = bytearray(check_series(fields[b"quarters"]))
    for name, value in fields.items():
        if name.startswith(POOL_FIELD):
            address = name[len(POOL_FIELD) :].decode()
            facts, series = unpack_pool(value)
            market.pools[address] = Pool(address, facts, check_series(series))
    return market


def commands(tag: str, market: MintMarket) -> list[Command]:
    """Return what writes the changes of a market, and count them as taken."""
    return [*_of_market(tag, market), *_of_traders(tag, market), *_of_holders(tag, market)]


def _of_market(tag: str, market: MintMarket) -> list[Command]:
    key = MARKET.make(tag=tag, mint=market.mint)
    parts: list[Any] = ["HSET", key, "head", pack_head(market.head, list(market.holders.pools))]
    is_new = not market.is_stored
    if market.token_unwritten or is_new:
        parts += ("token", orjson.dumps(dataclasses.asdict(market.token)))
        market.token_unwritten = False
        market.is_stored = True
    if market.traded:
        parts += (
            "price",
            market.price.pack(),
            "candles",
            b"".join(map(pack_candle, market.candles)),
            "minutes",
            bytes(market.minutes.data),
            "quarters",
            bytes(market.quarters.data),
        )
        market.traded = False
    for address in sorted(market.changed_pools):
        pool = market.pools[address]
        parts += (POOL_FIELD + address.encode(), pack_pool(pool.facts, pool.quarters.data))
    market.changed_pools.clear()
    written: list[Command] = [tuple(parts)]
    if is_new:
        written.append(("PERSIST", METADATA.make(tag=tag, mint=market.mint)))
    if market.dropped_pools:
        names = [POOL_FIELD + address.encode() for address in sorted(market.dropped_pools)]
        written.append(("HDEL", key, *names))
        market.dropped_pools.clear()
    return written


def _of_traders(tag: str, market: MintMarket) -> list[Command]:
    traders = market.traders
    if not traders.changed:
        return []
    key = TRADERS.make(tag=tag, mint=market.mint)
    flat: list[Any] = []
    for trader, score in traders.changed.items():
        flat += (score, trader)
    traders.changed.clear()
    written: list[Command] = [("ZADD", key, *flat)]
    oldest = oldest_score(market.head.time_ms // 60_000)
    if oldest != traders.trimmed:
        traders.trimmed = oldest
        written.append(("ZREMRANGEBYSCORE", key, "-inf", f"({oldest}"))
    return written


def _of_holders(tag: str, market: MintMarket) -> list[Command]:
    holders = market.holders
    written: list[Command] = []
    kept: list[Any] = []
    gone: list[Any] = []
    for account in sorted(holders.changed_accounts):
        record = holders.accounts[account]
        if record is None:
            gone.append(account)
        else:
            kept += (account, pack_account(record))
    ranked: list[Any] = []
    unranked: list[bytes] = []
    for owner in sorted(holders.changed_owners):
        amount = holders.owners[owner] if holders.counts(owner) else 0
        if amount:
            ranked += (amount, owner)
        else:
            unranked.append(owner)
        if amount >= EXACT_BELOW:
            kept += (exact_field(owner), pack_exact(amount))
        elif owner in holders.shrunk:
            gone.append(exact_field(owner))
    key = ACCOUNTS.make(tag=tag, mint=market.mint)
    if kept:
        written.append(("HSET", key, *kept))
    if gone:
        written.append(("HDEL", key, *gone))
    key = HOLDERS.make(tag=tag, mint=market.mint)
    if ranked:
        written.append(("ZADD", key, *ranked))
    if unranked:
        written.append(("ZREM", key, *unranked))
    holders.changed_accounts.clear()
    holders.changed_owners.clear()
    holders.shrunk.clear()
    return written
