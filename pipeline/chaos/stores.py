"""What the stores hold at the end, read back through the forms in `schemas`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

from clickhouse_connect.driver.client import Client

from infra.clickhouse.client import connect
from infra.redis.client import ask
from infra.redis.client import connect as connect_redis
from infra.settings import Settings
from schemas import positions as forms
from schemas import redis_keys, rows
from schemas.markets import (
    BURNED,
    Account,
    Candle,
    Head,
    unpack_account,
    unpack_candles,
    unpack_cold,
    unpack_exact,
    unpack_head,
    unpack_pool,
)
from schemas.redis_keys import Key
from schemas.solana.base58 import decode, encode

Row = dict[str, Any]
Connection = Any  # a redis.asyncio.Redis: its types leave open whether answers are bytes or text

# What may differ between two computations of the same slots: it is of the writer, of the live
# lane, which is delivered at least once, or of when the RPC was asked.
_NOT_OF_THE_LOG: Final = (
    *("wm:", "changed:", "{live}:", "metadata:"),
    # Of the lane of accounts.
    *("acct:", "own:", "pools:", "cover:", "accts:", "tracked:", "bootstrap:", "ask:"),
    "rewards:",
)
_NOT_OF_THE_LOG_TABLES: Final = (rows.TOKEN_METADATA.name, "accounts")
_SCAN: Final = 2_000
_ADDRESS_BYTES: Final = 32  # a field of ACCOUNTS that is longer has a balance of its owner


@dataclass(slots=True)
class Stored:
    """The contents of Redis and ClickHouse; addresses are base58."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    positions: dict[tuple[str, str], forms.Position] = field(default_factory=dict)
    tails: dict[tuple[str, str], list[forms.Lot]] = field(default_factory=dict)
    chunks: dict[tuple[str, str, int], list[forms.Lot]] = field(default_factory=dict)
    totals: dict[str, forms.WalletDay] = field(default_factory=dict)
    days: dict[tuple[str, int], forms.WalletDay] = field(default_factory=dict)
    balances: dict[tuple[str, str], forms.Balance] = field(default_factory=dict)
    top_of_mint: dict[tuple[str, str], int] = field(default_factory=dict)
    heads: dict[str, Head] = field(default_factory=dict)
    candles: dict[tuple[str, int], Candle] = field(default_factory=dict)  # by mint and place
    series: dict[tuple[str, str], bytes] = field(default_factory=dict)  # minutes, quarters, pool
    accounts: dict[tuple[str, str], Account] = field(default_factory=dict)
    exact: dict[tuple[str, str], int] = field(default_factory=dict)
    holders: dict[tuple[str, str], float] = field(default_factory=dict)
    traders: dict[tuple[str, bytes], int] = field(default_factory=dict)
    trending: dict[str, int] = field(default_factory=dict)


async def read(settings: Settings) -> Stored:
    """Return all that the oracle can compute."""
    stored = Stored(rows=read_tables(settings))
    redis = connect_redis(settings, answer_timeout_s=60.0)
    try:
        await read_redis(redis, stored)
    finally:
        await redis.aclose()
    return stored


async def read_redis(redis: Connection, stored: Stored) -> None:
    """Add what Redis holds."""
    await _read_books(redis, stored)
    await _read_markets(redis, stored)
    await _read_wallets_away(redis, stored)
    await _read_markets_away(redis, stored)


async def _read_wallets_away(redis: Connection, stored: Stored) -> None:
    """Add wallets that Redis has not: as ClickHouse had them last."""
    here: set[bytes] = set()
    for tag in redis_keys.wallet_tags():
        here |= {*await redis.zrange(redis_keys.WALLETS_DUE.make(tag=tag), 0, -1)}
    away: dict[str, bytes] = {}
    for row in sorted(stored.rows.get(rows.COLD_WALLETS.name, []), key=lambda row: row["slot"]):
        if decode(row["wallet"]) not in here:
            away[row["wallet"]] = row["packed"]
    for wallet, packed in away.items():
        total, balances = forms.unpack_cold_wallet(packed)
        if total:
            stored.totals[wallet] = forms.unpack_wallet_day(total)
        for account, balance in balances.items():
            stored.balances[wallet, encode(account)] = forms.unpack_balance(balance)
    for row in stored.rows.get(rows.COLD_POSITIONS.name, []):
        place = wallet, mint = row["wallet"], row["mint"]
        if wallet not in away or place in stored.positions:
            continue
        packed, chunks = forms.unpack_cold(row["packed"])
        position, tail = forms.unpack_position(packed)
        stored.positions[place] = position
        stored.tails[place] = list(forms.unpack_lots(tail))
        for number, chunk in zip(forms.full_chunks(position), chunks, strict=True):
            stored.chunks[wallet, mint, number] = list(forms.unpack_lots(chunk))
        stored.top_of_mint[mint, wallet] = position.realized_usd_micros


async def _read_markets_away(redis: Connection, stored: Stored) -> None:
    """Add markets that Redis has not: as ClickHouse had them last."""
    here: set[bytes] = set()
    for tag in redis_keys.mint_tags():
        here |= {*await redis.zrange(redis_keys.ACTIVE.make(tag=tag), 0, -1)}
    away: dict[str, bytes] = {}
    for row in sorted(stored.rows.get(rows.COLD_MARKETS.name, []), key=lambda row: row["slot"]):
        if row["mint"].encode() not in here:
            away[row["mint"]] = row["packed"]
    for mint, packed in away.items():
        market = unpack_cold(packed)
        _add_market(stored, mint, market.fields)
        _add_accounts(stored, mint, market.accounts)
        stored.traders |= {(mint, trader): score for trader, score in market.traders.items()}
        nobodys = BURNED.union(unpack_head(market.fields[b"head"])[1])
        owners: defaultdict[bytes, int] = defaultdict(int)
        for account, data in market.accounts.items():
            if len(account) == _ADDRESS_BYTES:
                owner, amount_raw, is_vault = unpack_account(data)
                owners[owner] += 0 if is_vault or owner in nobodys else amount_raw
        for owner, amount_raw in owners.items():
            if amount_raw:
                stored.holders[mint, encode(owner)] = amount_raw


def read_tables(settings: Settings) -> dict[str, list[Row]]:
    """Return all tables, each row by column; times in milliseconds."""
    client = connect(settings)
    try:
        return {
            name: list(_table(client, table))
            for name, table in rows.TABLES.items()
            if table is not rows.BOOK_CHECKPOINTS  # of Redis, which is read itself
        }
    finally:
        client.close()


def _table(client: Client, table: rows.Table) -> Iterator[Row]:
    columns = ", ".join(
        f"toUnixTimestamp64Milli(toDateTime64({name}, 3, 'UTC'))" if "DateTime" in kind else name
        for name, kind in table.columns.items()
    )
    formats: dict[str, Any] = {"packed": "bytes"} if "packed" in table.columns else {}
    found = client.query(f"SELECT {columns} FROM {table.name} FINAL", column_formats=formats)  # noqa: S608
    for row in found.result_rows:
        yield dict(zip(table.columns, row, strict=True))


async def _read_books(redis: Connection, stored: Stored) -> None:
    async for wallet, fields in _hashes(redis, redis_keys.POSITIONS, "wallet"):
        for mint_raw, data in fields.items():
            if mint_raw == forms.COLD_MARK:
                continue
            place = wallet, encode(mint_raw)
            stored.positions[place], tail = forms.unpack_position(data)
            stored.tails[place] = list(forms.unpack_lots(tail))
    keys = await _keys(redis, redis_keys.LOTS)
    for start in range(0, len(keys), _SCAN):
        part = keys[start : start + _SCAN]
        for key, data in zip(part, await ask(redis, [("GET", key) for key in part]), strict=True):
            wallet, mint, number = (
                _part(redis_keys.LOTS, key, p) for p in ("wallet", "mint", "chunk")
            )
            stored.chunks[wallet, mint, int(number)] = list(forms.unpack_lots(data))
    async for _, fields in _hashes(redis, redis_keys.WALLET_TOTALS):
        for wallet_raw, data in fields.items():
            stored.totals[encode(wallet_raw)] = forms.unpack_wallet_day(data)
    async for day, fields in _hashes(redis, redis_keys.WALLET_DAYS, "day"):
        for wallet_raw, data in fields.items():
            stored.days[encode(wallet_raw), int(day)] = forms.unpack_wallet_day(data)
    async for wallet, fields in _hashes(redis, redis_keys.BALANCES, "wallet"):
        for account_raw, data in fields.items():
            stored.balances[wallet, encode(account_raw)] = forms.unpack_balance(data)
    async for mint, members in _sorted_sets(redis, redis_keys.TOP_OF_MINT, "mint"):
        for wallet_raw, score in members.items():
            if wallet_raw == forms.COLD_MARK:
                continue
            stored.top_of_mint[mint, encode(wallet_raw)] = int(score)


async def _read_markets(redis: Connection, stored: Stored) -> None:
    async for mint, fields in _hashes(redis, redis_keys.MARKET, "mint"):
        _add_market(stored, mint, fields)
    async for mint, fields in _hashes(redis, redis_keys.ACCOUNTS, "mint"):
        _add_accounts(stored, mint, fields)
    async for mint, members in _sorted_sets(redis, redis_keys.HOLDERS, "mint"):
        for owner_raw, score in members.items():
            stored.holders[mint, encode(owner_raw)] = score
    async for mint, members in _sorted_sets(redis, redis_keys.TRADERS, "mint"):
        for trader, score in members.items():
            stored.traders[mint, trader] = int(score)
    for tag in redis_keys.mint_tags():
        key = redis_keys.TRENDING.make(tag=tag)
        for name, score in await redis.zrange(key, 0, -1, withscores=True):
            stored.trending[name.decode()] = int(score)


def _add_market(stored: Stored, mint: str, fields: dict[bytes, bytes]) -> None:
    for raw_name, data in fields.items():
        name = raw_name.decode()
        if name == "head":
            stored.heads[mint] = unpack_head(data)[0]
        elif name == "candles":
            for place, candle in enumerate(unpack_candles(data)):
                stored.candles[mint, place] = candle
        elif name in ("minutes", "quarters"):
            stored.series[mint, name] = data
        elif name.startswith("pool:"):
            stored.series[mint, name] = unpack_pool(data)[1]


def _add_accounts(stored: Stored, mint: str, fields: dict[bytes, bytes]) -> None:
    for account_raw, data in fields.items():
        if len(account_raw) == _ADDRESS_BYTES:
            stored.accounts[mint, encode(account_raw)] = unpack_account(data)
        else:
            stored.exact[mint, encode(account_raw[1:])] = unpack_exact(data)


def _names(kind: Key) -> str:
    """Return the pattern that the names of a kind of keys match."""
    return kind.pattern.format_map(defaultdict(lambda: "*"))


async def _keys(redis: Connection, kind: Key) -> list[str]:
    """Return the names of all keys of a kind."""
    found = [key.decode() async for key in redis.scan_iter(match=_names(kind), count=_SCAN)]
    return sorted(key for key in set(found) if key.count(":") == kind.pattern.count(":"))


def _part(kind: Key, key: str, part: str) -> str:
    """Return what a key has where its pattern has a part."""
    return key.split(":")[kind.pattern.split(":").index(f"{{{part}}}")]


async def _hashes(
    redis: Connection, kind: Key, part: str = "tag"
) -> AsyncIterator[tuple[str, dict[bytes, bytes]]]:
    """Yield one part of the name of each hash of a kind, and its fields."""
    for key in await _keys(redis, kind):
        yield _part(kind, key, part), await redis.hgetall(key)


async def _sorted_sets(
    redis: Connection, kind: Key, part: str
) -> AsyncIterator[tuple[str, dict[bytes, float]]]:
    """Yield one part of the name of each sorted set of a kind, and its members."""
    for key in await _keys(redis, kind):
        yield _part(kind, key, part), dict(await redis.zrange(key, 0, -1, withscores=True))


async def fingerprint(settings: Settings) -> dict[str, bytes]:
    """Return what Redis holds by key and field, and of each table a digest of its rows.

    Two computations of the same slots have the same.
    """
    redis = connect_redis(settings, answer_timeout_s=60.0)
    try:
        found = await contents(redis)
    finally:
        await redis.aclose()
    for name, table in read_tables(settings).items():
        if name not in _NOT_OF_THE_LOG_TABLES:
            lines = sorted(repr(tuple(row.values())).encode() for row in table)
            found[f"table {name}"] = _digest(lines)
    return found


async def contents(redis: Connection) -> dict[str, bytes]:
    """Return what Redis holds, by key, and field or member."""
    found: dict[str, bytes] = {}
    async for raw_key in redis.scan_iter(count=_SCAN):
        key = raw_key.decode(errors="replace")
        if key.startswith(_NOT_OF_THE_LOG):
            continue
        match await redis.type(raw_key):
            case b"string":
                found[key] = await redis.get(raw_key) or b""
            case b"hash":
                for name, value in (await redis.hgetall(raw_key)).items():
                    found[f"{key} {name!r}"] = value
            case b"zset":
                for name, score in await redis.zrange(raw_key, 0, -1, withscores=True):
                    found[f"{key} {name!r}"] = repr(score).encode()
            case b"set":
                found[key] = b" ".join(sorted(await redis.smembers(raw_key)))
            case kind:
                raise ValueError(f"{key} is a {kind!r}: no kind that the agents write")
    return found


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=12)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()
