"""Who holds most of a token: exact balances by owner, one state of one partition.

The sorted set HOLDERS has all owners of a token whose market is not at rest; a score of 2**53 and
more is rounded, and what it stands for lies beside the accounts. Equal balances stand in the
order of the set: the greater address, as bytes, first.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import nlargest
from typing import Any, Final

from api.http.errors import BUSY, Problem
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, settled
from api.tokens.answers import Holder, Holders
from api.tokens.cold_markets import may_be_away, read_cold_market
from api.tokens.facts import Facts, facts
from api.tokens.figures import percent
from api.tokens.reader import unknown_token
from schemas.markets import (
    BURNED,
    EXACT_BELOW,
    exact_field,
    unpack_account,
    unpack_exact,
    unpack_head,
    unpack_standing,
)
from schemas.money import MONEY
from schemas.redis_keys import (
    ACCOUNTS,
    HOLDERS,
    MARKET,
    MARKETS,
    MARKETS_AWAY,
    METADATA,
    PRICE,
    mint_tag,
)
from schemas.solana.base58 import encode

ATTEMPTS: Final = 5  # to read rounded scores and what they stand for in one state
_EXACT_SIZE: Final = len(exact_field(bytes(32)))

COVERAGE: Final = (
    "Balances as transactions of the programs that are followed left them. An account is known "
    "from its first change seen there; what plain transfers elsewhere did to it is unseen until "
    "it appears again. Vaults, accounts of pools and curves, and burn addresses are no holders."
)
COVERAGE_OF_MONEY: Final = "Holders of SOL and of dollar coins are not followed."

Ranked = list[tuple[bytes, int]]


@dataclass(slots=True)
class _State:
    """What Redis has of a token and its holders at one moment."""

    settled: Settled
    head: bytes | None
    token: bytes | None
    asked: bytes | None
    may_be_away: bool
    is_priced: bool
    top: Ranked


class HolderReader:
    """Reads holders, for all requests of a process."""

    def __init__(self, stores: Stores, gaps: GapReader) -> None:
        self._stores = stores
        self._gaps = gaps
        self._text = lru_cache(maxsize=1 << 14)(encode)  # the same wallets hold much of everything

    async def largest(self, mint: str, limit: int) -> Holders:
        """Return the largest holders of a token; raises Problem."""
        (await self._gaps.read()).check_mint(mint)
        state = await _read(self._stores, mint, limit)
        if state.head is None and state.may_be_away:
            await self._complete(mint, state, limit)
        token = facts(mint, state.token, state.asked)
        about = token.about
        known = state.head is not None or about["decimals"] is not None
        if not (known or state.is_priced):
            raise unknown_token(mint)
        is_followed = state.head is not None and mint not in MONEY
        return {
            "mint": mint,
            "name": about["name"],
            "symbol": about["symbol"],
            "decimals": about["decimals"],
            "supply_raw": about["supply_raw"],
            "supply": about["supply"],
            "supply_source": about["supply_source"],
            "supply_time_ms": about["supply_time_ms"],
            "holder_count": unpack_standing(state.head).holder_count
            if is_followed and state.head is not None
            else None,
            "creator": about["creator"],
            "holders": self._listed(state.top, token),
            "coverage": COVERAGE_OF_MONEY if mint in MONEY else COVERAGE,
            "as_of_slot": state.settled.slot,
            "as_of_ms": state.settled.time_ms,
            "gaps": (await self._gaps.read()).of_tokens([mint]),
        }

    async def _complete(self, mint: str, state: _State, limit: int) -> None:
        """Take the market of a token from ClickHouse, if it is there; raises Problem."""
        found = await read_cold_market(self._stores, mint, state.settled.slot)
        if found is None:
            return
        market, state.asked = found
        state.head, state.token = market.fields[b"head"], market.fields[b"token"]
        pools = unpack_head(state.head)[1]
        # May be many: other requests go on meanwhile.
        state.top = await asyncio.to_thread(_top, market.accounts, pools, limit)

    def _listed(self, top: Ranked, token: Facts) -> list[Holder]:
        unit, supply_raw = token.unit, token.supply_raw
        return [
            {
                "rank": rank,
                "address": self._text(owner),
                "balance_raw": str(balance_raw),
                "balance": None if unit is None else balance_raw / unit,
                "supply_pct": percent(balance_raw, supply_raw),
            }
            for rank, (owner, balance_raw) in enumerate(top, start=1)
        ]


class _Names:
    """The names of the keys of one partition."""

    __slots__ = ("accounts", "away", "holders", "market", "metadata", "progress")

    def __init__(self, tag: str) -> None:
        self.progress = ("HMGET", MARKETS.make(tag=tag), "slot", "time_ms")
        self.away = MARKETS_AWAY.make(tag=tag)
        self.accounts, self.holders, self.market, self.metadata = (
            key.make(tag=tag, mint="") for key in (ACCOUNTS, HOLDERS, MARKET, METADATA)
        )


_names: Final = cache(_Names)


async def _read(stores: Stores, mint: str, limit: int) -> _State:
    names = _names(mint_tag(mint))
    commands: list[tuple[Any, ...]] = [
        ("EXISTS", PRICE.make(mint=mint)),  # of another tag; whether it is there is of no slot
        ("MULTI",),
        names.progress,
        ("HMGET", names.market + mint, "head", "token"),
        ("GET", names.metadata + mint),
        may_be_away(names.away, mint),
        ("ZRANGE", names.holders + mint, 0, limit - 1, "REV", "WITHSCORES"),
    ]
    rounded: list[bytes] = []  # owners whose exact balance is asked for as well
    for _ in range(ATTEMPTS):
        also: list[tuple[Any, ...]] = [("EXEC",)]
        if rounded:
            also.insert(0, ("HMGET", names.accounts + mint, *map(exact_field, rounded)))
        is_priced, *answers = await stores.ask([*commands, *also])
        progress, (head, token), asked, is_away, top, *values = answers[-1]
        if top and top[0][1] >= EXACT_BELOW:
            exact = dict(zip(rounded, values[0], strict=True)) if rounded else {}
            ranked = _exactly(top, exact)
        else:
            ranked = [(owner, int(score)) for owner, score in top]
        if ranked is not None:
            state = settled((progress,))
            return _State(state, head, token, asked, bool(is_away), bool(is_priced), ranked)
        rounded = [owner for owner, score in top if score >= EXACT_BELOW]
    raise Problem(BUSY, "The balances change faster than they can be read; retry")


def _exactly(
    top: Iterable[tuple[bytes, float]], exact: Mapping[bytes, bytes | None]
) -> Ranked | None:
    """Return the owners with their exact balances, None where one of these is missing."""
    ranked = []
    for owner, score in top:
        if score < EXACT_BELOW:
            ranked.append((owner, int(score)))
        elif (packed := exact.get(owner)) is not None:
            ranked.append((owner, unpack_exact(packed)))
        else:
            return None
    ranked.sort(key=_rank, reverse=True)
    return ranked


def _rank(ranked: tuple[bytes, int]) -> tuple[int, bytes]:
    owner, balance_raw = ranked
    return balance_raw, owner


def _top(accounts: Mapping[bytes, bytes], pools: Iterable[bytes], limit: int) -> Ranked:
    """Return the largest owners of a cold market's accounts."""
    excluded = BURNED.union(pools)
    balances: defaultdict[bytes, int] = defaultdict(int)
    for account, packed in accounts.items():
        if len(account) == _EXACT_SIZE:
            continue  # a balance that follows from the accounts
        owner, amount_raw, is_vault = unpack_account(packed)
        if amount_raw and not is_vault and owner not in excluded:
            balances[owner] += amount_raw
    return nlargest(limit, balances.items(), key=_rank)
