"""Who holds most of a token: exact balances by owner, one state of one partition.

The sorted set HOLDERS has all owners of a token whose market is not at rest; a score of 2**53 and
more is rounded, and the exact one lies beside the accounts. Equal balances are in the
order of the set: the greater address, as bytes, first.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from heapq import nlargest
from typing import Any, Final

from api.accounts.following import FollowState
from api.accounts.largest import Largest, LargestReader, NoLargest
from api.accounts.mints import Mint, MintReader
from api.http.errors import BUSY, Problem
from api.stores.caches import BoundedCache
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, settled
from api.tokens.answers import Holder, Holders
from api.tokens.cold_markets import may_be_away, read_cold_market
from api.tokens.facts import facts
from api.tokens.figures import percent
from api.tokens.holder_coverage import Unseeded, holder_coverage
from api.tokens.mint_accounts import supplied, unless_stalled
from api.tokens.reader import unknown_token
from api.tokens.seeded_holders import Ranked, Taped, is_even, merged, owners_of
from schemas.markets import (
    BURNED,
    EXACT_BELOW,
    Account,
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

ATTEMPTS: Final = 5  # to read rounded scores and their exact values in one state
_EXACT_SIZE: Final = len(exact_field(bytes(32)))

LOOKS: Final = 12  # at the accounts and the tape, until they are of one moment
PAUSE_S: Final = 0.1


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
    accounts: dict[bytes, Account | None]  # those that were asked for
    owners: dict[bytes, int]

    def taped(self) -> Taped:
        """Return what the tape knows of the accounts that were asked for."""
        pools = () if self.head is None else unpack_head(self.head)[1]
        return Taped(self.settled.slot, self.accounts, self.owners, BURNED.union(pools))


class HolderReader:
    """Reads holders, for all requests of a process."""

    def __init__(self, stores: Stores, gaps: GapReader, mints: MintReader) -> None:
        self._stores = stores
        self._gaps = gaps
        self._mints = mints
        self._largest = LargestReader(stores)
        # On the tape. It stays so, unless books are rebuilt that lost it.
        self._created: BoundedCache[str, None] = BoundedCache(1 << 14)
        self._text = lru_cache(maxsize=1 << 14)(encode)  # the same wallets hold much of everything

    async def is_older(self, mint: str) -> bool:
        """Return whether the tape has not seen a token's creation; raises Problem."""
        if mint in MONEY or mint in self._created.kept:
            return False
        name = MARKET.make(tag=mint_tag(mint), mint=mint)
        [token] = await self._stores.ask([("HGET", name, "token")])
        if facts(mint, token, None).about["created_slot"] is None:
            return True
        self._created.put(mint, None)
        return False

    async def largest(self, mint: str, limit: int, asked: FollowState | None) -> Holders:
        """Return the largest holders of a token; raises Problem.

        `asked` is why its largest accounts were not asked for, None where they were.
        """
        (await self._gaps.read()).check_mint(mint)
        state, seed = await self._read(mint, limit)
        token = facts(mint, state.token, state.asked)
        account = unless_stalled((await self._mints.read([mint]))[mint], state.settled.time_ms)
        if isinstance(account, Mint) and mint not in MONEY:
            token = supplied(token, account)
            state.settled = min(state.settled, Settled(account.as_of_slot, account.as_of_ms))
        about = token.about
        if about["created_slot"] is None:
            self._created.kept.pop(mint, None)
        known = state.head is not None or about["decimals"] is not None
        if not (known or state.is_priced):
            raise unknown_token(mint)
        top, more = state.top, 0
        share_of: int | None = token.supply_raw
        if isinstance(seed, Largest):
            top, more = merged(state.top, seed.accounts, state.taped())
            state.settled = min(state.settled, Settled(seed.as_of_slot, seed.as_of_ms))
            if about["supply_source"] != "account":
                share_of = None  # of another time
        count = None
        if mint not in MONEY and (state.head is not None or isinstance(seed, Largest)):
            seen = 0 if state.head is None else unpack_standing(state.head).holder_count
            count = seen + more
        return {
            "mint": mint,
            "name": about["name"],
            "symbol": about["symbol"],
            "decimals": about["decimals"],
            "supply_raw": about["supply_raw"],
            "supply": about["supply"],
            "supply_source": about["supply_source"],
            "supply_time_ms": about["supply_time_ms"],
            "supply_slot": about["supply_slot"],
            "holder_count": count,
            "creator": about["creator"],
            "holders": self._listed(top[:limit], token.unit, share_of),
            "coverage": holder_coverage(seed, asked),
            "as_of_slot": state.settled.slot,
            "as_of_ms": state.settled.time_ms,
            "gaps": (await self._gaps.read()).of_tokens([mint]),
        }

    async def _read(self, mint: str, limit: int) -> tuple[_State, Largest | Unseeded]:
        """Return what the tape has, and the largest accounts of the same moment or why not."""
        state = await self._taped(mint, limit, (), ())
        if mint in MONEY:
            return state, "money"
        if facts(mint, state.token, state.asked).about["created_slot"] is not None:
            return state, "created_on_tape"
        found = await self._largest.read(mint)
        owners: set[bytes] = set()
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(PAUSE_S)
                found = await self._largest.read(mint)
            if isinstance(found, NoLargest):
                return state, found
            if self._is_one_moment(found, state, owners):
                return state, found
            owners |= owners_of(found.accounts, state.accounts)
            addresses = [each.address for each in found.accounts]
            state = await self._taped(mint, limit + 2 * len(addresses), addresses, [*owners])
            if self._is_one_moment(found, state, owners):
                return state, found
        return state, NoLargest(FollowState.LANE_STALLED)

    @staticmethod
    def _is_one_moment(found: Largest, state: _State, owners: Collection[bytes]) -> bool:
        return (
            {each.address for each in found.accounts} == state.accounts.keys()
            and owners_of(found.accounts, state.accounts) <= {*owners}
            and is_even(found.accounts, found.as_of_slot, state.taped())
        )

    async def _taped(
        self, mint: str, limit: int, accounts: Sequence[bytes], owners: Sequence[bytes]
    ) -> _State:
        """Return what the tape has of a token, and of some accounts and owners of it."""
        state = await _read(self._stores, mint, limit, accounts, owners)
        if state.head is None and state.may_be_away:
            await self._complete(mint, state, limit)
        return state

    async def _complete(self, mint: str, state: _State, limit: int) -> None:
        """Take the market of a token from ClickHouse, if it is there; raises Problem."""
        found = await read_cold_market(self._stores, mint, state.settled.slot)
        if found is None:
            return
        market, state.asked = found
        state.head, state.token = market.fields[b"head"], market.fields[b"token"]
        pools = unpack_head(state.head)[1]
        # May be many: other requests go on meanwhile.
        balances = await asyncio.to_thread(_balances, market.accounts, pools)
        state.top = nlargest(limit, balances.items(), key=_rank)
        state.accounts = {each: _account(market.accounts.get(each)) for each in state.accounts}
        state.owners = {each: balances.get(each, 0) for each in state.owners}

    def _listed(self, top: Ranked, unit: int | None, supply_raw: int | None) -> list[Holder]:
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


async def _read(
    stores: Stores, mint: str, limit: int, accounts: Sequence[bytes], owners: Sequence[bytes]
) -> _State:
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
    if accounts:
        commands.append(("HMGET", names.accounts + mint, *accounts))
    if owners:
        commands.append(("HMGET", names.accounts + mint, *map(exact_field, owners)))
        commands.append(("ZMSCORE", names.holders + mint, *owners))
    rounded: list[bytes] = []  # owners whose exact balance is asked for as well
    for _ in range(ATTEMPTS):
        also: list[tuple[Any, ...]] = [("EXEC",)]
        if rounded:
            also.insert(0, ("HMGET", names.accounts + mint, *map(exact_field, rounded)))
        is_priced, *answers = await stores.ask([*commands, *also])
        progress, (head, token), asked, is_away, top, *values = answers[-1]
        packed = values.pop(0) if accounts else []
        exacts, scores = (values.pop(0), values.pop(0)) if owners else ([], [])
        if top and top[0][1] >= EXACT_BELOW:
            exact = dict(zip(rounded, values[0], strict=True)) if rounded else {}
            ranked = _exactly(top, exact)
        else:
            ranked = [(owner, int(score)) for owner, score in top]
        if ranked is not None:
            state = settled((progress,))
            known = dict(zip(accounts, map(_account, packed), strict=True))
            held = map(_balance, exacts, scores)
            return _State(
                state,
                head,
                token,
                asked,
                bool(is_away),
                bool(is_priced),
                ranked,
                known,
                dict(zip(owners, held, strict=True)),
            )
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


def _account(packed: bytes | None) -> Account | None:
    return None if packed is None else unpack_account(packed)


def _balance(exact: bytes | None, score: float | None) -> int:
    """Return the balance of an owner: a score of EXACT_BELOW and more is rounded."""
    if score is not None and score >= EXACT_BELOW and exact is not None:
        return unpack_exact(exact)
    return int(score or 0)


def _balances(accounts: Mapping[bytes, bytes], pools: Iterable[bytes]) -> dict[bytes, int]:
    """Return what the owners of a cold market's accounts have."""
    excluded = BURNED.union(pools)
    balances: defaultdict[bytes, int] = defaultdict(int)
    for account, packed in accounts.items():
        if len(account) == _EXACT_SIZE:
            continue  # a balance that follows from the accounts
        owner, amount_raw, is_vault = unpack_account(packed)
        if amount_raw and not is_vault and owner not in excluded:
            balances[owner] += amount_raw
    return balances
