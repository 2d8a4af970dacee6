"""Who realized most with a token: its eight partitions by wallet, merged.

Each partition ranks all its wallets with a position in a token by what they realized. Only gains
and losses count here: wallets that have not sold have none. Positions have the exact figures; equal
gains are in the order of the addresses. The positions of a token that rests for days lie in
ClickHouse, partition by partition, as do those of wallets that rest: a mark in the set has a gain
that none of these exceeds. Where one of them may be among the first, all are read there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from api.stores.clients import Stores
from infra.clickhouse.sql import load
from schemas.away import bit
from schemas.positions import COLD_MARK, Position, unpack_figures
from schemas.redis_keys import AWAY, POSITIONS, TOP_OF_MINT, TRADED, tag_of_wallets, wallet_tags
from schemas.solana.base58 import decode, encode

_GAINS: Final = ("+inf", "(0", "BYSCORE", "REV")
_LOSSES: Final = ("(0", "-inf", "BYSCORE", "REV")
_TIES: Final = 1_000  # of one gain and one partition that are looked at: more are not put in order
_SQL: Final = load(__package__, "leaderboards")

Ranked = list[tuple[str, Position]]  # wallets


@dataclass(slots=True)
class _Board:
    """The wallets of one token that may be among the first."""

    mint: str
    mint_raw: bytes
    found: list[list[Sequence[Any]]]  # by partition, largest gain first: raw wallet, gain
    partial: list[bool]  # by partition: there may be more
    ranked: Ranked = field(default_factory=list)

    def least(self, limit: int) -> float | None:
        """Return the gain of the one at the limit; None where there are fewer."""
        scores: list[float] = [score for each in self.found for _, score in each]
        if len(scores) < limit:
            return None
        scores.sort(reverse=True)
        return scores[limit - 1]

    def candidates(self, limit: int) -> list[tuple[int, bytes]]:
        """Return partition and wallet of all who gained no less than the one at the limit."""
        least = self.least(limit)
        return [
            (partition, wallet)
            for partition, each in enumerate(self.found)
            for wallet, score in each
            if least is None or score >= least
        ]

    def ties(self, limit: int) -> Iterable[tuple[int, float]]:
        """Yield partitions whose last wallet has the gain of the one at the limit, and that gain.

        There may be more of it: a set that was cut off has them in another order than ours.
        """
        if not any(self.partial):
            return
        least = self.least(limit)
        for partition, each in enumerate(self.found):
            if self.partial[partition] and each[-1][1] == least:
                yield partition, each[-1][1]


async def read_traders(
    stores: Stores, mints: Sequence[str], wanted: int, left_out: Collection[str]
) -> dict[str, Ranked]:
    """Return the first `wanted` wallets of each token, with their positions; raises Problem.

    Wallets that are left out are not among them.
    """
    limit = wanted + len(left_out)
    boards = await _read_sets(stores, mints, limit)
    await _read_ties(stores, boards, limit)
    cold = await _read_positions(stores, boards, limit, left_out)
    found = {board.mint: board.ranked for board in boards}
    if cold:
        found |= await _read_clickhouse(stores, cold, limit)
    return {
        mint: _first([each for each in ranked if each[0] not in left_out], wanted)
        for mint, ranked in found.items()
    }


def _first(ranked: Ranked, limit: int) -> Ranked:
    """Return the first wallets, without those that came out even since the sets were read."""
    realized = [each for each in ranked if each[1].realized_usd_micros]
    return sorted(realized, key=_place)[:limit]


def _place(ranked: tuple[str, Position]) -> tuple[int, str]:
    wallet, position = ranked
    return -position.realized_usd_micros, wallet


async def _read_sets(stores: Stores, mints: Sequence[str], limit: int) -> list[_Board]:
    """Read the first gains and losses of each partition."""
    commands: list[tuple[Any, ...]] = []
    cut = ("LIMIT", 0, limit, "WITHSCORES")
    gains_first, losses_last = (*_GAINS, *cut), (*_LOSSES, *cut)
    tags = wallet_tags()
    for mint in mints:
        for tag in tags:
            top = TOP_OF_MINT.make(tag=tag, mint=mint)
            commands.append(("ZRANGE", top, *gains_first))
            commands.append(("ZRANGE", top, *losses_last))
    answers = iter(await stores.ask(commands))
    boards = []
    for mint in mints:
        board = _Board(mint, decode(mint), [], [])
        for _ in tags:
            gains, losses = next(answers), next(answers)
            if len(gains) == limit:
                losses = []  # nobody who lost is among the first
            board.found.append(gains + losses)
            board.partial.append(limit in (len(gains), len(losses)))
        boards.append(board)
    return boards


async def _read_ties(stores: Stores, boards: Sequence[_Board], limit: int) -> None:
    """Where the cut goes through equal gains, read all who have them: rarely anything."""
    commands: list[tuple[Any, ...]] = []
    places: list[tuple[_Board, int]] = []
    for board in boards:
        for partition, score in board.ties(limit):
            number = repr(score)
            equal = (number, number, "BYSCORE", "LIMIT", 0, _TIES, "WITHSCORES")
            top = TOP_OF_MINT.make(tag=tag_of_wallets(partition), mint=board.mint)
            commands.append(("ZRANGE", top, *equal))
            places.append((board, partition))
    if not commands:
        return
    for (board, partition), tied in zip(places, await stores.ask(commands), strict=True):
        known = {wallet for wallet, _ in board.found[partition]}
        board.found[partition] += [(wallet, score) for wallet, score in tied if wallet not in known]


async def _read_positions(
    stores: Stores, boards: Sequence[_Board], limit: int, left_out: Collection[str]
) -> list[str]:
    """Read the positions of those who may be among the first; return the mints that rest."""
    commands: list[tuple[Any, ...]] = []
    places: list[tuple[_Board, str]] = []
    cold: dict[str, None] = {}
    tags = wallet_tags()
    for board in boards:
        for partition, raw in board.candidates(limit):
            if raw == COLD_MARK:
                cold[board.mint] = None
                continue
            wallet = encode(raw)
            if wallet in left_out:
                continue
            key = POSITIONS.make(tag=tags[partition], wallet=wallet)
            commands.append(("HGET", key, board.mint_raw))
            places.append((board, wallet))
    empty = [
        [board for board in boards if not board.found[partition]] for partition in range(len(tags))
    ]
    for tag, without in zip(tags, empty, strict=True):
        if without:
            raws = [board.mint_raw for board in without]
            commands.append(("ZMSCORE", TRADED.make(tag=tag), *raws))
            commands += (("GETBIT", AWAY.make(tag=tag), bit(raw)) for raw in raws)
    answers = iter(await stores.ask(commands))
    for board, wallet in places:
        packed = next(answers)
        if packed is None:
            cold[board.mint] = None  # put away since the sets were read
        else:
            board.ranked.append((wallet, unpack_figures(packed, Position)))
    for without in filter(None, empty):
        for board, moved in zip(without, next(answers), strict=True):
            if next(answers) and moved is None:
                cold[board.mint] = None
    return list(cold)


async def _read_clickhouse(stores: Stores, mints: Sequence[str], limit: int) -> dict[str, Ranked]:
    """Read the first of some mints from ClickHouse, which has all that Redis has."""
    found: dict[str, Ranked] = {mint: [] for mint in mints}
    for row in await stores.query(_SQL, {"mints": list(mints), "limit": limit}):
        mint, wallet = row.pop("mint"), row.pop("wallet")
        row.pop("realized_usd_micros")
        found[mint].append((wallet, Position(**row)))
    return found
