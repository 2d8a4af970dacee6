"""Wallets and dead tokens on their way out of Redis: when their time comes, or for room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pipeline.agents.pnl.cold import ColdMints
from pipeline.agents.pnl.cold_rows import Asleep, Journal
from pipeline.agents.pnl.cold_wallets import ColdWallets
from pipeline.agents.pnl.loading import Loader, wrong_chunk
from pipeline.agents.pnl.memory import DAYS_KEPT, NOT_MOVED, Memory, Place, Wallet
from pipeline.agents.pnl.rows import write_day, write_position
from pipeline.agents.pnl.store import Store
from pipeline.agents.settled.books import Writes
from pipeline.domain.lots import Holding
from pipeline.domain.netting import NO_TOKEN
from schemas.positions import COLD_MARK, ColdWallet, PackedError, full_chunks, unpack_balance
from schemas.proto.tape_pb2 import SlotBatch
from schemas.rows import COLD_POSITIONS
from schemas.solana.addresses import text
from schemas.times import DAY_MS, HOUR_MS

EVICTED_AT_ONCE: Final = 500  # wallets, when Redis is full


class _Whole(NamedTuple):
    """What Redis has of a wallet that may be put away."""

    mints: set[str]  # of its positions
    balances: dict[bytes, bytes | None]  # by raw token account


class PuttingAway:
    """Puts wallets and tokens of one partition away: `ColdMints` and `ColdWallets` say which."""

    def __init__(
        self,
        store: Store,
        memory: Memory,
        cold: ColdMints,
        cold_wallets: ColdWallets,
        journal: Journal,
        loader: Loader,
    ) -> None:
        self._store = store
        self._memory = memory
        self._cold = cold
        self._cold_wallets = cold_wallets
        self._journal = journal
        self._loader = loader
        self._quarantine = loader.quarantine
        self._idle: dict[str, set[str]] = {}  # mints these may put away -> their wallets
        self._idle_wallets: dict[str, _Whole] = {}  # wallets likewise -> what Redis has of them

    async def load_idle(self, batches: Sequence[SlotBatch]) -> None:
        """Read the positions that the batches may put away."""
        memory = self._memory
        moving: dict[str, int] = {}
        for batch in batches:
            for mint in memory.mints(batch.slot):
                moving.setdefault(mint, batch.block_time_ms // HOUR_MS)
        times_ms = [batch.block_time_ms for batch in batches]
        mints = await self._cold.find_idle(times_ms, moving)
        self._idle = {mint: set() for mint in mints}
        if not mints:
            return
        for mint, raws in zip(mints, await self._store.read_holders(mints), strict=True):
            self._idle[mint].update(
                name
                for name in map(text, raws)
                if not self._cold_wallets.is_put_away(name) and name not in self._quarantine
            )
        for wallet, mint in (*memory.writing, *memory.dirty, *memory.places()):
            if mint in self._idle and wallet not in self._quarantine:
                self._idle[mint].add(wallet)
        places = [(wallet, mint) for mint, holders in self._idle.items() for wallet in holders]
        await self._loader.load_entries(places)
        await self._loader.load_all_lots(places)
        for holders in self._idle.values():
            holders.difference_update(self._quarantine)

    async def load_idle_wallets(self, batches: Sequence[SlotBatch]) -> None:
        """Read all that Redis has of the wallets that the batches may put away."""
        memory = self._memory
        moving = {
            name: wallet
            for names in memory.touches.values()
            for name in names
            if (wallet := memory.wallets.get(name)) is not None
        }
        times_ms = [batch.block_time_ms for batch in batches]
        known, others = await self._cold_wallets.find_idle(
            times_ms, moving.values(), len(self._quarantine)
        )
        self._idle_wallets = {}
        others = [name for name in others if name not in self._quarantine]
        idle = {w.address: w for w in known if w.address not in self._quarantine}
        if absent := [name for name in others if memory.wallets.get(name) is None]:
            day = max(memory.clock_ms, times_ms[0]) // DAY_MS
            for wallet, _ in await self._loader.read_wallets(absent, day):
                memory.wallets.put(wallet.address, wallet)
        for name in others:
            if (there := memory.wallets.get(name)) is not None:
                idle[name] = there
        if not idle:
            return
        places: list[Place] = []
        for name, (positions, balances) in zip(
            idle, await self._store.read_whole([*idle]), strict=True
        ):
            mints: set[str] = set()
            if self._cold_wallets.was_put_away(name):
                self._idle_wallets[name] = _Whole(mints, {})  # what counts is in memory
                continue
            positions.pop(COLD_MARK, None)
            for mint_raw, packed in positions.items():
                mint = text(mint_raw)
                if self._cold.is_put_away(mint):
                    continue
                mints.add(mint)
                place = (name, mint)
                if memory.entries.get(place) is not None or self._loader.take_position(
                    place, packed
                ):
                    places.append(place)
            self._check_balances(name, balances)
            self._idle_wallets[name] = _Whole(mints, {**balances})
        for name, mint in (*memory.writing, *memory.dirty, *memory.places()):
            if mint != NO_TOKEN and (whole := self._idle_wallets.get(name)) is not None:
                whole.mints.add(mint)
                places.append((name, mint))
        await self._loader.load_all_lots([place for place in places if memory.entries.get(place)])
        self._cold_wallets.consider(
            wallet for name, wallet in idle.items() if name not in self._quarantine
        )
        memory.leave_out(self._quarantine)

    def _check_balances(self, wallet: str, balances: Mapping[bytes, bytes]) -> bool:
        """Return whether all balances of a wallet can be read; else it is in quarantine."""
        for account, packed in balances.items():
            try:
                unpack_balance(packed)
            except PackedError as error:
                place = f"{self._store.balances(wallet)} {account.hex()}"
                self._quarantine.put(wallet, place, error)
                return False
        return True

    def turn(self, time_ms: int, slot: int) -> None:
        """Move the clock on: an hour puts dead tokens away, a day the oldest one's figures."""
        memory = self._memory
        before, memory.clock_ms = memory.clock_ms // DAY_MS, time_ms
        gone = memory.gone_day
        if before and gone > before - DAYS_KEPT:
            days = range(before - DAYS_KEPT + 1, min(before, gone) + 1)
            self._journal.commands.append(("UNLINK", *(self._store.days(day) for day in days)))
        dead, passing = self._cold.turn(time_ms // HOUR_MS, self._moving)
        for mint in dead:
            self._freeze(mint, slot)
        for mint in passing:
            here = [wallet for wallet in self._idle[mint] if memory.existing(wallet, mint)]
            self._cold.pass_by(mint, here)
        idle, back = self._cold_wallets.turn(time_ms, self._touched_later)
        for wallet in idle:
            self._freeze_wallet(wallet, slot)
        for wallet in back:
            self._cold_wallets.pass_by(wallet)
            self._cold.mark([wallet.address])
            for mint in self._idle_wallets[wallet.address].mints:
                if (entry := memory.existing(wallet.address, mint)) is not None:
                    gain = entry.holding.position.realized_usd_micros
                    self._note_gain(self._journal, mint, gain)

    async def evict(self, slot: int) -> Writes | None:
        """Put wallets away before they are due: those that are due first, as Redis has them."""
        memory = self._memory
        concerned = self._cold_wallets.concerned() | self._cold.concerned()
        concerned.update(wallet for wallet, _ in (*memory.dirty, *memory.writing))
        concerned.update(self._quarantine)
        limit = EVICTED_AT_ONCE + len(concerned)
        due = await self._store.read_due(NOT_MOVED, limit)
        names = [name for raw, _ in due if (name := text(raw)) not in concerned][:EVICTED_AT_ONCE]
        if not names:
            return None
        journal = Journal()
        wholes = dict(zip(names, await self._store.read_whole(names), strict=True))
        read = await self._loader.read_wallets(names, memory.clock_ms // DAY_MS)
        evicted = 0
        for wallet, _ in read:
            positions, balances = wholes[wallet.address]
            positions.pop(COLD_MARK, None)
            asleep = await self._read_asleep(wallet.address, positions)
            if asleep is None or not self._check_balances(wallet.address, balances):
                continue
            evicted += 1
            for each in asleep:
                memory.entries.drop((each.wallet, each.mint))
                position = Holding.unpack(each.packed).position
                journal.commands += [
                    ("UNLINK", self._store.lots(each.wallet, each.mint, number))
                    for number in full_chunks(position)
                ]
                self._leave_board(journal, each.mint, wallet.raw, position.realized_usd_micros)
            journal.rows[COLD_POSITIONS.name] += self._cold.rows(asleep, slot)
            away = ColdWallet(wallet.packed_total(), balances)
            self._cold_wallets.put_away(journal, wallet, away, slot)
            memory.wallets.drop(wallet.address)
        return Writes(journal.rows, journal.commands, evicted) if evicted else None

    async def _read_asleep(
        self, wallet: str, positions: Mapping[bytes, bytes]
    ) -> list[Asleep] | None:
        """Return a wallet's positions with their lots, None where one cannot be read."""
        asleep = []
        for mint_raw, packed in positions.items():
            mint = text(mint_raw)
            place = f"{self._store.positions(wallet)} {mint}"
            try:
                numbers = full_chunks(Holding.unpack(packed).position)
                keys = [self._store.lots(wallet, mint, number) for number in numbers]
                chunks = []
                for key, chunk in zip(keys, await self._store.read_lots(keys), strict=True):
                    if (why := wrong_chunk(chunk)) is not None:
                        raise PackedError(f"{key}: {why}")
                    chunks.append(chunk or b"")
            except PackedError as error:
                self._quarantine.put(wallet, place, error)
                return None
            asleep.append(Asleep(wallet, mint, packed, chunks))
        return asleep

    def _moving(self) -> set[str]:
        """Return the mints that the flows not yet applied move."""
        return {mint for slot in self._memory.flows for mint in self._memory.mints(slot)}

    def _touched_later(self) -> set[str]:
        """Return the wallets that something happens to in the slots not yet applied."""
        return {name for names in self._memory.touches.values() for name in names}

    def _freeze(self, mint: str, slot: int) -> None:
        """Put a dead token's positions away."""
        wallets = sorted(self._idle.pop(mint))
        asleep = [found for wallet in wallets if (found := self._take_out((wallet, mint)))]
        self._cold.freeze(mint, asleep, slot)

    def _freeze_wallet(self, wallet: Wallet, slot: int) -> None:
        """Put a wallet at rest away, with its positions and balances."""
        memory = self._memory
        name = wallet.address
        whole = self._idle_wallets.pop(name)
        asleep = []
        for mint in sorted(whole.mints):
            if (entry := memory.existing(name, mint)) is not None:
                gain = entry.holding.position.realized_usd_micros
                self._leave_board(self._journal, mint, wallet.raw, gain)
            if (found := self._take_out((name, mint))) is not None:
                asleep.append(found)
        self._cold.put_away(asleep, slot)
        self._cold.unmark(name)
        if memory.dirty_wallets.pop(name, None) is not None:
            write_day(self._journal, self._store, wallet, memory.gone_day)
        balances = whole.balances
        for newer in (memory.balances_writing, memory.balances):
            balances |= newer.get(name, {})
        memory.balances.pop(name, None)
        held = {account: packed for account, packed in balances.items() if packed is not None}
        self._cold_wallets.freeze(wallet, held, slot)
        memory.wallets.drop(name)

    def _take_out(self, place: Place) -> Asleep | None:
        """Forget a position; return it as it is put away, None where there is none."""
        memory = self._memory
        entry = memory.entries.get(place)
        if entry is None:
            return None
        if memory.dirty.pop(place, None) is not None:
            write_position(self._journal, entry)
        memory.entries.drop(place)
        holding = entry.holding
        if not holding.position.changed_slot:
            return None
        numbers = full_chunks(holding.position)
        if numbers:
            names = (self._store.lots(*place, number) for number in numbers)
            self._journal.commands.append(("UNLINK", *names))
        return Asleep(*place, holding.pack(), [holding.chunks[number] for number in numbers])

    def _leave_board(self, journal: Journal, mint: str, wallet_raw: bytes, gain: int) -> None:
        """Take a wallet that is put away off a token's leaderboard."""
        journal.commands.append(("ZREM", self._store.top(mint), wallet_raw))
        self._note_gain(journal, mint, gain)

    def _note_gain(self, journal: Journal, mint: str, gain: int) -> None:
        """Leave in a token's leaderboard how much somebody gained who is put away."""
        if gain:
            journal.commands.append(("ZADD", self._store.top(mint), "GT", gain, COLD_MARK))
