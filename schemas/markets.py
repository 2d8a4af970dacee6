"""The packed forms of a mint's market in Redis, shared by writers and readers.

Prices are integers in units of 1e-24 SOL or 1e-24 dollar per whole token; 0 means not known.
All numbers are little-endian. Nothing here depends on the clock: a reader brings its own `now`,
and figures of a window fade without new trades.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is an exception
from typing import Final, NamedTuple

from schemas.solana import base58
from schemas.times import DAY_S, HOUR_S

PRICE_SCALE: Final = 10**24
MAX_PRICE: Final = (1 << 128) - 1  # beyond, a price stays there
MAX_VOLUME: Final = (1 << 64) - 1  # likewise a sum of lamports or of millionths of a dollar

# Rolling figures: a series of buckets, ascending by start, empty ones left out.

MINUTE: Final = 1
QUARTER: Final = 15  # minutes
MINUTES_KEPT: Final = 60
QUARTERS_KEPT: Final = 24 * 60

# start (minutes since the Unix epoch); traders whose last trade lies in the bucket, and what they
# weigh in the trending score; buys, sells; lamports of both; millionths of a dollar of both; the
# price at the end, in SOL and in dollars, each 128 bits in a low and a high half.
BUCKET: Final = Struct("<IIQIIQQQQQQQQ")


@dataclass(slots=True)
class Window:
    """The figures of the minutes up to now; `then_*` is the price when they began."""

    traders: int = 0
    weight: int = 0
    buys: int = 0
    sells: int = 0
    buy_lamports: int = 0
    sell_lamports: int = 0
    buy_usd_micros: int = 0
    sell_usd_micros: int = 0
    then_sol: int = 0
    then_usd: int = 0


def check_series(data: bytes) -> bytes:
    """Return a series as it is; raises struct.error where its length is none of buckets."""
    if len(data) % BUCKET.size:
        raise StructError(f"series of {len(data)} bytes, not a multiple of {BUCKET.size}")
    return data


def window(data: bytes | bytearray, now_min: int, minutes: int) -> Window:
    """Return the figures of the buckets that began within the last `minutes`, now's among them.

    A trader counts in the bucket of the last trade only, so the sum is the exact number of
    different traders. `then_*` is 0 where the series begins within the window.
    """
    figures = Window()
    after = now_min - minutes
    for row in BUCKET.iter_unpack(data):
        if row[0] <= after:
            figures.then_sol = row[9] | row[10] << 64
            figures.then_usd = row[11] | row[12] << 64
            continue
        if row[0] > now_min:
            break
        figures.traders += row[1]
        figures.weight += row[2]
        figures.buys += row[3]
        figures.sells += row[4]
        figures.buy_lamports += row[5]
        figures.sell_lamports += row[6]
        figures.buy_usd_micros += row[7]
        figures.sell_usd_micros += row[8]
    return figures


# Candles.

INTERVALS_S: Final = {
    "1s": 1,
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "1h": HOUR_S,
    "4h": 4 * HOUR_S,
    "1d": DAY_S,
}
_CANDLE: Final = Struct("<IQ16s16s16s16s16s16s16s16s16sQQII")


@dataclass(slots=True)
class Candle:
    """Open, high, low, close of a token's price, and the volume of its trades.

    Prices are 0 while none is known: then the volumes alone are of use. Trades of unknown value
    are in the amount and in the counts, not in `lamports` and `usd_micros`.
    """

    start_s: int
    slot: int  # of the last trade in it: the version of this snapshot
    open_sol: int
    high_sol: int
    low_sol: int
    close_sol: int
    open_usd: int
    high_usd: int
    low_usd: int
    close_usd: int
    amount_raw: int
    lamports: int
    usd_micros: int
    buys: int
    sells: int


def pack_candle(candle: Candle) -> bytes:
    """Return the bytes of a candle."""
    return _CANDLE.pack(
        candle.start_s,
        candle.slot,
        candle.open_sol.to_bytes(16, "little"),
        candle.high_sol.to_bytes(16, "little"),
        candle.low_sol.to_bytes(16, "little"),
        candle.close_sol.to_bytes(16, "little"),
        candle.open_usd.to_bytes(16, "little"),
        candle.high_usd.to_bytes(16, "little"),
        candle.low_usd.to_bytes(16, "little"),
        candle.close_usd.to_bytes(16, "little"),
        candle.amount_raw.to_bytes(16, "little"),
        candle.lamports,
        candle.usd_micros,
        candle.buys,
        candle.sells,
    )


def unpack_candles(data: bytes) -> list[Candle]:
    """Return candles packed one after the other, in the order of INTERVALS_S.

    Raises struct.error where the length is none of candles.
    """
    return [
        Candle(row[0], row[1], *(int.from_bytes(wide, "little") for wide in row[2:11]), *row[11:])
        for row in _CANDLE.iter_unpack(data)
    ]


# Pools of a mint.

POOL_FIELD: Final = b"pool:"  # and its address: the field of a pool in its token's market
_POOL: Final = Struct("<B16s16s16s16sQQQQQB")
SHORT_PREFIX: Final = 8  # bytes of a pool's address that earlier versions filed its traders under


@dataclass(slots=True)
class PoolFacts:
    """One pool of a mint as its last swap left it; reserves None if the venue reports none."""

    dex: str
    price_sol: int = 0
    price_usd: int = 0
    first_sol: int = 0  # its first price of all
    first_usd: int = 0
    slot: int = 0
    time_ms: int = 0
    reserve_raw: int | None = None
    quote_reserve_raw: int | None = None
    # Both sides: twice the quote's. None: not known, as where the quote is no money.
    liquidity_lamports: int | None = None
    quote_mint: str = ""  # what it trades the mint for; empty in records of earlier versions
    traders_by_address: bool = True  # filed under its whole address; else SHORT_PREFIX bytes of it


def pack_pool(pool: PoolFacts, quarters: bytes | bytearray) -> bytes:
    """Return the bytes of a pool and of its quarter-hour series."""
    quote_mint = base58.decode(pool.quote_mint) if pool.quote_mint else b""
    flags = (pool.reserve_raw is not None) | (pool.quote_reserve_raw is not None) << 1
    flags |= bool(quote_mint) << 2 | pool.traders_by_address << 3
    flags |= (pool.liquidity_lamports is not None) << 4
    head = _POOL.pack(
        flags,
        pool.price_sol.to_bytes(16, "little"),
        pool.price_usd.to_bytes(16, "little"),
        pool.first_sol.to_bytes(16, "little"),
        pool.first_usd.to_bytes(16, "little"),
        pool.slot,
        pool.time_ms,
        pool.reserve_raw or 0,
        pool.quote_reserve_raw or 0,
        pool.liquidity_lamports or 0,
        len(pool.dex.encode()),
    )
    return head + pool.dex.encode() + quote_mint + quarters


def unpack_pool(data: bytes) -> tuple[PoolFacts, bytes]:
    """Return a pool and its series; raises struct.error for too few bytes.

    Earlier versions wrote a liquidity that is not known as 0, so their 0 is read as not known.
    """
    (
        flags,
        price_sol,
        price_usd,
        first_sol,
        first_usd,
        slot,
        time_ms,
        reserve,
        quote,
        worth,
        size,
    ) = _POOL.unpack_from(data)
    end = rest = _POOL.size + size
    if flags & 4:
        rest += 32
    pool = PoolFacts(
        data[_POOL.size : end].decode(),
        int.from_bytes(price_sol, "little"),
        int.from_bytes(price_usd, "little"),
        int.from_bytes(first_sol, "little"),
        int.from_bytes(first_usd, "little"),
        slot,
        time_ms,
        reserve if flags & 1 else None,
        quote if flags & 2 else None,
        worth if flags & 16 or worth else None,
        base58.encode(data[end:rest]) if flags & 4 else "",
        bool(flags & 8),
    )
    return pool, data[rest:]


# Holders.

EXACT_BELOW: Final = 1 << 53  # scores below are the balance itself
BURNED: Final = frozenset(
    base58.decode(address)
    for address in (
        "1nc1nerator11111111111111111111111111111111",  # Solana's incinerator
        "11111111111111111111111111111111",  # the system program
    )
)
"""Nobody has a key to these, so what they own is gone."""
_ACCOUNT: Final = Struct("<32sQ?")
_EXACT_BYTES: Final = 16
_ADDRESS_BYTES: Final = 32


class Account(NamedTuple):
    """A token account; a pool's or curve's vault stays one for good."""

    owner: bytes
    amount_raw: int
    is_vault: bool


def pack_account(account: Account) -> bytes:
    """Return the bytes of an account's record."""
    return _ACCOUNT.pack(*account)


def unpack_account(data: bytes) -> Account:
    """Return the account; raises struct.error for another length."""
    return Account._make(_ACCOUNT.unpack(data))


def exact_field(owner: bytes) -> bytes:
    """Return the field of ACCOUNTS that has the balance of an owner above EXACT_BELOW."""
    return b"=" + owner


def pack_exact(amount_raw: int) -> bytes:
    """Return the bytes of a balance."""
    return amount_raw.to_bytes(_EXACT_BYTES, "little")


def unpack_exact(data: bytes) -> int:
    """Return the balance; raises struct.error for another length."""
    if len(data) != _EXACT_BYTES:
        raise StructError(f"balance of {len(data)} bytes, not {_EXACT_BYTES}")
    return int.from_bytes(data, "little")


def whole(price: int) -> float | None:
    """Return a price as a JSON number; None while it is not known."""
    return price / PRICE_SCALE if price else None


# A mint's market as a whole.

_HEAD: Final = Struct("<16s16s16s16s16sQQQQI8xI??Q")  # 8x: a figure that was never published


@dataclass(slots=True)
class Head:
    """The figures of a mint that every reader wants first."""

    price_sol: int = 0
    price_usd: int = 0
    first_sol: int = 0  # its first price of all
    first_usd: int = 0
    creator_raw: int = 0  # what the creator holds
    slot: int = 0  # of the last trade, balance or event
    time_ms: int = 0
    curve_left_raw: int = 0  # what its curve has yet to sell, or to gather of the quote
    curve_whole_raw: int = 0  # when it was new; 0: the venue does not report it
    holder_count: int = 0
    snapshot_min: int = 0  # of the last snapshot of the holders
    is_launched: bool = False  # on a launch platform
    liquidity_lamports: int | None = None  # of all pools, both sides; None: known of none


class HeadFigures(NamedTuple):
    """What the API answers of a head: the same figures, in a third of the time."""

    creator_raw: int
    time_ms: int
    curve_left_raw: int
    curve_whole_raw: int
    holder_count: int
    liquidity_lamports: int | None


_HEAD_FIGURES: Final = Struct("<QQ8xQQQI13x?Q")  # of _HEAD, from creator_raw on
_CREATOR: Final = 64


def unpack_standing(data: bytes) -> HeadFigures:
    """Return a part of a head; raises struct.error for too few bytes."""
    low, high, time_ms, left_raw, whole_raw, holders, has_liquidity, lamports = (
        _HEAD_FIGURES.unpack_from(data, _CREATOR)
    )
    creator_raw = low | high << 64 if high else low
    return HeadFigures(
        creator_raw, time_ms, left_raw, whole_raw, holders, lamports if has_liquidity else None
    )


def is_priced(data: bytes) -> bool:
    """Return True if the head has a price."""
    return data[:16] != _UNPRICED


_UNPRICED: Final = bytes(16)


def sold_pct(left_raw: int, whole_raw: int, *, is_migrated: bool) -> float | None:
    """Return how much of a curve is done, 0 to 100; None where it is not known."""
    if is_migrated:
        return 100.0
    if not whole_raw:
        return None
    pct = 100 * (whole_raw - left_raw) / whole_raw
    return 0.0 if pct < 0.0 else min(pct, 100.0)


def pack_head(head: Head, pools: list[bytes]) -> bytes:
    """Return the bytes of the figures, and of the pools that are no holders."""
    return _HEAD.pack(
        head.price_sol.to_bytes(16, "little"),
        head.price_usd.to_bytes(16, "little"),
        head.first_sol.to_bytes(16, "little"),
        head.first_usd.to_bytes(16, "little"),
        head.creator_raw.to_bytes(16, "little"),
        head.slot,
        head.time_ms,
        head.curve_left_raw,
        head.curve_whole_raw,
        head.holder_count,
        head.snapshot_min,
        head.is_launched,
        head.liquidity_lamports is not None,
        head.liquidity_lamports or 0,
    ) + b"".join(pools)


def unpack_head(data: bytes) -> tuple[Head, list[bytes]]:
    """Return the figures and the pools; raises struct.error for a length that cannot be."""
    row = _HEAD.unpack_from(data)
    if (len(data) - _HEAD.size) % _ADDRESS_BYTES:
        raise StructError(f"head of {len(data)} bytes: its pools are cut short")
    wide = [int.from_bytes(part, "little") for part in row[:5]]
    head = Head(wide[0], wide[1], wide[2], wide[3], wide[4], *row[5:12])
    if row[12]:
        head.liquidity_lamports = row[13]
    rest = data[_HEAD.size :]
    return head, [rest[at : at + 32] for at in range(0, len(rest), 32)]


# A market at rest, as ClickHouse keeps it.

_LENGTH: Final = Struct("<I")
_SCORE: Final = Struct("<Q")
Fields = dict[bytes, bytes]


class ColdMarket(NamedTuple):
    """A market that was put away: what Redis had of it."""

    fields: Fields  # of MARKET
    accounts: Fields  # of ACCOUNTS
    traders: dict[bytes, int]  # of TRADERS, those of the longest window


def pack_cold(market: ColdMarket) -> bytes:
    """Return a market as bytes, the same for the same content."""
    parts: list[bytes] = []
    hashes: list[Mapping[bytes, bytes]] = [market.fields, market.accounts]
    if market.traders:
        hashes.append({trader: _SCORE.pack(score) for trader, score in market.traders.items()})
    for items in hashes:
        parts.append(_LENGTH.pack(len(items)))
        for name, value in sorted(items.items()):
            parts += [_LENGTH.pack(len(name)), name, _LENGTH.pack(len(value)), value]
    return b"".join(parts)


def unpack_cold(data: bytes) -> ColdMarket:
    """Return what `pack_cold` was given; raises struct.error for bytes that are cut short."""
    fields, at = _items(data, 0)
    accounts, at = _items(data, at)
    packed = _items(data, at)[0] if at < len(data) else {}
    traders = {trader: _SCORE.unpack(score)[0] for trader, score in packed.items()}
    return ColdMarket(fields, accounts, traders)


def unpack_cold_fields(data: bytes) -> Fields:
    """Return the fields of the market; what comes after them may be cut off."""
    return _items(data, 0)[0]


def _items(data: bytes, at: int) -> tuple[Fields, int]:
    """Return a hash, and where it ends."""
    (count,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    parts: list[bytes] = []
    for _ in range(2 * count):
        (size,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + size
        parts.append(data[at - size : at])
    if at > len(data):
        raise StructError(f"{len(data)} bytes, {at} expected")
    return dict(zip(parts[::2], parts[1::2], strict=True)), at
