"""Positions that were read before: the same bytes are the same position, with the same answer.

Of a wallet that is looked at again most positions have not changed since, and what they are in has
not either. Its encoded answer is reused, in a tenth of the time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orjson import Fragment

from api.stores.caches import BoundedCache
from api.tokens.facts import Facts
from api.tokens.reader import Token
from api.wallets.figures import Valued, position_answer, valued
from schemas.compact_json import compact_json
from schemas.positions import Position, unpack_figures
from schemas.prices import LastPrice

REMEMBERED: Final = 1 << 14
"""Positions, of some 4 kB each with their answers."""


@dataclass(slots=True, eq=False)
class KnownPosition(Position):
    """A position, which nobody changes, and what was last made of it."""

    _facts: Facts | None = None  # of the token that it was valued in
    _price: LastPrice | None = None
    _valued: Valued | None = None
    _mint: str = ""  # of the last answer
    _is_stale: bool = False
    _answered: Fragment | None = None

    def valued(self, token: Token | None) -> Valued:
        """Return what it is worth."""
        facts, price = (None, None) if token is None else (token.facts, token.price)
        if self._valued is None or facts is not self._facts or price is not self._price:
            self._facts, self._price = facts, price
            self._valued, self._answered = valued(self, token), None
        return self._valued

    def answer(self, mint: str, token: Token | None, now_ms: int) -> Fragment:
        """Return it as JSON (`position_answers.PositionOf`); `now_ms` is the chain's."""
        worths = self.valued(token)
        is_stale = token is not None and token.is_stale(now_ms)
        if self._answered is None or mint != self._mint or is_stale != self._is_stale:
            self._mint, self._is_stale = mint, is_stale
            answer = position_answer(mint, self, token, now_ms, worths)
            self._answered = Fragment(compact_json(answer))
        return self._answered


class KnownPositions:
    """Positions by their bytes, for all requests of a process."""

    def __init__(self) -> None:
        self._cache: BoundedCache[bytes, KnownPosition] = BoundedCache(REMEMBERED)

    def unpack(self, packed: bytes) -> KnownPosition:
        """Return a packed position; raises PackedError."""
        found = self._cache.kept.get(packed)
        if found is None:
            found = unpack_figures(packed, KnownPosition)
            self._cache.put(packed, found)
        return found
