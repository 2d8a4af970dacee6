"""Tokens that are shares of a pool of SOL, priced by the pool where no market prices them.

A liquid-stake token finds its pool in the lane of accounts by its mint. The pool's own figures say
what it is a share of; they are trusted while the lane covers the pool's program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Any, Final

from api.stores.caches import BoundedCache, now_s
from api.stores.clients import Stores
from api.tokens.facts import facts
from api.tokens.pool_price import PoolPrice
from api.tokens.reader import Token, Tokens
from infra.redis.pipelined import Repeated
from schemas import account_reading
from schemas.accounts import BadAccount, unpack
from schemas.money import MONEY
from schemas.protocols.contract import Account
from schemas.protocols.registry import SHARE_PROGRAMS, kind_of, pool_share
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
_REMEMBERED: Final = 1 << 16
_TAGS: Final = tuple(account_tags())


class PoolPrices:
    """Reads pools by the mint of their token, for all requests of a process."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        # mint -> when it was looked up, and its pools
        self._found: BoundedCache[str, tuple[float, tuple[bytes, ...]]] = BoundedCache(_REMEMBERED)

    async def price(self, tokens: Tokens, decimals: Mapping[str, int | None]) -> None:
        """Give a price to those of some mints that no market prices; raises Problem.

        `decimals` has the mints, each with its places behind the point, None: not known.
        """
        unpriced = [
            mint
            for mint in decimals
            if mint not in MONEY and ((token := tokens.get(mint)) is None or token.price is None)
        ]
        for mint, found in (await self.read(unpriced)).items():
            token = tokens.get(mint) or Token(mint, facts(mint, None, None), None, None, None, b"")
            places = decimals[mint]
            price = None if places is None else found.per_token(places, tokens.sol_usd)
            if price is not None:
                tokens.by_mint[mint] = replace(
                    token, price=price, source="pool", pool_price=found, json=b""
                )
                if found.as_of_slot < tokens.as_of_slot:
                    tokens.as_of_slot, tokens.as_of_ms = found.as_of_slot, found.as_of_ms

    async def read(self, mints: Iterable[str]) -> dict[str, PoolPrice]:
        """Return the pools' prices of those mints that have one; raises Problem."""
        wanted = [*mints]
        await self._look_up(wanted)
        found = {
            mint: known[1] for mint in wanted if (known := self._found.kept.get(mint)) and known[1]
        }
        if not found:
            return {}
        return await self._read(found)

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

    async def _read(self, found: Mapping[str, Sequence[bytes]]) -> dict[str, PoolPrice]:
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
        prices: dict[str, PoolPrice] = {}
        doubtful: set[str] = set()
        for (mint, address), packed in zip(addresses, answers[size * len(_TAGS) :], strict=True):
            partition = partitions[account_tag(text(address))]
            if (price := partition.price(mint, address, packed)) is not None:
                if mint in prices:
                    doubtful.add(mint)  # two pools: neither is taken for the token's
                prices[mint] = price
        return {mint: price for mint, price in prices.items() if mint not in doubtful}


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
        self._slot, self._time_ms = int(slot or 0), int(time_ms or 0)
        self._since = {
            program: account_reading.coverage(record, floor).slot
            for program, record in zip(SHARE_PROGRAMS, covered, strict=True)
        }

    def price(self, mint: str, address: bytes, packed: bytes | None) -> PoolPrice | None:
        """Return the price of a mint by an account, None where that is none of its pools."""
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
        if kind is None:
            return None
        account = Account(address, kind, stored.lamports, data, stored.slot)
        share = pool_share(account, key(mint))
        if share is None:
            return None
        return PoolPrice(share, text(address), stored.slot, self._slot, self._time_ms)
