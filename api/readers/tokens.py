"""What is known of tokens: what they are, what they cost, their market; many in one trip.

A price is the last published one (agent `live`); of a token that has not traded for days, the one
its market was left with. SOL is 1 SOL, in dollars what the market's slots were valued with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from api.stores import Stores
from schemas.markets import Head, unpack_head, whole
from schemas.prices import LastPrice, change_24h_pct, last_price
from schemas.redis_keys import COLD_MARKETS, MARKET, MARKETS, METADATA, PRICE, mint_tag

SOL_MINT: Final = "So11111111111111111111111111111111111111112"
STALE_AFTER_MS: Final = 3_600_000
"""A price is called stale when its last trade is an hour older than the chain's last block."""

_PRICE_FIELDS: Final = ("price_sol", "price_usd", "time_ms", "slot", "pool", "closes")
_ANSWERS: Final = 4  # to the commands about one mint


@dataclass(slots=True)
class Token:
    """A token as the stores know it; what nobody told is empty or None."""

    mint: str
    about: Mapping[str, Any]  # name, symbol, uri, decimals, supply_raw, creator, platform, ...
    head: Head | None  # of its market; None: it has not traded, or its market is cold
    price: LastPrice | None
    closes: bytes  # `schemas.prices`: of the last day
    is_cold: bool = False  # its market is in ClickHouse

    @property
    def decimals(self) -> int | None:
        """Return the places behind the point."""
        value: int | None = self.about.get("decimals")
        return value

    @property
    def supply(self) -> float | None:
        """Return the supply in whole tokens, as last told by creation or RPC."""
        raw, decimals = self.about.get("supply_raw"), self.decimals
        return None if raw is None or decimals is None else raw / 10**decimals

    @property
    def market_cap_usd(self) -> float | None:
        """Return supply times price."""
        supply = self.supply
        if supply is None or self.price is None or self.price.price_usd is None:
            return None
        return supply * self.price.price_usd

    def change_24h_pct(self, now_ms: int) -> float | None:
        """Return the change of the dollar price within the day before `now_ms`."""
        return None if self.price is None else change_24h_pct(self.price, self.closes, now_ms)

    def is_stale(self, now_ms: int) -> bool:
        """Return whether the price is old; `now_ms` is the chain's."""
        return self.price is not None and now_ms - self.price.time_ms > STALE_AFTER_MS


@dataclass(slots=True)
class Tokens:
    """Tokens by mint; those of which nothing is known are not among them."""

    by_mint: dict[str, Token]
    as_of_slot: int  # all that is settled up to here is in
    now_ms: int  # block time of that slot

    def get(self, mint: str) -> Token | None:
        """Return a token, None where nothing is known of it."""
        return self.by_mint.get(mint)


async def read_tokens(stores: Stores, mints: Iterable[str]) -> Tokens:
    """Return what is known of tokens; raises Problem."""
    asked = list(dict.fromkeys(mints))
    tags = {mint: mint_tag(mint) for mint in asked}
    parts = sorted(set(tags.values()) | {mint_tag(SOL_MINT)})
    commands: list[tuple[Any, ...]] = [
        ("HMGET", MARKETS.make(tag=tag), "slot", "time_ms", "sol_usd") for tag in parts
    ]
    for mint, tag in tags.items():
        commands += (
            ("HMGET", MARKET.make(tag=tag, mint=mint), "head", "token"),
            ("HMGET", PRICE.make(tag=tag, mint=mint), *_PRICE_FIELDS),
            ("GET", METADATA.make(tag=tag, mint=mint)),
            ("SISMEMBER", COLD_MARKETS.make(tag=tag), mint),
        )
    answers = await stores.ask(commands)
    progress = answers[: len(parts)]
    by_mint = {}
    for at, mint in enumerate(asked):
        start = len(parts) + at * _ANSWERS
        if token := _token(mint, *answers[start : start + _ANSWERS]):
            by_mint[mint] = token
    if SOL_MINT in tags:
        by_mint[SOL_MINT] = _sol(progress)
    return Tokens(
        by_mint,
        min(int(slot or 0) for slot, _, _ in progress),
        max(int(time_ms or 0) for _, time_ms, _ in progress),
    )


def _token(
    mint: str,
    market: list[bytes | None],
    prices: list[bytes | None],
    metadata: bytes | None,
    is_cold: int,
) -> Token | None:
    packed, told = market
    about = orjson.loads(told) if told else {}
    if metadata:
        asked = orjson.loads(metadata)
        if asked["status"] == "found":  # what the chain's events told comes first
            about = {**asked, **{name: value for name, value in about.items() if _is_told(value)}}
    head = unpack_head(packed)[0] if packed else None
    fields = dict(zip(map(str.encode, _PRICE_FIELDS), prices, strict=True))
    price = last_price({name: value for name, value in fields.items() if value is not None})
    if not about and head is None and price is None and not is_cold:
        return None
    if price is None and head is not None and head.price_sol:
        price = LastPrice(
            whole(head.price_sol) or 0.0, whole(head.price_usd), head.time_ms, head.slot, ""
        )
    return Token(mint, about, head, price, fields[b"closes"] or b"", bool(is_cold))


def _is_told(value: Any) -> bool:
    return value is not None and value != ""


def _sol(progress: list[list[bytes | None]]) -> Token:
    """Return SOL itself, priced by the partition that has come furthest."""
    slot, time_ms, ratio = max(progress, key=lambda each: int(each[0] or 0))
    usd = None
    if ratio:
        dollars, sols = ratio.split(b"/")
        usd = int(dollars) / int(sols)
    about = {"name": "Solana", "symbol": "SOL", "decimals": 9}
    return Token(SOL_MINT, about, None, LastPrice(1.0, usd, int(time_ms or 0), int(slot or 0), ""), b"")
