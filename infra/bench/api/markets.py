"""The markets of the data set's tokens in Redis, computed from what ClickHouse has of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import nlargest
from typing import Any, Final

import orjson
from clickhouse_connect.driver.client import Client

from infra.bench.api.redis_writer import RedisWriter
from infra.bench.api.world import (
    DECIMALS,
    FIRST_DAY,
    FIRST_SLOT,
    LAST_MS,
    LAST_SLOT,
    QUANTITY_RAW,
    SOL_USD,
    SUPPLY_RAW,
    World,
)
from infra.clickhouse.sql import load
from schemas.amounts import LAMPORTS, usd
from schemas.channels import TRENDING_FIELDS
from schemas.markets import (
    BUCKET,
    INTERVALS_S,
    PRICE_SCALE,
    QUARTER,
    Candle,
    Head,
    PoolFacts,
    pack_candle,
    pack_head,
    pack_pool,
    whole,
)
from schemas.prices import CLOSE_MS, LastPrice, add_close
from schemas.redis_keys import (
    ACTIVE,
    MARKET,
    MARKETS,
    PRICE,
    TRENDING,
    TRENDING_RECORDS,
    WATERMARK,
    mint_tag,
    tag_of_mints,
)
from schemas.times import DAY_MS, MINUTE_MS
from schemas.topics import SETTLED_BY_MINT

_NOW: Final = load(__package__, "market_now")
_BUCKETS: Final = load(__package__, "buckets")
_CANDLES: Final = load(__package__, "candles_now")
_SOL: Final = "So11111111111111111111111111111111111111112"
_MASK: Final = 2**64 - 1
_LIQUIDITY_LAMPORTS: Final = 2 * 10**11
_LISTED: Final = 200  # of a partition, in the trending list
# A price of 1 is 1e-24 SOL for a whole token, a swap moves a thousand of these.
_PRICE_OF_LAMPORT: Final = PRICE_SCALE // LAMPORTS * 10**DECIMALS // QUANTITY_RAW


@dataclass(slots=True)
class _Market:
    """What was found of a token."""

    last_slot: int
    last_ms: int
    last_lamports: int
    first_lamports: int
    holders: int
    minutes: bytearray = field(default_factory=bytearray)
    quarters: bytearray = field(default_factory=bytearray)
    closes: bytes = b""
    candles: list[bytes] = field(default_factory=list)
    day: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # buys, sells, $ of both

    @property
    def score(self) -> int:
        """Return its place in the trending list, more or less."""
        return len(self.minutes) + len(self.quarters) + self.day[0] + self.day[1]


async def write_progress(write: RedisWriter) -> None:
    """Write how far the markets have come: to the last slot."""
    for partition in range(SETTLED_BY_MINT.partitions):
        tag = tag_of_mints(partition)
        mark = ("slot", LAST_SLOT, "time_ms", LAST_MS)
        written = ("offset", LAST_SLOT, "at_ms", time.time_ns() // 10**6)
        for group in ("market", "store"):
            await write.hash(WATERMARK.make(tag=tag, group=group), *mark, *written)
        await write.hash(MARKETS.make(tag=tag), *mark, "sol_usd", f"{SOL_USD}/1")


async def write_market(write: RedisWriter, mint: str, price_sol: int, decimals: int) -> None:
    """Write the market and the price of a token that is no token of the data set.

    Of SOL, which the agents give both from the reference, or of one that other protocols deal in.
    """
    price_usd = price_sol * SOL_USD
    head = Head(
        price_sol=price_sol,
        price_usd=price_usd,
        first_sol=price_sol,
        first_usd=price_usd,
        slot=LAST_SLOT,
        time_ms=LAST_MS,
    )
    token = {"name": None, "symbol": None, "decimals": decimals}
    market = MARKET.make(tag=mint_tag(mint), mint=mint)
    await write.hash(market, "head", pack_head(head, []), "token", orjson.dumps(token))
    price = LastPrice(whole(price_sol) or 0.0, whole(price_usd), LAST_MS, LAST_SLOT, "")
    fields = [part for item in price.to_hash().items() for part in item]
    await write.hash(PRICE.make(mint=mint), *fields, "closes", add_close(b"", price))


async def write_markets(
    write: RedisWriter, clickhouse: Client, world: World, slice_: int, slices: int
) -> None:
    """Write the markets, prices and trending records of a slice of the tokens."""
    markets = _read(clickhouse, world.parameters(slice=slice_, slices=slices))
    listed: dict[str, list[tuple[int, int, str]]] = {}
    numbers = _numbers(world)
    for mint, market in markets.items():
        tag = mint_tag(mint)
        token = _token(world, numbers[mint])
        await _write(write, tag, mint, market, token, world.raw("pool", numbers[mint]))
        listed.setdefault(tag, []).append((market.score, numbers[mint], mint))
    for tag, candidates in listed.items():
        for score, number, mint in nlargest(_LISTED // slices, candidates):
            record = _record(mint, markets[mint], _token(world, number))
            await write.ranked(TRENDING.make(tag=tag), score, mint)
            await write.hash(TRENDING_RECORDS.make(tag=tag), mint, orjson.dumps(record))
    await write.flush()


@lru_cache(1)
def _numbers(world: World) -> dict[str, int]:
    return {world.mint(number): number for number in range(world.mints)}


def _read(clickhouse: Client, parameters: dict[str, Any]) -> dict[str, _Market]:
    with clickhouse.query_rows_stream(_NOW, parameters=parameters) as rows:
        markets = {mint: _Market(*row) for mint, *row in rows}
    for minutes, since_ms in ((1, 60 * MINUTE_MS), (QUARTER, DAY_MS)):
        asked = {**parameters, "minutes": minutes, "after_ms": LAST_MS - since_ms}
        with clickhouse.query_rows_stream(_BUCKETS, parameters=asked) as rows:
            for mint, start, wallets, *figures, last in rows:
                packed = _bucket(start, wallets, figures, last)
                market = markets[mint]
                if minutes == 1:
                    market.minutes += packed
                else:
                    market.quarters += packed
                    buys, sells, _, _, buy_micros, sell_micros = figures
                    for at, figure in enumerate((buys, sells, buy_micros, sell_micros)):
                        market.day[at] += figure
    asked = {**parameters, "minutes": CLOSE_MS // MINUTE_MS, "after_ms": LAST_MS - 2 * DAY_MS}
    with clickhouse.query_rows_stream(_BUCKETS, parameters=asked) as rows:
        for mint, start, *_, last in rows:
            market = markets[mint]
            price = _price(last, start * MINUTE_MS, market.last_slot)
            market.closes = add_close(market.closes, price)
    with clickhouse.query_rows_stream(_CANDLES, parameters=parameters) as rows:
        for mint, _, start_ms, slot, *figures in rows:
            prices = [round(figure * PRICE_SCALE) for figure in figures[:8]]
            candle = Candle(start_ms // 1_000, slot, *prices, *figures[8:])
            markets[mint].candles.append(pack_candle(candle))
    for market in markets.values():  # those of a second are of the last day only
        missing = len(INTERVALS_S) - len(market.candles)
        market.candles[:0] = market.candles[:1] * missing
    return markets


def _bucket(start: int, wallets: int, figures: list[int], last: int) -> bytes:
    sol, usd = last * _PRICE_OF_LAMPORT, last * _PRICE_OF_LAMPORT * SOL_USD
    prices = (sol & _MASK, sol >> 64, usd & _MASK, usd >> 64)
    return BUCKET.pack(start, wallets, wallets * 1024, *figures, *prices)


def _price(lamports: int, time_ms: int, slot: int, pool: str = "") -> LastPrice:
    price = whole(lamports * _PRICE_OF_LAMPORT) or 0.0
    return LastPrice(price, price * SOL_USD, time_ms, slot, pool)


async def _write(
    write: RedisWriter,
    tag: str,
    mint: str,
    market: _Market,
    token: dict[str, Any],
    raw_pool: bytes,
) -> None:
    last, first = (
        lamports * _PRICE_OF_LAMPORT for lamports in (market.last_lamports, market.first_lamports)
    )
    head = Head(
        price_sol=last,
        price_usd=last * SOL_USD,
        first_sol=first,
        first_usd=first * SOL_USD,
        slot=market.last_slot,
        time_ms=market.last_ms,
        curve_whole_raw=SUPPLY_RAW,
        holder_count=market.holders,
        snapshot_min=market.last_ms // MINUTE_MS,
        is_launched=True,
        liquidity_lamports=_LIQUIDITY_LAMPORTS,
    )
    pool = PoolFacts(
        dex="pump-swap",
        price_sol=last,
        price_usd=last * SOL_USD,
        first_sol=first,
        first_usd=first * SOL_USD,
        slot=market.last_slot,
        time_ms=market.last_ms,
        reserve_raw=SUPPLY_RAW,
        quote_reserve_raw=10**11,
        liquidity_lamports=_LIQUIDITY_LAMPORTS,
    )
    await write.hash(
        MARKET.make(tag=tag, mint=mint),
        *("head", pack_head(head, [raw_pool]), "token", orjson.dumps(token)),
        *("candles", b"".join(market.candles)),
        *("minutes", bytes(market.minutes), "quarters", bytes(market.quarters)),
        *(f"pool:{token['migrated_pool']}", pack_pool(pool, market.quarters)),
    )
    price = _price(market.last_lamports, market.last_ms, market.last_slot, token["migrated_pool"])
    fields = [part for item in price.to_hash().items() for part in item]
    key = PRICE.make(mint=mint)
    await write.hash(key, *fields, "closes", add_close(market.closes, price))
    await write.ranked(ACTIVE.make(tag=tag), market.last_ms, mint)


def _token(world: World, number: int) -> dict[str, Any]:
    return {
        "name": f"Token number {number}",
        "symbol": f"TKN{number}",
        "uri": f"https://example.org/metadata/{number}.json",
        "decimals": DECIMALS,
        "supply_raw": SUPPLY_RAW,
        "creator": world.wallet(number),
        "platform": "pump-fun",
        "dex": "pump-fun",
        "pool": world.pool(number),
        "quote_mint": _SOL,
        "token_program": "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "created_slot": FIRST_SLOT,
        "created_ms": FIRST_DAY * DAY_MS,
        "migrated_slot": FIRST_SLOT,
        "migrated_ms": FIRST_DAY * DAY_MS,
        "migrated_dex": "pump-swap",
        "migrated_pool": world.pool(number),
    }


def _record(mint: str, market: _Market, token: dict[str, Any]) -> dict[str, Any]:
    buys, sells, buy_micros, sell_micros = market.day
    price_usd = (whole(market.last_lamports * _PRICE_OF_LAMPORT) or 0.0) * SOL_USD
    record = {
        "mint": mint,
        "name": token["name"],
        "symbol": token["symbol"],
        "dex": token["platform"],
        "creator": token["creator"],
        "price_usd": price_usd,
        "market_cap": price_usd * SUPPLY_RAW / 10**DECIMALS,
        "liquidity_usd": 200.0 * SOL_USD,
        "buy_count": buys,
        "sell_count": sells,
        "buy_volume_24h": usd(buy_micros),
        "sell_volume_24h": usd(sell_micros),
        "total_volume_24h": usd(buy_micros + sell_micros),
        "holder_count": market.holders,
        "top10_holders_pct": 12.5,
        "dev_holding_pct": 0.0,
        "bonding_curve_pct": 100.0,
        "is_migrated": True,
        "supply": SUPPLY_RAW / 10**DECIMALS,
        "decimals": DECIMALS,
    }
    return {name: record[name] for name in TRENDING_FIELDS}
