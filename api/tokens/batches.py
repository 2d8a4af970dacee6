"""Many tokens at once: the record of each is kept for half a second.

A hundred tokens take two hundred commands and half a millisecond. Batches are polled, and most of
them for the same tokens: of these each is read at most twice a second, as often as slots come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from orjson import Fragment

from api.stores.caches import FRESH_FOR_S, BoundedCache, now_s
from api.stores.gaps import GapReader
from api.stores.settled import Settled
from api.tokens.figures import token_json
from api.tokens.mint_accounts import SuppliedTokens

KEPT: Final = 1 << 14  # tokens, of a kilobyte each


class _CachedToken(NamedTuple):
    """A token as it was answered."""

    json: Fragment  # `answers.TokenFacts`
    settled: Settled  # up to where all of its market is in
    read_at: float


class TokenBatches:
    """Answers for all requests of a process."""

    def __init__(
        self, reader: SuppliedTokens, gaps: GapReader, fresh_for_s: float = FRESH_FOR_S
    ) -> None:
        self._reader = reader
        self._gaps = gaps
        self._fresh_for_s = fresh_for_s
        self._cache: BoundedCache[str, _CachedToken] = BoundedCache(KEPT)

    async def many(self, mints: Sequence[str]) -> dict[str, Any]:
        """Return tokens in the order asked for (`answers.Tokens`), without those in quarantine.

        Raises Problem.
        """
        gaps = await self._gaps.read()
        asked, mints = mints, [mint for mint in mints if not gaps.leaves_out_mint(mint)]
        if not mints:
            gaps.check_mint(asked[0])
        at = now_s()
        oldest = at - self._fresh_for_s
        kept = self._cache.kept
        found = {
            mint: token
            for mint in mints
            if (token := kept.get(mint)) is not None and token.read_at >= oldest
        }
        states = [token.settled for token in found.values()]
        if len(found) < len(mints):
            read, state = await self._read([mint for mint in mints if mint not in found], at)
            found |= read
            states.append(state)
        state = min(states)
        return {
            "tokens": [found[mint].json for mint in mints if mint in found],
            "unknown": [mint for mint in mints if mint not in found],
            "as_of_slot": state.slot,
            "as_of_ms": state.time_ms,
            "gaps": gaps.of_tokens(asked),
        }

    async def _read(
        self, mints: Sequence[str], at: float
    ) -> tuple[dict[str, _CachedToken], Settled]:
        tokens, _ = await self._reader.read(mints)
        state = Settled(tokens.as_of_slot, tokens.as_of_ms)
        found = {
            mint: _CachedToken(Fragment(token_json(token, tokens)), state, at)
            for mint, token in tokens.by_mint.items()
        }
        for mint, token in found.items():
            self._cache.put(mint, token)
        return found, state
