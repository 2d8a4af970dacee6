"""A market on the trending list to which nothing happens: what its list still needs of it, packed.

A list is full of such markets. Each minute its score falls and its record may change, for which
its head, its token and its rolling figures are enough: 2 KiB, where the market takes 25.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import orjson

from pipeline.domain import trending
from pipeline.domain.market import MintMarket, SolUsd, Token, trending_record
from schemas.compact_json import compact_json
from schemas.markets import pack_head, unpack_head

_NO_POOLS: Final[list[bytes]] = []


class Resting:
    """What a market at rest shows, as long as nothing happens to it."""

    __slots__ = ("_head", "_minutes", "_quarters", "_token", "_top10_raw", "mint")

    def __init__(self, market: MintMarket) -> None:
        self.mint = market.mint
        self._head = pack_head(market.head, _NO_POOLS)
        self._token = compact_json(dataclasses.asdict(market.token))
        self._minutes = bytes(market.minutes.data)
        self._quarters = bytes(market.quarters.data)
        self._top10_raw = market.holders.top_raw(10)

    @property
    def token(self) -> Token:
        """What the mint is."""
        return Token(**orjson.loads(self._token))

    def score(self, minute: int) -> int:
        """Return the trending score, as the market would."""
        return trending.score(self._minutes, self._quarters, minute)

    def record(
        self, minute: int, sol_usd: SolUsd | None, from_rpc: Token | None = None
    ) -> dict[str, Any]:
        """Return the message of the trending list, as the market would."""
        head, _ = unpack_head(self._head)
        return trending_record(
            self.mint, self.token, head, self._quarters, self._top10_raw, minute, sol_usd, from_rpc
        )
