"""What is known of tokens: what they are, what they cost, their market; many in one trip.

A price is the last published one (agent `live`). One that nobody published for three days is gone
from there: then the price is its market's, as of the last trade. SOL is 1 SOL,
in dollars what swaps are valued with. A dollar coin costs what its market says, which shows when
one loses its peg; without a market it counts one dollar, as it does in what a trade was worth.

A market that is at rest for days lies in ClickHouse (`schemas.markets.pack_cold`) and is read from
there: rare, and then one query for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any, Final

from api.http.errors import UNKNOWN_TOKEN, Problem
from api.stores.caches import BoundedCache
from api.stores.clients import Stores
from api.tokens.answers import About, PriceSource
from api.tokens.cold_markets import may_be_away, read_cold
from api.tokens.facts import Facts, facts
from api.tokens.pool_price import PoolPrice
from infra.redis.pipelined import Chained, Command, ForEach, Form, Repeated
from schemas.markets import is_priced, unpack_candles, unpack_head, whole
from schemas.money import DOLLARS, WSOL
from schemas.prices import LastPrice, change_24h_pct
from schemas.redis_keys import MARKET, MARKETS, MARKETS_AWAY, METADATA, PRICE, mint_tag
from schemas.times import HOUR_MS

SOL_MINT: Final = WSOL
STALE_AFTER_MS: Final = HOUR_MS
"""A price is called stale when its last trade is an hour older than the chain's last block."""

REMEMBERED: Final = 1 << 14

_PRICE_FIELDS: Final = ("price_sol", "price_usd", "time_ms", "slot", "pool", "closes")
_HEAD_FIELDS: Final = ("head", "token")
_DAY_FIELDS: Final = (*_HEAD_FIELDS, "quarters")


@dataclass(slots=True)
class Token:
    """A token as the stores know it; what is not known is None."""

    mint: str
    facts: Facts
    packed_head: bytes | None  # of its market; None: nothing of it has settled
    price: LastPrice | None
    source: PriceSource | None  # of the price
    closes: bytes  # `schemas.prices`: of the last day
    quarters: bytes | None = None  # `schemas.markets`: where asked for
    cold_slot: int | None = None  # its market is in ClickHouse, read at this slot
    json: bytes = b""  # `TokenThen`, once somebody has made it, without the brace at its end
    liquidity_sol: float | None = None  # along with it
    pooled_lamports: int | None = None  # in its pools, once somebody has asked
    pool_price: PoolPrice | None = None  # by its pool, where no market prices it

    @property
    def about(self) -> About:
        """Return what the token is."""
        return self.facts.about

    @property
    def decimals(self) -> int | None:
        """Return the places behind the point."""
        return self.facts.about["decimals"]

    @property
    def supply(self) -> float | None:
        """Return the supply in whole tokens, by its creation or, if newer, by RPC."""
        return self.facts.about["supply"]

    @property
    def market_cap_usd(self) -> float | None:
        """Return supply times price."""
        supply = self.facts.about["supply"]
        if supply is None or self.price is None or self.price.price_usd is None:
            return None
        return supply * self.price.price_usd

    def change_24h_pct(self, now_ms: int) -> float | None:
        """Return the change of the dollar price within the day before `now_ms`.

        Of a price at par or of a pool there is no earlier one.
        """
        if self.price is None or self.source in ("par", "pool"):
            return None
        return change_24h_pct(self.price, self.closes, now_ms)

    def is_stale(self, now_ms: int) -> bool:
        """Return whether the price is old; `now_ms` is the chain's."""
        return self.price is not None and is_stale(self.price, now_ms)


@dataclass(slots=True)
class Tokens:
    """Tokens by mint; those of which nothing is known are not among them."""

    by_mint: dict[str, Token]
    as_of_slot: int  # all that is settled up to here is in
    as_of_ms: int  # block time of that slot
    now_ms: int  # block time of the latest slot that any of the partitions has
    sol_usd: float | None  # of that slot
    lacking: dict[str, str] = field(default_factory=dict)
    """Why shares of pools have no price, by mint."""

    def get(self, mint: str) -> Token | None:
        """Return a token, None where nothing is known of it."""
        return self.by_mint.get(mint)


def is_stale(price: LastPrice, now_ms: int) -> bool:
    """Return whether a price is old; `now_ms` is the chain's."""
    return now_ms - price.time_ms > STALE_AFTER_MS


class _Names:
    """The names of the keys of one partition; what is asked of the partition itself."""

    __slots__ = ("away", "market", "metadata", "progress", "questions")

    def __init__(self, tag: str) -> None:
        self.market = MARKET.make(tag=tag, mint="")
        self.metadata = METADATA.make(tag=tag, mint="")
        self.away = MARKETS_AWAY.make(tag=tag)
        asked = "HMGET", MARKETS.make(tag=tag), "slot", "time_ms", "sol_usd"
        self.progress = Repeated(asked)
        # By the fields of the market that are asked for: what is asked of a token, and its price.
        self.questions: dict[tuple[str, ...], Form] = {
            fields: Form(partial(self._of_token, fields)) for fields in (_HEAD_FIELDS, _DAY_FIELDS)
        }

    def _of_token(self, fields: tuple[str, ...], mint: str) -> list[Command]:
        return [
            ("HMGET", self.market + mint, *fields),
            ("HMGET", _PRICE + mint, *_PRICE_FIELDS),
        ]


_PRICE: Final = PRICE.make(mint="")
_tag: Final = lru_cache(REMEMBERED)(mint_tag)
_names: Final = cache(_Names)


# What Redis said of a token: of its market head, token, and quarters where asked for; its price;
# what RPC said.
_Stored = tuple[list[bytes | None], list[bytes | None], bytes | None]


class TokenReader:
    """Reads tokens, for all requests of a process.

    The same bytes are the same token, and not read again: most of those asked for repeatedly
    have not been traded since. A token takes some 5 kB.
    """

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._cache: BoundedCache[str, tuple[_Stored, Token]] = BoundedCache(REMEMBERED)

    async def read(self, mints: Iterable[str], *, with_day: bool = False) -> Tokens:
        """Return what is known of tokens; with their quarter hours where asked. Raises Problem."""
        groups: dict[str, list[str]] = {}  # by hash tag
        for mint in dict.fromkeys(mints):
            groups.setdefault(_tag(mint), []).append(mint)
        if not groups:
            groups[mint_tag(SOL_MINT)] = []
        fields = _DAY_FIELDS if with_day else _HEAD_FIELDS
        answers = iter(await self._stores.ask(_commands(groups, fields)))
        progress: list[Sequence[bytes | None]] = []
        by_mint: dict[str, Token] = {}
        late: list[Token] = []  # of which there may be more
        for group in groups.values():
            progress.append(next(answers))
            if group:
                for mint, asked in zip(group, next(answers), strict=True):
                    state = (next(answers), next(answers), asked)
                    closes = state[1].pop() or b""
                    kept = self._cache.kept.get(mint)
                    if kept is not None and kept[0] == state:
                        token = kept[1]
                    else:
                        token = _token(mint, *state)
                        head = token.packed_head
                        if head is None or (
                            token.price is None and (is_priced(head) or mint in DOLLARS)
                        ):
                            late.append(token)
                        elif not with_day:
                            self._cache.put(mint, (state, token))
                    token.closes = closes
                    by_mint[mint] = token
        now = max(progress, key=lambda each: int(each[1] or 0))
        least = min(progress, key=lambda each: int(each[0] or 0))
        tokens = Tokens(
            by_mint, int(least[0] or 0), int(least[1] or 0), int(now[1] or 0), _dollars(now[2])
        )
        if SOL_MINT in by_mint:
            _price_sol(by_mint[SOL_MINT], int(now[0] or 0), tokens)
        if late:
            await _complete(self._stores, late, tokens, fields)
        return tokens


def unknown_token(mint: str) -> Problem:
    """Return the problem of a mint of which nothing is known."""
    return Problem(UNKNOWN_TOKEN, f"No trade, creation, balance or metadata of {mint} was seen")


def _commands(groups: Mapping[str, list[str]], fields: tuple[str, ...]) -> Chained:
    parts: list[Sequence[Command]] = []
    for tag, group in groups.items():
        names = _names(tag)
        if not group:
            parts.append([names.progress])
            continue
        metadata = names.metadata
        parts.append([names.progress, ("MGET", *[metadata + mint for mint in group])])
        parts.append(ForEach(names.questions[fields], group))
    return Chained(parts)


async def _complete(
    stores: Stores, late: Sequence[Token], tokens: Tokens, fields: tuple[str, ...]
) -> None:
    """Fetch what is left to know: a cold market, the last price of one that has expired.

    That is one more trip, and a query where markets are cold. What is not known even then is taken
    out.
    """
    commands: list[tuple[Any, ...]] = []
    for token in late:
        names = _names(mint_tag(token.mint))
        if token.packed_head is None:
            commands += [names.progress, may_be_away(names.away, token.mint)]
        else:
            commands.append(("HGET", names.market + token.mint, "candles"))
    answers = iter(await stores.ask(commands))
    cold: dict[str, Token] = {}
    slots: dict[str, int] = {}
    for token in late:
        answer = next(answers)
        if token.packed_head is not None:
            _price_settled(token, answer)
        elif next(answers):
            cold[token.mint] = token
            slots[token.mint] = int(answer[0] or 0)
    if cold:
        for mint, (market, asked) in (await read_cold(stores, slots)).items():
            token = cold[mint]
            token.cold_slot = slots[mint]
            token.packed_head, created, *quarters = (market.get(name.encode()) for name in fields)
            token.facts = facts(mint, created, asked)
            token.quarters = quarters[0] if quarters else None
            _price_settled(token, market.get(b"candles"))
    for token in late:
        if token.price is None and token.mint in DOLLARS:
            sol = 1.0 / tokens.sol_usd if tokens.sol_usd else 0.0
            token.price = LastPrice(sol, 1.0, tokens.now_ms, tokens.as_of_slot, "")
            token.source = "par"
        if not (token.price or token.packed_head or token.decimals is not None):
            del tokens.by_mint[token.mint]


def _token(
    mint: str, market: list[bytes | None], prices: list[bytes | None], asked: bytes | None
) -> Token:
    packed, created, *quarters = market
    token = Token(mint, facts(mint, created, asked), packed, None, None, b"")
    if quarters:
        token.quarters = quarters[0]
    if (sol := prices[0]) is not None:
        token.price, token.source = _published(sol, prices), "live"
    return token


def _published(sol: bytes, prices: Sequence[bytes | None]) -> LastPrice:
    _, usd, time_ms, slot, pool = prices
    return LastPrice(
        float(sol),
        float(usd) if usd else None,
        int(time_ms or 0),
        int(slot or 0),
        (pool or b"").decode(),
    )


def _price_settled(token: Token, candles: bytes | None) -> None:
    """Give a token the price that its market was left with, as of its last trade."""
    if token.price is not None or token.packed_head is None or not candles:
        return
    head, _ = unpack_head(token.packed_head)
    if head.price_sol:
        last = unpack_candles(candles)[0]  # the shortest: of the second of that trade
        sol = whole(head.price_sol) or 0.0
        token.price = LastPrice(sol, whole(head.price_usd), last.start_s * 1000, last.slot, "")
        token.source = "settled"


def _price_sol(token: Token, slot: int, tokens: Tokens) -> None:
    """Price SOL: what the latest slot was valued with; before there was one, as was published."""
    if tokens.sol_usd is not None or token.price is None:
        token.price = LastPrice(1.0, tokens.sol_usd, tokens.now_ms, slot, "")
        token.json = b""  # it was made with another price
    token.source = "reference"


def _dollars(ratio: bytes | None) -> float | None:
    if not ratio:
        return None
    dollars, sols = ratio.split(b"/")
    return int(dollars) / int(sols)
