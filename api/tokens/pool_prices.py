"""Tokens that are shares of a pool, priced by the pool where no market prices them.

A liquid-stake token or an LP token finds its pool in the lane of accounts by its mint. A stake
pool's own figures say what its token is a share of; an LP token is a share of the pool's reserves,
net of fees that are owed to others, at the prices of both sides. Pools are trusted while the lane
covers their program, and the vaults of reserves once they are followed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from api.positions import driver
from api.positions.accounts_reader import AccountsReader
from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from api.tokens.facts import facts
from api.tokens.pool_price import PoolPrice, worth_of_reserves, worth_of_share
from api.tokens.reader import Token, TokenReader, Tokens
from infra.redis.pipelined import Repeated
from schemas import account_reading
from schemas.accounts import BadAccount, unpack
from schemas.money import MONEY
from schemas.protocols.contract import (
    Account,
    Asset,
    Held,
    PoolShare,
    Protocol,
    World,
)
from schemas.protocols.registry import SHARE_PROGRAMS, kind_of, pool_share, whole_pool
from schemas.redis_keys import (
    ACCOUNT,
    POOLS_OF,
    WATERMARK,
    account_tag,
    account_tags,
)
from schemas.solana.addresses import key, text

LOOKED_UP_AT_ONCE: Final = 100  # mints; the others of a wallet are looked up with later requests
LOOKED_UP_AGAIN_S: Final = 60.0
MOST_LP_TOKENS: Final = 100  # of a request whose pools' reserves are read
ATTEMPTS: Final = 4
PAUSE_S: Final = 0.02
_REMEMBERED: Final = 1 << 16
_TAGS: Final = tuple(account_tags())


_Whole = tuple[Protocol, Held]
"""What reads the reserves of an LP token's pool."""


@dataclass(slots=True)
class _Read:
    """What a reading of pools found."""

    as_of_slot: int  # that all partitions have
    as_of_ms: int
    shares: dict[str, tuple[Account, PoolShare]] = field(default_factory=dict)  # by mint
    lp_tokens: dict[str, tuple[Account, _Whole]] = field(default_factory=dict)
    vaults: set[bytes] = field(default_factory=set)  # that reserves need
    uneven: set[str] = field(default_factory=set)  # mints whose pools are newer than `as_of_slot`
    prices: dict[str, PoolPrice] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)  # why there is none


class PoolPrices:
    """Reads pools by the mint of their token, for all requests of a process."""

    def __init__(self, stores: Stores, tokens: TokenReader, accounts: AccountsReader) -> None:
        self._stores = stores
        self._tokens = tokens
        self._accounts = accounts
        # mint -> when it was looked up, and its pools
        self._found: BoundedCache[str, tuple[float, tuple[bytes, ...]]] = BoundedCache(_REMEMBERED)

    async def price(self, tokens: Tokens, decimals: Mapping[str, int | None]) -> list[bytes]:
        """Give a price to those of some mints that no market prices; raises Problem.

        `decimals` has the mints, each with its places behind the point, None: not known; then a
        whole token has no price, and an amount has its worth all the same. Where a pool does not
        say what it is worth, `tokens.lacking` says why. Returns the vaults of LP
        tokens' pools: they are known while they are asked for.
        """
        unpriced = [
            mint
            for mint in decimals
            if mint not in MONEY and ((token := tokens.get(mint)) is None or token.price is None)
        ]
        await self._look_up(unpriced)
        found = {
            mint: known[1]
            for mint in unpriced
            if (known := self._found.kept.get(mint)) and known[1]
        }
        if not found:
            return []
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSE_S)
            read = await self._read(found, tokens.sol_usd)
            if not read.uneven:
                break
        for mint in read.uneven:  # pool and vaults may be of different slots
            if read.prices.pop(mint, None) is not None:
                read.lacking[mint] = "the pool changes faster than it is read"
        tokens.lacking |= read.lacking
        for mint, price in read.prices.items():
            token = tokens.get(mint) or Token(mint, facts(mint, None, None), None, None, None, b"")
            token = replace(token, pool_price=price, json=b"")
            if (places := decimals[mint]) is not None:
                token = replace(token, price=price.per_token(places), source="pool")
            tokens.by_mint[mint] = token
            if price.as_of_slot < tokens.as_of_slot:
                tokens.as_of_slot, tokens.as_of_ms = price.as_of_slot, price.as_of_ms
        return sorted(read.vaults)

    async def _look_up(self, mints: Sequence[str]) -> None:
        """Find the accounts of mints that were not looked up lately."""
        oldest = now_s() - LOOKED_UP_AGAIN_S
        due = (
            mint
            for mint in mints
            if (known := self._found.kept.get(mint)) is None or known[0] < oldest
        )
        asked = [*islice(due, LOOKED_UP_AT_ONCE)]
        if not asked:
            return
        answers = await self._stores.ask(
            [("SMEMBERS", POOLS_OF.make(tag=tag, mint=mint)) for mint in asked for tag in _TAGS]
        )
        for at, mint in enumerate(asked):
            sets = answers[at * len(_TAGS) : (at + 1) * len(_TAGS)]
            pools = tuple(sorted(each for members in sets for each in members))
            self._found.put(mint, (now_s(), pools))

    async def _read(self, found: Mapping[str, Sequence[bytes]], sol_usd: float | None) -> _Read:
        read = await self._read_pools(found)
        for mint, (pool, share) in read.shares.items():
            if (worth := worth_of_share(share, sol_usd)) is not None:
                read.prices[mint] = PoolPrice(
                    share.supply_raw,
                    *worth,
                    text(pool.address),
                    pool.slot,
                    read.as_of_ms,
                    read.as_of_slot,
                    read.as_of_ms,
                )
        for mint in [*islice(read.lp_tokens, MOST_LP_TOKENS, None)]:
            del read.lp_tokens[mint]
            read.lacking[mint] = f"an answer prices {MOST_LP_TOKENS} LP tokens at most"
        if read.lp_tokens:
            await self._read_reserves(read)
        return read

    async def _read_pools(self, found: Mapping[str, Sequence[bytes]]) -> _Read:
        """Return the pools of tokens; of two neither is taken for the token's."""
        commands: list[tuple[Any, ...]] = []
        for tag in _TAGS:
            commands += _of_partition(tag)
        addresses = [(mint, address) for mint, each in found.items() for address in each]
        for _, address in addresses:
            name = text(address)
            commands.append(("GET", ACCOUNT.make(tag=account_tag(name), address=name)))
        answers = await self._stores.ask(commands)
        size = 2 + len(SHARE_PROGRAMS)
        partitions = {
            tag: _Partition(answers[at], answers[at + 1], answers[at + 2 : at + size])
            for tag, at in zip(_TAGS, range(0, size * len(_TAGS), size), strict=True)
        }
        read = _Read(*min(each.progress for each in partitions.values()))
        doubtful: set[str] = set()
        for (mint, address), packed in zip(addresses, answers[size * len(_TAGS) :], strict=True):
            account = partitions[account_tag(text(address))].account(address, packed)
            if account is None:
                continue
            is_known = mint in read.shares or mint in read.lp_tokens
            if (share := pool_share(account, key(mint))) is not None:
                read.shares[mint] = account, share
            elif (whole := whole_pool(account, key(mint))) is not None:
                read.lp_tokens[mint] = account, whole
            else:
                continue
            if is_known:
                doubtful.add(mint)
        for mint in doubtful:
            read.shares.pop(mint, None)
            read.lp_tokens.pop(mint, None)
        return read

    async def _read_reserves(self, read: _Read) -> None:
        """Price LP tokens by what all of them withdraw."""
        slots: dict[bytes, int] = {}

        async def fetch(addresses: Sequence[bytes]) -> Mapping[bytes, Account]:
            found = await self._accounts.at(addresses)
            slots.update((address, each.slot) for address, each in found.items())
            read.vaults |= {each for each in found if found[each].kind.group == "tokens"}
            return found

        world = World(read.as_of_slot, read.as_of_ms // 1000, 0)  # no reserves depend on it
        asked = [whole for _, whole in read.lp_tokens.values()]
        reserves: dict[str, list[Asset]] = {}
        for mint, outcome in zip(
            read.lp_tokens, await driver.run(asked, world, fetch), strict=True
        ):
            read.vaults |= outcome.absent
            pool, _ = read.lp_tokens[mint]
            if max((pool.slot, *(slots[each] for each in outcome.sent))) > read.as_of_slot:
                read.uneven.add(mint)
            assets = [each for one in outcome.positions for each in one.assets]
            is_known = all(each.amount_raw is not None for each in assets)
            if is_known and len(outcome.positions) == 1 and not outcome.failures:
                reserves[mint] = assets
                continue
            lacking = [each for one in outcome.positions for each in one.unsupported_fields]
            lacking += [failure.detail for failure in outcome.failures]
            read.lacking[mint] = (*lacking, "the pool cannot be read")[0]
        sides = {text(asset.mint) for assets in reserves.values() for asset in assets}
        known = await self._tokens.read(sides)
        for mint, assets in reserves.items():
            own = [token for each in assets if (token := known.get(text(each.mint))) is not None]
            prices = {key(token.mint): token.price for token in own if token.price is not None}
            worth = worth_of_reserves(assets, prices)
            if isinstance(worth, str):
                read.lacking[mint] = worth
                continue
            pool, (_, held) = read.lp_tokens[mint]
            read.prices[mint] = PoolPrice(
                held.tokens[key(mint)],
                *worth,
                text(pool.address),
                pool.slot,
                min(price.time_ms for price in prices.values()),
                min(read.as_of_slot, known.as_of_slot),
                min(read.as_of_ms, known.as_of_ms),
                tuple(own),
            )


@lru_cache(len(_TAGS))
def _of_partition(tag: str) -> tuple[Repeated, ...]:
    """Return what a `_Partition` is made of."""
    name = WATERMARK.make(tag=tag, group=account_reading.GROUP)
    return tuple(
        map(
            Repeated,
            (
                ("HMGET", name, "slot", "time_ms"),
                account_reading.floor_question(tag),
                *account_reading.program_questions(tag, SHARE_PROGRAMS),
            ),
        )
    )


class _Partition:
    """What one partition of the lane says of the programs of pools."""

    def __init__(
        self,
        progress: Sequence[bytes | None],
        floor: Sequence[bytes | None],
        covered: Sequence[Sequence[bytes | None]],
    ) -> None:
        slot, time_ms = progress
        self.progress = int(slot or 0), int(time_ms or 0)
        self._since = {
            program: account_reading.coverage(record, floor).slot
            for program, record in zip(SHARE_PROGRAMS, covered, strict=True)
        }

    def account(self, address: bytes, packed: bytes | None) -> Account | None:
        """Return what is stored at an address, None where it is not known to be there."""
        if packed is None:
            return None
        try:
            stored = unpack(packed)
            since = self._since.get(stored.program)
            if stored.closed or since is None or stored.slot < since:
                return None
            data = stored.data()
        except BadAccount:
            return None
        kind = kind_of(address, stored.program, data)
        return None if kind is None else Account(address, kind, stored.lamports, data, stored.slot)
