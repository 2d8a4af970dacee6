"""What is known of tokens: what they are, what they cost, their market; many in one trip.

A price is the last published one (agent `live`). One that nobody published for three days is gone
from there: then the price stands that its market was left with, as of the last trade. SOL is 1 SOL,
in dollars what swaps are valued with. A dollar coin costs what its market says, which shows when
one loses its peg; without a market it counts one dollar, as it does in what a trade was worth.

A market that is at rest for days lies in ClickHouse (`schemas.markets.pack_cold`) and is read from
there: rare, and then one query for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api.answers.tokens import About, PriceSource
from api.readers.cold_markets import read_cold_fields
from api.readers.token_facts import facts
from api.stores import Stores
from schemas.markets import Head, unpack_candles, unpack_head, whole
from schemas.money import DOLLARS, WSOL
from schemas.prices import LastPrice, change_24h_pct
from schemas.redis_keys import COLD_MARKETS, MARKET, MARKETS, METADATA, PRICE, tag_of_mints
from schemas.topics import SETTLED_BY_MINT

SOL_MINT: Final = WSOL
STALE_AFTER_MS: Final = 3_600_000
"""A price is called stale when its last trade is an hour older than the chain's last block."""

_PRICE_FIELDS: Final = ("price_sol", "price_usd", "time_ms", "slot", "pool", "closes")
_HEAD_FIELDS: Final = ("head", "token")
_DAY_FIELDS: Final = (*_HEAD_FIELDS, "quarters")


@dataclass(slots=True)
class Token:
    """A token as the stores know it; what nobody told is None."""

    mint: str
    about: About
    head: Head | None  # of its market; None: nothing of it has settled
    price: LastPrice | None
    source: PriceSource | None  # of the price
    closes: bytes  # `schemas.prices`: of the last day
    quarters: bytes = b""  # `schemas.markets`: where asked for
    is_cold: bool = False  # its market is in ClickHouse

    @property
    def decimals(self) -> int | None:
        """Return the places behind the point."""
        return self.about["decimals"]

    @property
    def supply(self) -> float | None:
        """Return the supply in whole tokens, as last told by creation or RPC."""
        return self.about["supply"]

    @property
    def market_cap_usd(self) -> float | None:
        """Return supply times price."""
        supply = self.about["supply"]
        if supply is None or self.price is None or self.price.price_usd is None:
            return None
        return supply * self.price.price_usd

    def change_24h_pct(self, now_ms: int) -> float | None:
        """Return the change of the dollar price within the day before `now_ms`."""
        if self.price is None or self.source == "par":
            return None
        return change_24h_pct(self.price, self.closes, now_ms)

    def is_stale(self, now_ms: int) -> bool:
        """Return whether the price is old; `now_ms` is the chain's."""
        return self.price is not None and now_ms - self.price.time_ms > STALE_AFTER_MS


@dataclass(slots=True)
class Tokens:
    """Tokens by mint; those of which nothing is known are not among them."""

    by_mint: dict[str, Token]
    as_of_slot: int  # all that is settled up to here is in
    as_of_ms: int  # block time of that slot
    now_ms: int  # block time of the latest slot that any of the partitions has
    sol_usd: float | None  # of that slot

    def get(self, mint: str) -> Token | None:
        """Return a token, None where nothing is known of it."""
        return self.by_mint.get(mint)


class _Names:
    """The names of the keys of one partition; what is asked of the partition itself."""

    __slots__ = ("cold", "market", "metadata", "price", "progress")

    def __init__(self, partition: int) -> None:
        tag = tag_of_mints(partition)
        self.market = MARKET.make(tag=tag, mint="")
        self.price = PRICE.make(tag=tag, mint="")
        self.metadata = METADATA.make(tag=tag, mint="")
        self.cold = COLD_MARKETS.make(tag=tag)
        self.progress = ("HMGET", MARKETS.make(tag=tag), "slot", "time_ms", "sol_usd")


_NAMES: Final = tuple(map(_Names, range(SETTLED_BY_MINT.partitions)))
_SOL_PARTITION: Final = SETTLED_BY_MINT.partition(SOL_MINT)


class _Row:
    """What Redis said of one mint."""

    __slots__ = ("asked", "candles", "head", "is_cold", "market", "mint", "names", "prices")

    def __init__(
        self,
        mint: str,
        names: _Names,
        market: Sequence[bytes | None],
        prices: Sequence[bytes | None],
        asked: bytes | None,
    ) -> None:
        self.mint = mint
        self.names = names
        self.market = market  # head, token, and quarters where asked for
        self.prices = prices
        self.asked = asked
        self.head = unpack_head(packed)[0] if (packed := market[0]) else None
        self.candles: bytes | None = None
        self.is_cold = False


async def read_tokens(stores: Stores, mints: Iterable[str], *, with_day: bool = False) -> Tokens:
    """Return what is known of tokens; with their quarter hours where asked. Raises Problem."""
    groups: dict[int, list[str]] = {}
    for mint in dict.fromkeys(mints):
        groups.setdefault(SETTLED_BY_MINT.partition(mint), []).append(mint)
    answers = iter(await stores.ask(_commands(groups or {_SOL_PARTITION: []}, with_day=with_day)))
    progress = []
    rows: list[_Row] = []
    for partition, group in (groups or {_SOL_PARTITION: []}).items():
        names = _NAMES[partition]
        progress.append(next(answers))
        if group:
            metadata = next(answers)
            rows += [
                _Row(mint, names, next(answers), next(answers), asked)
                for mint, asked in zip(group, metadata, strict=True)
            ]
    if late := [row for row in rows if _is_incomplete(row)]:
        await _complete(stores, late)
    now = max(progress, key=lambda each: int(each[1] or 0))
    least = min(progress, key=lambda each: int(each[0] or 0))
    tokens = Tokens({}, int(least[0] or 0), int(least[1] or 0), int(now[1] or 0), _dollars(now[2]))
    for row in rows:
        token = _sol(row, now, tokens) if row.mint == SOL_MINT else _token(row, tokens)
        if token is not None:
            tokens.by_mint[row.mint] = token
    return tokens


def _commands(groups: Mapping[int, list[str]], *, with_day: bool) -> list[tuple[Any, ...]]:
    fields = _DAY_FIELDS if with_day else _HEAD_FIELDS
    commands: list[tuple[Any, ...]] = []
    for partition, group in groups.items():
        names = _NAMES[partition]
        commands.append(names.progress)
        if not group:
            continue
        market, price, metadata = names.market, names.price, names.metadata
        commands.append(("MGET", *[metadata + mint for mint in group]))
        for mint in group:
            commands.append(("HMGET", market + mint, *fields))
            commands.append(("HMGET", price + mint, *_PRICE_FIELDS))
    return commands


def _is_incomplete(row: _Row) -> bool:
    """Tell whether there may be more: a cold market, or one whose last price has expired."""
    if row.head is None:
        return row.mint != SOL_MINT
    return row.prices[0] is None and row.head.price_sol > 0


async def _complete(stores: Stores, rows: list[_Row]) -> None:
    """Fetch what is left to know: one more trip, and a query where markets are cold."""
    commands: list[tuple[Any, ...]] = []
    for row in rows:
        if row.head is None:
            commands.append(("SISMEMBER", row.names.cold, row.mint))
        else:
            commands.append(("HGET", row.names.market + row.mint, "candles"))
    answers = await stores.ask(commands)
    cold: dict[str, _Row] = {}
    for row, answer in zip(rows, answers, strict=True):
        if row.head is not None:
            row.candles = answer
        elif answer:
            row.is_cold = True
            cold[row.mint] = row
    if cold:
        for mint, fields in (await read_cold_fields(stores, list(cold))).items():
            row = cold[mint]
            names = _DAY_FIELDS if len(row.market) == len(_DAY_FIELDS) else _HEAD_FIELDS
            row.market = [fields.get(name.encode()) for name in names]
            row.head = unpack_head(fields[b"head"])[0]
            row.candles = fields.get(b"candles")


def _token(row: _Row, tokens: Tokens) -> Token | None:
    mint, market, prices, head = row.mint, row.market, row.prices, row.head
    about = facts(mint, market[1], row.asked)
    source: PriceSource | None = None
    price = None
    if (sol := prices[0]) is not None:
        price, source = _published(sol, prices), "live"
    elif head is not None and head.price_sol and row.candles:
        price, source = _settled(head, row.candles), "settled"
    elif mint in DOLLARS:
        sol_usd = tokens.sol_usd
        price = LastPrice(
            1.0 / sol_usd if sol_usd else 0.0, 1.0, tokens.now_ms, tokens.as_of_slot, ""
        )
        source = "par"
    elif head is None and about["decimals"] is None and not row.is_cold:
        return None
    quarters = market[2] if len(market) > len(_HEAD_FIELDS) else None
    return Token(mint, about, head, price, source, prices[5] or b"", quarters or b"", row.is_cold)


def _published(sol: bytes, prices: Sequence[bytes | None]) -> LastPrice:
    _, usd, time_ms, slot, pool, _ = prices
    return LastPrice(
        float(sol),
        float(usd) if usd else None,
        int(time_ms or 0),
        int(slot or 0),
        (pool or b"").decode(),
    )


def _settled(head: Head, candles: bytes) -> LastPrice:
    """Return the price that a market was left with, as of its last trade."""
    last = unpack_candles(candles)[0]  # the shortest: of the second of that trade
    return LastPrice(
        whole(head.price_sol) or 0.0, whole(head.price_usd), last.start_s * 1000, last.slot, ""
    )


def _dollars(ratio: bytes | None) -> float | None:
    if not ratio:
        return None
    dollars, sols = ratio.split(b"/")
    return int(dollars) / int(sols)


def _sol(row: _Row, now: Sequence[bytes | None], tokens: Tokens) -> Token:
    """Return SOL itself: what the latest slot was valued with; what was published, before."""
    closes = row.prices[5] or b""
    usd = tokens.sol_usd
    if usd is None and (told := row.prices[0]) is not None:
        price = _published(told, row.prices)
    else:
        price = LastPrice(1.0, usd, tokens.now_ms, int(now[0] or 0), "")
    return Token(SOL_MINT, facts(SOL_MINT, None, row.asked), None, price, "reference", closes)
