"""Leaderboards as they are answered, each put together at most twice a second.

Putting one together takes forty commands and the positions of all in it, some 170 us. An answer
is kept for half a second, as all of a process's answers about the books do; and beyond that for as
long as no partition of the books or of the token's market has settled anything since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from api.stores.caches import FRESH_FOR_S, AnswerCache, SharedReading, now_s
from api.stores.clients import Stores
from api.stores.gaps import GapReader
from api.stores.settled import Settled, settled, watermark
from api.tokens.answers import TokenTraders, Trader
from api.tokens.leaderboards import Ranked, read_traders
from api.tokens.reader import Token, TokenReader, unknown_token
from schemas.amounts import sol, usd
from schemas.compact_json import compact_json
from schemas.money import MONEY
from schemas.positions import Position
from schemas.redis_keys import MARKETS, mint_tags, wallet_tags

KEPT_BYTES: Final = 32 << 20
MONEY_HAS_NONE: Final = (
    "SOL and dollar coins are money: what is traded for them has gains and losses, they have none."
)
AT_ONCE: Final = 20  # tokens of a batch that are read in one go


@dataclass(frozen=True, slots=True)
class _Progress:
    """How far all the books are."""

    settled: Settled  # those of the wallets
    slots: list[list[bytes | None]]  # of every partition, those of the markets too


@dataclass(frozen=True, slots=True)
class _CachedBoard:
    """An answer, and the state of the books that it covers at least."""

    json: bytes  # `TokenTraders`
    progress: _Progress
    made_at: float

    def is_fresh(self, progress: _Progress, at: float) -> bool:
        """Return True if it may be sent again."""
        return at - self.made_at <= FRESH_FOR_S or self.progress.slots == progress.slots


class LeaderboardAnswers:
    """Answers for all requests of a process."""

    def __init__(self, stores: Stores, reader: TokenReader, gaps: GapReader) -> None:
        self._stores = stores
        self._reader = reader
        self._gaps = gaps
        self._progress = SharedReading(self._read_progress)
        self._cache: AnswerCache[_CachedBoard] = AnswerCache(KEPT_BYTES)  # by mint and limit

    async def one(self, mint: str, limit: int) -> orjson.Fragment:
        """Return who realized most with a token (`answers.Leaderboard`); raises Problem."""
        found, state = await self._answers([mint], limit)
        if mint not in found:
            raise unknown_token(mint)
        gaps = orjson.dumps((await self._gaps.read()).of_traders())
        as_of = b',"as_of_slot":%d,"as_of_ms":%d,"gaps":%b}' % (*state, gaps)
        return orjson.Fragment(found[mint][:-1] + as_of)

    async def many(self, mints: Sequence[str], limit: int) -> dict[str, Any]:
        """Return those of many tokens, in the order asked for (`answers.Leaderboards`).

        Raises Problem.
        """
        found, state = await self._answers(mints, limit)
        return {
            "leaderboards": [orjson.Fragment(found[mint]) for mint in mints if mint in found],
            "unknown": [mint for mint in mints if mint not in found],
            "as_of_slot": state.slot,
            "as_of_ms": state.time_ms,
            "gaps": (await self._gaps.read()).of_traders(),
        }

    async def _answers(self, mints: Sequence[str], limit: int) -> tuple[dict[str, bytes], Settled]:
        """Return the answers of the tokens that are known, and how far the least of them is."""
        progress = await self._progress.get()
        at, state = now_s(), progress.settled
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for mint in mints:
            kept = self._cache.get((mint, limit))
            if kept is None or not kept.is_fresh(progress, at):
                missing.append(mint)
                continue
            found[mint] = kept.json
            if kept.progress.slots != progress.slots:
                state = min(state, kept.progress.settled)
        # Some at a time: each is a millisecond of work, and others wait meanwhile.
        for start in range(0, len(missing), AT_ONCE):
            found |= await self._make(missing[start : start + AT_ONCE], limit, progress, at)
        return found, state

    async def _make(
        self, mints: Sequence[str], limit: int, progress: _Progress, at: float
    ) -> dict[str, bytes]:
        left_out = (await self._gaps.read()).quarantined.get("pnl", frozenset())
        tokens, ranked = await asyncio.gather(
            self._reader.read(mints), read_traders(self._stores, mints, limit, left_out)
        )
        made = {}
        for mint, token in tokens.by_mint.items():
            json = made[mint] = compact_json(_traders(token, ranked[mint]))
            self._cache.put((mint, limit), _CachedBoard(json, progress, at))
        return made

    async def _read_progress(self) -> _Progress:
        watermarks = [watermark("pnl", tag) for tag in wallet_tags()]
        markets = [("HMGET", MARKETS.make(tag=tag), "slot") for tag in mint_tags()]
        answers = await self._stores.ask([*watermarks, *markets])
        return _Progress(settled(answers[: len(watermarks)]), answers)


def _traders(token: Token, ranked: Ranked) -> TokenTraders:
    about, unit = token.about, token.facts.unit
    return {
        "mint": token.mint,
        "name": about["name"],
        "symbol": about["symbol"],
        "decimals": about["decimals"],
        "traders": [
            _trader(rank, wallet, position, unit)
            for rank, (wallet, position) in enumerate(ranked, start=1)
        ],
        "note": MONEY_HAS_NONE if token.mint in MONEY else None,
    }


def _trader(rank: int, wallet: str, position: Position, unit: int | None) -> Trader:
    micros, lamports = position.realized_usd_micros, position.realized_lamports
    cost = position.matched_cost_usd_micros
    bought_raw, sold_raw = position.bought_raw, position.sold_raw
    held_raw, unmatched_raw = position.held_raw, position.unmatched_raw
    bought_micros, sold_micros = position.bought_usd_micros, position.sold_usd_micros
    return {
        "rank": rank,
        "wallet": wallet,
        "realized_usd_micros": str(micros),
        "realized_usd": usd(micros),
        "realized_lamports": str(lamports),
        "realized_sol": sol(lamports),
        "realized_pct": 100 * micros / cost if cost else None,
        "bought_raw": str(bought_raw),
        "bought": bought_raw / unit if unit else None,
        "bought_usd_micros": str(bought_micros),
        "bought_usd": usd(bought_micros),
        "sold_raw": str(sold_raw),
        "sold": sold_raw / unit if unit else None,
        "sold_usd_micros": str(sold_micros),
        "sold_usd": usd(sold_micros),
        "held_raw": str(held_raw),
        "held": held_raw / unit if unit else None,
        "unmatched_raw": str(unmatched_raw),
        "unmatched": unmatched_raw / unit if unit else None,
        "buys": position.buys,
        "sells": position.sells,
        "wins": position.wins,
        "losses": position.losses,
        "first_trade_ms": position.first_trade_ms if position.first_trade_slot else None,
        "last_trade_ms": position.last_trade_ms if position.last_trade_slot else None,
    }
