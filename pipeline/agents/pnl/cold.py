"""Dead tokens: their positions leave Redis for ClickHouse, and come back when one moves again.

A token that did not move for some days of the chain's time is put away whole, per partition:
first its rows are in ClickHouse, then one MULTI takes its keys away. When it moves again the
positions of all wallets that are not put away themselves (`cold_wallets`) are read back and
written with the same flush. Rows in ClickHouse stay, and count for nothing while Redis has the
position. A wallet that ever had a position put away is marked as well, for as long as it is here:
a reader of its positions looks into ClickHouse.

Of a token that is put away Redis keeps a bit, which others may share (`schemas.away`): what is in
no order of the tokens that moved and has its bit set is looked up in ClickHouse.

When that happens depends on the slots alone: at the first slot of an hour, some at a time: after
a pause of days all tokens are dead at once. What is put away has the bytes that it comes back with.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from pipeline.agents.pnl.cold_rows import Asleep, ColdRows, Journal
from pipeline.agents.pnl.memory import Place, raw_address
from pipeline.agents.pnl.store import Store
from schemas.positions import COLD_MARK, pack_cold
from schemas.rows import COLD_POSITIONS, Row
from schemas.solana.addresses import text
from schemas.times import HOUR_MS

AT_ONCE: Final = 4_000  # tokens put away as an hour begins, idle longest first; the others wait


class ColdMints:
    """Which mints of one partition moved when, and which are in ClickHouse."""

    def __init__(
        self,
        store: Store,
        place: int,
        after_hours: int,
        rows: ColdRows,
        journal: Journal,
        hour: int,
    ) -> None:
        self._store = store
        self._place = place
        self._after_hours = after_hours
        self._read = rows
        self._journal = journal
        self._hour = hour
        self._here: set[str] = set()  # known not to be cold; begun anew each hour
        self._moved: dict[str, int] = {}  # mint -> hour, since the last take,
        self._moved_writing: dict[str, int] = {}  # and of that
        # May be put away by the slots loaded: mint -> hour and raw mint, Redis's order of them.
        self._idle: dict[str, tuple[int, bytes]] = {}
        self._passed: dict[str, int] = {}  # of these that would be back by now -> hour they moved
        self._frozen: set[str] = set()  # put away since the last take, and not back,
        self._frozen_writing: set[str] = set()  # and by that
        # All positions put away since the last take, and by that: ClickHouse may not have them.
        self._asleep: dict[Place, Asleep] = {}
        self._asleep_writing: dict[Place, Asleep] = {}
        self._marked: set[str] = set()  # wallets with a position put away since the last take,
        self._marked_writing: set[str] = set()  # and by that

    # Coming back.

    async def wake(
        self,
        mints: Iterable[str],
        slot: int,
        are_here: Callable[[set[str]], Awaitable[set[str]]],
    ) -> list[Asleep]:
        """Return the positions of those of the mints that are cold; they are not, from here on.

        Without those of wallets that are put away themselves: `are_here` returns the others.
        """
        unknown = [mint for mint in mints if mint not in self._here]
        if not unknown:
            return []
        cold = await self._cold(unknown)
        found: dict[Place, Asleep] = {}
        here: set[str] = set()
        if cold:
            found = {_place(each): each for each in await self._read.positions(cold, slot)}
            for places in (self._asleep_writing, self._asleep):
                found |= {place: each for place, each in places.items() if place[1] in cold}
            here = await are_here({wallet for wallet, _ in found})
        # Nothing is changed before this point: a read that failed is done again.
        self._frozen.difference_update(cold)
        self._frozen_writing.difference_update(cold)
        self._here.update(unknown)
        self._journal.commands += map(self._revived, sorted({mint for _, mint in found}))
        return [each for (wallet, _), each in found.items() if wallet in here]

    async def positions_of(
        self, wallets: Iterable[str], moving: set[str], slot: int
    ) -> list[Asleep]:
        """Return the positions of wallets that come back, in tokens that are not cold.

        Those of `moving` are not, whatever they were. Changes nothing.
        """
        names = [*wallets]
        if not names:
            return []
        wanted = set(names)
        pending = {
            place: each
            for places in (self._asleep_writing, self._asleep)
            for place, each in places.items()
            if place[0] in wanted
        }
        places = {*await self._read.places(names, slot), *pending}
        mints = {mint for _, mint in places}
        cold = set(await self._cold([*(mints - moving)]))
        here = sorted(mints - cold)
        if not here:
            return []
        found = {_place(each): each for each in await self._read.positions(here, slot, names)}
        found |= {place: each for place, each in pending.items() if place[1] not in cold}
        return [*found.values()]

    async def _cold(self, mints: list[str]) -> list[str]:
        """Return which of the mints are in ClickHouse, or share their bit with one that is."""
        cold = [mint for mint in mints if self.is_put_away(mint)]
        asked = [
            (mint, raw_address(mint))
            for mint in mints
            if not (
                mint in self._here
                or mint in self._moved
                or mint in self._moved_writing
                or self.is_put_away(mint)
            )
        ]
        may_be = await self._store.may_be_away([raw for _, raw in asked])
        return cold + [mint for (mint, _), is_away in zip(asked, may_be, strict=True) if is_away]

    def is_put_away(self, mint: str) -> bool:
        """Return whether a mint is put away, and Redis may not know it yet."""
        return mint in self._frozen or mint in self._frozen_writing

    # Going away.

    def moved(self, mint: str) -> None:
        """Note that a mint moves in this hour."""
        if self._moved.get(mint) != self._hour:
            self._moved[mint] = self._hour

    async def find_idle(self, times_ms: Iterable[int], moving: dict[str, int]) -> list[str]:
        """Return the mints that slots of these times may put away; `moving` begin to in an hour."""
        self._idle = {}
        self._passed = {}
        hours = {time_ms // HOUR_MS for time_ms in times_ms}
        turns = sum(hour > self._hour for hour in hours)
        if not turns:
            return []
        until = max(hours) - self._after_hours
        # Redis may not have heard yet of what moved, and of what was put away last.
        newer = self._moved_writing | self._moved
        away = len(self._frozen) + len(self._frozen_writing)
        limit = turns * AT_ONCE + len(newer) + len(moving) + away
        idle = {
            text(mint): (hour, mint) for mint, hour in await self._store.read_idle(until, limit)
        }
        for mint, hour in newer.items():
            idle[mint] = hour, raw_address(mint)
        for mint, hour in moving.items():
            if mint not in idle:
                idle[mint] = hour, raw_address(mint)
        self._idle = {
            mint: (hour, mint_raw)
            for mint, (hour, mint_raw) in idle.items()
            if hour <= until and not self.is_put_away(mint)
        }
        return list(self._idle)

    def turn(self, hour: int, moves_later: Callable[[], set[str]]) -> tuple[list[str], list[str]]:
        """Begin an hour; return the mints to be put away with it.

        Then those that would be, but move again before the next load: they would only come and
        go. They take their places, and `pass_by` leaves what it would have left.
        """
        if hour <= self._hour:
            return [], []
        self._hour = hour
        self._here = set()
        until = hour - self._after_hours
        idle = sorted(
            (moved, mint_raw, mint)
            for mint, (found, mint_raw) in self._idle.items()
            if (moved := max(found, self._moved.get(mint, 0))) <= until
            and self._passed.get(mint) != moved
        )[:AT_ONCE]
        if not idle:
            return [], []
        later = moves_later()
        gone: list[str] = []
        passing: list[str] = []
        for moved, _, mint in idle:
            if mint in later:
                passing.append(mint)
                self._passed[mint] = moved
            else:
                gone.append(mint)
                del self._idle[mint]
        return gone, passing

    def freeze(self, mint: str, asleep: list[Asleep], slot: int) -> None:
        """Put a mint away."""
        mint_raw, store, commands = raw_address(mint), self._store, self._journal.commands
        self._frozen.add(mint)
        self._moved.pop(mint, None)
        self.put_away(asleep, slot)
        commands += [("HDEL", store.positions(each.wallet), mint_raw) for each in asleep]
        self.mark(each.wallet for each in asleep)
        commands += [
            ("UNLINK", store.top(mint)),
            ("ZREM", store.traded, mint_raw),
            self._bit_set(mint),
        ]

    def pass_by(self, mint: str, wallets: Iterable[str]) -> None:
        """Leave what a mint leaves that goes and comes back, with its wallets."""
        self._journal.commands += [self._bit_set(mint), self._revived(mint)]
        self.mark(wallets)

    def put_away(self, asleep: Iterable[Asleep], slot: int) -> None:
        """Write positions to ClickHouse."""
        gone = [*asleep]
        self._asleep |= {_place(each): each for each in gone}
        self._journal.rows[COLD_POSITIONS.name] += self.rows(gone, slot)

    def rows(self, asleep: Iterable[Asleep], slot: int) -> list[Row]:
        """Return the rows of positions that are put away."""
        return [
            (each.mint, self._place, each.wallet, pack_cold(each.packed, each.chunks), slot, slot)
            for each in asleep
        ]

    def mark(self, wallets: Iterable[str]) -> None:
        """Note that wallets have, or had, positions in ClickHouse: their readers look there."""
        self._marked.update(wallets)

    def unmark(self, wallet: str) -> None:
        """Note that a wallet goes itself."""
        self._marked.discard(wallet)

    def concerned(self) -> set[str]:
        """Return the wallets of which something is not in the stores yet."""
        asleep = {wallet for wallet, _ in (*self._asleep, *self._asleep_writing)}
        return asleep | self._marked | self._marked_writing

    def _bit_set(self, mint: str) -> tuple[str, str, int, int]:
        return self._store.away.mark(raw_address(mint))

    def _revived(self, mint: str) -> tuple[str, str, str, bytes]:
        """Return what says that some of a token's positions may not be here, of any gain."""
        return "ZADD", self._store.top(mint), "+inf", COLD_MARK

    # Writing.

    def take(self) -> None:
        """Put among the commands what readers need to know."""
        commands = self._journal.commands
        marked = self._marked
        self._marked_writing, self._marked = marked, set()
        commands += [("HSET", self._store.positions(wallet), COLD_MARK, b"") for wallet in marked]
        moved: list[int | bytes] = []
        for mint, hour in self._moved.items():
            moved += (hour, raw_address(mint))
        if moved:
            commands.append(("ZADD", self._store.traded, *moved))
        self._moved_writing, self._moved = self._moved, {}
        self._frozen_writing, self._frozen = self._frozen, set()
        self._asleep_writing, self._asleep = self._asleep, {}

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        self._moved_writing, self._frozen_writing = {}, set()
        self._asleep_writing, self._marked_writing = {}, set()


def _place(asleep: Asleep) -> Place:
    return asleep.wallet, asleep.mint
