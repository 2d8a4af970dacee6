"""Wallets at rest: all of one leaves Redis for ClickHouse, and comes back when it moves.

A wallet moves when something happens to one of its positions or balances. One that has traded is
put away after some days of the chain's time, one that has only received after some hours: tokens
and dust can be sent to any number of wallets. Its totals and balances make a row of
`cold_wallets`, its positions rows of `cold_positions`; nothing of it stays in Redis but its days,
which go by themselves, and a bit that others may share (`schemas.away`).

A position is in Redis if neither its wallet nor its token is put away, else in ClickHouse.

As with tokens, when that happens depends on the slots alone, and is some at a time: at the first
slot of five minutes, those first that are due for longest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pipeline.agents.pnl.cold_rows import ColdRows, Journal
from pipeline.agents.pnl.memory import Wallet, raw_address
from pipeline.agents.pnl.store import Store
from schemas.positions import ColdWallet, pack_cold_wallet
from schemas.rows import COLD_WALLETS
from schemas.solana.addresses import text
from schemas.times import HOUR_MS

AT_ONCE: Final = 2_000  # wallets put away at a turn: 4.6 million a day over all partitions
TURN_MS: Final = 5 * 60_000


class ColdWallets:
    """Which wallets of one partition are due when, and which are in ClickHouse."""

    def __init__(self, store: Store, rows: ColdRows, journal: Journal, clock_ms: int) -> None:
        self._store = store
        self._read = rows
        self._journal = journal
        self._turn = clock_ms // TURN_MS
        self._touched: dict[str, Wallet] = {}  # since the last take,
        self._touched_writing: dict[str, Wallet] = {}  # and by that
        self._idle: list[Wallet] = []  # may be put away by the slots loaded
        self._passed: dict[str, int] = {}  # of these that would be back by now -> when due
        self._frozen: dict[str, ColdWallet] = {}  # put away since the last take,
        self._frozen_writing: dict[str, ColdWallet] = {}  # and by that
        self._former: dict[str, Wallet] = {}  # the same, those that are back as well
        self._former_writing: dict[str, Wallet] = {}

    # Coming back.

    async def read(self, names: Sequence[str], slot: int) -> dict[str, ColdWallet]:
        """Return those of the wallets that are put away; Redis has none of them."""
        found = {name: away for name in names if (away := self._put_away(name)) is not None}
        asked = [name for name in names if name not in found]
        may_be = await self._store.away.may_be([raw_address(name) for name in asked])
        names = [name for name, is_away in zip(asked, may_be, strict=True) if is_away]
        return found | (await self._read.wallets(names, slot) if names else {})

    def wake(self, wallet: Wallet, away: ColdWallet) -> None:
        """Take a wallet back into Redis, but for its balances."""
        self._frozen.pop(wallet.address, None)
        self._frozen_writing.pop(wallet.address, None)
        if (former := self._former_of(wallet.address)) is not None:
            wallet.day, wallet.figures = former.day, former.figures
        if away.total:
            self._journal.commands.append(("HSET", self._store.totals, wallet.raw, away.total))

    def is_put_away(self, name: str) -> bool:
        """Return whether a wallet is put away, and Redis may not know it yet."""
        return self._put_away(name) is not None

    def was_put_away(self, name: str) -> bool:
        """Return whether Redis may have a wallet as it was before it was put away."""
        return self._former_of(name) is not None

    def _former_of(self, name: str) -> Wallet | None:
        return self._former.get(name) or self._former_writing.get(name)

    def _put_away(self, name: str) -> ColdWallet | None:
        return self._frozen.get(name) or self._frozen_writing.get(name)

    # Going away.

    def touch(self, wallet: Wallet, hour: int) -> None:
        """Note that a wallet moves in an hour."""
        wallet.moved_hour = hour
        self._touched[wallet.address] = wallet

    @property
    def touched(self) -> Iterable[str]:
        """The wallets that moved since the last take."""
        return self._touched

    async def find_idle(
        self, times_ms: Sequence[int], moving: Iterable[Wallet], left_out: int
    ) -> tuple[list[Wallet], list[str]]:
        """Return the wallets that slots of these times may put away: those in memory, and others.

        `moving` are those that the slots move; of the others so many stay although they are due.
        """
        self._idle = []
        self._passed = {}
        turns = len({time_ms // TURN_MS for time_ms in times_ms if time_ms // TURN_MS > self._turn})
        if not turns:
            return [], []
        first, last = min(times_ms) // HOUR_MS, max(times_ms) // HOUR_MS
        # Redis may not have heard yet of what moved, and of what was put away last.
        newer = self._touched_writing | self._touched
        newer |= {wallet.address: wallet for wallet in moving}
        limit = (
            left_out + turns * AT_ONCE + len(newer) + len(self._frozen) + len(self._frozen_writing)
        )
        due = await self._store.read_due(last, limit)
        others = [name for raw, _ in due if (name := text(raw)) not in newer]
        return (
            [
                wallet
                for name, wallet in newer.items()
                if not self.is_put_away(name)
                and (wallet.due <= last or first + wallet.rest.after_hours(wallet.total) <= last)
            ],
            [name for name in others if not self.is_put_away(name)],
        )

    def consider(self, wallets: Iterable[Wallet]) -> None:
        """Take what `find_idle` returned, read into memory."""
        self._idle = [*wallets]

    def turn(
        self, time_ms: int, moves_later: Callable[[], set[str]]
    ) -> tuple[list[Wallet], list[Wallet]]:
        """Begin five minutes; return the wallets to be put away, and those that would be back."""
        if time_ms // TURN_MS <= self._turn:
            return [], []
        self._turn = time_ms // TURN_MS
        hour = time_ms // HOUR_MS
        due = sorted(
            (
                wallet
                for wallet in self._idle
                if wallet.due <= hour and self._passed.get(wallet.address) != wallet.due
            ),
            key=lambda wallet: (wallet.due, wallet.raw),
        )[:AT_ONCE]
        if not due:
            return [], []
        later = moves_later()
        gone: list[Wallet] = []
        passing: list[Wallet] = []
        for wallet in due:
            if wallet.address in later:
                passing.append(wallet)
                self._passed[wallet.address] = wallet.due
            else:
                gone.append(wallet)
        if gone:
            names = {wallet.address for wallet in gone}
            self._idle = [wallet for wallet in self._idle if wallet.address not in names]
        return gone, passing

    def freeze(self, wallet: Wallet, balances: dict[bytes, bytes], slot: int) -> None:
        """Put a wallet away; its positions are."""
        total = wallet.packed_total()
        away = self._frozen[wallet.address] = ColdWallet(total, balances)
        self._former[wallet.address] = wallet
        self._touched.pop(wallet.address, None)
        self.put_away(self._journal, wallet, away, slot)

    def put_away(self, journal: Journal, wallet: Wallet, away: ColdWallet, slot: int) -> None:
        """Write a wallet to ClickHouse, and take all of it but its lots from Redis."""
        store, name = self._store, wallet.address
        journal.rows[COLD_WALLETS.name].append((name, pack_cold_wallet(away), slot))
        journal.commands += [
            ("UNLINK", store.positions(name), store.balances(name)),
            ("HDEL", store.totals, wallet.raw),
            ("ZREM", store.due, wallet.raw),
            store.away.mark(wallet.raw),
        ]

    def pass_by(self, wallet: Wallet) -> None:
        """Leave what a wallet leaves that goes and comes back."""
        self._journal.commands.append(self._store.away.mark(wallet.raw))

    def concerned(self) -> set[str]:
        """Return the wallets of which something is not in the stores yet."""
        return {*self._touched, *self._touched_writing, *self._former, *self._former_writing}

    # Writing.

    def take(self) -> None:
        """Put among the commands when the wallets that moved are due."""
        dues: list[int | bytes] = []
        for wallet in self._touched.values():
            due = wallet.due
            if due != wallet.known_due:
                wallet.known_due = due
                dues += (due, wallet.raw)
        if dues:
            self._journal.commands.append(("ZADD", self._store.due, *dues))
        self._touched_writing, self._touched = self._touched, {}
        self._frozen_writing, self._frozen = self._frozen, {}
        self._former_writing, self._former = self._former, {}

    def written(self) -> None:
        """Hear that the last take is in the stores."""
        self._touched_writing, self._frozen_writing, self._former_writing = {}, {}, {}
